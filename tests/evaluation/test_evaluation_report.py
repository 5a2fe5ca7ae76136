from __future__ import annotations

import random

from dragoman.evaluation import METRICS, break_down, compare, contrast, score, worst_sentences
from dragoman.evaluation.report import (
    breakdown_tables,
    comparison_report,
    contrast_tables,
    leads_text,
    markdown_report,
    worst_text,
)

DRAW = random.Random(0)
REFERENCES = [" ".join(DRAW.choices(["ba", "ce", "di", "fo", "gu", "ha"], k=DRAW.randint(1, 30))) for _ in range(60)]
OUTPUTS = [line.replace("ba", "xx") if row % 3 else "" for row, line in enumerate(REFERENCES)]
SOURCES = [f"<{line}>" for line in REFERENCES]


def test_tables_keep_within_80_columns_whatever_is_asked_for() -> None:
    for metrics in (("bleu", "chrf"), METRICS[:5]):
        parts = break_down(OUTPUTS, REFERENCES, SOURCES, metrics=metrics, bootstrap=20, unknown=[0, 1, 5] * 20, cut=[1])
        tables = breakdown_tables(parts)
        assert len(tables) == 4
        assert all(len(line) <= 80 for table in tables for line in table.to_text().split("\n"))
        with_intervals = "[" in tables[0].to_text()
        assert with_intervals == (len(metrics) == 2)
    found = contrast(OUTPUTS, REFERENCES, REFERENCES, SOURCES, samples=20)
    assert all(len(line) <= 80 for table in contrast_tables(found) for line in table.to_text().split("\n"))


def test_faults_that_are_not_known_are_not_listed() -> None:
    unknown = breakdown_tables(break_down(OUTPUTS, REFERENCES, bootstrap=0))[-1].to_text()
    known = breakdown_tables(break_down(OUTPUTS, REFERENCES, SOURCES, bootstrap=0, cut=[]))[-1].to_text()
    for name in ("copied from source", "cut at the limit"):
        assert name not in unknown
        assert name in known
    assert "1 4 7 10 13 16 ..." in unknown


def test_sentences_are_shown_whole() -> None:
    worst = worst_sentences(OUTPUTS, [(line, "or this") for line in REFERENCES], SOURCES, count=2)
    text = worst_text(worst)
    for one in worst.sentences:
        for part in (f"line {one.line}: ", *one.references, SOURCES[one.line - 1]):
            assert part in text
    found = contrast(OUTPUTS, REFERENCES, REFERENCES, SOURCES, samples=10, count=1)
    text = leads_text(found)
    assert "Where A is ahead by chrF2: nowhere" in text
    assert f"line {found.better_b[0].line}: A 0.00, B 100.00" in text


def test_a_page_holds_all_of_it() -> None:
    scores = score(OUTPUTS, REFERENCES, bootstrap=10)
    parts = break_down(OUTPUTS, REFERENCES, SOURCES, bootstrap=10)
    worst = worst_sentences(OUTPUTS, REFERENCES, SOURCES, count=3)
    page = markdown_report(scores, parts, worst)
    assert all(str(one) in page for one in scores)
    assert all(table.to_markdown() in page for table in breakdown_tables(parts))
    # A sentence stands in a block of its own: its signs are not Markdown.
    assert all(f"\n      source      {SOURCES[one.line - 1]}\n" in page for one in worst.sentences)
    assert "###" not in markdown_report(scores)
    test = compare(OUTPUTS, REFERENCES, REFERENCES, samples=10)
    found = contrast(OUTPUTS, REFERENCES, REFERENCES, SOURCES, samples=10)
    page = comparison_report(test, found)
    assert str(test) in page
    assert all(table.to_markdown() in page for table in contrast_tables(found))
