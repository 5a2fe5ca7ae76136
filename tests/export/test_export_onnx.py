"""ONNX Runtime runs the graphs that are exported, and gives the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.export import export_model
from dragoman.export.given import open_given
from dragoman.export.peers import OnnxPeer
from dragoman.models import load_pretrained
from export_models import TEXTS, make_directory, tokenizers

pytest.importorskip("onnxruntime")

FEW = 12

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("joint", {"norm": "post", "positions": "interleaved", "generator_bias": True, "activation": "gelu"}),
    ("two", {"norm": "pre", "positions": "rotary-cross", "d_k": 6, "d_v": 4, "bias": False}),
    ("two", {"norm": "post", "positions": "relative", "relative_distance": 3, "tie_embeddings": "none"}),
    ("listed", {"norm": "pre", "positions": "alibi", "num_heads": 2, "activation": "silu", "num_encoder_layers": 1}),
]


@pytest.fixture(autouse=True)
def few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.export.checking.LINES", FEW)


@pytest.mark.parametrize(("kind", "settings"), SHAPES)
def test_every_shape_gives_the_same_tokens_and_logits(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", kind, **settings)
    made = export_model(model, "onnx", tmp_path / "out")
    assert made.check is not None
    assert (made.check.equal, made.check.lines) == (FEW, FEW)
    assert {"onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx", "tokenizer.json"} <= set(made.files)
    peer, pair, ours = (
        OnnxPeer(open_given(model), tmp_path / "out", "float32"),
        tokenizers(kind),
        load_pretrained(model),
    )
    source = np.array([[5, 9, 7, 11, pair.source.eos], [6, 8, pair.source.eos, 0, 0]])
    target = np.array([[pair.target.bos, 8, 4, 10], [pair.target.bos, 5, 5, 9]])
    with torch.no_grad():
        wanted = ours.model(torch.tensor(source), torch.tensor(target)).numpy()
    state = peer.start(source, (source != 0).astype(np.int64))
    whole, _ = peer.step(state, target)
    first, state = peer.step(state, target[:, :1])
    rest, _ = peer.step(state, target[:, 1:])
    np.testing.assert_allclose(whole, wanted, atol=2e-5)
    np.testing.assert_allclose(np.concatenate([first, rest], 1), wanted, atol=2e-5)


@pytest.mark.parametrize("kind", ["joint", "two", "listed"])
def test_tokenizer_json_cuts_alike(kind: str, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    model = make_directory(tmp_path / "model", kind, norm="pre", positions="interleaved")
    export_model(model, "onnx", tmp_path / "out", check=False)
    pair = tokenizers(kind)
    their = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    for text in TEXTS:
        ids = pair.source.encode(text)
        assert their.encode(text).ids == [*ids, pair.source.eos]
        assert their.decode(ids) == text
    if not pair.joint:
        their = Tokenizer.from_file(str(tmp_path / "out" / "target" / "tokenizer.json"))
        assert [their.decode(pair.target.encode(text)) for text in TEXTS] == TEXTS


def test_graphs_in_int8_are_smaller_and_still_run(tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", norm="pre", positions="rotary", tie_embeddings="none")
    made = export_model(model, "onnx", tmp_path / "out", quantization="int8")
    assert made.check is not None
    assert made.check.lines == FEW
    assert "onnx/decoder_model_merged_quantized.onnx" in made.files
