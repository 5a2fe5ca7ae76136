"""Model directories: the same bytes after a round trip, and a name for whatever does not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dragoman.config import DecodingConfig, ModelConfig
from dragoman.errors import ModelError
from dragoman.models import Languages, build_model, load_pretrained, save_pretrained
from dragoman.models.tensors import read_tensors, write_tensors

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def config(family: str = "transformer", tie: str = "none") -> ModelConfig:
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 1, "num_decoder_layers": 2}
    return ModelConfig.from_dict(
        {"family": family, "source_vocab": 20, "target_vocab": 20, "tie_embeddings": tie, "dropout": 0.2, **sizes}
    )


def save(folder: Path, family: str = "transformer", tie: str = "none") -> Path:
    save_pretrained(folder, build_model(config(family, tie)), config(family, tie))
    return folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
@pytest.mark.parametrize("family", ["transformer", "causal", "masked"])
def test_save_load_save_gives_identical_bytes(family: str, tie: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = build_model(config(family, tie)).to(dtype)
    decoding, languages = DecodingConfig(beam_size=7, max_length=30), Languages(source="zh", target="en")
    save_pretrained(tmp_path / "a", model, config(family, tie), decoding, languages)
    loaded = load_pretrained(tmp_path / "a")
    assert (loaded.config, loaded.decoding, loaded.languages) == (config(family, tie), decoding, languages)
    assert all(torch.equal(loaded.model.state_dict()[name], weight) for name, weight in model.state_dict().items())
    save_pretrained(tmp_path / "b", loaded.model, loaded.config, loaded.decoding, loaded.languages)
    for name in (CONFIG, WEIGHTS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert {path.name for path in (tmp_path / "a").iterdir()} == {CONFIG, WEIGHTS}


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_what_was_tied_is_tied_again_and_ready_to_use(tie: str, tmp_path: Path) -> None:
    model = load_pretrained(save(tmp_path / "m", tie=tie)).model
    source, target = model.source_embedding.tokens.weight, model.target_embedding.tokens.weight
    assert (model.generator.weight is target) == (tie != "none")
    assert (source is target) == (tie == "all")
    assert not model.training
    assert not any(parameter.is_meta for parameter in model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_loaded_model_computes_the_same(tmp_path: Path) -> None:
    model = build_model(config()).eval()
    save_pretrained(tmp_path, model, config())
    source, target = torch.randint(4, 20, (2, 6)), torch.randint(4, 20, (2, 5))
    assert torch.equal(load_pretrained(tmp_path).model(source, target), model(source, target))


@pytest.mark.parametrize(
    ("change", "expected", "found"),
    [
        ("wrong shape", "encoder.norm.weight [16]", "encoder.norm.weight [15]"),
        ("missing", "encoder.norm.weight [16]", "no encoder.norm.weight"),
        ("left over", "no extra", "extra [3]"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(change: str, expected: str, found: str, tmp_path: Path) -> None:
    path = save(tmp_path) / WEIGHTS
    tensors = read_tensors(path)
    if change == "wrong shape":
        tensors["encoder.norm.weight"] = torch.ones(15)
    elif change == "missing":
        del tensors["encoder.norm.weight"]
    else:
        tensors["extra"] = torch.ones(3)
    write_tensors(path, tensors)
    with pytest.raises(ModelError, match="do not fit the model") as caught:
        load_pretrained(tmp_path)
    assert (caught.value.file, caught.value.expected, caught.value.found) == (str(path), expected, found)


def test_weights_of_another_size_than_the_configuration_says_are_refused(tmp_path: Path) -> None:
    save(tmp_path, tie="none")
    tree = json.loads((tmp_path / CONFIG).read_text())
    tree["model"]["d_ff"] = 25
    del tree["sha256"]
    (tmp_path / CONFIG).write_text(json.dumps(tree))
    with pytest.raises(ModelError, match="do not fit") as caught:
        load_pretrained(tmp_path)
    assert "[25" in str(caught.value.expected)
    assert "[24" in str(caught.value.found)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "noise"])
def test_a_damaged_file_is_named(name: str, damage: str, tmp_path: Path) -> None:
    path = save(tmp_path) / name
    data = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "noise": b"\x93\xff" * 200}[damage])
    with pytest.raises(ModelError) as caught:
        load_pretrained(tmp_path)
    assert caught.value.file == str(tmp_path if (name, damage) == (CONFIG, "missing") else path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "unknown format"),
        ({"model": []}, "not a model's configuration"),
        ({"model": {"d_modle": 3}}, "d_modle"),
        ({"model": {"d_model": "wide"}}, "d_model"),
        ({"model": {"d_model": 2**63}}, "no model can be built"),
        ({"model": {}}, "no model can be built"),
        ({"decoding": {"beam_size": 0}}, "beam_size"),
        ({"languages": {"source": 3}}, "source"),
    ],
)
def test_a_configuration_that_says_nonsense_is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    path = save(tmp_path) / CONFIG
    tree = json.loads(path.read_text())
    del tree["sha256"]
    for key, value in change.items():
        tree[key] = {**tree[key], **value} if isinstance(value, dict) and value else value
    path.write_text(json.dumps(tree))
    with pytest.raises(ModelError, match=message) as caught:
        load_pretrained(tmp_path)
    assert caught.value.file == str(path)


def test_no_directory_is_no_model_and_says_what_one_is(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model here") as caught:
        load_pretrained(tmp_path / "nowhere")
    assert caught.value.expected == CONFIG
    assert "dragoman train" in str(caught.value.hint)


def test_loading_does_not_wake_the_compiler(tmp_path: Path) -> None:
    """PyTorch's compiler takes seconds to import: a cold start must do without it."""
    code = (
        "import sys; from dragoman.models import load_pretrained; load_pretrained(sys.argv[1]);"
        "print(*sorted({'torch._dynamo', 'torch._inductor', 'sympy', 'sacrebleu', 'matplotlib'} & {*sys.modules}))"
    )
    command = [sys.executable, "-c", code, str(save(tmp_path))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == ""
