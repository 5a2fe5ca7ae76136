"""Translation memories (TMX 1.1 to 1.4b), read as a stream: a unit at a time, nothing fetched, nothing expanded."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase
from xml.parsers import expat

from dragoman.errors import DataError
from dragoman.text.lines import MAX_LINE_BYTES, BadText, ReadCounts
from dragoman.text.opening import open_bytes
from dragoman.text.pair import Pair
from dragoman.text.pair_format import PairFormat, direction_unsaid, is_language, listed

_BLOCK = 1 << 16
_DEEPEST = 200  # elements within each other; a unit needs 6, and a few for each flow inside an inline element
_MOST_NAMES = 1000  # of elements and attributes, which the parser keeps; TMX has less than 100
_MOST_LANGUAGES = 100
_CODE = frozenset(("bpt", "ept", "ph", "it", "ut"))  # native code, but for the flows of text (sub) in it
_BREAK = re.compile(r"[ \t]*[\r\n][ \t\r\n]*")
_BAD = "\ufdd0"  # stands for what was no text; a noncharacter, which none should have
_NO_TEXT = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REFERENCE = re.compile("&#(?:x([0-9a-fA-F]{1,8})|([0-9]{1,10}));")


def read_tmx(path: str, form: PairFormat, on_bad_text: BadText, counts: ReadCounts) -> Iterator[Pair]:
    """Yield the pairs of a translation memory; a unit without one of the sides is counted as incomplete.

    A text is what a translator sees: the native code in `bpt`, `ept`, `ph`, `it` and `ut` is left out, the text in `hi`
    and in `sub` is not. A line break, with the indentation beside it, is a blank; at an end it is nothing.

    Args:
        path: the file.
        form: says which languages the sides are.
        on_bad_text: what a unit does that is not text, or longer than 16 MiB.
        counts: filled in with units.

    Raises:
        DataError: the file is not TMX or not well-formed XML, declares entities, or has a unit that is not text.
        ConfigError: nobody has said which language is the source.
    """
    reader, parser = _Reader(path, form, on_bad_text), expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.SkippedEntityHandler = reader.entity
    parser.StartElementHandler = lambda name, attributes: reader.start(name, attributes, parser.CurrentLineNumber)
    parser.EndElementHandler, parser.CharacterDataHandler = reader.end, reader.characters
    fed = 0
    try:
        with open_bytes(path) as stream:
            for block in _blocks(stream, on_bad_text):
                parser.Parse(block)
                fed += len(block)
                if fed - parser.CurrentByteIndex > MAX_LINE_BYTES:
                    line, expected = parser.CurrentLineNumber, f"<= {MAX_LINE_BYTES} bytes"
                    raise DataError("a tag or comment is too long", file=path, line=line, expected=expected)
                yield from reader.pairs(counts)
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        found = expat.ErrorString(error.code)
        raise DataError("the XML is not well-formed", file=path, line=error.lineno, found=found) from error
    yield from reader.pairs(counts)
    reader.check()


@dataclass
class _Unit:
    line: int
    texts: list[str | None] = field(default_factory=lambda: [None, None])
    problem: str = ""


class _Reader:
    """Takes the events of the parser, and makes units of them."""

    def __init__(self, path: str, form: PairFormat, on_bad_text: BadText) -> None:
        self._path, self._wanted, self._on_bad_text = path, form.languages, on_bad_text
        self._done: list[_Unit] = []
        self._unit: _Unit | None = None
        self._side: int | None = None
        self._text: list[str] | None = None  # of the segment that is being read
        self._inside: list[bool] = []  # whether what each open element of it has is text
        self._size = self._depth = self._complete = 0
        self._names: set[str] = set()
        self._languages: dict[str, str] = {}  # as they are compared, and as the file has them first

    def doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        """Refuse declarations inside the file: TMX has none, and entities can be bombs."""
        del name, system, public
        if internal:
            hint = "take the part in brackets out of <!DOCTYPE ...>"
            raise DataError("the file declares markup of its own (a DTD)", file=self._path, hint=hint)

    def entity(self, name: str, is_parameter: int) -> None:
        """Refuse an entity that nobody declared: its text would be missing."""
        del is_parameter
        hint = "write the character itself"
        raise DataError("an entity is not declared", file=self._path, found=f"&{name};", hint=hint)

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        """Take the start of an element."""
        self._depth += 1
        self._names.add(name)
        self._names.update(attributes)
        if self._depth > _DEEPEST or len(self._names) > _MOST_NAMES or (self._depth == 1 and name != "tmx"):
            found = f"the element {name[:40]}, {self._depth} deep" if len(self._names) <= _MOST_NAMES else "other names"
            raise DataError("not a translation memory", file=self._path, line=line, expected="TMX", found=found)
        if self._inside:
            self._inside.append(name == "sub" or (name not in _CODE and self._inside[-1]))
        elif name == "tu":
            self._unit = _Unit(line)
        elif name == "tuv" and self._unit is not None:
            self._side = self._side_of(attributes.get("xml:lang") or attributes.get("lang") or "")
        elif name == "seg" and self._unit is not None:
            self._inside.append(True)
            self._text, self._size = ([], 0) if self._side is not None else (None, 0)

    def _side_of(self, tag: str) -> int | None:
        """Which side a language is, if that has no text yet."""
        assert self._unit is not None
        if tag and len(self._languages) < _MOST_LANGUAGES:
            self._languages.setdefault(tag[:40].casefold(), tag[:40])
        for side, wanted in enumerate(self._wanted or ()):
            if self._unit.texts[side] is None and is_language(tag, wanted):
                return side
        return None

    def characters(self, text: str) -> None:
        """Take text."""
        if self._text is None or not self._inside[-1]:
            return
        assert self._unit is not None
        self._size += len(text)
        if self._size > MAX_LINE_BYTES:
            self._unit.problem = "a segment is too long to be one sequence"
        else:
            self._text.append(text)

    def end(self, name: str) -> None:
        """Take the end of an element."""
        self._depth -= 1
        if self._inside:
            self._inside.pop()
            if not self._inside and self._text is not None:
                self._end_segment("".join(self._text))
        elif name == "tuv":
            self._side = None
        elif name == "tu" and self._unit is not None:
            if self._wanted is None and len(self._languages) > 1:
                raise direction_unsaid(self._languages.values(), self._path, self._unit.line)
            self._done.append(self._unit)
            self._unit = None

    def _end_segment(self, text: str) -> None:
        assert self._unit is not None
        assert self._side is not None
        if self._on_bad_text != "stop" and _BAD in text:
            self._unit.problem = self._unit.problem or "a segment is not text"
            text = text.replace(_BAD, "\ufffd")
        self._unit.texts[self._side] = _BREAK.sub("\n", text).strip("\n").replace("\n", " ")
        self._side = self._text = None

    def pairs(self, counts: ReadCounts) -> Iterator[Pair]:
        """Yield the pairs of the units that are complete; they are forgotten."""
        done, self._done = self._done, []
        for unit in done:
            counts.read += 1
            source, target = unit.texts
            self._complete += source is not None and target is not None
            if unit.problem and (self._on_bad_text != "replace" or "long" in unit.problem):
                if self._on_bad_text == "stop":
                    expected = f"<= {MAX_LINE_BYTES} characters" if "long" in unit.problem else "text"
                    raise DataError(unit.problem, file=self._path, line=unit.line, expected=expected)
                counts.skipped += 1
            elif source is None or target is None:
                counts.incomplete += 1
            else:
                counts.replaced += bool(unit.problem)
                yield Pair(source, target, self._path, unit.line)

    def check(self) -> None:
        """Refuse a file of which no unit has both languages: others are meant.

        Raises:
            DataError: there are units, and so it is.
        """
        if self._languages and not self._complete:
            if self._wanted is None:
                raise direction_unsaid(self._languages.values(), self._path)
            expected, found = f"{self._wanted[0]} and {self._wanted[1]}", listed(sorted(self._languages.values()))
            message = "no unit has a text in both languages"
            raise DataError(message, file=self._path, expected=expected, found=found)


def _blocks(stream: BufferedIOBase, on_bad_text: BadText) -> Iterator[bytes]:
    """The file in blocks; what is no text in a file of UTF-8 is a mark, unless it stops the reading."""
    first = stream.read(_BLOCK)
    declared = re.match(rb"""\s*<\?xml[^>]*?encoding\s*=\s*["']([^"']*)""", first.removeprefix(codecs.BOM_UTF8))
    utf8 = declared is None or declared[1].lower() in (b"utf-8", b"utf8")
    if on_bad_text == "stop" or not utf8 or b"\0" in first[:4] or first.startswith((b"\xff\xfe", b"\xfe\xff")):
        while first:
            yield first
            first = stream.read(_BLOCK)
        return
    decoder, held = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape"), ""
    while True:
        text = held + decoder.decode(first, not first)
        # A reference to a character may go on in the next block.
        cut = text.rfind("&", max(len(text) - 16, 0)) if first else -1
        held = text[cut:] if cut >= 0 else ""
        text = text[:cut] if cut >= 0 else text
        if text:
            yield _REFERENCE.sub(_checked, _NO_TEXT.sub(_BAD, text)).encode()
        if not first:
            return
        first = stream.read(_BLOCK)


def _checked(found: re.Match[str]) -> str:
    number = int(found[1], 16) if found[1] else int(found[2])
    allowed = number in (9, 10, 13) or 0x20 <= number < 0xD800 or 0xE000 <= number <= 0x10FFFF
    return found[0] if allowed and number not in (0xFFFE, 0xFFFF) else _BAD
