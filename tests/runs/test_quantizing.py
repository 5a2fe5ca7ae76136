"""A model whose weights are bytes is the model of bytes times factors, for every engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import dragoman
from dragoman.cli import make_app
from dragoman.config import ModelConfig, make_config
from dragoman.engines.native import load_library
from dragoman.engines.native.model import PRECISIONS
from dragoman.errors import ConfigError, ModelError
from dragoman.models import Pretrained, load_pretrained, save_pretrained
from dragoman.models.description import load_tokenizers, save_tokenizers
from dragoman.models.quantised import as_bytes
from dragoman.models.tensors import write_tensors
from dragoman.runs import pack, quantize
from dragoman.text import TokenizerPair, Vocabulary
from dragoman.text.tokenizer import SPECIALS
from dragoman.training import train
from engines.native_models import small_model

WORDS = tuple("abcdefghijklmnopqrs")
LINES = ["a b c d", "s r q", "", "e e e e f"]
FOUND = load_library()


def saved(folder: Path, **changes: object) -> Path:
    """A directory of a small model whose tokens are letters."""
    sizes = {"source_vocab": 23, "target_vocab": 23, "d_model": 20, "num_heads": 2, "d_ff": 33,
             "num_encoder_layers": 1, "num_decoder_layers": 2, **changes}  # fmt: skip
    folder.mkdir()
    save_pretrained(folder, small_model(3, **changes, d_model=20, d_ff=33), ModelConfig.from_dict(sizes))
    words = Vocabulary("word", [*SPECIALS, *WORDS])
    save_tokenizers(folder, TokenizerPair(words, words))
    return folder


@pytest.fixture(params=[{}, {"tie_embeddings": "all"}, {"right_to_left": True, "positions": "rotary"}])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return saved(tmp_path / "model", **request.param)


def outputs(model: Path, **how: str) -> list[tuple[str, float]]:
    found = dragoman.Translator.from_pretrained(model, **how).translate(LINES, beam_size=3, max_length=8)
    return [(one.text, one.score) for one in found]


def as_floats(small: Path, folder: Path) -> Path:
    """The same model with its bytes times factors as float32."""
    found: Pretrained = load_pretrained(small)
    folder.mkdir()
    save_pretrained(folder, found.model, found.config, found.decoding, found.languages)
    save_tokenizers(folder, load_tokenizers(small, found.config))
    return folder


def test_it_is_a_quarter_of_the_size_and_every_engine_computes_with_it(model: Path, tmp_path: Path) -> None:
    made = quantize(model, tmp_path / "small")
    assert {one.name: one.stat().st_size for one in made.directory.iterdir()} == made.files
    whole, small = ((one / "model.safetensors").stat().st_size for one in (model, made.directory))
    assert small < 0.6 * whole  # of a model as small as this, names and biases are much
    floats = as_floats(made.directory, tmp_path / "floats")
    for engine in ("module", "packed"):
        assert outputs(made.directory, engine=engine) == outputs(floats, engine=engine)
    if isinstance(FOUND, str):
        return
    for precision in PRECISIONS if FOUND.kernels[-1].bfloat16 else PRECISIONS[:2]:
        how = {"engine": "native", "precision": precision}
        assert outputs(made.directory, **how) == outputs(floats, **how)


def test_weights_hardly_move(model: Path, tmp_path: Path) -> None:
    small = load_pretrained(quantize(model, tmp_path / "small").directory).model.state_dict()
    for name, weight in load_pretrained(model).model.state_dict().items():
        most = weight.abs().amax(-1, keepdim=True) if weight.ndim == 2 else torch.zeros(())
        assert bool(((weight - small[name]).abs() <= most / 253).all()), name


def test_it_is_trained_on_explained_packed_and_made_small_again(tmp_path: Path) -> None:
    small = quantize(saved(tmp_path / "model"), tmp_path / "small").directory
    assert dragoman.info(small)["parameters"] == dragoman.info(tmp_path / "model")["parameters"]
    assert dragoman.explain(small, "a b").text
    packed = pack(small, tmp_path / "small.dragoman").directory
    assert outputs(packed) == outputs(small)
    again = quantize(packed, tmp_path / "again").directory
    assert [text for text, _ in outputs(again)] == [text for text, _ in outputs(small)]


def test_what_cannot_be_made_smaller_is_refused(tmp_path: Path) -> None:
    model = saved(tmp_path / "model")
    with pytest.raises(ConfigError, match="there already"):
        quantize(model, tmp_path)
    with pytest.raises(ModelError):
        quantize(tmp_path / "nothing", tmp_path / "out")
    tensors = load_pretrained(model).model.state_dict()
    tensors["generator.weight"] = torch.full_like(tensors["generator.weight"], float("nan"))
    write_tensors(model / "model.safetensors", tensors)
    with pytest.raises(ModelError, match="not finite"):
        quantize(model, tmp_path / "out")
    tensors["generator.weight"] = torch.ones_like(tensors["generator.weight"])
    made = as_bytes(tensors)
    write_tensors(model / "model.safetensors", made | {"generator.weight:factors": torch.ones(2)})
    with pytest.raises(ModelError, match="a factor for each row"):
        dragoman.Translator.from_pretrained(model)
    assert not (tmp_path / "out").exists()


def test_a_markov_model_has_no_weights(tmp_path: Path) -> None:
    text = [str(tmp_path / "text.txt")]
    Path(text[0]).write_text("a b c\n" * 20)
    tree = {"out": str(tmp_path / "run"), "model": {"family": "first-order"}, "tokenizer": {"kind": "word"},
            "data": {"text": text, "dev_text": text}}  # fmt: skip
    with pytest.raises(ModelError, match="counts"):
        quantize(train(make_config(tree), quiet=True).directory, tmp_path / "out")


def test_the_verb_lists_the_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = saved(tmp_path / "model")
    with pytest.raises(SystemExit) as ended:
        make_app()(args=["quantize", str(model), "--out", str(tmp_path / "small"), "--json"])
    assert not ended.value.code
    found = json.loads(capfd.readouterr().out)["files"]
    assert found.keys() == {one.name for one in (tmp_path / "small").iterdir()}
