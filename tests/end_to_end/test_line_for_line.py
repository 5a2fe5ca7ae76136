"""N lines in, N lines out, in order, whatever the lines are."""

from __future__ import annotations

import json
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Translator
from dragoman.config import DecodingConfig
from dragoman.nn import Transformer
from dragoman.search.outputs import one_line
from end_to_end import small
from end_to_end.conftest import Command, call

ODD = {
    "empty": "",
    "blanks": "  \t ",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈",
    "right to left": "\u202bשלום\u202c مرحبا",
    "combining": "a\u0301\u0302\u0303" * 20,
    "NEL and separators": "ba\x85ce\u2028di\u2029fo\x0bgu\x0cha",
    "separators only": "\u2028\x85",
    "carriage returns": "ba\rce\r",
    "controls": "\x01\x1f\x7f\ufeff\ufffe\U0010ffff",
    "special tokens": "</s> <pad> <s> <unk> <mask>",
    "blank as a letter": "\u2581ba\u2581",
    "long": "ba ce " * 16_667,
    "long word": "ki" * 50_000,
    "words": "ba ce di",
}


@pytest.fixture(scope="module")
def translator(byte_model: Path) -> Translator:
    return Translator.from_pretrained(byte_model)


@pytest.mark.parametrize("kind", ["model", "byte_model"])
def test_odd_lines_come_out_one_for_one(kind: str, dragoman: Command, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    text = "".join(f"{line}\n" for line in ODD.values())
    found = dragoman("translate", folder, "--beam-size", 2, stdin=text.encode())
    assert found.status == 0
    assert len(found.lines) == len(ODD)
    named = dict(zip(ODD, found.lines, strict=True))
    translator = Translator.from_pretrained(folder)
    for name, line in ODD.items():
        assert (named[name] == "") >= (line.strip() == ""), name
        # Here the CR before the LF is part of the line's end.
        expected = translator.translate([line.removesuffix("\r")], beam_size=2)[0]
        assert named[name] == one_line(expected.text), name
    warned = [line for line in found.err.split("\n") if line]
    numbers = [list(ODD).index("long") + 1] + [list(ODD).index("long word") + 1] * (kind == "byte_model")
    lines = f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    filled = sum(line.strip() != "" for line in ODD.values())
    of = f"{len(numbers)} of {filled} ({lines})"
    assert f"warning: sources longer than 1,024 tokens, cut there: {of}" in warned


@settings(max_examples=30)
@given(
    lines=st.lists(
        st.one_of(
            st.sampled_from([line for line in ODD.values() if len(line) < 1000]),
            st.lists(st.sampled_from(small.WORDS), max_size=5).map(" ".join),
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), max_size=8),
        ),
        max_size=12,
    ),
    ends=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
def test_any_file_comes_out_line_for_line(
    lines: list[str],
    ends: str,
    last: bool,
    byte_model: Path,
    translator: Translator,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    data = "".join(line + ends for line in lines)
    data = data if last else data.removesuffix(ends)
    (folder / "in").write_text(data, encoding="utf-8", newline="")
    arguments = ("--input", folder / "in", "--output", folder / "out", "--beam-size", 1, "--set", "max_length=4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # other tests check shapes; this one needs the time
        assert call(("translate", byte_model, *arguments)) == 0
    out = (folder / "out").read_bytes().decode("utf-8").split("\n")
    assert out.pop() == ""
    # What a line is, by the rules: LF ends it, one CR before that LF is dropped, and so is a BOM at the very start.
    *whole, rest = data.split("\n")
    expected = [line.removesuffix("\r") for line in whole] + ([rest] if rest else [])
    expected[:1] = [line.removeprefix("\ufeff") for line in expected[:1]]
    assert len(out) == len(expected)
    options = translator.options({"beam_size": 1, "max_length": 4})
    for found, line in zip(out, expected, strict=True):
        assert found == one_line(translator.translate_with([line], options)[0].text)
        assert found == "" or line.strip() != ""


def test_a_model_that_writes_line_breaks_still_writes_one_line(dragoman: Command, tmp_path: Path) -> None:
    pair = small.byte_pair()
    config = small.shape(pair)
    made = small.model(config)
    assert isinstance(made, Transformer)
    breaks = [pair.target.encode(text) for text in ("\n", "\r")]
    made.generator.bias.data[[ids[-1] for ids in breaks]] = 90.0
    folder = small.save(tmp_path / "m", made, config, pair, DecodingConfig(max_length=4, beam_size=2))
    (inner,) = Translator.from_pretrained(folder).translate(["ba"])
    assert set(inner.text) <= {"\n", "\r"}
    assert len(inner.text) == 4
    data = b"ba\nce\n\ndi\n"
    assert dragoman("translate", folder, stdin=data).lines == ["    ", "    ", "", "    "]
    for more in (("--nbest", 2), ("--scores",), ("--alignments",)):
        assert "\r" not in dragoman("translate", folder, *more, stdin=data).out
    trees = [json.loads(line) for line in dragoman("translate", folder, "--json", stdin=data).lines]
    assert [tree["line"] for tree in trees] == [1, 2, 3, 4]
    assert trees[0]["text"] == inner.text
    (tmp_path / "in").write_bytes(data)
    files = ("--source", tmp_path / "in", "--reference", tmp_path / "in", "--metric", "exact")
    assert dragoman("evaluate", folder, *files, "--hypotheses", tmp_path / "out").status == 0
    assert (tmp_path / "out").read_bytes() == b"    \n    \n\n    \n"


def test_empty_lines_keep_every_column(dragoman: Command, model: Path) -> None:
    data = b"\nba\n"
    assert dragoman("translate", model, "--scores", "--alignments", stdin=data).lines[0] == "0.0000\t\t"
    assert dragoman("translate", model, "--nbest", 2, stdin=data).lines[0] == "1\t0.0000\t"
    assert [line.split("\t")[0] for line in dragoman("translate", model, "--nbest", 2, stdin=data).lines] == list("122")
