"""Compiling the native library: as at installation, by hand, and where it cannot be done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.engines.native import build
from dragoman.engines.native.library import Library

COMPILER = build.find_compiler()


def test_the_name_tells_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = build.library_path().name
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    (tmp_path / "a.cpp").write_text("int a;", encoding="utf-8")
    first = build.library_path().name
    (tmp_path / "a.cpp").write_text("int b;", encoding="utf-8")
    assert len({real, first, build.library_path().name}) == 3


def test_a_library_built_in_another_way_can_stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAGOMAN_NATIVE_LIBRARY", str(tmp_path / "other.so"))
    assert build.library_path() == tmp_path / "other.so"


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    with pytest.raises(build.BuildError, match="no C\\+\\+ compiler"):
        build.build(target=tmp_path / "x.so")


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken.cpp").write_text("this is no program", encoding="utf-8")
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    with pytest.raises(build.BuildError, match=r"broken\.cpp"):
        build.build(target=tmp_path / "x.so")
    assert list(tmp_path.iterdir()) == [tmp_path / "broken.cpp"]


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    # Of GCC 12's own headers it would warn without the last two.
    strict = ("-O1", "-Wall", "-Wextra", "-Werror", "-Wno-uninitialized", "-Wno-maybe-uninitialized")
    library = Library(build.build(strict, tmp_path / "x.so"))
    assert library.kernels[0].name == "plain"


def test_it_needs_nothing_that_is_not_installed_yet() -> None:
    """The installation runs the file when neither the package nor what it needs is there."""
    script = f"import runpy; print(runpy.run_path({str(Path(build.__file__))!r})['library_path']())"
    command = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(build.library_path())
