"""The languages of a model for many, asked for by each verb: what comes out is what a translator of them gives."""

from __future__ import annotations

import json
from multiprocessing import get_context
from pathlib import Path

import pytest

import dragoman
from dragoman import Translator
from dragoman.bulk import running, translate_file
from dragoman.cli import make_app
from dragoman.errors import ConfigError
from dragoman.evaluation import Metric
from dragoman.inspection import explain
from dragoman.inspector import inspect
from dragoman.ray import Translate
from dragoman.studies import evaluate
from importing_directories import many_languages
from oracle.marian_directory import texts

CODES = ["eng_Latn", "fra_Latn", "zho_Hans"]
PAIR = {"source_language": "zho_Hans", "target_language": "fra_Latn"}
WORDS = ["--source-language", "zho_Hans", "--target-language", "fra_Latn"]
LINES = texts(12, 4)
REFUSED = r"no such target language(.|\n)*fra_Latn"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verbs")
    given = many_languages(folder / "theirs", CODES)
    return dragoman.import_model(folder / "theirs", folder / "ours", **given).directory


@pytest.fixture(scope="module")
def translator(run: Path) -> Translator:
    return Translator.from_pretrained(run).with_languages("zho_Hans", "fra_Latn")


def called(*words: object) -> None:
    make_app()(list(map(str, words)), standalone_mode=False)


def test_a_translator_knows_its_languages(run: Path, translator: Translator) -> None:
    assert (translator.languages.source, translator.languages.target) == ("zh", "fr")
    own = Translator.from_pretrained(run).languages
    assert (own.source, own.target) == ("en", "fr")
    assert "zh to fr" in repr(translator)


def test_workers_write_the_bytes_of_one_process(
    run: Path, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "get_context", lambda _: get_context("fork"))
    source = tmp_path / "source.txt"
    source.write_text("".join(f"{line}\n" for line in LINES))
    called("translate", run, "--input", source, "--output", tmp_path / "one.txt", *WORDS)
    called("translate", run, "--input", source, "--output", tmp_path / "out", "--workers", 2, "--part-lines", 5, *WORDS)
    parts = b"".join(part.read_bytes() for part in sorted((tmp_path / "out").glob("*.txt")))
    assert parts == (tmp_path / "one.txt").read_bytes()
    assert parts.decode().splitlines() == [one.text for one in translator.translate(LINES)]
    columns = {"scores": False, "as_json": False}
    with pytest.raises(ConfigError, match="other work: languages differs"):
        translate_file(run, source, tmp_path / "out", workers=1, part_lines=5, columns=columns)
    with pytest.raises(ConfigError, match=REFUSED):
        translate_file(run, source, tmp_path / "none", workers=1, target_language="fr")
    assert not (tmp_path / "none").exists()


def test_columns_are_translated_into_them(run: Path, translator: Translator) -> None:
    found = Translate(str(run), **PAIR)({"text": LINES})
    assert list(found["translation"]) == [one.text for one in translator.translate(LINES)]


def test_a_test_set_is_judged_in_them(run: Path, translator: Translator, tmp_path: Path) -> None:
    outputs = [one.text for one in translator.translate(LINES)]
    judged = evaluate(run, LINES, outputs, metrics=["chrf"], bootstrap=0, breakdown=True, **PAIR)
    assert judged.hypotheses == outputs
    assert judged.scores[0].value == 100.0
    into = {"target_language": "zho_Hans", "source_language": "fra_Latn"}
    judged = evaluate(run, LINES, outputs, metrics=[Metric("bleu")], bootstrap=0, **into)
    assert "tok:zh" in str(judged.scores[0].signature)
    for name, lines in (("source", LINES), ("reference", outputs)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = ["--source", tmp_path / "source", "--reference", tmp_path / "reference", "--hypotheses", tmp_path / "made"]
    called("evaluate", run, *files, "--metric", "chrf", *WORDS)
    assert (tmp_path / "made").read_text().splitlines() == outputs
    with pytest.raises(ConfigError, match=REFUSED):
        evaluate(run, LINES, outputs, target_language="deu_Latn")
    with pytest.raises(ConfigError, match="without a model, this option has no effect"):
        called("evaluate", "--outputs", tmp_path / "made", "--reference", tmp_path / "reference", *WORDS)


def test_an_explanation_is_of_their_output(
    run: Path, translator: Translator, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = Translator.from_pretrained(run, engine="module").translate([LINES[0]], beam_size=1, **PAIR)[0]
    trace = explain(run, LINES[0], **PAIR)
    assert trace.source is not None
    assert trace.source.pieces[0] == "zho_Hans"
    assert trace.output.pieces[: len(wanted.tokens)] == wanted.tokens
    assert trace.steps[0].chosen.piece == "fra_Latn"
    assert explain(translator, LINES[0]).output == trace.output
    called("explain", run, LINES[0], "--json", *WORDS)
    told = json.loads(capfd.readouterr().out)
    assert told["source"]["pieces"][0] == "zho_Hans"
    usual = explain(run, LINES[0], beam_size=2)
    assert usual.output.pieces[0] == "fra_Latn"
    with pytest.raises(ConfigError, match=REFUSED):
        explain(run, LINES[0], target_language="de")


def test_a_record_is_of_their_output(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wanted = Translator.from_pretrained(run, engine="module").translate([LINES[0]], beam_size=2, **PAIR)[0]
    record = inspect(run, LINES[0], beam_size=2, views=False, **PAIR).record
    assert record["model"]["languages"] == {"source": "zh", "target": "fr"}
    assert [piece["text"] for piece in record["output"]["pieces"]][: len(wanted.tokens)] == list(wanted.tokens)
    called("inspect", run, LINES[0], "--json", "--beam-size", 2, *WORDS)
    told = json.loads(capfd.readouterr().out)
    assert told["output"] == record["output"]
    with pytest.raises(ConfigError, match=REFUSED):
        inspect(run, LINES[0], target_language="de")
