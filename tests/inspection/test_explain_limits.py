"""What `explain` does with long texts, long outputs, and words that the vocabulary lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.config import DecodingConfig
from dragoman.errors import DataError
from dragoman.inspection import explain
from dragoman.inspection.gaps import explain_filling
from dragoman.language import Completer, Filler
from dragoman.models import build_model
from dragoman.nn import MaskedLM
from dragoman.text import Vocabulary
from dragoman.text.tokenizer import special_tokens
from end_to_end import small


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder-only model that never ends by itself, and may go on for long."""
    pair = small.word_pair()
    config = small.shape(pair, "causal")
    model = small.model(config)
    model.generator.bias.data[3] = -1e4
    folder = tmp_path_factory.mktemp("endless") / "model"
    return small.save(folder, model, config, pair, DecodingConfig(max_length_offset=1000))


def test_an_output_is_cut_where_it_can_no_longer_be_shown(endless: Path) -> None:
    trace = explain(endless, "ba ce")
    assert len(trace.output.ids) == 256 + 1


def test_a_completion_begins_with_the_prompt_as_it_was_written(endless: Path) -> None:
    prompt = "ba 猫 zzz"
    trace = explain(endless, prompt, max_length=6)
    completer = Completer.from_pretrained(endless)
    [[expected]] = completer.complete([prompt], completer.options({"beam_size": 1, "max_length": 6}))
    assert trace.output.text == expected.text
    assert trace.output.text.startswith(prompt + " ")


def test_too_many_gaps_are_refused_before_any_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = Vocabulary("word", [*special_tokens(mask=True), *small.WORDS])
    pair = small.TokenizerPair(vocabulary, vocabulary)
    model = build_model(small.shape(pair, "masked")).eval()
    assert isinstance(model, MaskedLM)
    filler = Filler(model, vocabulary)
    monkeypatch.setattr(Filler, "fill", lambda *_, **__: pytest.fail("filled"))
    with pytest.raises(DataError, match="too long to be explained"):
        explain_filling(filler, "<mask> " * 300)


@pytest.mark.parametrize("numbers", [True, False])
def test_json_in_pieces_is_the_tree(numbers: bool) -> None:
    trace = explain(small.translator(small.word_pair()), "ba ce di", "fo gu")
    for chosen in (trace, trace.select("steps")):
        pieces = list(chosen.json(numbers=numbers, pictures=["a.png"]))
        expected = {**chosen.to_dict(numbers=numbers), "pictures": ["a.png"]}
        assert json.loads("".join(pieces)) == json.loads(json.dumps(expected))
    assert len(list(trace.json())) == len(trace.stages) + 2


def test_settings_that_cannot_be_read_leave_out_the_schedule_and_nothing_else(tmp_path: Path) -> None:
    folder = small.saved(tmp_path / "model", small.word_pair())
    whole = explain(folder, "ba ce")
    (folder / "config.toml").write_bytes(b"[training\n\xff")
    trace = explain(folder, "ba ce")
    (note,) = trace.notes
    assert (whole.notes, trace.schedule) == ((), None)
    assert "config.toml: not a TOML file" in note
    lines, before = trace.lines(), whole.lines()
    head = before.index("")
    more = len(lines) - len(before)
    assert "".join(lines[head : head + more]).replace(" ", "") == note.replace(" ", "")
    assert [*lines[:head], *lines[head + more :]] == before
