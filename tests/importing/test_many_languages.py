"""M2M100 and NLLB directories against transformers itself, on models built at random."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import dragoman
from dragoman import Translator
from dragoman.cli import make_app
from dragoman.errors import ConfigError, ModelError
from dragoman.importing.facts import Facts
from dragoman.importing.generation import read_generation
from dragoman.models import load_pretrained
from dragoman.models.description import read_config
from dragoman.models.language_tokens import few_of
from importing_directories import many_languages
from oracle.many_directory import CODES, make_many
from oracle.marian_directory import texts

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("family", "languages"), [("m2m", ("en", "zh")), ("nllb", ("eng_Latn", "fra_Latn"))])
def test_ids_and_scores_are_those_of_transformers(family: str, languages: tuple[str, str], tmp_path: Path) -> None:
    model, vocabulary = make_many(tmp_path / "theirs", family, forced_end=family == "m2m")
    source, target = languages
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours", source_language=source, target_language=target)
    for engine in ("native", "module"):
        translator = Translator.from_pretrained(tmp_path / "ours", engine=engine, precision="float32")
        [other] = [code.strip("_") for code in CODES[family] if code.strip("_") not in languages]
        _compare(translator, {"target_language": other}, model, vocabulary, CODES[family], (source, other))
        both = {"source_language": other, "target_language": source}  # as another pair, and the former one again
        _compare(translator, both, model, vocabulary, CODES[family], (other, source))
        _compare(translator, {}, model, vocabulary, CODES[family], languages)


def _compare(translator, asked, model, vocabulary, codes, languages):
    source, target = languages
    first = next(code for code in codes if target in code)
    tokenizer = translator.with_languages(asked.get("source_language")).tokenizers.source
    lines = texts(5 if asked else 16, 9)
    for beams in (1, 4):
        for line, ours in zip(lines, translator.translate(lines, beam_size=beams, **asked), strict=True):
            pieces = tokenizer.pieces(tokenizer.encode(line))
            assert pieces[0] == next(code for code in codes if source in code)
            ids = torch.tensor([[*(vocabulary[piece] for piece in pieces), 2]])
            got = model.generate(
                ids, num_beams=beams, forced_bos_token_id=vocabulary[first], output_scores=True,
                return_dict_in_generate=True,
            )  # fmt: skip
            expected = got.sequences[0].tolist()[1:]
            assert ours.tokens[0] == first
            assert first not in ours.text
            wrote = [vocabulary.get(token, -1) for token in ours.tokens]
            unnamed = [place for place, one in enumerate(wrote) if one < 0]
            expected = expected[: len(expected) - (expected[-1] == 2)]
            assert len(wrote) == len(expected)
            assert all(one == other for one, other in zip(wrote, expected, strict=True) if one >= 0)
            assert all(expected[place] in (0, *range(len(vocabulary), len(vocabulary) + 3)) for place in unnamed)
            if beams > 1:
                assert ours.score == pytest.approx(got.sequences_scores[0].item(), abs=2e-5)


def test_logits_are_the_same(tmp_path: Path) -> None:
    model, vocabulary = make_many(tmp_path / "theirs", "nllb")
    dragoman.import_model(
        tmp_path / "theirs", tmp_path / "ours", source_language="eng_Latn", target_language="zho_Hans"
    )
    ours, tokenizers = (
        load_pretrained(tmp_path / "ours").model.double(),
        Translator.from_pretrained(tmp_path / "ours").tokenizers,
    )
    model = model.double()  # in which sums are the same however they are added up
    pieces = tokenizers.target.pieces(range(len(tokenizers.target)))
    columns = {number: vocabulary[piece] for number, piece in enumerate(pieces) if number > 3 and piece in vocabulary}
    for line in texts(8, 1):
        read, wrote = tokenizers.encode_source(line).framed, tokenizers.target.encode(line)
        theirs = [columns[one] if one in columns else {3: 2, 1: 3}[one] for one in read]
        decoder = [2, *(columns.get(one, 3) for one in wrote)]
        with torch.no_grad():
            expected = model(torch.tensor([theirs]), decoder_input_ids=torch.tensor([decoder])).logits[0]
            found = ours(torch.tensor([read]), torch.tensor([[2, *wrote]]))[0]
        assert (found[:, list(columns)] - expected[:, list(columns.values())]).abs().max() <= 1e-5


def test_the_languages_are_asked_for(tmp_path: Path) -> None:
    make_many(tmp_path / "theirs", "nllb")
    with pytest.raises(ConfigError, match="the source language is needed"):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "ours")
    with pytest.raises(ConfigError, match="no such target language"):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "o", source_language="eng_Latn", target_language="deu")


def test_other_languages_are_asked_for_by_a_call(tmp_path: Path) -> None:
    make_many(tmp_path / "theirs", "nllb")
    ours = tmp_path / "ours"
    dragoman.import_model(tmp_path / "theirs", ours, source_language="eng_Latn", target_language="zho_Hans")
    line, translator = texts(1, 9)[0], Translator.from_pretrained(ours)
    [asked] = translator.translate([line], target_language="fra_Latn", source_language="zho_Hans")
    assert (asked.source_tokens[0], asked.tokens[0]) == ("zho_Hans", "fra_Latn")
    assert dragoman.translate(ours, [line], target_language="fra_Latn", source_language="zho_Hans") == [asked]
    opened = Translator.from_pretrained(ours, target_language="fra_Latn").with_languages("zho_Hans")
    for one in (opened, copy.deepcopy(opened)):
        assert one.translate([line]) == [asked]
    assert translator.with_languages() is translator
    assert opened.score([line], ["mi"])[0].tokens[0] == "fra_Latn"
    words = [
        "--target-language",
        "fra_Latn",
        "--source-language",
        "zho_Hans",
        "--json",
        "--output",
        str(tmp_path / "o"),
    ]
    assert CliRunner().invoke(make_app(), ["translate", str(ours), line, *words]).exit_code == 0
    assert json.loads((tmp_path / "o").read_text())["score"] == pytest.approx(asked.score, abs=1e-6)


def test_a_language_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    make_many(tmp_path / "theirs", "nllb")
    dragoman.import_model(
        tmp_path / "theirs", tmp_path / "ours", source_language="eng_Latn", target_language="zho_Hans"
    )
    translator = Translator.from_pretrained(tmp_path / "ours")
    for given in ({"target_language": "fr"}, {"target_language": "<mask>"}, {"target_language": ""}):
        with pytest.raises(ConfigError, match=r"no such target language(.|\n)*fra_Latn"):
            translator.translate(["mi"], **given)
    with pytest.raises(ConfigError, match=r"no such source language(.|\n)*eng_Latn"):
        translator.translate(["mi"], source_language="de")
    many = few_of([f"{letter}{other}a" for letter in "abcd" for other in "abcdef"], "DA")
    assert many.startswith("daa, ")
    assert many.endswith("(24 in all)")
    assert few_of(["deu_Latn", "fra_Latn"], "fr") == "fra_Latn, deu_Latn"


def test_what_a_file_leaves_out_is_what_the_class_has(tmp_path: Path) -> None:
    languages = many_languages(tmp_path / "theirs", list(CODES["nllb"]))
    path = tmp_path / "theirs" / "config.json"
    whole = json.loads(path.read_text())
    left_out = ("pad_token_id", "eos_token_id", "decoder_start_token_id", "scale_embedding", "activation_function")
    path.write_text(json.dumps({name: value for name, value in whole.items() if name not in left_out}))
    dragoman.import_model(tmp_path / "theirs", tmp_path / "ours", **languages)
    config = read_config(tmp_path / "ours")[0]
    assert (config.scale_embeddings, config.activation) == (True, "relu")
    path.write_text(json.dumps({**whole, "pad_token_id": 0}))
    with pytest.raises(ModelError, match="cannot take pad_token_id"):  # positions are counted from it
        dragoman.import_model(tmp_path / "theirs", tmp_path / "other", **languages)
    path.write_text(json.dumps({name: value for name, value in whole.items() if name != "decoder_attention_heads"}))
    with pytest.raises(ModelError, match=r"both stacks are alike(.|\n)*found: +16"):
        dragoman.import_model(tmp_path / "theirs", tmp_path / "other", **languages)


@pytest.mark.parametrize(("told", "start"), [({}, 2), ({"bos_token_id": 0}, 0), ({"decoder_start_token_id": 2}, 2)])
def test_outputs_begin_as_theirs_where_the_search_does_not_say_it(
    told: dict[str, int], start: int, tmp_path: Path
) -> None:
    many_languages(tmp_path / "theirs", list(CODES["nllb"]))
    file = tmp_path / "theirs" / "config.json"
    (tmp_path / "theirs" / "generation_config.json").write_text(json.dumps({"bos_token_id": 0, **told} if told else {}))
    assert read_generation(tmp_path / "theirs", Facts(json.loads(file.read_text()), file)).start == start
