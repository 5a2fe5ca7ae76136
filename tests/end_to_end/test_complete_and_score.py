"""The verbs on models of one text: complete, score and info, called as a shell would call them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dragoman.language import Completer, Filler, TextScorer, summarize
from dragoman.markov import Skips
from dragoman.models import save_pretrained
from dragoman.text import TokenizerPair, Vocabulary
from dragoman.text.tokenizer import MASK_TOKEN, SPECIALS
from dragoman.translation import Translator
from end_to_end import small
from end_to_end.conftest import Command
from end_to_end.test_mistakes import refused
from language.test_filling import masked_model

PROMPTS = ["ba ce", "", "di", "ki <mask> lo"]
DATA = "".join(f"{prompt}\n" for prompt in PROMPTS).encode()


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Markov model."""
    folder, pair = tmp_path_factory.mktemp("counted"), small.word_pair()
    Skips.fit([pair.target.encode(text) for text in small.sentences(80)], len(pair.target), backoff=1.0).save(folder)
    pair.save(folder)
    return folder


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked model."""
    folder, vocabulary = tmp_path_factory.mktemp("masked"), Vocabulary("word", [*SPECIALS, MASK_TOKEN, *small.WORDS])
    pair = TokenizerPair(vocabulary, vocabulary)
    save_pretrained(folder, masked_model(vocabulary), small.shape(pair, "masked"))
    pair.save(folder)
    return folder


# complete


@pytest.mark.parametrize("kind", ["causal_model", "counted"])
def test_complete_takes_prompts_line_by_line(
    kind: str, dragoman: Command, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(kind)
    completer = Completer.from_pretrained(folder)
    best = completer.complete(PROMPTS, completer.options({"n_best": 3}))
    found = dragoman("complete", folder, "--nbest", 3, stdin=DATA)
    cut = [str(row) for row, some in enumerate(best, 1) if not some[0].finished]
    assert found.status == 0
    assert (f"({'lines' if len(cut) > 1 else 'line'} {', '.join(cut)})" in found.err) == bool(cut)
    assert found.lines == [f"{row}\t{one.score:.4f}\t{one.text}" for row, some in enumerate(best, 1) for one in some]
    plain = completer.complete(PROMPTS)
    assert dragoman("complete", folder, stdin=DATA).lines == [some[0].text for some in plain]
    assert all(some[0].text.startswith(prompt) for prompt, some in zip(PROMPTS, plain, strict=True))
    (tmp_path / "in").write_bytes(DATA)
    assert dragoman("complete", folder, "--input", tmp_path / "in").lines == [some[0].text for some in plain]
    trees = [json.loads(line) for line in dragoman("complete", folder, "--json", stdin=DATA).lines]
    assert [(tree["line"], tree["text"]) for tree in trees] == [
        (row, some[0].text) for row, some in enumerate(plain, 1)
    ]
    assert dragoman("complete", folder, stdin=b"").lines == []
    (alone,) = dragoman("complete", folder, "", "--json").lines
    assert json.loads(alone)["text"] == plain[1][0].text


def test_only_a_masked_model_sees_a_gap(dragoman: Command, masked: Path, counted: Path) -> None:
    text = "ba <mask> ce <mask>"
    (best,) = Filler.from_pretrained(masked).fill([text], n_best=4)
    assert dragoman("complete", masked, text).lines == [best[0].text]
    found = dragoman("complete", masked, text, "--nbest", 4)
    assert found.lines == [f"{one.probability:.4f}\t{one.text}" for one in best]
    tree = json.loads(dragoman("complete", masked, text, "--json").out)
    assert tree["text"] == best[0].text
    assert math.prod(tree["piece_probabilities"]) == pytest.approx(tree["probability"])
    assert dragoman("complete", masked, r"ba \<mask> <mask>").out.startswith("ba <mask> ")
    lines = dragoman("complete", masked, "--nbest", 2, stdin=f"{text}\n<mask>\n".encode()).lines
    assert [line.split("\t")[0] for line in lines] == ["1", "1", "2", "2"]
    assert dragoman("complete", counted, text).out.startswith(text)


def test_mistakes_of_complete_are_told(dragoman: Command, masked: Path, counted: Path, tmp_path: Path) -> None:
    refused(dragoman("complete", masked, "ba ce"), "there is no <mask> to fill", r"\<mask>")
    refused(dragoman("complete", masked, "<mask>", "--beam-size", 2), "without a search", "beam_size", "--nbest")
    refused(dragoman("complete", masked, "<mask>", "--nbest", 0), "at least one filling")
    refused(dragoman("complete", counted, "ba", "--input", tmp_path / "in"), "not both", "'ba' and --input")
    refused(dragoman("complete", counted, "--input", tmp_path / "none"), "cannot read the file")
    (tmp_path / "bad").write_bytes(b"fine\nb\xff\n")
    found = dragoman("complete", counted, "--input", tmp_path / "bad")
    assert (found.status, "line 2, byte 1" in found.err) == (2, True)
    found = dragoman("complete", masked, stdin=b"<mask>\nba\n")
    assert (found.status, len(found.lines), found.lines[1]) == (0, 2, ""), "the others go on"
    assert "without a <mask> to fill, and have an empty line each: line 2" in found.err


# score


@pytest.mark.parametrize("kind", ["causal_model", "counted", "masked"])
def test_score_tells_each_line_and_their_perplexity(
    kind: str, dragoman: Command, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(kind)
    expected = TextScorer.from_pretrained(folder).score(PROMPTS)
    (tmp_path / "text").write_bytes(DATA)
    found = dragoman("score", folder, "--text", tmp_path / "text")
    assert found.lines == [f"{one.log_probability:.4f}" for one in expected]
    assert found.err == f"{summarize(expected)}\n"
    assert ("pseudo-perplexity" in found.err) == (kind == "masked")
    assert dragoman("score", folder, stdin=DATA).out == found.out
    *lines, last = (json.loads(line) for line in dragoman("score", folder, "--json", "--summary", stdin=DATA).lines)
    assert [tree["log_probability"] for tree in lines] == [one.log_probability for one in expected]
    assert last["summary"]["perplexity"] == pytest.approx(summarize(expected).perplexity)
    assert len(dragoman("score", folder, "--json", stdin=DATA).lines) == len(PROMPTS)
    for line, one in zip(dragoman("score", folder, "--tokens", stdin=DATA).lines, expected, strict=True):
        pieces = line.split("\t")[1]
        wanted = list(one.tokens) if kind == "masked" else [*one.tokens, "</s>"]
        assert [piece.rsplit(":")[0] for piece in pieces.split()] == wanted


def test_score_of_pairs_ends_with_the_perplexity_of_their_targets(
    dragoman: Command, model: Path, tmp_path: Path
) -> None:
    for name in ("s", "t"):
        (tmp_path / name).write_bytes(DATA)
    expected = summarize(Translator.from_pretrained(model).score(PROMPTS, PROMPTS))
    arguments = ("score", model, "--source", tmp_path / "s", "--target", tmp_path / "t")
    assert dragoman(*arguments).err == f"{expected}\n"
    found = dragoman(*arguments, "--json", "--summary")
    assert json.loads(found.lines[-1])["summary"]["bits_per_byte"] == pytest.approx(expected.bits_per_byte)
    assert found.err == ""


def test_mistakes_of_score_are_told(
    dragoman: Command, model: Path, causal_model: Path, counted: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_bytes(DATA)
    text = ("--text", tmp_path / "text")
    refused(dragoman("score", model, *text), "scores no text by itself", "--source and --target")
    refused(dragoman("score", model, "--source", text[1]), "give --text, or --source and --target", "--source")
    refused(dragoman("score", counted, *text, "--target", text[1]), "--text, --target")
    refused(dragoman("score", counted, "--text", tmp_path / "none"), "cannot read the file")
    pairs = ("--source", text[1], "--target", text[1])
    refused(dragoman("score", counted, *pairs), "a Markov model scores lines of one text, not pairs", "--text")
    refused(dragoman("score", causal_model, *pairs), "a causal model scores lines of one text, not pairs", "--text")


# info


def test_info_describes_counts(dragoman: Command, counted: Path, masked: Path) -> None:
    found = dragoman("info", counted)
    assert found.status == 0
    assert {"  family = skips", "  k = 0.001", "  backoff = 1.0", "  text = word, 16 entries"} <= set(found.lines)
    tree = json.loads(dragoman("info", counted, "--json").out)
    assert tree["parameters"] > 0
    assert tree["checkpoints"] == []
    assert "  text = word, 17 entries" in dragoman("info", masked).lines
    assert "decoding: none" in dragoman("info", masked).lines
