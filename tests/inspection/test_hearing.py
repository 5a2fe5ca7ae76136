"""A model that listens explained: every number from the samples to the memory is what NumPy makes of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.audio import Recording, Waveform
from dragoman.errors import ConfigError, DataError
from dragoman.inspection import Trace, draw_trace, explain
from dragoman.inspection.sound_pictures import listening_stage
from end_to_end import small
from small_sounds import RATE, listener, saved_listener, waveform, write_wav

HOME = "source_embedding"
CONVOLUTION, GATE = f"{HOME}.subsampling.convolutions", f"{HOME}.subsampling.gates"
NUMBER = r"-?\d+\.\d+(?:e-\d+)?"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return explain(listener(positions="interleaved"), waveform("mid", "top"), beam_size=2)


def array(trace: Trace, name: str) -> np.ndarray:
    values = trace.stage(name).values
    assert values is not None
    return values[0].double().numpy()


def test_stages_follow_from_each_other(trace: Trace) -> None:
    model, sound = listener(positions="interleaved"), waveform("mid", "top")
    source = model.tokenizers.encode_source(sound)
    assert np.array_equal(array(trace, f"{HOME}.waveform"), sound.samples.double().numpy())
    mels, frames = array(trace, f"{HOME}.log_mels"), array(trace, f"{HOME}.frames")
    assert np.array_equal(frames, source.frames.double().numpy())  # type: ignore[attr-defined]
    assert (mels - mels.mean(0)) / mels.std(0) == pytest.approx(frames, abs=1e-4)
    given = frames
    for number in (0, 1):
        weight, bias = (trace.weights[f"{CONVOLUTION}.{number}.{part}"].double().numpy() for part in ("weight", "bias"))
        padded, count = np.pad(given, ((2, 2), (0, 0))), (len(given) + 1) // 2
        rows = np.stack([padded[2 * place : 2 * place + 5].T for place in range(count)])
        both = np.einsum("tmk,cmk->tc", rows, weight) + bias
        assert array(trace, f"{CONVOLUTION}.{number}") == pytest.approx(both, abs=1e-4)
        a, b = np.split(both, 2, axis=1)
        given = a / (1 + np.exp(-b))
        assert array(trace, f"{GATE}.{number}") == pytest.approx(given, abs=1e-4)
    scaled, rows = array(trace, f"{HOME}.scaled"), array(trace, f"{HOME}.position_rows")
    assert scaled == pytest.approx(given * np.sqrt(given.shape[1]), abs=1e-4)
    assert np.array_equal((scaled + rows).astype(np.float32), array(trace, f"{HOME}.positions").astype(np.float32))
    (own,) = model.transformers
    with torch.no_grad():
        memory, _ = own.encode(source.frames[None])  # type: ignore[attr-defined]
        assert array(trace, "memory") == pytest.approx(memory[0].double().numpy(), abs=1e-5)
        assert own.ctc is not None
        assert array(trace, "ctc") == pytest.approx(own.ctc(memory)[0].double().numpy(), abs=1e-5)


def test_places_are_named_by_their_times(trace: Trace) -> None:
    stage = trace.stage("decoder.layers.0.cross_attention.weights")
    assert stage.columns[8] == "0.32–0.36 s"
    assert trace.source is not None
    assert stage.columns == trace.source.pieces == trace.stage("memory").rows
    assert trace.stage(f"{HOME}.frames").rows[33] == "0.33 s"
    assert trace.stage(f"{CONVOLUTION}.0").rows[16] == "0.32 s"
    sound = trace.sound
    assert sound is not None
    assert sound.samples == trace.stage(f"{HOME}.waveform").shape[1]
    assert (sound.frames, sound.mels) == trace.stage(f"{HOME}.frames").shape[1:]
    assert sound.positions == trace.stage("memory").shape[1] == len(stage.columns)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("row", [0, 3, -1])
def test_an_output_of_a_convolution_is_worked_out_product_by_product(trace: Trace, number: int, row: int) -> None:
    name = f"{CONVOLUTION}.{number}"
    row %= trace.stage(name).shape[1]
    found = trace.work_out(f"{name}[{row},5]")
    weight, bias = (trace.weights[f"{name}.{part}"].double().numpy() for part in ("weight", "bias"))
    given = np.pad(array(trace, f"{HOME}.frames" if number == 0 else f"{GATE}.0"), ((2, 2), (0, 0)))
    for tap, told in enumerate(found.values["taps"]):
        inside = 0 <= 2 * row + tap - 2 < len(given) - 4
        assert told["row"] == (2 * row + tap - 2 if inside else None)
        assert told["products"] == pytest.approx(given[2 * row + tap] * weight[5, :, tap])
    assert found.values["result"] == pytest.approx(array(trace, name)[row, 5], abs=1e-5)
    products = [
        float(one) for line in found.lines for one in re.findall(rf"\)? = ({NUMBER})(?=\s|$)", line) if "·" in line
    ]
    expected = [value for one in found.values["taps"] if one["row"] is not None for value in one["products"][:40]]
    assert products == pytest.approx(expected, abs=6e-4)
    sums = [float(line.split("=")[1]) for line in found.lines if line.strip().startswith("sum = ")]
    assert sums == [
        pytest.approx(sum(one["products"]), abs=1e-4) for one in found.values["taps"] if one["row"] is not None
    ]
    assert float(found.lines[-1].split("=")[-1]) == pytest.approx(array(trace, name)[row, 5], abs=1e-4)
    assert found.values["bias"] == pytest.approx(bias[5])


def test_a_gate_and_a_normalised_number_are_worked_out(trace: Trace) -> None:
    found = trace.work_out(f"{GATE}.1[2,7]")
    a, b = array(trace, f"{CONVOLUTION}.1")[2, [7, 7 + 16]]
    assert found.values["result"] == pytest.approx(a / (1 + np.exp(-b)))
    assert found.values["result"] == pytest.approx(array(trace, f"{GATE}.1")[2, 7], abs=1e-5)
    assert float(found.lines[-1].split("=")[-1]) == pytest.approx(found.values["result"], abs=1e-4)
    found = trace.work_out(f"{HOME}.frames[9,30]")
    assert found.values["result"] == pytest.approx(array(trace, f"{HOME}.frames")[9, 30], abs=1e-4)
    assert float(found.lines[-1].split("=")[-1]) == pytest.approx(found.values["result"], abs=1e-4)
    for place in (f"{HOME}.frames[9,40]", f"{CONVOLUTION}.0[99,0]", f"{GATE}.1[2]"):
        with pytest.raises(ConfigError, match="no such place"):
            trace.work_out(place)


def test_what_the_head_reads_is_told_in_stretches(trace: Trace) -> None:
    logits = array(trace, "ctc")
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    ids = [one.id for one in trace.readings for _ in range(round((one.end - one.start) / 0.04))]
    assert ids == logits.argmax(1).tolist()
    assert [one.piece == "" for one in trace.readings] == [one.id == 0 for one in trace.readings]
    mean = np.average(
        [one.probability for one in trace.readings], weights=[one.end - one.start for one in trace.readings]
    )
    assert mean == pytest.approx(shares.max(1).mean())
    assert any("share of 0.3" in note for note in trace.notes)
    without = explain(listener(ctc=False), waveform("mid"))
    assert without.readings == without.notes == ()
    assert "ctc" not in without.stage_names


def test_checks_steps_and_targets_are_those_of_texts(trace: Trace) -> None:
    assert all(check.difference < 1e-4 for check in trace.checks)
    assert {"sum", "observed", "padded", "parallel"} == {check.name for check in trace.checks}
    assert (
        trace.output.text == listener(positions="interleaved").translate([waveform("mid", "top")], beam_size=2)[0].text
    )
    forced = explain(listener(), waveform("mid", "top"), "mid top")
    assert [one.label for one in forced.training] == ["mid", "top", "</s>"]
    for one in forced.training:
        assert one.parallel == pytest.approx(one.serial, abs=1e-5)
    step = explain(listener(), waveform("mid"), step=2)
    assert step.stage("decoder.layers.0.cross_attention.weights").shape[2] == 1


def test_it_is_told_in_both_languages_and_as_json(trace: Trace) -> None:
    lines = "\n".join(trace.lines())
    sound = trace.sound
    assert sound is not None
    assert f"{sound.samples:,} samples → {sound.frames} frames of 40 log-mels" in lines
    assert "read off: " in lines
    chinese = "\n".join(explain(listener(), waveform("mid"), lang="zh").lines())
    assert "沿时间的卷积" in chinese
    assert not re.search(r"convolution over|log-mel frames|seconds", chinese)
    told = json.loads("".join(trace.select(work_out=[f"{CONVOLUTION}.0[1,1]"]).json()))
    assert told["worked"][0]["values"]["result"] == pytest.approx(array(trace, f"{CONVOLUTION}.0")[1, 1], abs=1e-5)
    whole = json.loads("".join(trace.json(numbers=False)))
    assert whole["sound"]["positions"] == sound.positions
    assert len(whole["ctc"]) == len(trace.readings)


def test_pictures_have_the_sound_and_the_attention_on_one_axis(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman import canvas

    figures = []
    save = canvas._save
    monkeypatch.setattr(canvas, "_save", lambda figure, path: (figures.append(figure), save(figure, path)))
    drawn = draw_trace(trace, tmp_path, format="svg")
    names = [one.path.stem for one in drawn]
    assert names[:4] == ["architecture", "positions", "masks", "layer-norm"]
    assert "listening" in names
    [figure] = [one for one in figures if any(axes.get_ylabel() == "mel bin" for axes in one.axes)]
    spectrogram, read, attention, _ = figure.axes
    assert len({axes.get_xlim() for axes in (spectrogram, read, attention)}) == 1
    stage = listening_stage(trace)
    assert stage is not None
    assert stage.values is not None
    mesh = attention.collections[0].get_array().reshape(len(stage.rows), -1)
    assert np.asarray(mesh) == pytest.approx(stage.values[0].mean(0).numpy(), abs=1e-6)
    picture = (tmp_path / "listening.svg").read_text(encoding="utf-8")
    assert ">seconds</text>" in picture
    assert all(f">{label}</text>" in picture.replace("&lt;", "<").replace("&gt;", ">") for label in stage.labels)
    assert ">0.00–0.04 s</text>" in (tmp_path / "masks.svg").read_text(encoding="utf-8")


def test_files_parts_and_other_rates_are_heard(tmp_path: Path) -> None:
    model = saved_listener(tmp_path / "model")
    sound = waveform("mid", "top")
    write_wav(tmp_path / "order.wav", sound.samples.numpy())
    found = explain(model, str(tmp_path / "order.wav"))
    assert found.text == "order.wav"  # no folder, which is nobody's business
    assert explain(model, tmp_path / "order.wav").stage_names == found.stage_names
    part = explain(model, Recording(str(tmp_path / "order.wav"), 0.1, 0.3))
    assert part.text == "order.wav 0.1–0.3 s"
    assert part.sound is not None
    assert part.sound.seconds == pytest.approx(0.2)
    faster = explain(model, Waveform(sound.samples.repeat_interleave(2), 2 * RATE))
    assert faster.sound is not None
    assert found.sound is not None
    assert (faster.sound.sample_rate, faster.sound.frames) == (RATE, found.sound.frames)
    short = explain(model, Waveform(torch.ones(3), RATE))  # shorter than a window
    assert short.stage("memory").shape[1] == 1


def test_what_cannot_be_explained(tmp_path: Path) -> None:
    model = listener()
    with pytest.raises(DataError, match="too long") as raised:
        explain(model, Waveform(torch.zeros(11 * RATE), RATE))
    assert "10.24 s" in str(raised.value)
    with pytest.raises(DataError, match="nothing to explain"):
        explain(model, Waveform(torch.zeros(0), RATE))
    with pytest.raises(DataError):
        explain(model, str(tmp_path / "none.wav"))
    with pytest.raises(ConfigError, match="does not listen"):
        explain(small.translator(small.word_pair()), waveform("mid"))
    quiet = explain(model, Waveform(torch.zeros(RATE), RATE))
    assert any("would write nothing" in note for note in quiet.notes)
