"""Compiles the C++ library of this package: `python -m dragoman.engines.native.build`.

The installation runs this file by itself, before anything is installed: it needs the standard library only. What only
compiling needs is imported for it: every start asks where the library is.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE / "cpp"
OPTIONS = ("-std=c++17", "-O3", "-fPIC", "-ffp-contract=off", "-fvisibility=hidden", "-pthread", "-Wno-psabi")
_AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mavx2", "-mfma")
# Each of these files is compiled for its own instructions; at run time the processor is asked first.
INSTRUCTIONS = {
    "kernels_avx2": ("-mavx2", "-mfma"),
    "kernels_avx512": _AVX512,
    "kernels_avx512_bf16": (*_AVX512, "-mavx512bf16"),
    "training_avx2": ("-mavx2", "-mfma"),
    "training_avx512": _AVX512,
}
OFF = "DRAGOMAN_NO_NATIVE"
INSTEAD = "DRAGOMAN_NATIVE_LIBRARY"  # the path of a library of these sources that was built in another way


class BuildError(Exception):
    """The library cannot be compiled here; the message says why."""


def library_path() -> Path:
    """Return where the library of exactly these sources is, once it is built: their hash is in its name."""
    if os.environ.get(INSTEAD):
        return Path(os.environ[INSTEAD])
    digest = hashlib.sha256(repr((OPTIONS, INSTRUCTIONS, sys.platform, _machine())).encode())
    for path in sorted(SOURCES.iterdir()):
        if path.suffix in (".cpp", ".h"):
            digest.update(path.name.encode() + path.read_bytes())
    return HERE / f"libdragoman-{digest.hexdigest()[:16]}.so"


def _machine() -> str:
    """As `platform.machine` says, which takes longer to import."""
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")


def find_compiler() -> str | None:
    """Find a C++ compiler: `CXX`, or the usual names."""
    import shutil

    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "c++", "clang++"]
    return next((name for name in names if shutil.which(name)), None)


def build(extra: tuple[str, ...] = (), target: Path | None = None) -> Path:
    """Compile the library, unless it is there, and remove those of other sources.

    Args:
        extra: more options for compiler and linker.
        target: where to write; beside this file if None.

    Raises:
        BuildError: there is no compiler, or it fails.
    """
    import tempfile
    from concurrent.futures import ThreadPoolExecutor

    wanted = library_path() if target is None else target
    if target is None and wanted.exists():
        return wanted
    if sys.platform == "win32":
        raise BuildError("only for Linux and macOS")
    compiler = find_compiler()
    if compiler is None:
        raise BuildError("no C++ compiler found (tried CXX, c++, g++, clang++)")
    with tempfile.TemporaryDirectory(dir=wanted.parent) as folder:
        commands = list(_commands(compiler, Path(folder), extra))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(_run, commands))
        made = Path(folder) / wanted.name
        objects = [command[-1] for command in commands]
        _run([compiler, *OPTIONS, *extra, "-shared", *objects, "-o", str(made)])
        made.replace(wanted)
    if target is None:
        for other in HERE.glob("libdragoman-*.so"):
            if other != wanted:
                other.unlink()
    return wanted


def _commands(compiler: str, folder: Path, extra: tuple[str, ...]) -> Iterator[list[str]]:
    on_x86 = _machine().lower() in ("x86_64", "amd64")
    for source in sorted(SOURCES.glob("*.cpp")):
        if source.stem in INSTRUCTIONS and not on_x86:
            continue
        special = INSTRUCTIONS.get(source.stem, ())
        yield [compiler, *OPTIONS, *special, *extra, "-c", str(source), "-o", str(folder / f"{source.stem}.o")]


def _run(command: list[str]) -> None:
    import subprocess

    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stderr.strip()}")


def main() -> int:
    """Build and say where; 1 if it cannot be done."""
    try:
        print(build())
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
