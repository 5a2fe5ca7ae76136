"""Transformers runs what was exported to it as M2M100 or NLLB, whether it was imported from there or trained here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import dragoman
from dragoman.errors import ConfigError
from dragoman.export import export_model
from dragoman.models import load_pretrained
from dragoman.models.description import load_tokenizers, read_config, save_tokenizers
from dragoman.models.pretrained import save_pretrained
from export_models import TEXTS, make_directory, tokenizers
from oracle.many_directory import make_many
from oracle.marian_directory import texts

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

FEW = 12
PAIRS = {"m2m": ("en", "zh"), "nllb": ("eng_Latn", "fra_Latn")}
OWN = {"norm": "pre", "positions": "fairseq", "scale_embeddings": True, "generator_bias": False}


@pytest.fixture(autouse=True)
def few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.export.checking.LINES", FEW)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_text("\n".join(texts(FEW, 4)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A directory of each family: theirs, and ours beside it."""
    found = {}
    for family, (source, target) in PAIRS.items():
        folder = found[family] = tmp_path_factory.mktemp(family)
        codes = [f"__{code}__" for code in _m2m_codes()] if family == "m2m" else ()
        make_many(folder / "theirs", family, codes=codes, kind="bpe", banned=family == "m2m",
                  forced_end=family == "m2m", sharp=3.0)  # fmt: skip
        dragoman.import_model(folder / "theirs", folder / "ours", source_language=source, target_language=target)
    return found


def _m2m_codes() -> list[str]:
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

    return FAIRSEQ_LANGUAGE_CODES["m2m100"]


def changed(model: Path, folder: Path, change: Any) -> Path:
    """A copy of a model directory whose modules were changed."""
    found, config = load_pretrained(model), read_config(model)[0]
    with torch.no_grad():
        change(found.model)
    save_pretrained(folder, found.model, config, found.decoding, found.languages)
    save_tokenizers(folder, load_tokenizers(model, config))
    return folder


@pytest.mark.parametrize("family", list(PAIRS))
def test_what_was_imported_comes_back_as_it_was(
    family: str, taken: dict[str, Path], lines: Path, tmp_path: Path
) -> None:
    theirs, ours, out = taken[family] / "theirs", taken[family] / "ours", tmp_path / "out"
    made = export_model(ours, "nllb", out, check_file=lines)
    assert made.check is not None
    assert (made.check.equal, made.check.cut_alike, made.check.lines) == (FEW, FEW, FEW)
    before, after = (load_file(one / "model.safetensors") for one in (theirs, out))
    assert before.keys() == after.keys()
    assert all(before[name].numpy().tobytes() == after[name].numpy().tobytes() for name in before)
    settings = [json.loads((one / "config.json").read_text()) for one in (theirs, out)]
    named = settings[0].keys() - {"init_std", "encoder_layerdrop", "decoder_layerdrop", "transformers_version"}
    assert {name: settings[0][name] for name in named} == {name: settings[1].get(name) for name in named}
    source, target = PAIRS[family]
    dragoman.import_model(out, tmp_path / "again", source_language=source, target_language=target)
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (ours / name).read_bytes()


