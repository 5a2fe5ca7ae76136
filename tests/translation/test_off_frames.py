"""Searches with the head of a model that listens: mixed with the decoder, alone, and refused where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dragoman.audio import FrontEnd, Waveform
from dragoman.config import AudioConfig, ModelConfig
from dragoman.errors import ConfigError
from dragoman.losses.ctc import ctc_loss
from dragoman.models import build_model
from dragoman.sequences import SourceBatch
from dragoman.text import TokenizerPair
from dragoman.text.vocabulary import Vocabulary
from dragoman.translation import Translator
from small_sounds import RATE, speak

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
