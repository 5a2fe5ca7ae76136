"""CTranslate2 translates what was exported to it, and finds what is found here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.export import export_model
from dragoman.models import load_pretrained
from export_models import make_directory, tokenizers

ctranslate2 = pytest.importorskip("ctranslate2")

FEW = 100

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("joint", {"norm": "post", "positions": "interleaved", "generator_bias": True}),
    ("joint", {"norm": "pre", "positions": "concatenated", "bias": False, "activation": "silu"}),
    ("two", {"norm": "pre", "positions": "rotary", "activation": "gelu", "d_k": 6, "d_v": 6}),
    ("two", {"norm": "post", "positions": "relative", "relative_distance": 3, "tie_embeddings": "none"}),
    ("listed", {"norm": "pre", "positions": "interleaved", "num_encoder_layers": 3, "num_decoder_layers": 1}),
]


@pytest.fixture(autouse=True)
def few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.export.checking.LINES", FEW)


@pytest.mark.parametrize(("kind", "settings"), SHAPES)
def test_every_shape_gives_the_same_tokens_and_log_probabilities(
    kind: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    model = make_directory(tmp_path / "model", kind, **settings)
    made = export_model(model, "ctranslate2", tmp_path / "out")
    assert made.check is not None
    assert (made.check.equal, made.check.lines) == (FEW, FEW)
    assert {"model.bin", "config.json", "source.spm", "target.spm"} <= set(made.files)
    pair, ours = tokenizers(kind), load_pretrained(model).model
    source, target = [5, 9, 7, 11], [8, 4, 10]
    names = pair.source.pieces(source), [made_name(tmp_path / "out", i) for i in target]
    program = ctranslate2.Translator(str(tmp_path / "out"), compute_type="float32")
    theirs = program.score_batch([source_names(tmp_path / "out", source)], [names[1]])[0].log_probs
    with torch.no_grad():
        logits = ours(torch.tensor([[*source, pair.source.eos]]), torch.tensor([[pair.target.bos, *target]]))
    mine = logits.log_softmax(-1)[0, range(len(target) + 1), [*target, pair.target.eos]].numpy()
    np.testing.assert_allclose(theirs, mine, atol=1e-4)


def made_name(directory: Path, token: int) -> str:
    return names(directory, "target")[token]


def source_names(directory: Path, ids: list[int]) -> list[str]:
    return [names(directory, "source")[i] for i in ids]


def names(directory: Path, side: str) -> list[str]:
    import json

    shared, own = directory / "shared_vocabulary.json", directory / f"{side}_vocabulary.json"
    return json.loads((shared if shared.exists() else own).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"positions": "rotary-cross"}, "positions in cross-attention"),
        ({"positions": "alibi"}, "alibi positions in an encoder"),
        ({"positions": "interleaved", "d_k": 8, "d_v": 4}, "d_v is not d_k"),
        ({"positions": "rotary", "right_to_left": True}, "--drop right-to-left"),
    ],
)
def test_what_it_cannot_hold_is_refused_in_words(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", **settings)
    with pytest.raises(ConfigError, match=told):
        export_model(model, "ctranslate2", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_right_to_left_decoder_is_dropped_and_the_loss_measured(tmp_path: Path) -> None:
    settings = {"positions": "rotary", "right_to_left": True, "right_to_left_decoder": "own"}
    model = make_directory(tmp_path / "model", **settings)
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat\na dog\n\nder Hund\n", encoding="utf-8")
    made = export_model(model, "ctranslate2", tmp_path / "out", drop=["right-to-left"], check_file=lines)
    assert made.loss is not None
    assert made.check is not None
    assert (made.loss.dropped, made.loss.lines, made.check.lines) == (("right-to-left",), 3, 3)
    assert made.check.equal == 3
    with pytest.raises(ConfigError, match="nothing of this name"):
        export_model(model, "ctranslate2", tmp_path / "other", drop=["datastore"])


def test_differences_of_a_quantised_export_are_counted(tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", positions="interleaved")
    made = export_model(model, "ctranslate2", tmp_path / "out", quantization="int8")
    assert made.check is not None
    assert (made.check.first is None) == (made.check.equal == made.check.lines)
    assert (
        made.files["model.bin"] < export_model(model, "ctranslate2", tmp_path / "whole", check=False).files["model.bin"]
    )
    with pytest.raises(ConfigError, match="there already"):
        export_model(model, "ctranslate2", tmp_path / "out")
    with pytest.raises(ConfigError, match="unknown quantization"):
        export_model(model, "ctranslate2", tmp_path / "third", quantization="int3")
