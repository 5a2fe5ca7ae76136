"""How training grows, on paper: the page has what the script prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def printed(*arguments: str) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / "growth.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_table_of_the_page_is_the_one_that_is_printed(language: str) -> None:
    page = (ROOT / "docs" / language / "many.md").read_text(encoding="utf-8")
    assert f"~~~text\n{printed()}~~~" in page


def test_sums_take_the_time_of_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import growth

    job = growth.Job(1_000_000, 10e9, 1e-6)
    assert job.sum_seconds(1, 4e6) == 0
    # 7 of 8 parts go round twice.
    assert job.sum_seconds(8, 4e6) == pytest.approx(2 * 7 / 8 * 4e6 / (0.8 * 450e9) + 14 * 3e-6)
    assert job.sum_seconds(16, 4e6) == pytest.approx(2 * 15 / 16 * 4e6 / 8e9 + 30 * (7 / 8 * 3e-6 + 1 / 8 * 10e-6))
    for gpus in growth.GPUS:
        assert job.own_batch(gpus, 1000) >= job.micro_batch(1000)
        assert job.exposed(gpus, 0.0) >= job.exposed(gpus, 1e9) >= 0
        assert job.shared_batch(gpus, 1000) * gpus >= growth.UPDATE * 1e-6


def test_what_was_measured_takes_the_place_of_what_is_supposed() -> None:
    lines = printed("--base-seconds", "0.1").splitlines()
    assert lines[2].split()[1] == "100.0"
    assert lines[2].split()[-3] == "57.0"
