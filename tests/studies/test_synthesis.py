"""Made-up pairs: real text stays on its side, outputs on the other, and what is not worth learning from is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman.data import Counts
from dragoman.studies.synthesis import synthesize
from dragoman.translation import Translator
from end_to_end import small


@pytest.fixture(scope="module")
def translator() -> Translator:
    return small.translator(small.word_pair())


@pytest.fixture(scope="module")
def lines(translator) -> list[str]:
    """Sentences that the model has an answer to, which it ends."""
    lines = small.sentences(40)
    found = translator.translate(lines, min_length=1)
    answered = [line for line, one in zip(lines, found, strict=True) if one.finished and one.text != line]
    assert len(answered) > 5
    return answered


@pytest.mark.parametrize(
    ("kind", "tag", "outputs_first"),
    [("back-translation", "<bt> ", True), ("self-training", "<st> ", False), ("distillation", "", False)],
)
def test_outputs_stand_on_the_made_up_side_and_tags_before_sources(translator, lines, kind, tag, outputs_first):
    options = translator.options({"min_length": 1})
    found = list(synthesize(translator, lines, kind=kind, decoding=options, max_ratio=99.0))
    outputs = [one.text for one in translator.translate_with(lines, options)]
    columns = (outputs, lines) if outputs_first else (lines, outputs)
    assert found == [(tag + source, target) for source, target in zip(*columns, strict=True)]


def test_another_tag_or_none(translator, lines):
    options = translator.options({"min_length": 1})
    (first, *_) = synthesize(translator, lines, tag="<made>", decoding=options, max_ratio=99.0)
    (bare, *_) = synthesize(translator, lines, tag="", decoding=options, max_ratio=99.0)
    assert first == ("<made> " + bare[0], bare[1])


class Echo(Translator):
    """Answers as it is told."""

    def __init__(self, real: Translator, answers: list[str], **changes: object) -> None:
        self.real, self.answers, self.decoding, self.tokenizers = real, answers, real.decoding, real.tokenizers
        self.changes = {"finished": True, **changes}

    def translate_lines(self, lines, options):
        for line, answer in zip(lines, self.answers, strict=True):
            made = self.real.translate_with([line], options)[0]
            tokens = tuple(answer.split())
            yield replace(made, text=answer, tokens=tokens, source_tokens=tuple(line.split()), **self.changes)


@pytest.mark.parametrize(
    ("line", "answer", "reason"),
    [
        ("ba ce", "", "empty"),
        (" ", "ba", "empty"),
        ("ba ce", "Ba, ce!", "copy"),
        ("ba", "di di di di", "length ratio"),
        ("ba ce di fo", "gu", "length ratio"),
        ("ba\tce", "gu ha", "not one field"),
        ("ba ce", "gu\tha", "not one field"),
        ("ba ce", "gu\rha", "not one field"),
        ("ba ce", "gu ha", None),
    ],
)
def test_what_is_not_worth_learning_from_is_counted(translator, line, answer, reason):
    counts = Counts(unit="lines")
    pairs = list(synthesize(Echo(translator, [answer]), [line], counts=counts, tag=""))
    assert counts.read == 1
    assert dict(counts.dropped) == ({} if reason is None else {reason: 1})
    assert pairs == ([] if reason else [(answer, line)])
    assert counts.kept == len(pairs)


def test_copies_may_be_wanted_and_what_was_cut_never_is(translator):
    def run(keep_copies: bool, **changes: object) -> int:
        return len(list(synthesize(Echo(translator, ["ba ce"], **changes), ["ba ce"], keep_copies=keep_copies)))

    assert (run(False), run(True)) == (0, 1)
    assert run(True, truncated=True) == run(True, finished=False) == 0


def test_draws_are_the_same_each_time(translator, lines):
    options = translator.options({"sampling": True, "min_length": 1})
    first, second = (list(synthesize(translator, lines, decoding=options)) for _ in range(2))
    assert first == second
    assert first != list(synthesize(translator, lines, decoding=options.replace({"sampling_seed": 2})))
