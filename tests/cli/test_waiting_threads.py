"""How long PyTorch's threads spin while they wait for each other, as its OpenMP library tells when it is loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest


def spinning(**variables: str) -> str:
    """Turns, in a command that loads PyTorch and then finds no run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    environment |= {"OMP_DISPLAY_ENV": "verbose", **variables}
    command = [sys.executable, "-m", "dragoman", "average", "none", "--last", "1", "--out", "none"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert "dragoman: none: no run here" in done.stderr
    found = re.search(r"GOMP_SPINCOUNT = '(\w+)'", done.stderr)
    if found is None:
        pytest.skip("PyTorch has another OpenMP library here")
    return found[1]


def test_threads_soon_sleep_unless_told_otherwise() -> None:
    assert spinning() == "1000"
    assert spinning(GOMP_SPINCOUNT="20") == "20"
    assert int(spinning(OMP_WAIT_POLICY="active")) > 10**6
