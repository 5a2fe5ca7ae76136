"""Runs the native engine's tests with its library built for sanitizers: `native_check.py [address] [thread]`.

`address` finds reads and writes out of bounds and undefined behaviour, `thread` data races. Python and PyTorch are not
built so: the sanitizer is preloaded, and looks at this library only. Needs g++; each takes some minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from dragoman.engines.native import build

ROOT = Path(__file__).parents[1]
DEBUG = ("-O2", "-g", "-fno-omit-frame-pointer")
# What the sanitizers are slow at and find nothing more by, or need memory for themselves in.
FEWER = " and ".join(
    f"not {test}"
    for test in (
        "(threads_change and (plain or avx2))", "oracle", "arithmetic", "sums", "searches_find", "too_little_memory",
    )
)  # fmt: skip
TESTS = (
    "tests/engines/test_native_border.py", "tests/engines/test_native_packing.py",
    "tests/engines/test_native_running.py", "tests/engines/test_native_listening.py",
    "tests/engines/test_engines.py", "tests/engines/test_native_searching.py", "tests/fast/test_kernels_border.py",
)  # fmt: skip


class Sanitizer(NamedTuple):
    """How a library is built, what is preloaded, what the environment says, and which tests are run."""

    options: tuple[str, ...]
    preloaded: tuple[str, ...]
    environment: dict[str, str]
    tests: tuple[str, ...]


SANITIZERS = {
    "address": Sanitizer(
        (*DEBUG, "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
        ("libasan.so", "libubsan.so"),
        # Python keeps memory to its end, which is no leak.
        {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"},
        (*TESTS, "tests/fast/test_fast.py"),
    ),
    "thread": Sanitizer(
        (*DEBUG, "-fsanitize=thread"),
        ("libtsan.so",),
        {"TSAN_OPTIONS": f"suppressions={ROOT / 'scripts' / 'native_check.supp'}:halt_on_error=1:exitcode=66:"
                         "ignore_noninstrumented_modules=1"},
        TESTS,
    ),
}  # fmt: skip


def check(name: str) -> int:
    """Build the library for a sanitizer and run the tests with it; the exit status of pytest."""
    one, folder = SANITIZERS[name], ROOT / "build" / "native"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"{build.library_path().stem}-{name}.so"
    if not library.exists():
        for old in folder.glob(f"*-{name}.so"):
            old.unlink()
        print(f"building {library}", flush=True)
        build.build(one.options, library)
    paths = [_runtime(file) for file in (*one.preloaded, "libstdc++.so.6")]
    environment = dict(os.environ, **one.environment, OMP_NUM_THREADS="1", LD_PRELOAD=" ".join(paths))
    environment[build.INSTEAD] = str(library)
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "--capture=sys",
        "-k",
        FEWER,
        *one.tests,
    ]
    # The thread sanitizer wants memory where it expects it.
    steady = ["setarch", "-R"] if name == "thread" and shutil.which("setarch") else []
    return subprocess.run([*steady, *command], cwd=ROOT, env=environment, check=False).returncode


def _runtime(name: str) -> str:
    compiler = build.find_compiler() or "g++"
    asked = [compiler, f"-print-file-name={name}"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """Check with the sanitizers that are named, or with all."""
    wanted = sys.argv[1:] or list(SANITIZERS)
    unknown = [name for name in wanted if name not in SANITIZERS]
    if unknown:
        print(f"there is no sanitizer {unknown[0]}, only {', '.join(SANITIZERS)}", file=sys.stderr)
        return 2
    return max(check(name) for name in wanted)


if __name__ == "__main__":
    sys.exit(main())
