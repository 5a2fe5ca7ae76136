"""What a verb says of options that it does not have, and of values that are none."""

from __future__ import annotations

import re

import pytest

from dragoman.cli import VERBS, main, name_of


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "--out", "x", "--max-steps", "5"], "--set training.max_steps=..."),
        (["train", "--out", "x", "--max_steps=5"], "--set training.max_steps=..."),
        (["train", "--out", "x", "--lr", "1e-3"], "--set training.learning_rate=..."),
        (["train", "--out", "x", "--fp16"], "training.precision = bfloat16"),
        (["prepare", "--out", "x", "--joined-dictionary"], "--set tokenizer.joint=..."),
        (["translate", "m", "--lenpen", "1"], "--set decoding.length_penalty=..."),
        (["translate", "m", "--repetition-penalty", "1"], "decoding.no_repeat_ngram"),
        (["translate", "m", "--lr", "1"], None),
        (["translate", "m", "--fp16"], None),
        (["train", "--out", "x", "--xyzzy"], None),
        (["info", "m", "--lenpen", "1"], None),
    ],
)
def test_an_unknown_option_is_answered(
    words: list[str], told: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(words, capsys, monkeypatch)
    assert "No such option" in said
    assert ("to do:" in said) == (told is not None)
    assert told is None or told in " ".join(said.split())


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--beam-size", "abc", "expected a whole number"),
        ("--length-penalty", "abc", "expected a number"),
        ("--threads", "0", "expected at least 1"),
        ("--unknown", "maybe", "'maybe' is not one of 'forbid', 'copy', 'keep'."),
    ],
)
def test_a_value_that_is_none_is_told_in_plain_words(
    option: str, value: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"Invalid value for '{option}': {told}\n" in refused(["translate", "m", option, value], capsys, monkeypatch)


@pytest.mark.parametrize("verb", [name_of(verb) for verb in VERBS])
def test_no_option_of_any_verb_answers_as_a_validator_does(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["dragoman", verb, "-h"])
    with pytest.raises(SystemExit):
        main()
    for option in re.findall(r"(--[\w-]+)\s+<(?:int|float)", capsys.readouterr().out):
        said = refused([verb, option, "abc"], capsys, monkeypatch)
        assert f"Invalid value for '{option}': expected a " in said
        assert not re.search("Input should|Value error|unable to parse|valid integer", said)


def refused(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said on standard error of a command that is refused."""
    monkeypatch.setattr("sys.argv", ["dragoman", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    return capsys.readouterr().err
