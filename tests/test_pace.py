"""How far long work is, told now and then, and time spans in words."""

from __future__ import annotations

import pytest

from dragoman import pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still unless its one number is changed."""
    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    return now


def test_it_tells_every_ten_seconds_and_how_long_the_rest_will_take(clock: list[float]) -> None:
    lines: list[str] = []
    told = pace.Pace(lines.append, "tokens", 4000)
    for done in range(0, 4001, 100):
        told.at(done)
        clock[0] += 1.0
    assert lines == [
        "tokens 1,000 of 4,000, about 30 seconds left",
        "tokens 2,000 of 4,000, about 20 seconds left",
        "tokens 3,000 of 4,000, about 10 seconds left",
        "tokens 4,000 of 4,000, about a second left",
    ]


def test_without_a_total_it_tells_how_fast_it_goes(clock: list[float]) -> None:
    lines: list[str] = []
    told = pace.Pace(lines.append, "lines:", None)
    clock[0] += 16.0
    told.at(4000)
    assert lines == ["lines: 4,000, 250.0 a second"]


def test_items_count_as_done_when_the_next_is_asked_for(clock: list[float]) -> None:
    """Chunks of three that take 20 seconds each, as a search has them: read at once, then worked on."""
    lines: list[str] = []
    items = pace.paced("abcdefgh", lines.append, "lines:", 8)
    found = []
    while chunk := [item for _, item in zip(range(3), items, strict=False)]:
        assert (
            lines == ["lines: 3 of 8, about 33 seconds left", "lines: 6 of 8, about 13 seconds left"][: len(found) // 3]
        )
        found += chunk
        clock[0] += 20.0
    assert "".join(found) == "abcdefgh"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "a second"), (1.4, "a second"), (1.6, "2 seconds"), (89.0, "89 seconds"), (90.0, "1.5 minutes"),
     (5399.0, "90.0 minutes"), (5400.0, "1.5 hours"), (3.0 * 86400, "3.0 days")],
)  # fmt: skip
def test_time_spans_in_words(seconds: float, words: str) -> None:
    assert pace.duration(seconds) == words
