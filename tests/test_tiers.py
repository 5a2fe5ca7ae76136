"""The tiers of the suite: what is fast still sees something of everything, and what trains is marked as such."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tiers

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "src" / "dragoman"
FILES = sorted(HERE.rglob("test_*.py"))
TRAINS = re.compile(r"from [\w.]+ import [^\n]*\btrain\b|(call\(|dragoman)\(\"train\"|\bdragoman\.train\(")
# What these assert of a training is that two are the same to the bit, or messages, files and counts.
TRAINS_FOR_OTHER_REASONS = {
    "test_pair_scores.py", "test_sounds.py", "test_shards.py",
    "test_bounded_loading.py", "test_bundling.py", "test_card.py", "test_damage.py", "test_flags_of_settings.py",
    "test_interrupted.py",
    "test_lists_and_events.py", "test_markov_runs.py", "test_markov_verbs.py", "test_memory.py", "test_mistakes.py",
    "test_nothing_in_silence.py", "test_peers_agree.py", "test_peers_limits.py",
    "test_pushing.py", "test_quantizing.py", "test_resume.py",
    "test_subword_sampling.py", "test_synthesize.py", "test_text_verbs.py", "test_verbs_in_python.py",
}  # fmt: skip
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(HERE).as_posix())


def fast_tests(path: Path) -> set[str]:
    return set(tiers.tests_of(path)) - tiers.listed("slow")


@each_file
def test_something_of_every_file_is_fast(path: Path) -> None:
    assert fast_tests(path)


@pytest.mark.parametrize("room", sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()))
def test_every_room_has_fast_tests(room: str) -> None:
    assert sum(len(fast_tests(path)) for path in (HERE / room).rglob("test_*.py")) >= 2


def test_every_name_in_a_list_is_a_test() -> None:
    assert tiers.listed("slow") - {name for path in FILES for name in tiers.tests_of(path)} == set()


def test_what_is_long_is_slow() -> None:
    assert tiers.listed("long") < tiers.listed("slow")


def test_files_that_train_are_run_as_on_another_processor_too() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in FILES if path.parent != HERE}
    unmarked = {name for name, text in texts.items() if TRAINS.search(text) and "mark.arithmetic" not in text}
    assert unmarked == TRAINS_FOR_OTHER_REASONS


def test_what_takes_long_is_slow_but_for_the_fastest_of_a_file() -> None:
    seconds = {"test_a.py::test_a": 9.0, "test_a.py::test_b": 0.1, "test_b.py::test_a": 3.0, "test_b.py::test_b": 2.0}
    assert tiers.slowest(seconds, 0.4) == {"test_a.py::test_a", "test_b.py::test_a"}
