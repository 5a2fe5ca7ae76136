"""Transformers runs what was exported to it as MarianMT, and gives the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.errors import ConfigError
from dragoman.export import export_model
from dragoman.models import load_pretrained
from export_models import TEXTS, make_directory, tokenizers

transformers = pytest.importorskip("transformers")

FEW = 12

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("joint", {"positions": "interleaved", "generator_bias": True}),
    ("two", {"positions": "concatenated", "bias": False, "activation": "silu"}),
    ("two", {"positions": "interleaved", "tie_embeddings": "none", "activation": "gelu", "num_encoder_layers": 3}),
]


@pytest.fixture(autouse=True)
def few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.export.checking.LINES", FEW)


@pytest.mark.parametrize(("kind", "settings"), SHAPES)
def test_transformers_computes_the_same(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", kind, norm="post", **settings)
    made = export_model(model, "marian", tmp_path / "out", license_name="cc-by-4.0")
    assert made.check is not None
    assert (made.check.equal, made.check.lines) == (FEW, FEW)
    ours = load_pretrained(model).model.double()
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "out", dtype=torch.float32).eval().double()
    for side, embedding in (("encoder", ours.source_embedding), ("decoder", ours.target_embedding)):
        # Their table is rounded to float32.
        table = embedding.positions.table(16, torch.zeros(0)).double()
        embedding.positions._table = table
        assert getattr(theirs.model, side).embed_positions.weight.dtype == torch.float64
    pair = tokenizers(kind)
    source = torch.tensor([[5, 9, 7, 11, pair.source.eos], [6, 8, pair.source.eos, 0, 0]])
    target = torch.tensor([[pair.target.bos, 8, 4, 10], [pair.target.bos, 5, 5, 9]])
    with torch.no_grad():
        mine = ours(source, target)
        found = theirs(input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=target).logits
    assert (mine - found).abs().max() <= 1e-12


@pytest.mark.filterwarnings("ignore:Recommended")
def test_texts_are_cut_and_joined_alike(tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", "two", norm="post", positions="interleaved")
    export_model(model, "marian", tmp_path / "out", check=False)
    their = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    pair = tokenizers("two")
    for text in TEXTS:
        assert their(text).input_ids == [*pair.source.encode(text), pair.source.eos]
        ids = pair.target.encode(text)
        assert their.decode([*ids, pair.target.eos], skip_special_tokens=True) == pair.target.decode(ids)


def test_the_card_says_what_a_hub_reads(tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", norm="post", positions="interleaved")
    export_model(model, "marian", tmp_path / "out", check=False, license_name="cc-by-4.0", quantization="float16")
    _, head, body = (tmp_path / "out" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert '- "de"\n- "en"\nlicense: "cc-by-4.0"\nlibrary_name: transformers\npipeline_tag: translation\n' in head
    assert body.startswith("\n# model: de to en\n")
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert (config["dtype"], config["share_encoder_decoder_embeddings"]) == ("float16", True)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"norm": "pre", "positions": "interleaved"}, "pre-norm"),
        ({"norm": "post", "positions": "rotary"}, r"positions inside attention \(rotary\)"),
        ({"norm": "post", "positions": "interleaved", "d_k": 4, "d_v": 4}, "heads whose widths"),
        ({"norm": "post", "positions": "interleaved", "norm_eps": 1e-6}, "another epsilon"),
    ],
)
def test_what_it_cannot_hold_is_refused_in_words(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", **settings)
    with pytest.raises(ConfigError, match=told):
        export_model(model, "marian", tmp_path / "out")
