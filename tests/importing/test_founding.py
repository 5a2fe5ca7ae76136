"""Checkpoints of the founding systems as run directories: what their profiles compute with their own ids, at a verb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import dragoman
from dragoman import DecodingConfig, Translator
from dragoman.cli import main
from dragoman.engines import ModuleEngine
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.importing.importer import kind_of
from dragoman.models import load_pretrained
from dragoman.profiles import annotated, d2l, jadore, lsdefine, torch_nn
from dragoman.search import SearchRequest, search
from dragoman.sequences import Frame, Source, Specials
from oracle.lsdefine import Model

WORDS = [f"w{number}" for number in range(8)]
# How each system numbers its special tokens: pad, unk, bos, eos; and what its `load` is given.
SYSTEMS: dict[str, tuple[list[str], dict[str, Any], dict[str, Any]]] = {
    "annotated": (["<s>", "</s>", "<blank>", "<unk>"], {"h": 2}, {"pad": 2}),
    "jadore": (["<unk>", "<blank>", "<s>", "</s>"], {"n_head": 2}, {"src_pad_idx": 1, "trg_pad_idx": 1}),
    "lsdefine": (["<PAD>", "<UNK>", "<S>", "</S>"], {"n_head": 2}, {}),
    "d2l": (["<unk>", "<pad>", "<bos>", "<eos>"], {"num_heads": 2}, {"src_pad": 1}),
    "torch_nn": (["<unk>", "<pad>", "<bos>", "<eos>"], {"nhead": 2, "names.source_positions": None,
                                                        "names.target_positions": None}, {"pad": 1}),
}  # fmt: skip
LOADERS = {"annotated": annotated, "jadore": jadore, "lsdefine": lsdefine, "d2l": d2l, "torch_nn": torch_nn}


def _book(vocab: int) -> dict[str, torch.Tensor]:
    shapes: dict[str, tuple[int, ...]] = {"decoder.dense.weight": (vocab + 1, 8), "decoder.dense.bias": (vocab + 1,)}
    for side, rows, attentions in (
        ("encoder", vocab, ["attention"]),
        ("decoder", vocab + 1, ["attention1", "attention2"]),
    ):
        shapes[f"{side}.embedding.weight"] = (rows, 8)
        place = f"{side}.blks.block0"
        shapes |= {f"{place}.{one}.W_{part}.weight": (8, 8) for one in attentions for part in "qkvo"}
        norms = range(1, len(attentions) + 2)
        shapes |= {f"{place}.addnorm{number}.ln.{part}": (8,) for number in norms for part in ("weight", "bias")}
        shapes |= {f"{place}.ffn.dense1.weight": (6, 8), f"{place}.ffn.dense1.bias": (6,),
                   f"{place}.ffn.dense2.weight": (8, 6), f"{place}.ffn.dense2.bias": (8,)}  # fmt: skip
    return {name: torch.randn(*shape) * 0.5 + name.endswith("ln.weight") for name, shape in shapes.items()}


def _wrapped(vocab: int) -> dict[str, torch.Tensor]:
    core = nn.Transformer(8, 2, 1, 1, 12, batch_first=True)
    tables = {"src_tok_emb.embedding.weight": torch.randn(vocab, 8), "generator.bias": torch.randn(vocab + 1),
              "tgt_tok_emb.embedding.weight": torch.randn(vocab + 1, 8),
              "generator.weight": torch.randn(vocab + 1, 8)}  # fmt: skip
    return {f"transformer.{name}": tensor for name, tensor in core.state_dict().items()} | tables


def state_of(system: str, vocab: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    if system == "annotated":
        found = annotated.initial_weights(vocab, vocab + 1, 1, 8, 12)
    elif system == "jadore":
        found = jadore.initial_weights(vocab, vocab + 1, 8, 12, 1, 2, 4, 4)
    elif system == "lsdefine":
        made = Model(np.random.default_rng(3), vocab, vocab + 1, 30, 8, 12, 2, 1)
        found = {name: torch.from_numpy(np.ascontiguousarray(array)).float() for name, array in made.state.items()}
    else:
        found = _book(vocab) if system == "d2l" else _wrapped(vocab)
    return {name: tensor.detach().clone().contiguous() for name, tensor in found.items()}


def make(folder: Path, system: str) -> tuple[dict[str, torch.Tensor], list[str]]:
    folder.mkdir()
    source = [*SYSTEMS[system][0], *WORDS]
    state = state_of(system, len(source))
    save_file(state, folder / "weights.safetensors")
    (folder / "src_vocab.txt").write_text("".join(f"{token}\n" for token in source))
    (folder / "trg_vocab.json").write_text(json.dumps([*source, "more"]))
    return state, [*source, "more"]


@pytest.fixture(scope="module", params=SYSTEMS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Any, list[str]]:
    folder = tmp_path_factory.mktemp("founding")
    state, tokens = make(folder / "theirs", request.param)
    assert kind_of(folder / "theirs") == request.param
    dragoman.import_model(folder / "theirs", folder / "ours", options=SYSTEMS[request.param][1])
    return request.param, folder / "ours", state, tokens


def test_a_run_directory_finds_what_the_profile_finds_with_its_own_ids(
    made: tuple[str, Path, dict[str, torch.Tensor], list[str]],
) -> None:
    system, run, state, tokens = made
    options = {name: value for name, value in SYSTEMS[system][1].items() if not name.startswith("names.")}
    if system == "torch_nn":
        options["names"] = torch_nn.Names(source_positions=None, target_positions=None)
    model = LOADERS[system].load(state, **options, **SYSTEMS[system][2])
    ids = {token: number for number, token in enumerate(tokens)}
    names = (("<pad>", "<blank>", "<PAD>"), ("<unk>", "<UNK>"), ("<s>", "<bos>", "<S>"), ("</s>", "<eos>", "</S>"))
    pad, unk, bos, eos = (next(ids[name] for name in some if name in ids) for some in names)
    specials = Specials(pad, unk, bos, eos)
    translator = Translator.from_pretrained(run)
    lines = ["w1 w2 w3", "w0 other w7 w7 w4", "w5"]
    begin = () if system == "d2l" else (bos,)
    sources = [Source((*begin, *(ids.get(word, unk) for word in line.split()), eos), specials=specials, end=())
               for line in lines]  # fmt: skip
    for beams in (1, 3):
        decoding = DecodingConfig(beam_size=beams, max_length=6, unknown="keep", loop_guard=0)
        requests = [SearchRequest(one, decoding, frame=Frame(bos, eos), never=(pad, bos)) for one in sources]
        expected = [next(iter(found)) for found in search(ModuleEngine(model), requests)]
        for theirs, ours in zip(expected, translator.translate(lines, beam_size=beams, max_length=6), strict=True):
            shown = ["<unk>" if one == unk else tokens[one] for one in theirs.tokens]
            assert list(ours.tokens) == [one for one in shown if one not in ("</s>", "<eos>", "</S>")]
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)
    assert translator.translate([""])[0].text == ""
    assert load_pretrained(run).config.source_vocab == len(tokens) - 1


def run_verb(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> object:
    monkeypatch.setattr("sys.argv", ["dragoman", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_every_verb_that_reads_a_model_takes_it(
    made: tuple[str, Path, Any, list[str]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, run, _, _ = made
    lines = tmp_path / "in"
    lines.write_text("w1 w2\n\nw3\n")
    assert run_verb(monkeypatch, "translate", run, "--input", lines, "--output", tmp_path / "out") == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 3
    assert run_verb(monkeypatch, "explain", run, "w1 w2") == 0
    assert run_verb(monkeypatch, "info", run) == 0
    assert run_verb(monkeypatch, "inspect", run, "w1 w2", "--out", tmp_path / "page.html") == 0
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert "w1" in capfd.readouterr().out
    files = ["--source", lines, "--target", lines]
    for verb in (["quantize", run], ["export", run, "--to", "onnx"], ["train", "--init-from", run, *files]):
        assert run_verb(monkeypatch, *verb, "--out", tmp_path / "new") == 2
        assert "founding system cannot be" in capfd.readouterr().err


def test_what_cannot_be_taken_is_told(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    make(theirs, "annotated")
    with pytest.raises(ConfigError, match="how many heads"):
        dragoman.import_model(theirs, ours)
    with pytest.raises(ConfigError, match="annotated has no such option"):
        dragoman.import_model(theirs, ours, options={"h": 2, "heads": 2})
    with pytest.raises(ModelError, match="jadore"):
        dragoman.import_model(theirs, ours, kind="jadore", options={"n_head": 2})
    with pytest.raises(ConfigError, match="is an attention, and no model"):
        dragoman.import_model(theirs, ours, kind="paddle")
    with pytest.raises(DataError, match="does not fit the weights"):
        dragoman.import_model(theirs, ours, options={"h": 2}, vocabulary=theirs / "trg_vocab.json")
    (theirs / "src_vocab.txt").write_text("<s>\n</s>\n<unk>\n")
    with pytest.raises(DataError, match=r"lacks a special token(.|\n)*<pad> or <blank>"):
        dragoman.import_model(theirs, ours, options={"h": 2})
    assert not ours.exists()


@pytest.mark.parametrize(
    "profile",
    [{}, {"system": "os", "options": {}}, {"system": "annotated", "options": {"h": 10**9}},
     {"system": "annotated", "options": {"state": 1}}],
)  # fmt: skip
def test_a_profile_of_strangers_is_checked(profile: dict[str, Any], tmp_path: Path) -> None:
    from dragoman.models.description import save_config
    from dragoman.models.pretrained import read_config

    make(tmp_path / "theirs", "annotated")
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours", options={"h": 2})
    config = read_config(tmp_path / "ours")[0]
    save_config(tmp_path / "ours", config, profile=profile)
    with pytest.raises(ModelError):
        load_pretrained(tmp_path / "ours")