@pytest.mark.parametrize("family", list(PAIRS))
def test_transformers_translates_with_its_own_tokenizer_as_we_do(
    family: str, taken: dict[str, Path], tmp_path: Path
) -> None:
    source, target = PAIRS[family]
    export_model(taken[family] / "ours", "nllb", tmp_path / "out", check=False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert (type(tokenizer).__name__, tokenizer.src_lang) == (
        "M2M100Tokenizer" if family == "m2m" else "NllbTokenizer",
        source,
    )
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    translator = dragoman.Translator.from_pretrained(taken[family] / "ours", precision="float32")
    for asked in ((source, target), (target, source)):
        tokenizer.src_lang = asked[0]
        token = f"__{asked[1]}__" if family == "m2m" else asked[1]
        forced = {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(token)} if asked[1] != target else {}
        for line in texts(6, 9):
            [mine] = translator.translate([line], source_language=asked[0], target_language=asked[1])
            found = model.generate(**tokenizer([line], return_tensors="pt"), **forced)
            named = [one for one in tokenizer.convert_ids_to_tokens(found[0])[1:] if one not in ("</s>", "<pad>")]
            assert [one for one in mine.tokens if one in tokenizer.get_vocab()] == [
                one for one in named if one in mine.tokens
            ]
            assert mine.tokens[0] == named[0] == token


def test_a_start_that_training_moved_has_a_row_of_its_own(taken: dict[str, Path], lines: Path, tmp_path: Path) -> None:
    def move(model: Any) -> None:
        specials = tokenizers("joint").target.specials
        model.source_embedding.tokens.weight[specials.bos] += 0.5

    ours = changed(taken["nllb"] / "ours", tmp_path / "moved", move)
    made = export_model(ours, "nllb", tmp_path / "out", check_file=lines)
    assert made.check is not None
    assert (made.check.equal, made.check.lines) == (FEW, FEW)
    before, after = (
        load_file(one / "model.safetensors")["model.shared.weight"]
        for one in (taken["nllb"] / "theirs", tmp_path / "out")
    )
    assert torch.equal(after[:-1], before)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["decoder_start_token_id"] == len(before)
    assert torch.equal(after[-1], before[2] + 0.5)


def test_offsets_that_training_moved_are_refused_by_name(taken: dict[str, Path], tmp_path: Path) -> None:
    ours = changed(taken["m2m"] / "ours", tmp_path / "moved", lambda model: model.generator.bias[7:9].add_(0.1))
    with pytest.raises(ConfigError, match=r"generator\.bias: 2 of \d+ are not zero(.|\n)*LoRA") as told:
        export_model(ours, "nllb", tmp_path / "out")
    assert "training.freeze" in str(told.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("settings", [{}, {"activation": "silu", "bias": False, "scale_embeddings": False}])
def test_a_model_of_our_own_is_run_with_a_plain_tokenizer(settings: dict[str, Any], tmp_path: Path) -> None:
    model = make_directory(tmp_path / "model", "joint", **{**OWN, **settings})
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    made = export_model(model, "nllb", tmp_path / "out", check_file=tmp_path / "lines.txt", license_name="cc-by-4.0")
    assert made.check is not None
    assert (made.check.equal, made.check.cut_alike, made.check.lines) == (len(TEXTS),) * 3
    ours = load_pretrained(model).model.double()
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", dtype=torch.float64).eval()
    for side, embedding in (("encoder", ours.source_embedding), ("decoder", ours.target_embedding)):
        table = embedding.positions.table(16, torch.zeros(0)).double()  # of float32, as theirs
        embedding.positions._table = table
        getattr(theirs.model, side).embed_positions.weights[2:18] = table  # before them, two of no position
    pair = tokenizers("joint")
    order = [pair.source.bos, pair.source.pad, pair.source.eos, pair.source.unk, *range(4, len(pair.source))]
    source, target = [5, 9, 7, 11, 2], [0, 8, 4, 10]
    with torch.no_grad():
        found = theirs(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits
        mine = ours(*(torch.tensor([[order[one] for one in row]]) for row in (source, target)))[..., order]
    assert (mine - found).abs().max() <= 1e-12
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert 'license: "cc-by-4.0"\nlibrary_name: transformers\npipeline_tag: translation\n' in card


@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [
        ("joint", {"norm": "post"}, "post-norm"),
        ("joint", {"positions": "rotary"}, r"positions inside attention \(rotary\)"),
        ("joint", {"positions": "interleaved"}, r"not fairseq's sinusoids \(interleaved\)"),
        ("joint", {"generator_bias": True}, r"generator\.bias"),
        ("joint", {"tie_embeddings": "decoder"}, "not one table"),
        ("two", {"tie_embeddings": "decoder"}, "a vocabulary for each side"),
        ("joint", {"norm_eps": 1e-6}, "another epsilon"),
        ("joint", {"d_k": 4, "d_v": 4}, "heads whose widths"),
        ("joint", {"right_to_left": True}, "--drop right-to-left"),
    ],
)
def test_what_it_cannot_hold_is_refused_in_words(
    kind: str, settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    model = make_directory(tmp_path / "model", kind, **{**OWN, **settings})
    with pytest.raises(ConfigError, match=told):
        export_model(model, "nllb", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("to", "package"), [("ctranslate2", "ctranslate2"), ("onnx", "onnxruntime")])
def test_other_programs_are_told_the_languages_too(
    to: str, package: str, taken: dict[str, Path], lines: Path, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    for number, file in enumerate((lines, None)):
        made = export_model(taken["m2m"] / "ours", to, tmp_path / f"out{number}", check_file=file)
        assert made.check is not None
        assert (made.check.equal, made.check.lines) == (FEW, FEW)
        assert made.check.cut_alike in (FEW, None)
    assert any("__zh__" in note for note in made.notes)
