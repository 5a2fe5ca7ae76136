"""The Dockerfile, read: building it needs a daemon, which tests do not have."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORDS = re.compile(r"^([A-Z]+) (.*)$")


def instructions() -> list[tuple[str, str]]:
    """Each instruction and its arguments, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    found = [WORDS.match(line) for line in text.split("\n") if line and not line.startswith("#")]
    assert all(found)
    return [(match[1], match[2]) for match in found if match]


def copied() -> list[str]:
    """What is copied from the checkout."""
    copies = [words for name, words in instructions() if name == "COPY" and not words.startswith("--from=")]
    return [path for words in copies for path in words.split()[:-1]]


def test_it_copies_what_is_there_and_what_the_build_may_see() -> None:
    assert [path for path in copied() if not (ROOT / path).exists()] == []
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    assert "*" in rules
    assert sorted(rule[1:] for rule in rules if rule.startswith("!")) == sorted(copied())


def test_it_copies_what_building_the_package_needs() -> None:
    needed = {
        "pyproject.toml",
        "hatch_build.py",
        "src",
        "constraints.txt",
        PROJECT["readme"],
        *PROJECT["license-files"],
    }
    assert needed <= set(copied())


def test_every_installation_keeps_to_the_constraints() -> None:
    runs = [words for name, words in instructions() if name == "RUN"]
    installations = [part for words in runs for part in words.split("&&") if "pip install" in part]
    assert len(installations) == 2
    assert all("--constraint constraints.txt" in part for part in installations)


def test_it_runs_our_command_and_not_as_root() -> None:
    last = dict(instructions())
    assert last["USER"] not in ("root", "0")
    assert json.loads(last["ENTRYPOINT"])[0] in PROJECT["scripts"]


def test_a_compiler_is_in_the_first_stage_only() -> None:
    steps = instructions()
    stages = [index for index, (name, _) in enumerate(steps) if name == "FROM"]
    with_compiler = [index for index, (name, words) in enumerate(steps) if name == "RUN" and "g++" in words]
    assert len(stages) == 2
    assert stages[0] < with_compiler[0] < stages[1]
    assert len(with_compiler) == 1
