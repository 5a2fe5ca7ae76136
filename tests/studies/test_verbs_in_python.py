"""Python's functions are the verbs: the same names and meanings, files or lists in, and what is no text is refused."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

import dragoman
from dragoman.cli import VERBS
from dragoman.errors import ConfigError, DataError
from dragoman.given import as_texts, each_text
from dragoman.language import TextScorer
from dragoman.translation import Translator
from end_to_end import small

SRC = Path(__file__).parents[2] / "src"
TEXTS = small.sentences(6, longest=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.saved(tmp_path_factory.mktemp("running") / "model", small.word_pair())


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.saved(tmp_path_factory.mktemp("running") / "causal", small.word_pair(), "causal")


def written(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_each_verb_is_a_public_function_and_names_go_with_a_warning() -> None:
    for verb in VERBS:
        name = {"export": "export_model"}.get(verb.__name__, verb.__name__)  # a room is named like the verb
        if name != "demo":  # a room of that name has `run_demo`
            assert callable(getattr(dragoman, name)), name
            assert name in dragoman.__all__
    for old, new in (("average_run", "average"), ("describe_model", "info")):
        with pytest.warns(DeprecationWarning, match=new):
            assert getattr(dragoman, old) is getattr(dragoman, new)
    with pytest.raises(AttributeError, match="has no attribute 'avrage'"):
        _ = dragoman.avrage


def test_translate_is_what_a_translator_does(folder: Path, tmp_path: Path) -> None:
    translator = Translator.from_pretrained(folder)
    expected = [one.text for one in translator.translate(TEXTS, beam_size=3, max_length=4)]
    file = written(tmp_path / "texts", TEXTS)
    for model in (folder, str(folder), translator, [folder]):
        for texts in (TEXTS, file, str(file), iter(TEXTS)):
            found = dragoman.translate(model, texts, beam_size=3, settings={"decoding.max_length": 4})
            assert [one.text for one in found] == expected
    with pytest.raises(ConfigError, match="only decoding settings"):
        dragoman.translate(folder, TEXTS, settings={"max_steps": 3})
    with pytest.raises(DataError, match=r"no such file\n.*put a text into a list"):
        dragoman.translate(folder, TEXTS[0])


def test_score_is_a_log_probability_and_what_was_score_is_measure(folder: Path, causal: Path, tmp_path: Path) -> None:
    pairs = Translator.from_pretrained(folder, engine="module").score(TEXTS, TEXTS[::-1])
    file = written(tmp_path / "texts", TEXTS)
    assert dragoman.score(folder, file, TEXTS[::-1]) == pairs
    assert dragoman.score(causal, text=file) == TextScorer.from_pretrained(causal).score(TEXTS)
    for wrong in ({}, {"source": TEXTS}, {"source": TEXTS, "target": TEXTS, "text": TEXTS}):
        with pytest.raises(ConfigError, match="source and target, or text"):
            dragoman.score(folder, **wrong)
    with pytest.warns(DeprecationWarning, match=r"dragoman\.measure"):
        old = dragoman.score(TEXTS, TEXTS[::-1], metrics=["chrf"], bootstrap=10)  # type: ignore[arg-type, call-arg]
    assert old == dragoman.measure(TEXTS, TEXTS[::-1], metrics=["chrf"], bootstrap=10)


def test_complete_and_fill(causal: Path, tmp_path: Path) -> None:
    found = dragoman.complete(causal, iter(TEXTS), n_best=2, beam_size=2)
    assert found == dragoman.complete(causal, written(tmp_path / "p", TEXTS), settings={"n_best": 2, "beam_size": 2})
    assert all(one.text.startswith(text) for text, some in zip(TEXTS, found, strict=True) for one in some)
    with pytest.raises(dragoman.DragomanError, match="only a masked model"):
        dragoman.fill(causal, ["ba <mask>"])


def test_files_and_lists_are_judged_alike(folder: Path, tmp_path: Path) -> None:
    answers, more = TEXTS[::-1], TEXTS[1:] + TEXTS[:1]
    source, a, b = (written(tmp_path / n, lines) for n, lines in (("s", TEXTS), ("a", answers), ("b", more)))
    both = list(zip(answers, more, strict=True))
    how = {"metrics": ["chrf", "exact"], "bootstrap": 20}
    assert dragoman.measure(source, [a, b], **how) == dragoman.measure(TEXTS, both, **how)
    lists = dragoman.compare(answers, more, TEXTS, "chrf", samples=20)
    assert dragoman.compare(a, b, source, "chrf", samples=20) == lists
    from_files = dragoman.evaluate(folder, source, [str(a), b], **how)
    from_lists = dragoman.evaluate(folder, iter(TEXTS), both, **how)
    assert (from_files.scores, from_files.references) == (from_lists.scores, from_lists.references)
    outputs = from_files.hypotheses
    assert dragoman.evaluate_outputs(outputs, both, TEXTS, **how).scores == from_files.scores
    assert dragoman.evaluate_outputs(outputs, both, **how).scores == from_files.scores
    tuned = dragoman.tune(folder, TEXTS, answers, metric="chrf", beam_sizes=[1, 2], length_penalties=[0.0], samples=10)
    filed = dragoman.tune(folder, source, a, metric="chrf", beam_sizes=[1, 2], length_penalties=[0.0], samples=10)
    assert [one.score for one in tuned.trials] == [one.score for one in filed.trials]
    kept = {"keep_copies": True, "max_ratio": 100.0}
    made = list(dragoman.synthesize(folder, source, **kept))
    assert made == list(dragoman.synthesize(Translator.from_pretrained(folder), TEXTS, **kept))
    grouped = dragoman.evaluate(folder, [*TEXTS, TEXTS[0]], [*both, ("x",)], group=True, **how)
    assert grouped.sources == TEXTS
    assert grouped.references[0] == (*both[0][:1], "x", *both[0][1:])


MIXED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a list and a file": (lambda file: dragoman.measure(TEXTS, file), "a list and the references are a file"),
    "a file and a list": (lambda file: dragoman.measure(file, [("a", "b")]), "a file and the references are none"),
    "too few": (lambda file: dragoman.measure(TEXTS, TEXTS[1:]), "differ in number"),
    "too few lines": (lambda file: dragoman.evaluate_outputs(TEXTS[1:], TEXTS), "as many outputs as references"),
    "no references": (lambda file: dragoman.measure(file, []), "no references"),
}


@pytest.mark.parametrize(("call", "message"), MIXED.values(), ids=MIXED)
def test_files_go_with_files_and_lists_with_lists(tmp_path: Path, call: Callable[[Path], object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        call(written(tmp_path / "file", TEXTS))


# What is no text

SERIES: dict[str, Callable[[], object]] = {
    "list": lambda: ["a", "b"],
    "tuple": lambda: ("a", "b"),
    "generator": lambda: (text for text in "ab"),
    "keys": lambda: {"a": 1, "b": 2}.keys(),
    "array": lambda: np.array(["a", "b"]),
    "objects": lambda: np.array(["a", "b"], dtype=object),
    "map": lambda: map(str, ["a", "b"]),
}
NO_SERIES = {
    "one text": "a b", "bytes": b"a b", "a path": Path("a"), "a dict": {"a": "b"}, "nothing": None, "a number": 3,
}  # fmt: skip
NO_TEXT = {"None": None, "NaN": math.nan, "int": 3, "bytes": b"x", "Path": Path("x"), "list": ["x"]}


@pytest.mark.parametrize("make", SERIES.values(), ids=SERIES)
def test_whatever_gives_strings_is_a_series_of_texts(make: Callable[[], object]) -> None:
    found = as_texts(make())
    assert sorted(found) == ["a", "b"]
    assert {type(one) for one in found} == {str}


@pytest.mark.parametrize("given", NO_SERIES.values(), ids=NO_SERIES)
def test_what_is_no_series_is_refused_at_once(given: object) -> None:
    with pytest.raises(DataError, match="lines are a list of texts"):
        each_text(given, "lines")  # before the first one is asked for


class Table:
    """As a pandas DataFrame, which gives the names of its columns one after the other."""

    columns = ("zh", "en")

    def __iter__(self) -> Iterable[str]:
        return iter(self.columns)


class Column:
    """As a pandas Series with an index of its own."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def __iter__(self) -> Iterable[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, label: object) -> str:
        raise KeyError(label)


