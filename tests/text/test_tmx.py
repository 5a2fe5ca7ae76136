"""Translation memories: what of them is text, and what they may not do."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.text import PairFormat, ParallelCorpus, ReadCounts

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="en"/><body>\n'
FOOT = "</body></tmx>\n"


def unit(*texts: tuple[str, str]) -> str:
    return "<tu>" + "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in texts) + "</tu>\n"


def put(path: Path, *units: str, head: str = HEAD) -> Path:
    data = (head + "".join(units) + FOOT).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def corpus(path: Path, columns: str | None = "source=de,target=en", *languages: str, **policy: Any) -> ParallelCorpus:
    return ParallelCorpus.from_pairs([path], form=PairFormat.of(columns, *languages), **policy)


def read(path: Path, *how: Any, **policy: Any) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in corpus(path, *how, **policy)]


CAT = unit(("en-US", "a cat"), ("DE-de", "eine Katze"))


@pytest.mark.parametrize("name", ["x.tmx", "x.TMX", "x.tmx.gz"])
def test_sides_are_chosen_by_language(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / name, CAT, unit(("de", "zwei"), ("fr", "deux"), ("en", "two"), ("en", "a second two")))
    expected = [("eine Katze", "a cat"), ("zwei", "two")]
    assert read(path) == read(path, None, "de", "en") == read(path, "source=German,target=English") == expected
    assert read(path, "source=2,target=1", "en", "de") == [(target, source) for source, target in expected]
    assert [pair.line for pair in corpus(path)] == [3, 4]


def test_variants_of_one_language_may_be_the_sides(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tmx", unit(("en-GB", "colour"), ("en-US", "color")))
    assert read(path, "source=en-US,target=en-GB") == [("color", "colour")]


def test_units_without_a_side_are_counted(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tmx", CAT, unit(("de", "nur")), '<tu><tuv xml:lang="de"/><tuv xml:lang="en"/></tu>', CAT)
    counts = ReadCounts()
    assert len(list(corpus(path).read(counts))) == 2
    assert counts == ReadCounts(read=4, incomplete=2)
    assert read(put(tmp_path / "empty.tmx")) == []


def test_code_is_left_out_and_text_is_not(tmp_path: Path) -> None:
    german = (
        'Ein <bpt i="1">&lt;b></bpt>rotes<ept i="1">&lt;/b></ept> <hi type="x">Haus <it pos="begin">{i}</it>am</hi> '
        '<ph>&lt;img alt="<sub>See</sub>"></ph><ut>{x}</ut>!'
    )
    path = put(tmp_path / "x.tmx", unit(("de", german), ("en", "1 &lt; 2 &amp; <![CDATA[<b>]]> &#x732b;")))
    assert read(path) == [("Ein rotes Haus am See!", "1 < 2 & <b> 猫")]


def test_a_line_break_is_a_blank_and_none_at_an_end(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tmx", unit(("de", "\r\n   eins\n\t zwei\r\n\r\n  drei\n  "), ("en", " a&#13;&#10;b  c ")))
    assert read(path) == [("eins zwei drei", " a b  c ")]


def test_the_direction_is_never_guessed(tmp_path: Path) -> None:
    path = put(tmp_path / "x.tmx", unit(("de", "nur")), unit(("de", "eins"), ("en", "one")))
    with pytest.raises(ConfigError, match="source=de,target=en, or the other way round: --columns source=en,target=de"):
        read(path, None)
    with pytest.raises(ConfigError, match="which language is the source"):
        read(put(tmp_path / "y.tmx", unit(("de", "nur"))), "source=1,target=2")
    with pytest.raises(DataError, match=r"no unit has a text in both(.|\n)*found:    de, en"):
        read(path, "source=de,target=fr")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + CAT + "<tu>\n<tuv></tu>", "line 5: the XML is not well-formed(.|\n)*mismatched tag"),
        (HEAD + CAT, "line 4: the XML is not well-formed(.|\n)*no element found"),
        ("", "not well-formed"),
        ("no XML", "line 1: the XML is not well-formed"),
        ("<html/>", "not a translation memory"),
        ('<!DOCTYPE tmx [<!ENTITY a "b">]>' + HEAD.partition("\n")[2] + CAT + FOOT, "declares markup of its own"),
        ('<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx>' + unit(("de", "a&nbsp;b"), ("en", "c")) + "</tmx>", "&nbsp;"),
        ("<tmx>" + unit(("de", "a&nbsp;b"), ("en", "c")) + "</tmx>", "undefined entity"),
        (HEAD + unit(("de", "\x01"), ("en", "c")) + FOOT, "line 3: the XML is not well-formed"),
        (HEAD + unit(("de", "&#x1f;"), ("en", "c")) + FOOT, "line 3: the XML is not well-formed"),
        ("<tmx>" + "<a>" * 100_000, "not a translation memory(.|\n)*deep"),
        ("<tmx>" + "".join(f"<a{n}/>" for n in range(100_000)), "not a translation memory(.|\n)*other names"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_what_is_no_translation_memory_stops(tmp_path: Path, text: str, message: str, policy: Any) -> None:
    path = tmp_path / "x.tmx"
    path.write_text(text, encoding="utf-8")
    if policy == "skip" and ("\x01" in text or "&#x1f;" in text):
        assert read(path, on_bad_text=policy) == []
        return
    with pytest.raises(DataError, match=message) as caught:
        read(path, on_bad_text=policy)
    assert caught.value.file == str(path)
    assert len(str(caught.value)) < 1000


def test_the_document_type_of_the_standard_is_never_fetched(tmp_path: Path) -> None:
    path = put(
        tmp_path / "x.tmx", CAT, head='<!DOCTYPE tmx SYSTEM "http://unreachable.invalid/tmx14.dtd">\n<tmx><body>'
    )
    assert read(path) == [("eine Katze", "a cat")]


def test_what_is_not_text_follows_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "x.tmx"
    bad = unit(("de", "ein@s &#x1f;&#xD800;\x02"), ("en", "one \ufffd &#x732b; &amp;"))
    path.write_bytes((HEAD + bad + CAT + FOOT).encode().replace(b"@", b"\xff"))
    with pytest.raises(DataError, match="line 3"):
        read(path)
    counts = ReadCounts()
    found = [(pair.source, pair.target) for pair in corpus(path, on_bad_text="replace").read(counts)]
    assert found == [("ein\ufffds \ufffd\ufffd\ufffd", "one \ufffd 猫 &"), ("eine Katze", "a cat")]
    assert counts == ReadCounts(read=2, replaced=1)
    counts = ReadCounts()
    assert [pair.source for pair in corpus(path, on_bad_text="skip").read(counts)] == ["eine Katze"]
    assert counts == ReadCounts(read=2, skipped=1)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "iso-8859-1"])
@pytest.mark.parametrize("policy", ["stop", "replace"])
def test_encodings_that_the_file_declares(tmp_path: Path, encoding: str, policy: Any) -> None:
    named = {"utf-16-le": "UTF-16", "utf-8-sig": "UTF-8"}.get(encoding, encoding)
    text = f'<?xml version="1.0" encoding="{named}"?><tmx>' + unit(("de", "Käse"), ("en", "cheese")) + "</tmx>"
    path = tmp_path / "x.tmx"
    path.write_bytes(("\ufeff" if encoding == "utf-16-le" else "").encode("utf-16-le") + text.encode(encoding))
    assert read(path, on_bad_text=policy) == [("Käse", "cheese")]


@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_units_across_blocks_are_whole(tmp_path: Path, policy: Any) -> None:
    texts = [f"{n} &#{0x4E00 + n % 5000}; ä&amp;" for n in range(4_000)]
    path = put(tmp_path / "x.tmx", *(unit(("de", text), ("en", text)) for text in texts))
    strict = read(path)
    assert len(strict) == len(texts)
    assert strict == read(path, on_bad_text=policy)


BOMBS = {
    "one text": ('<tu><tuv xml:lang="de"><seg>', "a", 100 << 20, ""),
    "one comment": ("<!--", "a", 100 << 20, ""),
    "one tag": ('<tu x="', "a", 100 << 20, ""),
    "texts of a unit": ("<tu>", '<tuv xml:lang="fr"><seg>abc</seg></tuv>', 2_000, "</tu>"),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("policy", ["stop", "replace"])
def test_memory_is_bounded(tmp_path: Path, name: str, policy: Any) -> None:
    start, block, times, end = BOMBS[name]
    path = tmp_path / "x.tmx.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write((HEAD + start).encode())
        stream.write(block.encode() * times)
        stream.write((end + FOOT).encode())
    tracemalloc.start()
    try:
        with pytest.raises(DragomanError):
            read(path, on_bad_text=policy)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 << 20, name


TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff\ufdd0"), max_size=20
)  # fmt: skip


@given(pairs=st.lists(st.tuples(TEXT, TEXT), max_size=6), policy=st.sampled_from(["stop", "replace", "skip"]))
def test_what_is_written_is_read_back(pairs: list[tuple[str, str]], policy: Any) -> None:
    with TemporaryDirectory() as folder:
        units = [unit(("en", escape(target)), ("de", escape(source))) for source, target in pairs]
        assert read(put(Path(folder, "x.tmx"), *units), on_bad_text=policy) == pairs
