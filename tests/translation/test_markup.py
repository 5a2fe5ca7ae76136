"""Markup in which only texts change: nothing is lost, doubled, moved out of its nest, or added by an output."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from html.parser import HTMLParser
from xml.parsers import expat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.translation.markup import MarkedOutput, Markup
from dragoman.translation.markup_tokens import Kind, tokens
from dragoman.translation.spans import Word

WORDS = ["cats", "eat", "fish,", "Dogs!", "&amp;", "a&lt;b", "猫吃鱼。", "é", "\xa0", "1.", "&nbsp;", '"x"']
INLINE, BLOCK = ["b", "i", "a", "span", "g"], ["p", "div", "li", "td"]


def tree(depth: int) -> st.SearchStrategy[str]:
    """Well-formed markup, inline elements in blocks and the other way round."""
    leaves = st.sampled_from(
        [*WORDS, " ", "\n  ", "", "<br/>", '<x id="1"/>', "<!-- <b> & -->", '<code translate="no">f(a)</code>']
    )
    inner = leaves if depth == 0 else st.one_of(leaves, tree(depth - 1))
    named = st.sampled_from([*INLINE, *BLOCK]).flatmap(
        lambda name: st.lists(inner, max_size=5).map(lambda parts: f'<{name} q="a&gt;">{" ".join(parts)}</{name}>')
    )
    return st.one_of(leaves, named)


documents = st.lists(tree(3), max_size=6).map("".join)
loose = st.lists(
    st.one_of(
        st.text(max_size=5),
        st.sampled_from([
            "<", ">", "</", "<!", "<!--", "-->", "<?", "<b", "<b>", "</b>", "<i>", "</i>", "<p>", "</p>", "<br>", '"',
            "'", "=", '="', "&", "&lt", "&amp;", "<script>", "</script>", "<![CDATA[", "]]>", " ", "word", "<code>",
            "</code>",
            "<a href=x>", "<a title='>'>", "</a >", "<x/>", "\n", "<textarea>", "<span translate=no>", "</span>", "<é>",
        ]),
    )
).map("".join)  # fmt: skip


def shuffled(text: str, draw: random.Random) -> MarkedOutput:
    """An output of other words, in another number and order, each aligned to any part of the text, or to none."""
    words, output = [], ""
    for number in range(draw.randrange(8)):
        output += draw.choice(["", " ", " "])
        start = len(output)
        output += draw.choice(["Katzen", "<b>", "&amp;", "</p>", "鱼", "x.", "(ja)"])
        parts = sorted(draw.sample(range(len(text) + 1), min(2 * draw.randrange(3), len(text) + 1)))
        sources = tuple(zip(parts[::2], parts[1::2], strict=False))
        words.append(Word(start, len(output), 0.5, sources if number % 3 else ()))
    return MarkedOutput(output, words if draw.random() < 0.8 else ())


def tags(text: str, kind: Kind) -> Counter[str]:
    return Counter(token.raw for token in tokens(text, kind) if token.kind != "text")


class Seen(HTMLParser):
    """The text that a browser would show, and what it would take for tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.one_of(documents, loose))
def test_outputs_that_are_the_texts_give_the_document_back(text: str) -> None:
    markup = Markup(text, "html")
    assert markup.put([MarkedOutput(one) for one in markup.texts]) == text
    assert all(one.strip() for one in markup.texts)
    assert not any(re.search("[\n\t]|  ", one) for one in markup.texts)


@given(documents, st.booleans(), st.booleans())
def test_so_it_is_in_xml(text: str, outline: bool, split: bool) -> None:
    text = text.replace("&nbsp;", "&#160;")
    markup = Markup(text, "xml", outline_detection=outline, splitting_tags=["p"] if split else [])
    assert markup.put([MarkedOutput(one) for one in markup.texts]) == text


@given(documents, st.sampled_from(["html", "xml"]), st.integers(0, 2**32))
def test_no_tag_is_lost_or_doubled_and_nesting_stays_whatever_the_alignment(text: str, kind: Kind, seed: int) -> None:
    text = text.replace("&nbsp;", "&#160;")
    markup = Markup(text, kind, outline_detection=bool(seed % 2))
    draw = random.Random(seed)
    outputs = [shuffled(one, draw) for one in markup.texts]
    found = markup.put(outputs)
    assert tags(found, kind) == tags(text, kind)
    parser = expat.ParserCreate()
    parser.Parse(f"<r>{found}</r>", True)
    wanted = "".join(Markup(text, kind, outline_detection=bool(seed % 2)).put([MarkedOutput("")] * len(outputs)))
    assert re.sub(r"\s", "", Seen(found).text) != "" or not any(one.text.strip() for one in outputs)
    assert len(re.sub(r"\s", "", Seen(found).text)) == len(re.sub(r"\s", "", Seen(wanted).text)) + sum(
        len(re.sub(r"\s", "", one.text)) for one in outputs
    )


