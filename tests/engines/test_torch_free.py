"""Translating without PyTorch: the same, and only where it is certain to be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dragoman.config import ModelConfig, Placement
from dragoman.engines import torch_free
from dragoman.engines.native import load_library
from dragoman.errors import ModelError
from dragoman.models import build_model, save_pretrained
from dragoman.models.pretrained import read_config
from dragoman.models.stored import read_arrays
from dragoman.models.tensors import read_tensors, write_tensors
from dragoman.nn import Transformer
from dragoman.text import TokenizerPair, Vocabulary
from dragoman.translation import Translator

pytestmark = pytest.mark.arithmetic

pytestmark = pytest.mark.skipif(isinstance(load_library(), str), reason=str(load_library()))
WORDS = "ba ce di fo gu ha ki lo mu"
TEXTS = ["ba ce di", "", "fo", "gu ha ki lo mu ba ce", "ki ki ki"]


def save(directory: Path, **changes: object) -> Path:
    vocabulary = Vocabulary.train("word", [WORDS])
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 24, "num_encoder_layers": 1, "num_decoder_layers": 2}
    vocabularies = {"source_vocab": len(vocabulary), "target_vocab": len(vocabulary)}
    config = ModelConfig.from_dict({**vocabularies, **sizes, **changes})
    torch.manual_seed(0)
    save_pretrained(directory, build_model(config), config)
    TokenizerPair(vocabulary, vocabulary).save(directory)
    return directory


def is_torch_free(directory: Path, device: str = "cpu", engine: str = "auto", precision: str = "auto") -> bool:
    placement = Placement(device, engine, precision)
    return torch_free.open_torch_free(directory, read_config(directory)[0], placement) is not None


CHOICES = [
    {"tie_embeddings": "all"},
    {"tie_embeddings": "decoder", "norm": "post", "activation": "gelu"},
    {"tie_embeddings": "none", "bias": False, "generator_bias": True, "positions": "concatenated", "d_k": 5, "d_v": 3},
    {"positions": "rotary", "d_k": 6},
    {"positions": "rotary-cross", "norm": "post"},
    {"positions": "alibi"},
    {"right_to_left": True},
    {"right_to_left": True, "right_to_left_decoder": "own", "tie_embeddings": "all"},
]


@pytest.mark.parametrize("changes", CHOICES)
@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_it_translates_as_with_pytorch(tmp_path: Path, changes: dict[str, object], precision: str) -> None:
    directory = save(tmp_path, **changes)
    assert is_torch_free(directory, precision=precision)
    found = Translator.from_pretrained(directory, device="cpu", precision=precision)
    loaded = found.transformers[0]
    assert isinstance(loaded, Transformer)
    turns = "right_to_left" in changes
    given = Translator([loaded], found.tokenizers, found.decoding, precision=precision, right_to_left=turns)
    assert found.engine_reason == given.engine_reason
    for options in ({}, {"beam_size": 1}, {"n_best": 3, "prefixes": ["", "", "ba", "ce", ""]}, {"sampling": True}):
        assert found.translate(TEXTS, **options) == given.translate(TEXTS, **options)
    assert found.translate(TEXTS, alignments=True) == given.translate(TEXTS, alignments=True)
    assert found.score(TEXTS, TEXTS) == given.score(TEXTS, TEXTS)


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from dragoman import Translator\n"
        "translator = Translator.from_pretrained(sys.argv[1], device='cpu')\n"
        "translator.translate(['ba ce'], beam_size=2, length_penalty=1)\n"
        "heavy = 'torch', 'numpy', 'jaxtyping', 'sacrebleu', 'tomllib', 'subprocess', 'statistics'\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", script, str(save(tmp_path))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_nothing_heavy_is_imported_by_the_command_line(tmp_path: Path) -> None:
    directory = save(tmp_path / "model")
    lines = tmp_path / "lines"
    lines.write_text("\n".join([*TEXTS, ""]), encoding="utf-8")
    script = (
        "import sys; from dragoman.cli import main; sys.argv = ['dragoman', 'translate', *sys.argv[1:]]\n"
        "heavy = 'torch', 'numpy', 'jaxtyping', 'sacrebleu', 'dragoman.config.tree'\n"
        "try: main()\n"
        "finally: print([name for name in heavy if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", script, str(directory), "--input", str(lines), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *outputs, heavy = done.stdout.splitlines()
    assert (len(outputs), heavy) == (len(TEXTS), "[]")


def test_what_is_not_certain_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = save(tmp_path)
    monkeypatch.setattr(torch_free, "has_no_accelerator", lambda: False)
    assert not is_torch_free(directory, device="auto")
    monkeypatch.setattr(torch_free, "has_no_accelerator", lambda: True)
    assert is_torch_free(directory, device="auto")
    assert is_torch_free(directory, engine="native")
    for changes in ({"device": "cuda"}, {"engine": "module"}, {"engine": "packed"}):
        assert not is_torch_free(directory, **changes)
    assert not is_torch_free(save(tmp_path / "relative", positions="relative"))
    monkeypatch.setattr(torch_free, "load_library", lambda: "there is none")
    assert not is_torch_free(directory)


def spoil_shape(tensors: dict[str, torch.Tensor]) -> None:
    tensors["encoder.norm.bias"] = torch.zeros(3)


def spoil_missing(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["decoder.layers.1.feed_forward.inner.bias"]


def spoil_name(tensors: dict[str, torch.Tensor]) -> None:
    tensors["more"] = torch.zeros(3)


@pytest.mark.parametrize("spoil", [spoil_shape, spoil_missing, spoil_name])
def test_weights_that_do_not_fit_are_told(tmp_path: Path, spoil) -> None:
    directory = save(tmp_path)
    file = directory / "model.safetensors"
    tensors = read_tensors(file)
    spoil(tensors)
    write_tensors(file, tensors)
    assert not is_torch_free(directory)
    with pytest.raises(ModelError, match="do not fit the model"):
        Translator.from_pretrained(directory, device="cpu")


@pytest.mark.parametrize("engine", ["native", "module"])
def test_a_flipped_byte_of_the_weights_is_noticed(tmp_path: Path, engine: str) -> None:
    directory = save(tmp_path)
    file = directory / "model.safetensors"
    assert Translator.from_pretrained(directory, device="cpu", engine=engine)
    damaged = bytearray(file.read_bytes())
    damaged[-5] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(ModelError, match="damaged: wrong content") as caught:
        Translator.from_pretrained(directory, device="cpu", engine=engine)
    assert caught.value.file == str(file)


def test_files_that_are_not_plain_are_not_read(tmp_path: Path) -> None:
    file = save(tmp_path) / "model.safetensors"
    whole = file.read_bytes()
    stored, tensors = read_arrays(file), read_tensors(file)
    assert stored is not None
    assert {name: array.shape for name, array in stored.arrays.items()} == {
        n: tuple(t.shape) for n, t in tensors.items()
    }
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    entry = next(name for name in header if name != "__metadata__")
    changes = [{"dtype": "F16"}, {"shape": [1, 1]}, {"data_offsets": [0, 1 << 40]}, {"data_offsets": [-4, 0]}]
    spoilt = [{**header, entry: {**header[entry], **change}} for change in changes] + [{**header, entry: 1}]
    for tree in spoilt:
        text = json.dumps(tree).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + length :])
        assert read_arrays(file) is None
    for damaged in (whole[:-1], whole[:20], b"", b"\xff" * 40):
        file.write_bytes(damaged)
        assert read_arrays(file) is None
