"""What every test stands on: shapes checked, one thread, fixed seeds."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

import processor
import tiers
from browsing import browser as browser

# Before torch is imported; tests that run in parallel would otherwise fight for the cores. Subprocesses inherit it.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
# Where a test does use two threads, they sleep while they wait for each other instead of fighting for busy cores.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

# Before dragoman is imported: every annotated function then checks the types and shapes of what it is given and gives.
# Not the demo's grammars: they have no shapes, and their many small calls take 8.5 s a corpus with checks, 1.2 s
# without.
PACKAGE = Path(__file__).parents[1] / "src" / "dragoman"
CHECKED = [f"dragoman.{path.stem}" for path in PACKAGE.iterdir() if path.name != "demo"]
CHECKED += [
    f"dragoman.demo.{path.stem}" for path in (PACKAGE / "demo").iterdir() if path.stem not in ("grammar", "commands")
]
install_import_hook(CHECKED, "beartype.beartype")

# A slow machine is no failure; in CI every run draws the same examples.
settings.register_profile(
    "dragoman",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("dragoman")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor", choices=processor.SETTINGS, help="play one with no wider vectors than these")
    parser.addoption("--find-slow", action="store_true", help="measure which tests are slow (with --numprocesses 0)")


def pytest_configure(config: pytest.Config) -> None:
    if kind := config.getoption("--processor"):
        processor.play(kind)
    if config.getoption("--find-slow"):
        config.pluginmanager.register(tiers.Stopwatch())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    listed = {tier: tiers.listed(tier) for tier in tiers.FROM}
    for item in items:
        for tier, names in listed.items():
            if tiers.name_of(item) in names:
                item.add_marker(tier)


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Each test starts from the same random state, whatever ran before it."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
