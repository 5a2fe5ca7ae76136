"""Sources that are read with their fuzzy matches: these are no part of the sentence that is translated."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator

import pytest
import torch

from dragoman.config import DecodingConfig
from dragoman.data.filtering import Counts
from dragoman.studies.synthesis import synthesize
from dragoman.text import TokenizerPair, Vocabulary
from dragoman.text.tokenizer import EOS, SPECIALS
from dragoman.translation import Translation, Translator
from end_to_end import small

LETTERS = list("abcdefghij")
DRAW = random.Random(0)
WORDS = [" ".join(DRAW.choices(LETTERS, k=7)) for _ in range(100)]


class Perfect(Translator):
    """Writes each letter as a capital, and is done then."""

    def translate_lines(self, lines: Iterable[str], *_: object, **__: object) -> Iterator[Translation]:
        for line in lines:
            [found] = self.translate_with([line], self.decoding, prefixes=[line.upper()])
            yield dataclasses.replace(found, finished=True)


@pytest.fixture(scope="module")
def pair() -> TokenizerPair:
    source, target = (
        Vocabulary("word", [*SPECIALS, *LETTERS]),
        Vocabulary("word", [*SPECIALS, *map(str.upper, LETTERS)]),
    )
    known = [(source.encode(word), target.encode(word.upper())) for word in WORDS]
    return TokenizerPair(source, target).with_matches(known, count=2, limit=256)


@pytest.fixture(scope="module")
def translator(pair: TokenizerPair) -> Perfect:
    model = small.model(small.shape(pair), 3)
    return Perfect([model], pair, DecodingConfig(beam_size=1, max_length=7))


def test_outputs_are_aligned_to_the_sentence_alone(translator: Perfect) -> None:
    assert translator.tokenizers.encode_source(WORDS[0]).matches
    for found in translator.translate(WORDS[:20], alignments=True):
        assert found.alignment is not None
        assert [place for _, place in found.alignment] == list(range(len(found.tokens)))
        assert all(0 <= place < 7 for place, _ in found.alignment)


@pytest.mark.parametrize(("longest", "cut"), [(6, True), (7, False), (10, False), (100, False)])
def test_a_source_is_cut_only_where_it_is_too_long_itself(translator: Perfect, longest: int, cut: bool) -> None:
    [found] = translator.translate_with(WORDS[:1], translator.decoding.replace({"max_source_length": longest}))
    assert found.truncated == cut


def test_pairs_are_as_unequal_as_their_texts_are(translator: Perfect) -> None:
    counts = Counts(unit="lines")
    made = list(synthesize(translator, WORDS[:20], kind="self-training", keep_copies=True, tag="", counts=counts))
    assert (counts.read, counts.kept, made) == (20, 20, [(word, word.upper()) for word in WORDS[:20]])


def test_an_output_may_be_as_long_as_the_sentence_allows_whatever_is_read_beside_it(pair: TokenizerPair) -> None:
    options = DecodingConfig(beam_size=1, loop_guard=0, max_length_factor=1.0, max_length_offset=3)
    for tokenizers in (pair, pair.without_matches()):
        model = small.model(small.shape(tokenizers), 3)
        with torch.no_grad():
            model.generator.weight[EOS] = 0.0  # an output ends where it must
            model.generator.weight[EOS, 0] = -100.0
        translator = Translator([model], tokenizers, options)
        source = tokenizers.encode_source(WORDS[0])
        assert len(source) == 7
        assert translator.plan(options).request(source).max_length == 10
        [found] = translator.translate(WORDS[:1])
        assert len(found.tokens) <= 10
