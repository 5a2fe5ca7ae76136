"""`dragoman explain`, as a shell would call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli import make_app
from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError, DataError, DragomanError, ModelError
from dragoman.inspection import explain as run_explanation
from end_to_end import small

TEXT = "ba ce di"
Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.saved(tmp_path_factory.mktemp("explain") / "model", small.word_pair())


@pytest.fixture
def verb(capfd: pytest.CaptureFixture[str]) -> Verb:
    app = make_app()

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            app(args=["explain", *map(str, arguments)])
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_it_prints_the_lines_of_the_trace_and_what_else_there_is(verb: Verb, model: Path) -> None:
    status, out, err = verb(model, TEXT)
    assert (status, err) == (0, "")
    expected = "\n".join(run_explanation(model, TEXT).lines())
    assert out.startswith(expected)
    assert "--stage NAME" in out.removeprefix(expected)


def test_choices_reach_the_trace(verb: Verb, model: Path) -> None:
    _, out, _ = verb(model, TEXT, "--layer", 1, "--head", 0, "--numbers", 2, "--stage", "encoder")
    chosen = run_explanation(model, TEXT).select("encoder", layer=1, head=0)
    assert out == "\n".join(chosen.lines(numbers=2)) + "\n"
    _, out, _ = verb(model, TEXT, "--target", "fo gu", "--stage", "training")
    assert "P parallel" in out


@pytest.mark.parametrize(
    ("formula", "expected"),
    [("gnmt", "2 hypotheses, gnmt length penalty 0.7"), ("reward", "2 hypotheses, length reward 0.7")],
)
def test_a_search_is_named_with_what_ranks_its_hypotheses(
    verb: Verb, tmp_path: Path, formula: str, expected: str
) -> None:
    pair = small.word_pair()
    config = small.shape(pair)
    options = DecodingConfig(beam_size=2, length_penalty=0.7, length_penalty_formula=formula)
    saved = small.save(tmp_path / "ranked", small.model(config), config, pair, options)
    _, out, _ = verb(saved, TEXT, "--beam-size", 2)
    assert expected in out


def test_json_is_the_same_as_data(verb: Verb, model: Path, tmp_path: Path) -> None:
    _, out, _ = verb(model, TEXT, "--json", "--target", "fo gu")
    tree = json.loads(out)
    expected = run_explanation(model, TEXT, "fo gu")
    assert tree == json.loads(json.dumps({**expected.to_dict(), "pictures": []}))
    assert [stage["name"] for stage in tree["stages"]] == list(expected.stage_names)
    assert len(tree["steps"]) == len(expected.steps)
    assert {check["name"] for check in tree["checks"]} == {"sum", "observed", "padded", "parallel"}
    _, out, _ = verb(model, TEXT, "--json", "--numbers", 0)
    assert not any("values" in stage for stage in json.loads(out)["stages"])


def test_pictures_are_listed(verb: Verb, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    status, out, _ = verb(model, TEXT, "--stage", "*.cross_attention.weights", "--pictures", folder, "--format", "svg")
    assert status == 0
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [f"decoder.layers.{layer}.cross_attention.svg" for layer in (0, 1)]
    assert all(f"  {file}\n" in out for file in files)


def test_config_needs_no_model(verb: Verb) -> None:
    status, out, _ = verb("--config", "base", "--config", "num_encoder_layers=2", "--src", 7, "--tgt", 3, "--batch", 5)
    assert status == 0
    assert "[batch=5, heads=8, tgt=3, src=7]" in out
    _, out, _ = verb("--config", "base", "--json")
    assert json.loads(out)["parameters"]["total"] == 63_082_496


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give MODEL and TEXT"),
        (("somewhere",), "give MODEL and TEXT"),
        (("somewhere", TEXT, "--config", "base"), "without a model"),
        (("--config", "base", "--layer", 1), "without a model"),
        (("--config", "base", "--numbers", 3), "without a model"),
        (("--config", "base", "--beam-size", 3), "without a model"),
        (("somewhere", TEXT, "--src", 7), "go with --config"),
        (("somewhere", TEXT, "--format", "svg"), "goes with --pictures"),
        (("somewhere", TEXT, "--numbers", -1), "--numbers"),
    ],
)
def test_calls_that_cannot_be(verb: Verb, arguments: tuple[object, ...], message: str) -> None:
    status, out, err = verb(*arguments)
    assert (status, out) == (2, "")
    assert message in " ".join(err.split())


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((TEXT, "--stage", "memry"), ConfigError, "did you mean 'memory'"),
        ((TEXT, "--head", 2), ConfigError, "0 to 1, counted from 0"),
        ((TEXT, "--stage", "text", "--layer", 0), ConfigError, "text has no part in layer 0"),
        ((TEXT, "--max-length", 257), ConfigError, "an output of this length cannot be explained"),
        (("\udcff",), DataError, "an argument is not text"),
        ((TEXT, "--target", "\udcff"), DataError, "an argument is not text"),
        ((TEXT, "--pictures", "x", "--format", "gif"), ConfigError, "gif"),
        ((" ",), DataError, "nothing to explain"),
    ],
)
def test_mistakes_are_told(
    verb: Verb, model: Path, arguments: tuple[object, ...], kind: type[DragomanError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        verb(model, *arguments)
    assert message in str(caught.value)


def test_a_directory_without_a_model(verb: Verb, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model here"):
        verb(tmp_path, TEXT)
