"""Make `.venv` and install Dragoman into it, without CUDA packages where there is no NVIDIA GPU.

`make` runs it as `sh scripts/setup_environment.sh [EXTRA ...]`. On Linux the plain PyTorch brings gigabytes of CUDA
packages. So without a GPU this looks in PyTorch's own CPU index, or, where that cannot be reached, in what pip is
configured to find; and it asks pip what it would install before anything is installed. Two variables change that
(in an environment that is there already, after `make clean`):

    DRAGOMAN_TORCH=auto|cpu|cuda   auto: cpu on Linux without a working `nvidia-smi`, else whatever pip finds
    DRAGOMAN_TORCH_INDEX=URL       look for PyTorch there; empty: only in what pip is configured to find
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

# The only package host this repository names: PyPI has no CPU builds for Linux, this has.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CUDA_PACKAGE = re.compile(r"(nvidia|cuda|triton|pytorch[-_.]triton)([-_.]|$)", re.IGNORECASE)
ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin" / "python")
PIP_INSTALL = (PYTHON, "-m", "pip", "install", "--quiet")


class Plan(NamedTuple):
    """Where PyTorch comes from."""

    cpu_only: bool
    """Refuse CUDA packages."""
    index: str | None
    """An index to look in besides those pip is configured with."""


def make_plan(
    environ: Mapping[str, str], system: str, has_gpu: Callable[[], bool], can_reach: Callable[[str], bool]
) -> Plan:
    """Choose the build and the index; a variable that is set always wins over what is found."""
    build = environ.get("DRAGOMAN_TORCH") or "auto"
    if build not in ("auto", "cpu", "cuda"):
        raise SystemExit(f"DRAGOMAN_TORCH is {build!r}: it can be auto, cpu or cuda")
    cpu_only = build == "cpu" or (build == "auto" and system == "Linux" and not has_gpu())
    index = environ.get("DRAGOMAN_TORCH_INDEX")
    if index is None and cpu_only and can_reach(TORCH_CPU_INDEX):
        index = TORCH_CPU_INDEX
    return Plan(cpu_only, index or None)


def succeeds(*command: str, show: bool = False, seconds: float | None = None) -> bool:
    """Whether a command can be run and ends well; pip among them asks nothing and never installs for the user."""
    environ = {**os.environ, "PIP_NO_INPUT": "1", "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    output = None if show else subprocess.DEVNULL
    try:
        status = subprocess.call(
            command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return status == 0


def has_nvidia_gpu() -> bool:
    """Whether the NVIDIA driver answers."""
    return succeeds("nvidia-smi", "-L", seconds=30)


def reachable(index: str, seconds: float = 5.0) -> bool:
    """Whether the index serves PyTorch's page within so many seconds."""
    answers: list[int] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(f"{index.rstrip('/')}/torch/", timeout=seconds) as answer:
                answers.append(answer.status)
        except (OSError, HTTPException, ValueError):
            pass

    # In a thread, because no timeout covers a name server that does not answer.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return answers == [200]


def make_environment() -> None:
    """Make `.venv` with this interpreter, unless a working one is there."""
    if succeeds(PYTHON, "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"):
        return
    print(f"Making {VENV.name} with Python {platform.python_version()}", flush=True)
    if not succeeds(sys.executable, "-m", "venv", "--clear", str(VENV), show=True):
        raise SystemExit(f"{sys.executable} could not make {VENV}: see above")
    # A newer pip reads what a package needs without downloading it; the one that came with Python will do.
    succeeds(*PIP_INSTALL, "--retries", "0", "--timeout", "5", "--upgrade", "pip")


def would_install(arguments: list[str]) -> list[str]:
    """The names of the packages that `pip install` with these arguments would bring."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        # Quieter than the installation, which repeats every warning.
        if not succeeds(*PIP_INSTALL, "--quiet", "--dry-run", "--report", str(report), *arguments, show=True):
            raise SystemExit("pip finds no set of packages that fits: see above")
        return package_names(json.loads(report.read_text(encoding="utf-8")))


def package_names(report: Mapping[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    """The names in pip's installation report."""
    return sorted(item["metadata"]["name"] for item in report["install"])


def refusal(names: list[str], plan: Plan) -> str | None:
    """What to tell the user if CUDA packages are among the names of a CPU installation."""
    unwanted = [name for name in names if CUDA_PACKAGE.match(name)]
    if not unwanted:
        return None
    return f"""\
Without an NVIDIA GPU pip would still install gigabytes of CUDA packages here, so nothing was installed.
  found:  {len(unwanted)} of them: {", ".join(unwanted[:4])} ...
  asked:  {plan.index or "what pip is configured to find, no CPU index"}
  to do:  try again where PyTorch's CPU index can be reached,
          or name an index that has a CPU build:     make ... DRAGOMAN_TORCH_INDEX=URL
          or a folder with a CPU wheel of PyTorch:   make ... PIP_FIND_LINKS=FOLDER
          or take the CUDA build all the same:       make ... DRAGOMAN_TORCH=cuda"""


def main(extras: list[str]) -> None:
    """Make the environment and install this checkout into it, with the named extras."""
    plan = make_plan(os.environ, platform.system(), has_nvidia_gpu, reachable)
    make_environment()
    target = f".[{','.join(extras)}]" if extras else "."
    arguments = ["--constraint", "constraints.txt", "--editable", target]
    if plan.index:
        arguments += ["--extra-index-url", plan.index]
    build = "CPU build" if plan.cpu_only else "build for this platform"
    place = plan.index or "what pip is configured to find"
    print(f"Installing Dragoman and PyTorch ({build}, from {place}); this takes some minutes", flush=True)
    if plan.cpu_only and (message := refusal(would_install(arguments), plan)):
        raise SystemExit(message)
    if not succeeds(*PIP_INSTALL, *arguments, show=True):
        raise SystemExit("pip could not install Dragoman: see above")


if __name__ == "__main__":
    main(sys.argv[1:])
