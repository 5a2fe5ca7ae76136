from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import DataConfig, TokenizerConfig
from dragoman.data.filtering import Counts, SeenKeys, drop_texts, encode_pairs
from dragoman.text import Pair, ReadCounts, TokenizerPair

words = st.lists(st.sampled_from(["a", "b", "C", "!"]), max_size=4).map(" ".join)
pairs = st.lists(st.builds(Pair, words, words, st.just("f"), st.just(1)), max_size=30)
TOKENIZERS = TokenizerPair.train([Pair("a b C !", "a b C !", "f", 1)], TokenizerConfig(kind="word"))


@given(read=pairs, dev=pairs, duplicates=st.booleans(), overlap=st.booleans(), ratio=st.booleans())
def test_kept_and_dropped_sum_to_what_was_read(
    read: list[Pair], dev: list[Pair], duplicates: bool, overlap: bool, ratio: bool
) -> None:
    data = DataConfig(max_source_tokens=3, max_target_tokens=2, max_length_ratio=1.5 if ratio else None)
    counts, seen = Counts(), SeenKeys.of(dev)
    texts = drop_texts(read, counts, drop_duplicates=duplicates, seen=seen if overlap else None)
    kept = [pair for pair, _, _ in encode_pairs(texts, TOKENIZERS, data, counts)]
    assert counts.read == len(read)
    assert counts.kept == len(kept)
    assert counts.kept + sum(counts.dropped.values()) == counts.read
    assert all(count > 0 for count in counts.dropped.values())
    for pair in kept:
        source, target = len(pair.source.split()), len(pair.target.split())
        assert 0 < source <= 3
        assert 0 < target <= 2
        assert not ratio or max(source, target) <= 1.5 * min(source, target)
        assert not (overlap and pair in seen)
    assert not duplicates or len(set(kept)) == len(kept)


def test_each_reason_has_its_count_and_is_said() -> None:
    read = [
        Pair(s, t, "f", 1) for s, t in [("a", "b"), ("a", "b"), ("", "b"), ("A!", "C"), ("a b C", "a"), ("b", "b b")]
    ]
    counts = Counts()
    seen = SeenKeys.of([Pair("x", "c", "dev", 1)])
    data = DataConfig(max_source_tokens=2, max_length_ratio=1.5)
    texts = drop_texts(read, counts, drop_duplicates=True, seen=seen)
    assert [pair.source for pair, _, _ in encode_pairs(texts, TOKENIZERS, data, counts)] == ["a"]
    assert counts.dropped == {"duplicate": 1, "empty": 1, "overlap": 1, "too long": 1, "length ratio": 1}
    counts.take_in(ReadCounts(read=9, skipped=2, incomplete=3, headers=1))
    assert str(counts) == (
        "1 of 12 pairs kept, 1 duplicate, 1 empty, 1 header, 1 length ratio, 1 overlap, 1 too long, 2 unreadable, "
        "3 without one side"
    )


def test_overlap_looks_past_case_punctuation_and_blanks() -> None:
    seen = SeenKeys.of([Pair("Hello, world!", "Hallo Welt", "dev", 1)])
    assert Pair("hello world", "x", "f", 1) in seen
    assert Pair("x", "HALLO  WELT.", "f", 1) in seen
    assert Pair("hello", "Welt", "f", 1) not in seen
