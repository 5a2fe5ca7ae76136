"""What is asked of a service, whatever interface it came through, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dragoman.text.sentences import Segment
from dragoman.translation.results import Translation
from dragoman.translation.spans import Word

if TYPE_CHECKING:
    from dragoman.studies.transcribing import Utterance  # brings PyTorch

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


@dataclass(frozen=True)
class SoundJob:
    """A recording of one request, and how it is to be written down.

    Attributes:
        data: the file.
        source: code of the language that is spoken; None if the model's.
        target: code of the language to be written; None if the model's.
        model: by name, or None.
        options: changes of the model's own decoding options.
        words: whether words are told, with their times.
    """

    data: bytes = field(repr=False)
    source: str | None = None
    target: str | None = None
    model: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    words: bool = False


@dataclass(frozen=True)
class TranscribedPart:
    """A part of a recording in which somebody speaks, with what was written.

    Attributes:
        said: its times, its text, and the times of its words where they were asked for.
        output: what was found, with all alternatives.
        ids: of the text's tokens.
    """

    said: Utterance
    output: Translation
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Transcribed:
    """What was said in a recording.

    Attributes:
        text: all of it.
        source: code of the language that was spoken.
        target: code of the language of the text.
        model: the name of what wrote it.
        seconds: how long the recording is.
        parts: in which somebody speaks, in order.
    """

    text: str
    source: str
    target: str
    model: str
    seconds: float
    parts: tuple[TranscribedPart, ...] = ()

    @property
    def truncated(self) -> bool:
        """Whether a part was longer than the model's limit and was cut there."""
        return any(part.output.truncated for part in self.parts)

    @property
    def finished(self) -> bool:
        """Whether the model ended every part by itself."""
        return all(part.output.finished for part in self.parts)
