"""Results in a terminal and in a notebook: one short line, or a table in which nothing of a text is markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

import dragoman
from dragoman.shown import count, html_table, short
from dragoman.training.progress import Progress
from end_to_end import small

EVIL = "<script>alert(1)</script>&\"'<img src=x onerror=alert(1)>"
TEXTS = small.sentences(6, longest=5)
MOST = 250


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.saved(tmp_path_factory.mktemp("shown") / "model", small.byte_pair())


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, object]:
    """One of each kind, of texts that would be markup."""
    translator = dragoman.Translator.from_pretrained(folder)
    sources, long = [EVIL, *TEXTS], ["word " * 500, *TEXTS]
    config = dragoman.TrainConfig(out=EVIL, data={"source": ["a"], "target": ["b"]})
    return {
        "Translator": translator,
        "Translation": translator.translate(sources, beam_size=3, n_best=3)[0],
        "Alternative": translator.translate(sources)[0].alternatives[0],
        "PairScore": translator.score(long[:1], [TEXTS[0]])[0],
        "Evaluation": dragoman.evaluate(translator, sources, [EVIL] * 7, bootstrap=5),
        "Score": dragoman.measure(TEXTS, TEXTS, bootstrap=5)[0],
        "Comparison": dragoman.compare(TEXTS, TEXTS[::-1], TEXTS, samples=5),
        "Tuning": dragoman.tune(
            translator, TEXTS, TEXTS, metric="chrf", beam_sizes=[1, 2], length_penalties=[0.0], samples=5
        ),
        "Run": dragoman.Run(Path(EVIL), config, Progress(step=3, best=1.0, best_step=2)),
        "Trace": dragoman.explain(folder, EVIL[:40]),
    }  # fmt: skip


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, bool]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, bool(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_each_kind_is_one_short_line_with_its_name(results: dict[str, object]) -> None:
    for name, one in results.items():
        shown = repr(one)
        assert shown.startswith(f"{name}("), shown
        assert len(shown) <= MOST, shown
        assert "\n" not in shown


@pytest.mark.parametrize("name", ["Translation", "Evaluation", "Run", "Trace"])
def test_notebooks_get_tables_and_no_markup_of_a_text(results: dict[str, object], name: str) -> None:
    page = Tags()
    html = results[name]._repr_html_()  # type: ignore[attr-defined]
    page.feed(html)
    assert {tag for tag, _ in page.found} <= {"table", "caption", "tr", "th", "td"}
    assert not any(attributes for _, attributes in page.found)
    assert "<script" not in html
    assert EVIL[:30] in page.text


def test_models_say_what_they_are(folder: Path, tmp_path: Path) -> None:
    shown = repr(dragoman.Translator.from_pretrained(folder))
    assert repr(str(folder)) in shown
    assert "parameters, xx to yy, " in shown
    causal = small.saved(tmp_path / "causal", small.word_pair(), "causal")
    for kind in (dragoman.Completer, dragoman.TextScorer):
        assert repr(kind.from_pretrained(causal)).endswith("word vocabulary of 16)")
    assert repr(small.translator(small.word_pair())).startswith("Translator(of models in memory, ")


def test_numbers_and_texts_are_shortened() -> None:
    assert [count(number) for number in (7, 950, 1_160_254, 41_000, 2 * 10**9)] == ["7", "950", "1.16M", "41K", "2B"]
    assert short("a\x1bb") == "'a\\x1bb'"
    assert len(short("a" * 10**6)) < 50
    assert html_table([("<a>", 1)], ("x",), "&") == (
        "<table><caption>&amp;</caption><tr><th>x</th></tr><tr><td>&lt;a&gt;</td><td>1</td></tr></table>"
    )
