"""What users must hear of their translations besides the outputs: what was cut, unknown or in another language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from dragoman.config import DecodingConfig
from dragoman.text.lines import LineNumbers
from dragoman.text.unknown import is_written_in, script_of
from dragoman.translation.results import Translation

_KINDS = ("truncated", "cut", "unknown", "strange", "script")


class Notes:
    """Tells, once for all lines, what was cut, unknown or not in the language of the sources.

    Args:
        options: the search that was used.
        language: two-letter code of the sources, where known.
    """

    def __init__(self, options: DecodingConfig, language: str | None = None) -> None:
        self._options, self._script = options, script_of(language)
        self._language = language
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self._found = {name: LineNumbers() for name in _KINDS}
        self._counts: Counter[str] = Counter()

    def add(self, number: int, result: Translation) -> None:
        """Take the translation of a line; numbers count from 1."""
        pieces = len(result.source_tokens)
        if not pieces:
            return
        self._counts["lines"] += 1
        self._counts["pieces"] += pieces
        self._counts["unknown"] += result.unknown
        told = (
            result.truncated,
            not result.finished,
            result.unknown > 0,
            2 * result.unknown >= pieces,
            self._script is not None and not is_written_in(result.source, self._script),
        )
        if any(told):
            for lines, holds in zip(self._found.values(), told, strict=True):
                if holds:
                    lines.add(number)

    def lines(self) -> Iterator[str]:
        """Yield a sentence for each thing that users must hear."""
        found, counts, options = self._found, self._counts, self._options
        total = f"of {counts['lines']:,}"

        def told(name: str) -> str:
            return f"{found[name].count:,} {total} ({found[name]})"

        if found["truncated"].count:
            yield f"sources longer than {options.max_source_length:,} tokens, cut there: {told('truncated')}"
        if found["cut"].count:
            more = "max_length_offset" if options.max_length is None else "max_length"
            limit = f"cut at the limit ({options.limit_in_words})"
            yield f"outputs that the model did not end, {limit}: {told('cut')}; --set {more}=N allows more"
        if found["unknown"].count:
            pieces = f"{counts['unknown']:,} of {counts['pieces']:,}"
            yield f"source tokens that the model does not know: {pieces}, in {told('unknown')}"
        if found["script"].count:
            why = f"hardly a letter in {self._script} script, but the model translates from {self._language}"
            yield f"{why}: {told('script')}"
        elif 2 * found["strange"].count > counts["lines"]:
            yield "half or more of most lines is unknown to the model: is this the language that it translates from?"


def tell_notes(
    results: Iterable[Translation], options: DecodingConfig, language: str | None, tell: Callable[[str], None]
) -> None:
    """Tell, in a warning for each thing, what was cut, unknown or in another language in all of some translations."""
    notes = Notes(options, language)
    for number, result in enumerate(results, 1):
        notes.add(number, result)
    for line in notes.lines():
        tell(f"warning: {line}")
