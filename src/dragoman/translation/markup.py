"""HTML and XML in which only the text is translated: tags, and all that is no text, stay as they are written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from dragoman.translation.markup_tokens import Kind, Token, tokens
from dragoman.translation.placing import MarkedOutput as MarkedOutput
from dragoman.translation.placing import Tag, put_tags

# At these a text begins or ends; any other tag of HTML stands inside one.
_BLOCKS = frozenset(
    [
        "address", "article", "aside", "base", "blockquote", "body", "br", "caption", "center", "col", "colgroup", "dd",
        "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "frame",
        "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "legend", "li",
        "link", "listing", "main", "menu", "meta", "nav", "noscript", "ol", "optgroup", "option", "p", "pre", "search",
        "section", "select", "style", "summary", "table", "tbody", "td", "template", "tfoot", "th", "thead", "title",
        "tr", "ul", "xmp",
    ]
)  # fmt: skip
_KEPT = frozenset(
    ["code", "iframe", "kbd", "math", "noembed", "noframes", "pre", "samp", "script", "style", "svg", "textarea", "xmp"]
)
_SPACE = " \t\n\r\f"  # of HTML: U+00A0 is none
_BLANKS = re.compile(f"[{_SPACE}]+")


class Markup:
    """A document, or a fragment of one, with the texts in it that are to be translated.

    A text is what stands between two block elements; inline elements stay inside it. What is not translated stays as it
    is written: comments, declarations, attributes, `script`, `style`, `code`, `pre`, `kbd`, `samp`, `textarea`, `svg`,
    `math`, and every element with `translate="no"` or, in HTML, the class `notranslate`. An output that is the same as
    its text leaves all of it as it is written.

    Args:
        text: the markup. HTML may be written loosely; XML must be well-formed; it may have several elements at the top.
        kind: "html" or "xml". In XML names say nothing: an element that stands beside text somewhere is inline.
        ignore_tags: elements whose content is not translated.
        splitting_tags: elements at which a text begins or ends.
        non_splitting_tags: elements that stand inside a text.
        collapse: make each run of white space in `texts` one blank; None does so in HTML.
        outline_detection: of XML: find out which elements are inline; if not, all are but `splitting_tags`.

    Attributes:
        texts: in order, entities resolved.

    Raises:
        DataError: XML is not well-formed, or declares entities.
    """

    def __init__(
        self,
        text: str,
        kind: Kind,
        *,
        ignore_tags: Collection[str] = (),
        splitting_tags: Collection[str] = (),
        non_splitting_tags: Collection[str] = (),
        collapse: bool | None = None,
        outline_detection: bool = True,
    ) -> None:
        self._kind = kind
        found = list(tokens(text, kind))
        named = [frozenset(map(str.lower, some) if kind == "html" else some)
                 for some in (ignore_tags, splitting_tags, non_splitting_tags)]  # fmt: skip
        self._ignored, splitting, inline = named
        blocks = _BLOCKS if kind == "html" else _outline(found) if outline_detection else frozenset[str]()
        self._blocks = (blocks - inline) | splitting
        self._parts: list[str | _Flow] = []
        self._collapses = kind == "html" if collapse is None else collapse
        self._flow = _Flow(self._collapses)
        self._read(found)
        self.texts: list[str] = [part.text for part in self._parts if isinstance(part, _Flow)]

    def put(self, outputs: Sequence[MarkedOutput]) -> str:
        """Return the markup with an output in place of each text.

        Each tag is there once. One with content wraps the words that are aligned to what it wrapped; one without stands
        beside the word that is aligned to its neighbour; where no alignment is given they go by relative position.

        Args:
            outputs: one for each of `texts`.

        Raises:
            ValueError: there are not as many outputs as texts.
        """
        if len(outputs) != len(self.texts):
            raise ValueError(f"{len(outputs)} outputs for {len(self.texts)} texts")
        following = iter(outputs)
        return "".join(part if isinstance(part, str) else part.put(next(following)) for part in self._parts)

    def _read(self, found: Sequence[Token]) -> None:
        ends, place = self._kept(found), 0
        while place < len(found):
            token, end = found[place], ends.get(place)
            if end is not None:
                raw = "".join(one.raw for one in found[place : end + 1])
                if token.name in self._blocks:
                    self._end_text(raw)
                else:
                    self._flow.add_single(raw)
                place = end
            elif token.name in self._blocks:
                self._end_text(token.raw)
            else:
                self._flow.add(token)
            place += 1
        self._end_text("")

    def _end_text(self, raw: str) -> None:
        self._parts += [*self._flow.parts(), raw]
        self._flow = _Flow(self._collapses)

    def _kept(self, found: Sequence[Token]) -> dict[int, int]:
        """By the places of start tags whose content is not translated those of their end tags."""
        ends: dict[int, int] = {}
        begun: dict[str, list[int]] = {}
        for place, token in enumerate(found):
            if token.kind == "start":
                begun.setdefault(token.name, []).append(place)
            elif token.kind == "end" and begun.get(token.name):
                start = begun[token.name].pop()
                if self._is_kept(found[start]):
                    ends[start] = place
        return ends

    def _is_kept(self, token: Token) -> bool:
        if token.name in self._ignored or (self._kind == "html" and token.name in _KEPT):
            return True
        if "translate" not in token.raw:
            return False
        attributes = token.attributes()
        classes = attributes.get("class", "").split() if self._kind == "html" else ()
        return attributes.get("translate", "").lower() == "no" or "notranslate" in classes


class _Flow:
    """What stands between two block elements: a text, and the tags in it."""

    def __init__(self, collapses: bool) -> None:
        self._collapses = collapses
        self._before = self._after = ""  # white space
        self._raw: list[str] = []
        self._pieces: list[str] = []
        self._size = 0
        self._root = Tag("", 0)
        self._open = [("", self._root)]
        self._names = Counter[str]()
        self._ends_blank = False
        self._single: Tag | None = None  # the last thing before what comes next
        self._whole = self.text = ""

    def add(self, token: Token) -> None:
        """Append a token that is no block."""
        if token.kind == "text":
            self._add_text(token)
        elif token.kind == "start":
            tag = self._add_tag(token.raw)
            self._open.append((token.name, tag))
            self._names[token.name] += 1
        elif token.kind == "end":
            self._add_end(token)
        else:
            self.add_single(token.raw, spaced=token.kind == "empty")

    def add_single(self, raw: str, spaced: bool = True) -> None:
        """Append what holds no words; `spaced` if a blank beside it belongs there."""
        tag = self._add_tag(raw)
        tag.single = True
        if spaced:
            tag.blank_left = self._ends_blank
            self._single, self._ends_blank = tag, False

    def _add_tag(self, raw: str) -> Tag:
        self._go_on()
        self._raw.append(raw)
        tag = Tag(raw, self._size, ends=self._size)
        self._open[-1][1].inner.append(tag)
        return tag

    def _add_text(self, token: Token) -> None:
        self._go_on()
        raw, text = token.raw, token.text
        if not self._raw:
            blank = len(raw) - len(raw.lstrip(_SPACE))
            self._before += raw[:blank]
            raw, text = raw[blank:], text[blank:]
        if blank := len(raw) - len(raw.rstrip(_SPACE)):
            self._after, raw, text = raw[-blank:], raw[:-blank], text[:-blank]
        self._say(raw, text)

    def _go_on(self) -> None:
        """What was white space at the end is inside."""
        blank, self._after = self._after, ""
        self._say(blank, blank)

    def _say(self, raw: str, text: str) -> None:
        if not raw:
            return
        self._raw.append(raw)
        if self._single is not None:
            self._single.blank_right, self._single = text[:1].isspace(), None
        self._ends_blank = text[-1:].isspace()
        text = _BLANKS.sub(" ", text) if self._collapses else text
        if self._pieces and self._pieces[-1][-1].isspace() and text[:1] == " ":
            text = text[1:]
        if text:
            self._pieces.append(text)
            self._open[-1][1].texts.append((self._size, self._size + len(text)))
            self._size += len(text)

    def _add_end(self, token: Token) -> None:
        if self._names[token.name]:
            self._go_on()
            self._raw.append(token.raw)
            while self._open[-1][0] != token.name:
                self._close()
            self._close().end = token.raw
        elif len(self._open) == 1:  # it began before this text
            root, held = self._root, self._root.inner
            root.inner = []
            tag = self._add_tag("")
            self._raw.append(token.raw)
            tag.begins, tag.end, tag.open_left = 0, token.raw, True
            tag.texts, tag.inner, root.texts = root.texts, held, []
        else:
            self._add_tag(token.raw).single = True

    def _close(self) -> Tag:
        name, tag = self._open.pop()
        tag.ends = self._size
        self._names[name] -= 1
        return tag

    def parts(self) -> Iterator[str | _Flow]:
        """Yield it, between white space; or only what is written, if that is no text."""
        text = "".join(self._pieces)
        yield self._before
        if text.strip():
            while len(self._open) > 1:
                self._close().open_right = True
            self._root.ends, self._whole, self.text = self._size, text, text.strip()
            yield self
        else:
            yield "".join(self._raw)
        yield self._after

    def put(self, output: MarkedOutput) -> str:
        """Return what is written, with an output in place of the text."""
        if output.text == self.text:
            return "".join(self._raw)
        before, _, after = self._whole.partition(self.text)
        return put_tags(self._root, self._whole, output.between(before, after))


def _outline(found: Iterable[Token]) -> frozenset[str]:
    """The names of the elements of XML that never stand beside text."""
    names, inline = set[str](), set[str]()
    above: list[tuple[set[str], bool]] = [(set(), False)]
    for token in found:
        children, mixed = above[-1]
        if token.kind in ("start", "empty"):
            names.add(token.name)
            children.add(token.name)
        if token.kind == "text" and token.text.strip():
            above[-1] = children, True
        elif token.kind == "start":
            above.append((set(), False))
        elif token.kind == "end":
            inline |= children if mixed else set()
            above.pop()
    children, mixed = above[0]
    return frozenset(names - inline - (children if mixed else set()))
