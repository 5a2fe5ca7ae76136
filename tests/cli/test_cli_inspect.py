"""`dragoman inspect`, as a shell would call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli import make_app
from dragoman.errors import ConfigError, DataError
from dragoman.inspector import Inspection
from dragoman.inspector import inspect as look
from end_to_end import small

TEXT = "ba ce di"
Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.saved(tmp_path_factory.mktemp("inspect") / "model", small.word_pair())


@pytest.fixture
def verb(capfd: pytest.CaptureFixture[str]) -> Verb:
    app = make_app()

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            app(args=["inspect", *map(str, arguments)])
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_json_is_the_record(verb: Verb, model: Path) -> None:
    options = ("--beam-size", 3, "--head-off", "encoder.layers.1.self_attention:1", "--beside", TEXT * 2)
    status, out, err = verb(model, TEXT, "--json", *options)
    assert (status, err) == (0, "")
    expected = look(model, TEXT, beam_size=3, heads_off=[("encoder.layers.1.self_attention", 1)], beside=TEXT * 2)
    assert json.loads(out) == json.loads(expected.json())
    _, out, _ = verb(model, TEXT, "--json", "--target", "fo", "--prefix", "gu", "--no-causal-mask", "--no-padding-mask")
    asked = json.loads(out)
    assert (asked["what_if"]["causal_mask"], asked["what_if"]["padding_mask"]) == (False, False)
    assert asked["output"]["pieces"][0]["text"] == "gu"
    assert asked["reference"]["text"] == "fo"


def test_a_directory_holds_the_record_and_the_numbers(verb: Verb, model: Path, tmp_path: Path) -> None:
    status, out, err = verb(model, TEXT, "--out", tmp_path / "trace")
    assert (status, out) == (0, "")
    assert "written to" in err
    assert Inspection.load(tmp_path / "trace").record["text"] == TEXT


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((" ", "--json"), DataError, "nothing to explain"),
        ((TEXT, "--json", "--max-length", 257), ConfigError, "an output of this length"),
        ((TEXT, "--json", "--head-off", "decoder:1"), ConfigError, "no such head"),
    ],
)
def test_mistakes_are_told(verb: Verb, model: Path, arguments: tuple[object, ...], kind: type, message: str) -> None:
    app = make_app()
    with pytest.raises(kind, match=message):
        app(args=["inspect", str(model), *map(str, arguments)])


@pytest.mark.parametrize("arguments", [("--json",), ("--out", "page.html"), (TEXT, "--json", "--head-off", "nothing")])
def test_what_is_missing_is_said(verb: Verb, model: Path, arguments: tuple[object, ...]) -> None:
    status, out, err = verb(model, *arguments)
    assert (status, out) == (2, "")
    assert "--" in err
