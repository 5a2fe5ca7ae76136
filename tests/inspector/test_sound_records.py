"""Records of sounds: what must hold of every record holds, and of their frames and convolutions as NumPy has it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from records import check

from dragoman.audio import Waveform
from dragoman.errors import ConfigError, DataError
from dragoman.inspector import Inspection, inspect
from dragoman.serving.faults import RequestError
from dragoman.serving.inspector import TraceBody, _read
from end_to_end import small
from small_sounds import RATE, listener, saved_listener, waveform, write_wav

SIZES: list[dict[str, Any]] = [{}, {"positions": "interleaved", "ctc": False}, {"positions": "alibi", "norm": "post"}]


@pytest.mark.parametrize("sizes", SIZES)
def test_what_holds_of_every_record(sizes: dict[str, Any]) -> None:
    found = inspect(listener(**sizes), waveform("mid", "top"), beam_size=2)
    check(found)
    record = found.record
    assert record["embeddings"]["source"] is None
    assert record["summaries"]["flags"]["uncovered"] == []
    assert record["sound"]["ctc_share"] == (0 if sizes.get("ctc") is False else 0.3)
    assert bool(record["sound"]["ctc"]) == (sizes.get("ctc") is not False)


def test_what_if_is_asked_of_sounds_too(tmp_path: Path) -> None:
    model, sound = listener(), waveform("mid", "top")
    plain = inspect(model, sound, views=False)
    off = [("encoder.layers.0.self_attention", 1)]
    others = {"target": "mid top", "prefix": "mid", "precision": "int8"}
    for asked in ({"heads_off": off}, {"causal_mask": False}, *({name: value} for name, value in others.items())):
        found = inspect(model, sound, views=False, **asked)  # type: ignore[arg-type]
        check(found)
        assert np.array_equal(found.arrays["source_embedding.frames"], plain.arrays["source_embedding.frames"])
    assert not np.array_equal(inspect(model, sound, heads_off=off).arrays["memory"], plain.arrays["memory"])
    longer = inspect(model, sound, beside=waveform("mid", "top", "low", "high"), views=False)
    check(longer)
    count = len(plain.record["source"]["pieces"])
    assert longer.record["source"]["padding"] > 0
    # Padding never leaks.
    assert np.abs(longer.arrays["memory"][:, :count] - plain.arrays["memory"]).max() < 1e-5
    page = inspect(model, sound, presets=True, against="int8")
    assert list(page.presets) == ["greedy", "causal", "head", "beside", "padding"]
    assert page.record["against"]["same_input"]
    page.save(tmp_path / "page.html")
    assert Inspection.load(page.save(tmp_path / "trace")).record == json.loads(page.json())


def test_what_does_not_go_together_is_refused() -> None:
    model, sound = listener(), waveform("mid")
    with pytest.raises(ConfigError, match="systems that read texts"):
        inspect(model, sound, convention="marian")
    with pytest.raises(ConfigError, match="nothing in common"):
        inspect(model, sound, against=small.translator(small.word_pair()))
    with pytest.raises(ConfigError, match="nothing in common"):
        inspect(small.translator(small.word_pair()), "ba ce", against=model)
    with pytest.raises(ConfigError, match="does not listen"):
        inspect(small.translator(small.word_pair()), sound)
    with pytest.raises(DataError, match="too long"):
        inspect(model, Waveform(torch.zeros(11 * RATE), RATE))


def body(**asked: object) -> TraceBody:
    return TraceBody.model_validate({"text": "order.wav", **asked})


def test_a_service_opens_no_file_by_the_name_that_it_is_sent(tmp_path: Path) -> None:
    model = listener()
    write_wav(tmp_path / "order.wav", waveform("mid").samples.numpy())
    data = (tmp_path / "order.wav").read_bytes()
    for asked in ({"text": str(tmp_path / "order.wav")}, {}, {"audio": "§"}, {"audio": "", "beside": "other.wav"}):
        with pytest.raises(RequestError):
            _read(model, body(**asked), {})
    with pytest.raises(RequestError, match="sound"):
        _read(model, body(audio=base64.b64encode(b"no sound").decode()), {})
    with pytest.raises(RequestError, match="does not listen"):
        _read(small.translator(small.word_pair()), body(audio=base64.b64encode(data).decode()), {})
    sent = _read(model, body(audio=base64.b64encode(data).decode()), {})
    assert isinstance(sent, Waveform)
    assert (str(sent), len(sent)) == ("order.wav", len(waveform("mid")))
    assert _read(model, body(), {"order.wav": sent}) is sent


def test_a_page_and_a_record_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from dragoman.cli import make_app

    model = saved_listener(tmp_path / "model")
    write_wav(tmp_path / "order.wav", waveform("mid", "top").samples.numpy())
    app = make_app()
    with pytest.raises(SystemExit):
        app(args=["inspect", str(model), str(tmp_path / "order.wav"), "--json"])
    record = json.loads(capfd.readouterr().out)
    assert record["text"] == "order.wav"
    assert str(tmp_path) not in json.dumps({**record, "model": None})
    with pytest.raises(SystemExit):
        app(args=["explain", str(model), str(tmp_path / "order.wav"), "--json", "--numbers", "0"])
    assert json.loads(capfd.readouterr().out)["sound"]["sample_rate"] == RATE
