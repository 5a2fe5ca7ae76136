"""HTML and XML as tokens that keep how they are written: joined, the tokens are the document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Literal, NamedTuple
from xml.parsers import expat

from dragoman.errors import DataError

Kind = Literal["html", "xml"]
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
# Up to their end tag there is nothing but text, which is no text for people.
_RAW = frozenset(["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"])
# Quantifiers that give nothing back: what does not match is given up in one pass.
_REST = r"""((?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+)>"""
_TAGS = {
    "html": re.compile(f"<(/?)([A-Za-z][^\\s/>]*+){_REST}"),
    "xml": re.compile(f"<(/?)([^\\s/>!?]++){_REST}"),
}
_ATTRIBUTE = re.compile(r"""([^\s"'>/=]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_SPECIAL = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">"))
_FEW = 16  # tags whose quotes do not close, before no more are looked for


class Token(NamedTuple):
    """A part of a document.

    Attributes:
        kind: text, start tag, end tag, tag without content, or what is none of these (comments, declarations).
        raw: as it is written.
        name: of a tag; of HTML in small letters.
        text: what a text says, entities resolved.
    """

    kind: Literal["text", "start", "end", "empty", "other"]
    raw: str
    name: str = ""
    text: str = ""

    def attributes(self) -> dict[str, str]:
        """Return the attributes of a tag that have values, by their names in small letters."""
        found = _ATTRIBUTE.finditer(self.raw, 1 + len(self.name))
        return {one[1].lower(): unescape(one[2] or one[3] or one[4] or "") for one in reversed(list(found))}


def tokens(text: str, kind: Kind) -> Iterator[Token]:
    """Yield the tokens of a document or a fragment, in time linear in its length.

    HTML is read however it is written: a `<` that begins nothing is text. XML must be well-formed, but may be a
    fragment with several elements and texts at the top.

    Raises:
        DataError: XML is not well-formed, or declares entities.
    """
    if kind == "xml":
        _check_xml(text)
    place, given_up = 0, 0
    while place < len(text):
        at = text.find("<", place)
        at = len(text) if at < 0 else at
        if at > place:
            yield _text(text[place:at])
        place = at
        if place == len(text):
            return
        if found := _TAGS[kind].match(text, place) if given_up < _FEW else None:
            token = _tag(found, kind)
        else:
            token = _other(text, place, kind)
            given_up += token.kind == "text" and text[place + 1 : place + 2].isalpha()
        place += len(token.raw)
        yield token
        if kind == "html" and token.kind == "start" and token.name in _RAW:
            end = re.compile(f"</{token.name}", re.IGNORECASE).search(text, place)
            raw = text[place : end.start() if end else len(text)]
            place += len(raw)
            yield Token("other", raw)


def _text(raw: str) -> Token:
    return Token("text", raw, "", unescape(raw) if "&" in raw else raw)


def _tag(found: re.Match[str], kind: Kind) -> Token:
    name = found[2].lower() if kind == "html" else found[2]
    if found[1]:
        return Token("end", found[0], name)
    empty = found[3].endswith("/") or (kind == "html" and name in VOID)
    return Token("empty" if empty else "start", found[0], name)


def _other(text: str, place: int, kind: Kind) -> Token:
    """What begins with a `<` that begins no tag."""
    for begin, end in _SPECIAL:
        if text.startswith(begin, place):
            if kind == "html" and begin in ("<?", "<![CDATA["):
                end = ">"
            at = text.find(end, place + (2 if end == "-->" else len(begin)))
            stop = len(text) if at < 0 else at + len(end)
            raw = text[place:stop]
            if begin == "<![CDATA[" and kind == "xml":
                return Token("text", raw, "", raw[len(begin) : -len(end)])
            return Token("other", raw)
    return Token("text", "<", "", "<")


def _check_xml(text: str) -> None:
    """Refuse what is no XML, and what declares entities, which may stand for files or grow without bounds."""
    whole = bool(re.match(r"\ufeff?\s*<[?!](?:xml\b|DOCTYPE)", text))
    parser = expat.ParserCreate("utf-8")
    parser.StartDoctypeDeclHandler = _refuse_declarations
    before, after = ("", "") if whole else ("<r>", "</r>")
    try:
        parser.Parse(f"{before}{text}{after}".encode(), True)
    except UnicodeEncodeError as error:
        found = f"U+{ord(error.object[error.start]):04X}"
        raise DataError("the XML has half of a surrogate pair", expected="text", found=found) from error
    except expat.ExpatError as error:
        column = max(0, error.offset - (len(before) if error.lineno == 1 else 0))
        hint = "mend the XML, or send it as HTML, which may be written loosely"
        found = f"{expat.ErrorString(error.code)}, near {_near(text, error.lineno, column)!r}"
        raise DataError(
            "the XML is not well-formed", line=error.lineno, byte=column, expected="well-formed XML", found=found,
            hint=hint,
        ) from error  # fmt: skip


def _near(text: str, line: int, column: int) -> str:
    row = "".join(text.split("\n")[line - 1 : line]).encode("utf-8")
    return row[max(0, column - 20) : column + 20].decode("utf-8", "ignore")


def _refuse_declarations(name: str, _system: str | None, _public: str | None, inside: int) -> None:
    if inside:
        hint = "write characters in place of entities, and leave what stands in [ ] out"
        raise DataError("the XML declares things of its own", expected=f"<!DOCTYPE {name}>", hint=hint)
