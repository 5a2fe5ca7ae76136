"""Which tests are slow, and which of them long: those that two lists name, as `pytest --find-slow` has measured them.

`make test-fast` leaves out what is slow, `make test` what is long, `make test-long` runs that. A name is `FILE::TEST`,
without its folder: no two files of tests have one name.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

# Seconds of processor time that all cases of a test take together, with what they start and set up; or half of the time
# that passes, where they wait for longer: the work of a browser is counted nowhere.
FROM = {"slow": 0.4, "long": 1.5}


def name_of(item: pytest.Item) -> str:
    """Return how the list names a test."""
    return f"{item.path.name}::{getattr(item, 'originalname', item.name)}"


def listed(tier: str) -> set[str]:
    """Return the names in a list, `slow` or `long`."""
    return set(_list(tier).read_text(encoding="utf-8").splitlines())


def _list(tier: str) -> Path:
    return Path(__file__).with_name(f"{tier}.txt")


def tests_of(path: Path) -> list[str]:
    """Return the names of the tests of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return [f"{path.name}::{name}" for name in functions if name.startswith("test_")]


def slowest(seconds: dict[str, float], limit: float) -> set[str]:
    """Return the names of those that take too long, but for the fastest of a file that has only such."""
    fastest = {min(file, key=lambda name: seconds[name]) for file in _files(seconds)}
    return {name for name, taken in seconds.items() if taken >= limit and name not in fastest}


def _files(seconds: dict[str, float]) -> Iterator[list[str]]:
    for file in {name.partition("::")[0] for name in seconds}:
        yield [name for name in seconds if name.partition("::")[0] == file]


class Stopwatch:
    """Measures each test, and brings the lists up to date for those that were run."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Add the processor time of this process and its children, or half of the time that passed."""
        before = os.times()
        answer = yield
        *worked, passed = (after - then for after, then in zip(os.times(), before, strict=True))
        self.seconds[name_of(item)] += max(sum(worked), passed / 2)
        return answer

    def pytest_sessionfinish(self) -> None:
        """Write the lists."""
        for tier, limit in FROM.items():
            kept = {name for name in listed(tier) if name not in self.seconds}
            names = sorted(kept | slowest(self.seconds, limit))
            _list(tier).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