def test_of_tables_only_columns_are_texts(folder: Path) -> None:
    with pytest.raises(DataError, match=r"table\['column'\]"):
        as_texts(Table())
    translator = Translator.from_pretrained(folder)
    assert translator.translate(Column(TEXTS)) == translator.translate(TEXTS)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", NO_TEXT.values(), ids=NO_TEXT)
def test_what_is_no_text_is_named_by_its_number(wrong: object) -> None:
    with pytest.raises(DataError, match=r"texts\[12\] is no text\n.*a string\n.*\n  to do:") as caught:
        as_texts(["a", "b", wrong], first=10)
    assert repr(wrong) in str(caught.value)


EVERYWHERE = """
import json, sys
import dragoman
from dragoman import DragomanError, TextScorer, Translator

model, causal = sys.argv[1:]
translator, scorer = Translator.from_pretrained(model), TextScorer.from_pretrained(causal)
good, bad = ["ba", "ce", "di"], ["ba", "ce", None]
calls = {
    "translate": lambda: translator.translate(bad),
    "prefixes": lambda: translator.translate(good, prefixes=bad),
    "translate_lines": lambda: list(translator.translate_lines(iter(bad), translator.decoding, chunk=2)),
    "score": lambda: translator.score(good, bad),
    "score_pairs": lambda: list(translator.score_pairs(zip(bad, good))),
    "TextScorer": lambda: scorer.score(bad),
    "score_lines": lambda: list(scorer.score_lines(iter(bad), chunk=2)),
    "dragoman.score": lambda: dragoman.score(causal, text=bad),
    "complete": lambda: dragoman.complete(causal, bad),
    "measure": lambda: dragoman.measure(good, bad),
    "hypotheses": lambda: dragoman.measure(bad, good),
    "compare": lambda: dragoman.compare(good, bad, good),
    "evaluate": lambda: dragoman.evaluate(model, bad, good),
    "references": lambda: dragoman.evaluate(model, good, [["ba"], ["ce", "di"], ["ba", None]]),
    "evaluate_outputs": lambda: dragoman.evaluate_outputs(bad, good),
    "tune": lambda: dragoman.tune(model, good, bad),
    "synthesize": lambda: list(dragoman.synthesize(model, bad)),
    "train": lambda: dragoman.train(source=good, target=bad, out="run", quiet=True),
    "pairs": lambda: dragoman.train(pairs=[("ba", "ce"), ("ba", None)], out="run", quiet=True),
}
said = {}
for name, call in calls.items():
    try:
        call()
        said[name] = "nothing"
    except DragomanError as error:
        said[name] = f"{type(error).__name__}: {error.message}"
print(json.dumps(said))
"""


def test_none_among_texts_is_an_error_of_ours_everywhere(folder: Path, causal: Path, tmp_path: Path) -> None:
    """In a process of its own: the types that are checked in tests are not checked elsewhere."""
    done = subprocess.run(
        [sys.executable, "-c", EVERYWHERE, str(folder), str(causal)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(SRC)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert len(said) == 19
    for name, message in said.items():
        assert message.startswith("DataError: "), (name, message)
        assert message.endswith(("[2] is no text", "[2][1] is no text", "[1][1] is no text")), (name, message)
    assert not (tmp_path / "run").exists()
