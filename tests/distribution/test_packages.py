"""What others install: the source distribution, and the wheels made of it with and without a C++ compiler."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.tags import platform_tags

from dragoman.config import DecodingConfig
from dragoman.engines.native import build
from end_to_end import small

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LIBRARY = build.library_path().name
NATIVE = "dragoman/engines/native"
LOADS = "from dragoman.engines.native import load_library as load; print(getattr(load(), 'path', load()))"


def run(*command: object, cwd: Path, **environ: str) -> str:
    """Standard output of a command that knows nothing of this checkout nor of the settings of this shell."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("DRAGOMAN_", "PYTHONPATH"))}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**ours, **environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make(kind: str, tree: Path, out: Path, **environ: str) -> Path:
    """The one file that hatchling builds of a source tree."""
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", out, cwd=tree, **environ)
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def tree(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    return folder / source.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def pure(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a machine without a compiler; made before the tree gets a library."""
    assert not (tree / "src" / NATIVE / LIBRARY).exists()
    return make("wheel", tree, tmp_path_factory.mktemp("pure"), CXX="no-such-compiler")


@pytest.fixture(scope="module")
def native(tree: Path, pure: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a machine with a compiler, which has nothing to do where this checkout is compiled."""
    if build.library_path().exists():
        shutil.copy(build.library_path(), tree / "src" / NATIVE)
    elif build.find_compiler() is None:
        pytest.skip("no C++ compiler")
    return make("wheel", tree, tmp_path_factory.mktemp("native"))


def description(wheel: Path) -> dict[str, str]:
    """The fields of the wheel's file WHEEL."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        return dict(line.split(": ", 1) for line in archive.read(name).decode().splitlines())


def libraries(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith((".so", ".dylib", ".dll"))]


def install(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel and nothing else, not even pip; where its programs are."""
    venv.create(folder, symlinks=True)
    programs = folder / "bin"
    pip = (sys.executable, "-m", "pip", "--python", programs / "python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", wheel, cwd=folder)
    return programs


def lend_packages(programs: Path) -> None:
    """Let an environment see the packages around this test: its own go first, and editable ones stay unseen."""
    (own,) = programs.parent.glob("lib/python*/site-packages")
    ours = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (own / "lent.pth").write_text("".join(f"{path}\n" for path in ours), encoding="utf-8")


def translated(programs: Path, model: Path, *options: str) -> str:
    (model.parent / "lines").write_text("ba ce di\n", encoding="utf-8")
    call = (programs / "dragoman", "translate", model, "--input", model.parent / "lines", "--precision", "float32")
    return run(*call, *options, cwd=programs)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a random model in float32, which every engine runs."""
    pair = small.word_pair()
    config = small.shape(pair)
    folder = tmp_path_factory.mktemp("model") / "model"
    return small.save(folder, small.model(config).float(), config, pair, DecodingConfig(max_length=8))


def expected(model: Path) -> str:
    """The same translation by the code of this checkout."""
    (found,) = small.Translator.from_pretrained(model).translate(["ba ce di"])
    assert found.text
    return f"{found.text}\n"


def test_the_source_distribution_has_what_building_needs_and_no_data(source: Path, tree: Path) -> None:
    assert source.name == f"dragoman-{PROJECT['project']['version']}.tar.gz"
    cpp = Path("src") / NATIVE / "cpp"
    needed = ["pyproject.toml", "hatch_build.py", "LICENSE", "README.md", "constraints.txt"]
    needed += [str(cpp / path.name) for path in sorted((ROOT / cpp).iterdir())]
    assert [name for name in needed if not (tree / name).is_file()] == []
    assert not [path for path in tree.iterdir() if path.name in ("shared", "runs", "site")]
    assert not list(tree.rglob("*.so"))
    assert source.stat().st_size < 5_000_000


def test_without_a_compiler_the_wheel_is_for_any_platform(pure: Path) -> None:
    assert pure.name.endswith("-py3-none-any.whl")
    assert (description(pure)["Tag"], description(pure)["Root-Is-Purelib"]) == ("py3-none-any", "true")
    assert libraries(pure) == []


def test_by_wish_the_wheel_is_for_any_platform(native: Path, tree: Path, tmp_path: Path) -> None:
    assert (tree / "src" / NATIVE / LIBRARY).exists()
    wished = make("wheel", tree, tmp_path / "out", DRAGOMAN_NO_NATIVE="1")
    assert wished.name.endswith("-py3-none-any.whl")
    assert libraries(wished) == []


def test_the_compiled_wheel_is_for_this_platform_and_any_python(native: Path) -> None:
    interpreter, abi, platform = native.stem.split("-")[2:]
    assert (interpreter, abi) == ("py3", "none")
    assert platform in platform_tags()
    assert not platform.startswith("manylinux"), "nobody has looked at what the library needs"
    fields = description(native)
    assert (fields["Tag"], fields["Root-Is-Purelib"]) == (f"py3-none-{platform}", "false")
    assert libraries(native) == [f"{NATIVE}/{LIBRARY}"]


def test_the_compiled_wheel_works_where_it_is_installed(native: Path, model: Path, tmp_path: Path) -> None:
    programs = install(native, tmp_path / "env")
    # What cibuildwheel asks of each wheel, when no other package is there.
    asked = PROJECT["tool"]["cibuildwheel"]["test-command"].replace("python", str(programs / "python"), 1)
    assert "plain" in run("sh", "-c", asked, cwd=tmp_path)
    path = Path(run(programs / "python", "-c", LOADS, cwd=tmp_path).strip())
    assert path.name == LIBRARY
    assert path.is_relative_to(programs.parent)
    lend_packages(programs)
    assert "translate" in run(programs / "dragoman", "--help", cwd=tmp_path)
    assert translated(programs, model, "--engine", "native") == expected(model)


def test_the_pure_wheel_works_where_it_is_installed(pure: Path, model: Path, tmp_path: Path) -> None:
    programs = install(pure, tmp_path / "env")
    assert "is not compiled" in run(programs / "python", "-c", LOADS, cwd=tmp_path)
    lend_packages(programs)
    assert "translate" in run(programs / "dragoman", "--help", cwd=tmp_path)
    assert translated(programs, model) == expected(model)


@pytest.mark.parametrize(
    ("target", "system", "tag"),
    [
        ("10.13", ("14.5", "x86_64"), "macosx_10_13_x86_64"),
        ("11", ("14.5", "arm64"), "macosx_11_0_arm64"),
        (None, ("14.5", "arm64"), "macosx_14_0_arm64"),
    ],
)
def test_on_macos_the_tag_is_that_of_the_oldest_system_asked_for(
    target: str | None, system: tuple[str, str], tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = load_hook()
    monkeypatch.delenv("MACOSX_DEPLOYMENT_TARGET", raising=False)
    if target is not None:
        monkeypatch.setenv("MACOSX_DEPLOYMENT_TARGET", target)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("platform.mac_ver", lambda: (system[0], ("", "", ""), system[1]))
    assert hook.platform_tag() == tag


def load_hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
