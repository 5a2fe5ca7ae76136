"""Strings in, strings out: batch mates, caches, ensembles, prefixes, n-best lists, lengths and scores, in float64."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path

import jaxtyping
import pytest
import torch
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.engines import ModuleEngine
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.nn import StepCache, Transformer
from dragoman.search import SearchRequest, batches, beam_search, dispatch, search
from dragoman.search.outputs import one_line
from dragoman.sequences import SourceBatch
from dragoman.text import TokenizerPair, Vocabulary
from dragoman.text.tokenizer import BOS, EOS, PAD, SPECIALS
from dragoman.translation import Translator, format_translation
from dragoman.translation.results import Translation
from end_to_end import small

SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 3},
    "sampling": {"sampling": True, "temperature": 1.3, "top_k": 8, "top_p": 0.95},
}


@pytest.fixture(scope="module", params=["word", "bytes"])
def translator(request: pytest.FixtureRequest) -> Translator:
    return small.translator(small.word_pair() if request.param == "word" else small.byte_pair())


@pytest.fixture(scope="module")
def words() -> Translator:
    return small.translator(small.word_pair())


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For thousands of steps whose shapes other tests check: four times as fast."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def assert_same(found: Translation, expected: Translation) -> None:
    assert [one.tokens for one in found.alternatives] == [one.tokens for one in expected.alternatives]
    for one, other in zip((found, *found.alternatives), (expected, *expected.alternatives), strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-9)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-9)
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-9)


# Batch mates


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_batch_mates_order_and_batch_sizes_change_nothing(
    translator: Translator, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = small.sentences(64)
    chosen = translator.options(options)
    alone = [translator.translate_with([text], chosen, first=i)[0] for i, text in enumerate(texts)]
    assert len({one.text for one in alone}) > 10
    draw = random.Random(1)
    for rows, tokens in ((64, 4096), (7, 4096), (64, 30)):
        monkeypatch.setattr(batches, "MAX_ROWS", rows)
        monkeypatch.setattr(batches, "BATCH_TOKENS", tokens)
        # A draw belongs to the number of its line, so only other searches may be reordered.
        order = range(64) if chosen.sampling else draw.sample(range(64), 64)
        together = translator.translate_with([texts[i] for i in order], chosen)
        for i, found in zip(order, together, strict=True):
            assert found.source == texts[i]
            assert_same(found, alone[i])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_padding_and_places_in_a_batch_change_nothing(words: Translator, options: dict[str, object]) -> None:
    sources = [words.tokenizers.encode_source(text) for text in small.sentences(30, seed=3)]
    chosen = words.options(options)

    class Padded(ModuleEngine):
        padding = 0

        def start(self, sources: SourceBatch) -> StepCache:
            wide = [torch.nn.functional.pad(x, (0, self.padding)) for x in (sources.ids, sources.mask)]
            return super().start(SourceBatch(*wide))

    padded = Padded(words.transformers[0])

    def found(rows: list[int], padding: int) -> dict[int, list]:
        padded.padding = padding
        requests = [SearchRequest(sources[row], chosen, seed=row) for row in rows]
        return dict(zip(rows, search(padded, requests), strict=True))

    alone = {row: found([row], 0)[row] for row in range(30)}
    draw = random.Random(2)
    for padding in (0, 1, 17):
        for row, hypotheses in found(draw.sample(range(30), 20), padding).items():
            assert [one.tokens for one in hypotheses] == [one.tokens for one in alone[row]]
            for one, other in zip(hypotheses, alone[row], strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-9)
                assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities, abs=1e-9)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_a_stream_in_chunks_is_the_same_as_a_list(words: Translator, options: dict[str, object]) -> None:
    texts = ["", *small.sentences(12), " ", "ba"]
    chosen = words.options(options)
    whole = words.translate_with(texts, chosen)
    for chunk in (1, 4, 15, 2048):
        for found, expected in zip(words.translate_lines(iter(texts), chosen, chunk=chunk), whole, strict=True):
            assert_same(found, expected)


def test_a_stream_is_read_no_further_than_its_chunk(words: Translator) -> None:
    taken = []

    def lines():
        for text in small.sentences(10):
            taken.append(text)
            yield text

    results = words.translate_lines(lines(), words.options({"beam_size": 1}), chunk=3)
    next(results)
    assert len(taken) == 3


# Oracles


def greedy_by_hand(model: Transformer, source: list[int], longest: int, unk: int) -> tuple[list[int], list[float]]:
    """The likeliest token at each step, the whole prefix computed anew each time."""
    prefix, values = [BOS], []
    while prefix[-1] != EOS:
        with torch.no_grad():
            logits = model(torch.tensor([[*source, EOS]]), torch.tensor([prefix]))[0, -1]
        log_probs = logits - logits.exp().sum().log()
        allowed = [EOS] if len(prefix) > longest else [i for i in range(len(log_probs)) if i not in (PAD, BOS, unk)]
        prefix.append(max(allowed, key=lambda i: float(log_probs[i])))
        values.append(float(log_probs[prefix[-1]]))
    return prefix[1:-1], values


@pytest.mark.usefixtures("unchecked")
def test_cached_greedy_is_greedy_without_a_cache(translator: Translator) -> None:
    texts = small.sentences(12, seed=4)
    for text, found in zip(texts, translator.translate(texts, beam_size=1, max_length=15), strict=True):
        ids = translator.tokenizers.source.encode(text)
        tokens, values = greedy_by_hand(translator.transformers[0], ids, 15, translator.tokenizers.target.unk)
        assert found.tokens == tuple(translator.tokenizers.target.pieces(tokens))
        assert found.token_scores == pytest.approx(values, abs=1e-10)
        assert found.log_probability == pytest.approx(sum(values), abs=1e-10)


@dataclass
class Prefixes:
    source: Tensor
    prefix: Tensor

    def reorder(self, indices: Tensor) -> Prefixes:
        return Prefixes(self.source[indices], self.prefix[indices])


class Uncached:
    """A next-token model that computes every prefix from scratch."""

    device = torch.device("cpu")

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def start(self, sources: SourceBatch) -> Prefixes:
        return Prefixes(sources.ids, sources.ids.new_empty(len(sources), 0))

    @torch.no_grad()
    def step(self, state: Prefixes, tokens: Tensor) -> tuple[Tensor, Prefixes]:
        prefix = torch.cat([state.prefix, tokens[:, None]], dim=1)
        return self.model(state.source, prefix)[:, -1].log_softmax(-1), Prefixes(state.source, prefix)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_cached_is_uncached_in_every_search(
    words: Translator, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, chosen = small.sentences(10, seed=5), words.options(options)
    cached = words.translate_with(texts, chosen)
    monkeypatch.setattr(words.backend.torch, "together", Uncached(words.transformers[0]))
    for found, expected in zip(cached, words.translate_with(texts, chosen), strict=True):
        assert found.tokens == expected.tokens
        assert found.token_scores == pytest.approx(expected.token_scores, abs=1e-10)
        assert_same(found, expected)


def test_a_beam_of_one_is_greedy(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = small.sentences(12, seed=6)
    greedy = translator.translate(texts, beam_size=1)
    monkeypatch.setitem(dispatch.SEARCHES, "greedy", beam_search)
    for found, expected in zip(translator.translate(texts, beam_size=1), greedy, strict=True):
        assert_same(found, expected)


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_a_translation_is_as_likely_as_its_score_says(words: Translator, options: dict[str, object]) -> None:
    texts = small.sentences(12, seed=7)
    found = words.translate_with(texts, words.options(options).replace({"length_penalty": 0.8}))
    scored = words.score(texts, [one.text for one in found])
    for one, forced in zip(found, scored, strict=True):
        assert one.log_probability == pytest.approx(forced.log_probability, abs=1e-9)
        assert one.token_scores == pytest.approx(forced.token_scores, abs=1e-9)
        assert (one.tokens, one.source) == (forced.tokens, forced.source)
        length = len(one.tokens) + 1
        assert one.score == pytest.approx(one.log_probability / ((5 + length) / 6) ** 0.8, abs=1e-9)


def test_batch_mates_do_not_change_scores_of_pairs(words: Translator) -> None:
    sources, targets = ["", *small.sentences(20, seed=8)], [*small.sentences(20, seed=9), ""]
    together = words.score(sources, targets)
    for source, target, found in zip(sources, targets, together, strict=True):
        (alone,) = words.score([source], [target])
        assert found.token_scores == pytest.approx(alone.token_scores, abs=1e-9)
        assert len(found.token_scores) == len(found.tokens) + 1 == len(target.split()) + 1
    assert words.score([], []) == []


def test_scores_want_a_target_for_each_source_and_no_endless_one(words: Translator) -> None:
    with pytest.raises(DataError) as caught:
        words.score(["ba", "ce"], ["ba"])
    assert (caught.value.expected, caught.value.found) == ("2", "1")
    assert [math.isnan(one.log_probability) for one in words.score(["ba", "ba"], ["ba", "ba " * 5000])] == [0, 1]


def test_a_stream_of_pairs_is_scored_as_a_list_of_them(words: Translator) -> None:
    sources, targets = small.sentences(7, seed=8), small.sentences(7, seed=9)
    whole = words.score(sources, targets)
    for chunk in (1, 3, 2048):
        found = list(words.score_pairs(zip(sources, targets, strict=True), chunk=chunk))
        assert [(one.source, one.target) for one in found] == list(zip(sources, targets, strict=True))
        for one, expected in zip(found, whole, strict=True):
            assert one.token_scores == pytest.approx(expected.token_scores, abs=1e-9)
    pairs = [("ba", "ba"), None, ("ba", "ba " * 5000), ("ba", "ba"), ("ce", "ba")]
    scored = [one.log_probability for one in words.score_pairs(pairs, chunk=2)]
    assert [math.isnan(value) for value in scored] == [0, 1, 1, 0, 0]
    assert scored[0] == pytest.approx(scored[3], abs=1e-9)


def test_an_ensemble_scores_with_the_mean_of_its_members_probabilities(words: Translator) -> None:
    several = small.translator(small.word_pair(), members=2)
    members = [Translator([model], several.tokenizers) for model in several.transformers]
    (both,) = several.score(["ba ce di"], ["fo gu"])
    parts = [member.score(["ba ce di"], ["fo gu"])[0].token_scores for member in members]
    mean = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(*parts, strict=True)]
    assert both.token_scores == pytest.approx(mean, abs=1e-9)


# Ensembles


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_an_ensemble_of_one_model_with_itself_is_the_model(words: Translator, options: dict[str, object]) -> None:
    twice = Translator(words.transformers * 3, words.tokenizers, words.decoding)
    texts = small.sentences(10, seed=10)
    chosen = words.options(options)
    for found, expected in zip(twice.translate_with(texts, chosen), words.translate_with(texts, chosen), strict=True):
        assert_same(found, expected)


def test_an_ensemble_averages_probabilities() -> None:
    several = small.translator(small.word_pair(), members=3)
    members = [Translator([one], several.tokenizers, several.decoding) for one in several.transformers]
    texts = small.sentences(10, seed=11)
    for text, found in zip(texts, several.translate(texts), strict=True):
        each = [member.score([text], [found.text])[0].token_scores for member in members]
        mean = torch.tensor(each, dtype=torch.float64).exp().mean(0).log()
        assert found.token_scores == pytest.approx(mean.tolist(), abs=1e-9)


def test_an_ensemble_of_directories_needs_the_same_tokenizers(tmp_path: Path) -> None:
    one = small.saved(tmp_path / "one", small.word_pair())
    two = small.saved(tmp_path / "two", small.word_pair(), seed=1)
    loaded = Translator.from_pretrained([one, two])
    members = [Translator.from_pretrained(path).transformers[0] for path in (one, two)]
    texts = small.sentences(5)
    expected = Translator(members, small.word_pair(), loaded.decoding).translate(texts)
    assert [found.text for found in loaded.translate(texts)] == [found.text for found in expected]
    other = small.saved(tmp_path / "other", small.word_pair(*reversed(small.WORDS)))
    with pytest.raises(ModelError, match="same tokenizers") as caught:
        Translator.from_pretrained([one, other])
    assert caught.value.file == str(other)


# Options


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_outputs_begin_with_their_forced_prefixes(words: Translator, options: dict[str, object]) -> None:
    texts = small.sentences(10, seed=12)
    prefixes = ["", "ki", "ne ne ne", "gu ha", "ba " * 15] * 2
    chosen = words.options(options)
    found = words.translate_with(texts, chosen, prefixes=prefixes)
    for text, prefix, one in zip(texts, prefixes, found, strict=True):
        for output in one.alternatives:
            assert output.text.split()[: len(prefix.split())] == prefix.split()
            assert len(output.tokens) <= max(8, len(prefix.split()))
        (forced,) = words.score([text], [one.text])
        assert one.log_probability == pytest.approx(forced.log_probability, abs=1e-9)
    free = words.translate_with(texts, chosen)
    assert_same(found[0], free[0])
    assert any(one.text != other.text for one, other in zip(found, free, strict=True))
    with pytest.raises(ConfigError, match="one prefix per text"):
        words.translate(texts, prefixes=["ba"])


def test_n_best_outputs_are_distinct_and_in_order(words: Translator) -> None:
    for one in words.translate(small.sentences(10, seed=13), beam_size=6, n_best=5, max_length=12):
        scores = [output.score for output in one.alternatives]
        assert scores == sorted(scores, reverse=True)
        assert len({output.tokens for output in one.alternatives}) == len(one.alternatives) == 5
        first = one.alternatives[0]
        assert (first.text, first.score, first.tokens) == (one.text, one.score, one.tokens)
    assert len(words.translate(["ba"], n_best=7)[0].alternatives) == 7
    with pytest.raises(ConfigError, match="n_best 3 is more than beam_size 2"):
        words.translate(["ba"], beam_size=2, n_best=3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES)
def test_lengths_are_held(words: Translator, options: dict[str, object]) -> None:
    texts = small.sentences(10, seed=14)
    for one in words.translate_with(texts, words.options({**options, "min_length": 4, "max_length": 6})):
        assert all(4 <= len(output.tokens) <= 6 for output in one.alternatives)
    limits = {"min_length": 100, "max_length": None, "max_length_factor": 2.0, "max_length_offset": 3}
    for text, one in zip(texts, words.translate_with(texts, words.options({**options, **limits})), strict=True):
        assert {len(output.tokens) for output in one.alternatives} == {2 * len(text.split()) + 3}


@pytest.mark.usefixtures("unchecked")
def test_no_ngram_comes_twice_when_forbidden(words: Translator) -> None:
    texts = small.sentences(10, seed=15)
    for beam_size in (1, 3):
        free = words.translate(texts, beam_size=beam_size, max_length=20)
        held = words.translate(texts, beam_size=beam_size, max_length=20, no_repeat_ngram=2)
        repeats = [len({*zip(one.tokens, one.tokens[1:], strict=False)}) < len(one.tokens) - 1 for one in free]
        assert any(repeats)
        for one in held:
            assert len({*zip(one.tokens, one.tokens[1:], strict=False)}) == max(0, len(one.tokens) - 1)


def test_draws_follow_their_seed(words: Translator) -> None:
    texts = small.sentences(10, seed=16)

    def drawn(seed: int) -> list[str]:
        return [one.text for one in words.translate(texts, sampling=True, seed=seed)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    several = words.translate(texts[:2], sampling=True, n_best=5)
    assert all(len(one.alternatives) == 5 for one in several)
    assert several[0].score == max(output.score for output in several[0].alternatives)
    same = words.translate([texts[0]] * 8, sampling=True)
    assert len({one.text for one in same}) > 1
    assert words.translate([texts[0]], sampling=True, first=5)[0].text == same[5].text


# Lines


def test_empty_and_blank_texts_are_empty_translations(words: Translator) -> None:
    found = words.translate(["", "ba", " \t", "\u2028", "\x85"], alignments=True)
    for one in (found[0], *found[2:]):
        assert (one.text, one.tokens, one.score, one.alignment) == ("", (), 0.0, ())
        assert [output.text for output in one.alternatives] == [""]
    assert found[1].tokens
    assert words.translate([""])[0].alignment is None
    assert words.translate([]) == []


def test_a_long_source_is_cut_and_says_so(words: Translator) -> None:
    options = words.options({"max_source_length": 5})
    long, cut, short = words.translate_with(["ba ce di fo gu ha ki", "ba ce di fo gu", "ba"], options)
    assert (long.truncated, cut.truncated, short.truncated) == (True, False, False)
    assert long.source == "ba ce di fo gu ha ki"
    assert long.source_tokens == cut.source_tokens
    assert_same(long, cut)


def test_an_output_is_one_line_whatever_is_in_it(words: Translator) -> None:
    text = "a\nb\r\nc\x00d\u2028e"
    assert one_line(text) == "a b  c d\u2028e"
    (found,) = words.translate(["ba ce"], n_best=2, alignments=True)
    broken = Translation("x\ny", -1.25, -2.5, ("x", "y"), (-1.0, -1.0, -0.5), "s", ("s",), (found,))
    broken = replace(broken, alignment=((0, 0), (0, 1)))
    assert list(format_translation(broken, 3)) == ["x y\t0-0 0-1"]
    assert list(format_translation(broken, 3, scores=True)) == ["-1.2500\tx y\t0-0 0-1"]
    pairs = [" ".join(f"{i}-{j}" for i, j in output.alignment or ()) for output in found.alternatives]
    assert list(format_translation(found, 3, n_best=True)) == [
        f"3\t{output.score:.4f}\t{output.text}\t{some}" for output, some in zip(found.alternatives, pairs, strict=True)
    ]
    (line,) = format_translation(broken, 3, as_json=True)
    assert "\n" not in line


# Directories


def test_a_directory_translates_as_the_model_that_was_saved(tmp_path: Path) -> None:
    pair = small.byte_pair()
    config = small.shape(pair)
    made = small.model(config)
    assert isinstance(made, Transformer)
    folder = small.save(tmp_path / "m", made, config, pair, DecodingConfig(beam_size=2, max_length=7))
    loaded = Translator.from_pretrained(str(folder))
    assert loaded.decoding == DecodingConfig(beam_size=2, max_length=7)
    assert (loaded.languages.source, loaded.languages.target) == ("xx", "yy")
    texts = small.sentences(8)
    expected = Translator([made], pair, loaded.decoding).translate(texts)
    assert loaded.translate(texts) == expected


def test_vocabularies_and_families_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = small.saved(tmp_path / "m", small.word_pair())
    TokenizerPair(*[Vocabulary("word", [*SPECIALS, "ba"])] * 2).save(folder)
    with pytest.raises(ModelError, match="source vocabulary") as caught:
        Translator.from_pretrained(folder)
    assert (caught.value.file, caught.value.expected, caught.value.found) == (str(folder), "16", "5")
    causal = small.saved(tmp_path / "c", small.word_pair(), "causal")
    with pytest.raises(ModelError, match="only an encoder-decoder translates"):
        Translator.from_pretrained(causal)
    with pytest.raises(ConfigError, match="no such engine"):
        Translator.from_pretrained(small.saved(tmp_path / "t", small.word_pair()), engine="steam")
