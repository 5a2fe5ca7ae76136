"""How far long work is, told now and then."""

from __future__ import annotations

import pytest

from dragoman.data import pace


def test_it_tells_every_ten_seconds_and_how_long_the_rest_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(pace.time, "monotonic", lambda: now)
    lines: list[str] = []
    told = pace.Pace(lines.append, "tokens", 4000)
    for done in range(0, 4001, 100):
        told.at(done)
        now += 1.0
    assert lines == [
        "tokens 1,000 of 4,000, about 30 s left",
        "tokens 2,000 of 4,000, about 20 s left",
        "tokens 3,000 of 4,000, about 10 s left",
        "tokens 4,000 of 4,000, about 0 s left",
    ]
