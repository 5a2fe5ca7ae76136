"""What is asked of a service, whatever interface it came through, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman.text.sentences import Segment
from dragoman.translation.results import Translation
from dragoman.translation.spans import Word

Format = Literal["text", "html", "xml"]


@dataclass(frozen=True)
class Job:
    """Texts of one request, and how they are to be translated.

    Attributes:
        texts: any number, of any number of lines.
        source: code of their language; "auto" if it is to be detected, None if the model's.
        target: code of the language wanted; None if the model's.
        model: by name, or None.
        options: changes of the model's own decoding options.
        prefixes: what each output must begin with; None if nothing.
        words: whether the words of outputs are told, with their probabilities and alignments.
        sentences: whether lines are split into sentences.
        format: what the texts are written in.
        markup: further arguments of `Markup`.
    """

    texts: Sequence[str]
    source: str | None = None
    target: str | None = None
    model: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    prefixes: Sequence[str] | None = None
    words: bool = False
    sentences: bool = True
    format: Format = "text"
    markup: dict[str, Any] = field(default_factory=dict)

    @property
    def characters(self) -> int:
        """How many all texts have together."""
        return sum(map(len, self.texts))


@dataclass(frozen=True)
class TranslatedSegment:
    """A sentence, or a line, with its output.

    Attributes:
        segment: what it was, and the white space around it.
        output: its translation, with all alternatives.
        words: of the output, where they were asked for.
    """

    segment: Segment
    output: Translation
    words: tuple[Word, ...] | None

    @property
    def text(self) -> str:
        """The best output."""
        return self.output.text


@dataclass(frozen=True)
class Translated:
    """The output of one text.

    Attributes:
        text: the output.
        source: code of the language that it was translated from.
        target: code of the language of the output.
        models: names of those that it went through.
        pivot: code of the language between, or None.
        confidence: from 0 to 1, of the language where it was detected, else None.
        truncated: a sentence was longer than the model's limit and was cut there.
        unknown: how many tokens of the source the model does not know.
        finished: whether the model ended every sentence by itself.
        segments: of the text, in order; none of markup.
        alternatives: other outputs of the whole text, the best first; without `text` itself.
    """

    text: str
    source: str
    target: str
    models: tuple[str, ...]
    pivot: str | None = None
    confidence: float | None = None
    truncated: bool = False
    unknown: int = 0
    finished: bool = True
    segments: tuple[TranslatedSegment, ...] = ()
    alternatives: tuple[str, ...] = ()
