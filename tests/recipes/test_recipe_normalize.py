"""The sorts of dirt that the rules are compared by: what each is undone by."""

from __future__ import annotations

import normalize
import pytest

from dragoman.text.normalization import normalizer

CLEAN = ["这两头牛昨天不吃草。", "Do cats eat fish?", "Her cat sleeps"]


@pytest.mark.parametrize("kind", normalize.DIRT)
def test_dirt_is_the_same_each_time_and_nfkc_undoes_it(kind: str) -> None:
    dirty, plain = normalize.soiled(CLEAN, kind), normalizer("nfkc")
    assert dirty == normalize.soiled(CLEAN, kind)
    assert [plain(text) for text in dirty] == [plain(text) for text in CLEAN]
    assert dirty[0] != CLEAN[0]
    if kind not in ("other width", "not composed"):
        assert [normalizer("blanks")(text) for text in dirty] == CLEAN
        assert all(text not in CLEAN for text in dirty)