@given(loose, st.integers(0, 2**32))
def test_loose_html_keeps_its_tags_too(text: str, seed: int) -> None:
    markup = Markup(text, "html")
    draw = random.Random(seed)
    outputs = [shuffled(one, draw) for one in markup.texts]
    assert tags(markup.put(outputs), "html") == tags(text, "html")


def words(source: str, target: str, pairs: list[tuple[int, int]]) -> MarkedOutput:
    """An output with an alignment of (source, output) words, counted from 0."""
    left, right = ([found.span() for found in re.finditer(r"\S+", text)] for text in (source, target))
    return MarkedOutput(
        target, [Word(*span, 1.0, tuple(left[i] for i, j in sorted(pairs) if j == k)) for k, span in enumerate(right)]
    )


def put(text: str, target: str, pairs: list[tuple[int, int]] | None = None, kind: Kind = "html") -> str:
    markup = Markup(text, kind)
    (source,) = markup.texts
    return markup.put([MarkedOutput(target) if pairs is None else words(source, target, pairs)])


@pytest.mark.parametrize(
    ("text", "target", "pairs", "found"),
    [
        ("<p>the <b>red</b> cat</p>", "le chat rouge", [(0, 0), (1, 2), (2, 1)], "<p>le chat <b>rouge</b></p>"),
        ("<b>a <i>b</i></b> c", "C B A", [(0, 2), (1, 1), (2, 0)], "C <b><i>B</i> A</b>"),
        ("<b>a</b> <i>b</i> c", "C B A", [(0, 2), (1, 1), (2, 0)], "C <i>B</i> <b>A</b>"),
        ("<b>not</b> here", "n' est pas ici", [(0, 0), (0, 2), (1, 3)], "<b>n' est pas</b> ici"),
        ("a <b>b</b>, c!", "B, A C!", [(1, 0), (0, 1), (2, 2)], "<b>B</b>, A C!"),
        ("Say <b>no!</b> now", "Jetzt nein! sagen", [(0, 2), (1, 1), (2, 0)], "Jetzt <b>nein!</b> sagen"),
        ('one<x id="1"/> two', "zwei eins", [(0, 1), (1, 0)], 'zwei eins<x id="1"/>'),
        ('one <x id="1"/>two', "zwei eins", [(0, 1), (1, 0)], '<x id="1"/>zwei eins'),
        ("<code>f</code> is <code>g</code>", "ist", [(0, 0)], "<code>f</code> ist <code>g</code>"),
        ("use <code>f</code> here", "hier nutzen", [(0, 1), (1, 0)], "hier nutzen <code>f</code>"),
        ("a <b>the</b> c", "A C", [(0, 0), (2, 1)], "A<b></b> C"),
        ("<b>all of it</b>", "alles", [], "<b>alles</b>"),
        ("<b>x y</b>", "", [], "<b></b>"),
    ],
)
def test_tags_follow_the_alignment(text: str, target: str, pairs: list[tuple[int, int]], found: str) -> None:
    assert put(text, target, pairs) == found
    if "<code" not in text:
        assert put(f"<t>{text}</t>", target, pairs, "xml") == f"<t>{found}</t>"


@pytest.mark.parametrize(
    ("text", "target", "found"),
    [
        ("<p>Hello <b>my</b> friend</p>", "HELLO MY FRIEND", "<p>HELLO <b>MY</b> FRIEND</p>"),
        ("one two <b>three four</b>", "eins zwei drei vier", "eins zwei <b>drei vier</b>"),
        ('a <a href="x&amp;y">b</a><x/>.', "A B.", 'A <a href="x&amp;y">B</a><x/>.'),
        ("cats eat <b>fish</b>", "猫吃鱼", "猫吃<b>鱼</b>"),
        ("<i>a</i> <u>b</u>", "long", None),
    ],
)
def test_without_alignment_tags_go_by_relative_position(text: str, target: str, found: str | None) -> None:
    placed = put(text, target)
    assert placed == found or found is None
    assert tags(placed, "html") == tags(text, "html")
    assert re.sub("<[^>]*>", "", placed) == target


