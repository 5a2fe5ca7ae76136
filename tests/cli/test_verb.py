"""An option that a verb does not have is answered where it is a setting, here or in another toolkit."""

from __future__ import annotations

import pytest


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
    from dragoman.cli import main

    monkeypatch.setattr("sys.argv", ["dragoman", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert "No such option" in said
    assert ("to do:" in said) == (told is not None)
    assert told is None or told in " ".join(said.split())
