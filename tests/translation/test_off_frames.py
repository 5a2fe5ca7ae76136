"""Searches with the head of a model that listens: mixed with the decoder, alone, and refused where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.audio import FrontEnd, Waveform, cut_at_silences
from dragoman.config import AudioConfig, ModelConfig
from dragoman.errors import ConfigError
from dragoman.losses.ctc import ctc_loss
from dragoman.models import build_model
from dragoman.sequences import SourceBatch
from dragoman.studies import tune
from dragoman.studies.listening import transcribe as transcribe_all
from dragoman.studies.transcribing import _words, transcribe
from dragoman.text import TokenizerPair
from dragoman.text.vocabulary import Vocabulary
from dragoman.translation import Translator, off_frames
from small_sounds import RATE, speak, write_wav

WORDS = ["low mid", "high top"]


def translator(*, ctc: bool = True, engine: str = "auto") -> Translator:
    """Of a model that was never trained: what it writes does not matter here."""
    vocabulary = Vocabulary.train("word", WORDS)
    front_end = FrontEnd.of(AudioConfig(), RATE)
    torch.manual_seed(3)
    config = ModelConfig(
        mels=front_end.n_mels, target_vocab=len(vocabulary), d_model=16, num_heads=2, d_ff=32, num_encoder_layers=1,
        num_decoder_layers=1, positions="rotary", tie_embeddings="decoder", ctc=ctc,
    )  # fmt: skip
    model = build_model(config).eval()
    return Translator([model], TokenizerPair(vocabulary, vocabulary, sound=front_end), engine=engine,
                      precision="float32")  # fmt: skip


def sounds() -> list[Waveform]:
    random = np.random.default_rng(0)
    said = (["low"], ["mid", "top", "high"], ["top", "top"])
    return [Waveform(torch.from_numpy(speak(one, random)).float(), RATE) for one in said]


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4, "n_best": 3}, {"sampling": True}])
def test_batch_mates_and_engines_change_nothing(options: dict[str, object]) -> None:
    for share in (None, 0.5, 1.0):
        found = []
        for engine in ("module", "packed"):
            made = translator(engine=engine)
            asked = made.options({**options, "ctc_weight": share, "max_length": 6})
            together = made.translate_with(sounds(), asked)
            alone = [made.translate_with([one], asked, first=row)[0] for row, one in enumerate(sounds())]
            assert [one.text for one in alone] == [one.text for one in together]
            found.append([one.score for one in together])
        assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_the_share_is_of_both_log_probabilities() -> None:
    made = translator()
    scores = {}
    for share in (0.0, 0.3, 0.6, 1.0):
        options = made.options({"ctc_weight": share, "beam_size": 1})
        scores[share] = made.backend.force(*_forced(made), options)
    decoder, head = (np.array(scores[share][0][0]) for share in (0.0, 1.0))
    for share in (0.3, 0.6):
        assert np.allclose(scores[share][0][0], (1 - share) * decoder + share * head, atol=1e-4)
    sources, ((output,),) = _forced(made)
    (model,) = made.transformers
    batch = SourceBatch.of(sources)
    memory, mask = model.encode(batch.ids, batch.mask)
    length = torch.tensor([len(output)])
    loss = ctc_loss(memory.double(), mask[:, 0, 0], model.ctc.double(), torch.tensor([output]), length, model.pad)
    assert head.sum() == pytest.approx(-float(loss.detach()), abs=1e-4)


def _forced(made: Translator) -> tuple[list, list]:
    output = made.tokenizers.target.encode("mid top")
    return [made.tokenizers.encode_source(sounds()[1], None)], [[output]]


def test_what_has_no_head_is_refused() -> None:
    made = translator(ctc=False)
    assert made.plan(made.options({"ctc_weight": 0.0}))
    with pytest.raises(ConfigError, match="read off frames"):
        made.plan(made.options({"ctc_weight": 0.3}))


def test_words_have_times_in_their_order_inside_the_sound() -> None:
    made, (sound, *_) = translator(), sounds()
    found = transcribe(made, sound, words=True, options=made.options({"max_length": 3, "min_length": 2}))
    (part,) = found
    assert [one.text for one in part.words] == part.text.split()
    edges = [edge for one in part.words for edge in (one.start, one.end)]
    assert edges == sorted(edges)
    assert part.start <= edges[0]
    assert edges[-1] <= part.end <= sound.seconds
    assert transcribe(made, sound, options=made.options({"max_length": 3, "min_length": 2}))[0].words == ()
    with pytest.raises(ConfigError, match="when its words"):
        transcribe(translator(ctc=False), sound, words=True)


def test_the_times_of_words_are_where_the_frames_say_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made, (sound, *_) = translator(), sounds()
    sound = Waveform(torch.cat([torch.zeros(RATE), *[sound.samples] * 4, torch.zeros(RATE)]), RATE)
    (part,) = cut_at_silences(sound)
    low, high = made.tokenizers.target.encode("low high")

    def heard(model: object, sources: SourceBatch) -> torch.Tensor:
        symbols = torch.zeros(1, len(made.tokenizers.encode_source(part.of(sound))), dtype=torch.long)
        symbols[0, 4:6], symbols[0, 12] = low, high
        return torch.nn.functional.one_hot(symbols, len(made.tokenizers.target)).double().mul(50).log_softmax(-1)

    monkeypatch.setattr(off_frames, "read_frames", heard)
    one, other = _words(made, sound, part, "low high")
    assert (one.text, other.text) == ("low", "high")
    # Longer by a fifth of a second on each side, but no further than half the way.
    expected = [part.start + seconds for seconds in (0.0, 0.36, 0.36, 0.72)]
    assert [one.start, one.end, other.start, other.end] == pytest.approx(expected)


def test_of_silence_and_noise_nothing_is_written(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    write_wav(tmp_path / "a.wav", 0.1 * draw.standard_normal(2 * RATE))
    write_wav(tmp_path / "b.wav", sounds()[1].samples.numpy())
    write_wav(tmp_path / "c.wav", np.zeros(RATE))
    made = translator()
    found = transcribe_all(made, tmp_path, settings={"min_length": 1})
    assert [one.source for one in found] == [str(tmp_path / f"{name}.wav") for name in "abc"]
    assert [bool(one.text) for one in found] == [False, True, False]
    assert found[1].text == made.translate([tmp_path / "b.wav"], min_length=1)[0].text


def test_shares_of_the_head_are_tuned(tmp_path: Path) -> None:
    for number, one in enumerate(sounds()):
        write_wav(tmp_path / f"{number}.wav", one.samples.numpy())
    listing = tmp_path / "held-out.tsv"
    listing.write_text("".join(f"{number}.wav\n" for number in range(3)))
    (tmp_path / "said.txt").write_text("low\nmid\ntop\n")
    options = {"beam_sizes": (1, 2), "length_penalties": (0.5,), "ctc_weights": (0.0, 0.6), "samples": 9}
    tuning = tune(translator(), listing, tmp_path / "said.txt", metric="wer", **options)
    shares = {(one.decoding.beam_size, one.decoding.ctc_weight) for one in tuning.trials}
    assert shares >= {(1, 0.0), (1, 0.6), (2, 0.0), (2, 0.6)}
    assert "ctc" in next(iter(tuning.lines())).split()
    with pytest.raises(ConfigError, match="read off frames"):
        tune(translator(ctc=False), listing, tmp_path / "said.txt", ctc_weights=(0.5,), samples=9)