def test_blocks_end_a_text_and_inline_elements_do_not() -> None:
    text = (
        "<!DOCTYPE html>\n<html><head><title>A &amp; B</title><style>p > a {}</style></head>\n<body>\n"
        '  <p>Hello <b>my</b>\n  friend<br>see <a\nhref="x">this</a> <!-- c -->.</p>\n  <pre>a <b>b</b></pre>'
        '<ul><li>one<li>two &lt; 3</ul><td>&nbsp;</td><div translate="no">no<div>no</div>no</div>'
        '<p class="x notranslate">no</p><script>if (a < b) "<p>x</p>"</script>end <code>f()</code></body></html>\n'
    )
    markup = Markup(text, "html")
    assert markup.texts == ["A & B", "Hello my friend", "see this .", "one", "two < 3", "end"]
    assert markup.put([MarkedOutput(one) for one in markup.texts]) == text
    found = markup.put([MarkedOutput(one.upper()) for one in markup.texts])
    assert found.lower() == text.lower().replace("\n  friend", " friend").replace(" <!-- c -->.", "<!-- c --> .")
    with pytest.raises(ValueError):
        markup.put([])


def test_outputs_are_text_and_nothing_else() -> None:
    hostile = '<script>alert(1)</script> & "x" </p>'
    assert put("<p>hi <b>you</b></p>", hostile, []).count("<script") == 0
    assert Seen(put("<p>hi</p>", hostile)).text == hostile


@pytest.mark.parametrize(
    "text", ["a < b", "<3", "a <b", "x </ y", "<p>a<b>b</p>c</b>", "&bogus; &#0; &", "<a x='>b", "</p>a"]
)
def test_loose_html_is_read_as_it_is(text: str) -> None:
    markup = Markup(text, "html")
    assert markup.put([MarkedOutput(one) for one in markup.texts]) == text
    markup.put([MarkedOutput(one + "!") for one in markup.texts])


@pytest.mark.parametrize(
    ("text", "line"),
    [("<a>b", 1), ("a\n<b>c</d>", 2), ("a & b", 1), ("a < b", 1), ("<a x=1/>", 1), ("&nbsp;", 1), ("</r><r>", 1),
     ("<!DOCTYPE r [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><r>&x;</r>", None),
     ("<!DOCTYPE r [<!ENTITY a 'aa'><!ENTITY b '&a;&a;'>]><r>&b;</r>", None), ("\ud800", None), ("\0", 1)],
)  # fmt: skip
def test_what_is_no_xml_is_refused(text: str, line: int | None) -> None:
    with pytest.raises(DataError) as told:
        Markup(text, "xml")
    assert told.value.line == line


def test_xml_finds_its_outline() -> None:
    text = '<?xml version="1.0"?>\n<doc><s>one <g id="1">two</g></s>\n <s><g id="2">three</g></s><k>four</k></doc>'
    assert Markup(text, "xml").texts == ["one two", "three", "four"]
    assert Markup(text, "xml", ignore_tags=["k", "g"]).texts == ["one"]
    assert Markup(text, "xml", splitting_tags=["g"]).texts == ["one", "two", "three", "four"]
    assert Markup(text, "xml", outline_detection=False).texts == ["one two\n threefour"]
    assert Markup(text, "xml", outline_detection=False, splitting_tags=["s"]).texts == ["one two", "three", "four"]
    assert Markup(text, "xml", non_splitting_tags=["k", "s"]).texts == ["one two\n threefour"]
    assert Markup("<s>a <![CDATA[<b> &]]></s>", "xml").texts == ["a <b> &"]
    assert Markup("a <P>b</P>", "xml").texts == ["a b"]


def test_elements_around_several_texts_stay_around_them() -> None:
    text = "<b>one<p>two</p>three</b> four <i>five<p>six</p></i>"
    markup = Markup(text, "html")
    found = markup.put([MarkedOutput(one.upper()) for one in markup.texts])
    assert found == text.upper().replace("B>", "b>").replace("P>", "p>").replace("I>", "i>")
    crossed = words("three four five", "FIVE FOUR THREE", [(0, 2), (1, 1), (2, 0)])
    found = markup.put([MarkedOutput("ONE"), MarkedOutput("TWO"), crossed, MarkedOutput("SIX")])
    assert markup.texts == ["one", "two", "three four five", "six"]
    assert found.startswith("<b>ONE<p>TWO</p>")
    assert found.index("</b>") < found.index("<i>")
    assert tags(found, "html") == tags(text, "html")


@pytest.mark.parametrize(
    "unit",
    ["<b>", "<b>x", "</b>", "<b>x</b> y ", "<code>", "<!--", "<a ", '<a ="', '<a x=">"', "<", "<x/>a ", "<p>a",
     "<i><b>x </i></b>", "<script>", "<br translate=no>", "<u translate=no>", "&"],
)  # fmt: skip
def test_the_time_grows_with_the_length(unit: str) -> None:
    def seconds(size: int) -> float:
        text, started = unit * (size // len(unit)) + "x", time.process_time()
        markup = Markup(text, "html")
        markup.put([MarkedOutput(one.upper()) for one in markup.texts])
        return time.process_time() - started

    seconds(100)
    assert seconds(20_000) < 40 * seconds(2000) + 0.3
