"""What training asks of the memory of the process: seen in processes of its own, whose first products these are."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.fast import keep_memory

# A training in bfloat16, then each of 40 shapes of products twice: oneDNN tells which it had to compile.
WORK = """
import sys
from pathlib import Path

import torch
from runs import small_config

from dragoman.training import train

train(small_config(Path(sys.argv[1]), "run", "training.precision=bfloat16", "training.max_steps=1"), quiet=True)
print("trained", flush=True)
for _ in range(2):
    for rows in range(30, 70):
        torch.mm(torch.ones(rows, 64, dtype=torch.bfloat16), torch.ones(64, 64, dtype=torch.bfloat16))
"""


def compiled_products(directory: Path, **variables: str) -> int:
    environment = {name: value for name, value in os.environ.items() if "DNN" not in name} | variables
    environment |= {
        "ONEDNN_VERBOSE": "2",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1] / "training"), *sys.path]),
    }
    folder = directory / "_".join(["made", *variables])
    folder.mkdir()
    command = [sys.executable, "-c", WORK, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("trained\n")[1].count("create:cache_miss")


def test_memory_is_kept_or_it_says_that_it_is_not():
    assert keep_memory() == (platform.libc_ver()[0] == "glibc")


def test_training_lets_few_compiled_products_lie_about_unless_told_otherwise(tmp_path):
    many = compiled_products(tmp_path, ONEDNN_PRIMITIVE_CACHE_CAPACITY="1000")
    if not many:
        pytest.skip("no products of oneDNN in bfloat16 here")
    assert many == 40
    assert compiled_products(tmp_path, DNNL_PRIMITIVE_CACHE_CAPACITY="1000") == 40
    assert compiled_products(tmp_path) == 80
