"""The verb explain: what is asked for besides the walk, in both languages, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.inspector import differences, inspect
from end_to_end import small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.saved(tmp_path_factory.mktemp("explaining") / "run", small.word_pair())


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["dragoman", "explain", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_a_number_and_weights_are_told_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    place = "encoder.layers.0.self_attention.scores[0,1,0]"
    assert run(monkeypatch, folder, "ba ce", "--work-out", place, "--weights", "encoder.norm.weight") == 0
    told = capfd.readouterr().out
    assert place in told
    assert "encoder.norm.weight  [16]" in told
    assert "Step by step" not in told
    assert run(monkeypatch, folder, "ba ce", "--work-out", place, "--json", "--lang", "zh") == 0
    assert json.loads(capfd.readouterr().out)["worked"][0]["place"] == [0, 1, 0]


def test_the_systems_are_told_beside_each_other_with_where_they_part(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, folder, "ba ce", "--as", "lsdefine, marian", "--json") == 0
    tree = json.loads(capfd.readouterr().out)
    assert [one["system"] for one in tree["systems"]] == ["lsdefine", "marian"]
    written = tree["output"]
    base, other = (
        inspect(folder, "ba ce", written, views=False, beam_size=1, convention=one) for one in (None, "marian")
    )
    expected = [(one.stage, one.largest) for one in differences(base, other) if not one.stage.endswith(".mask")]
    assert [(one["stage"], one["largest"]) for one in tree["systems"][1]["differences"]] == expected
    for lang, word in (("en", "numbers part at"), ("zh", "起不同")):
        assert run(monkeypatch, folder, "ba ce", "--as", "lsdefine", "--lang", lang) == 0
        told = capfd.readouterr().out
        assert word in told
        assert tree["systems"][0]["differences"][0]["stage"] in told


@pytest.mark.parametrize(
    "options",
    [("--as", "bert"), ("--as", ","), ("--as", "d2l", "--stage", "memory"), ("--step", "2", "--target", "ce"),
     ("--lang", "de"), ("--as", "d2l", "--lang", "de"), ("--work-out", "memory"), ("--weights", "none"),
     ("--step", "99")],
)  # fmt: skip
def test_what_does_not_fit_is_refused_plainly(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    assert run(monkeypatch, folder, "ba ce", *options) == 2
    told = capfd.readouterr()
    assert "Traceback" not in told.err
    assert not told.out
