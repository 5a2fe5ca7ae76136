"""The house keeps its own rules, and each rule is able to complain."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import dragoman
import house

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dragoman"
RULES = (
    house.import_direction,
    house.sizes,
    house.room_sizes,
    house.engine_questions,
    house.special_ids,
    house.open_signatures,
    house.undocumented,
    house.docstring_begins_with_a_verb,
    house.shapeless_tensors,
    house.import_effects,
    house.heavy_imports,
)
ROOMS = [room for room in house.ROOMS if (PACKAGE / room).exists() or (PACKAGE / f"{room}.py").exists()]

PLANTED = [
    (house.import_direction, "nn/block.py", "import numpy"),
    (house.import_direction, "nn/block.py", "from dragoman.config import ModelConfig"),
    (house.import_direction, "nn/block.py", "from ..errors import DragomanError"),
    (house.import_direction, "models/build.py", "from dragoman.training import train"),
    (house.import_direction, "models/build.py", "from dragoman import training"),
    (house.import_direction, "models/build.py", "from .. import decoding"),
    (house.import_direction, "models/build.py", "def f():\n    import dragoman.cli"),
    (house.import_direction, "models/build.py", "if TYPE_CHECKING:\n    from dragoman.engines import choose"),
    (house.import_direction, "models/build.py", "from dragoman import Translator"),
    (house.import_direction, "text/lines.py", "from dragoman.nn import Encoder"),
    (house.import_direction, "evaluation/score.py", "from dragoman.text import Tokenizer"),
    (house.import_direction, "cellar/wine.py", "import math"),
    (house.sizes, "data/long.py", "x = 1\n" * (house.LONGEST_FILE + 1)),
    (house.sizes, "data/long.py", "def f():\n" + "    x = 1\n" * house.LONGEST_FUNCTION),
    (house.room_sizes, "data/all.py", "x = 1\n" * (house.LARGEST_ROOM + 1)),
    (house.room_sizes, "engines/all.cpp", "int x;\n" * (house.LARGEST_ROOM + 1)),
    (house.engine_questions, "serving/a.py", "def f(x): return isinstance(x, NativeEngine)"),
    (house.engine_questions, "serving/a.py", "def f(x): return isinstance(x, (int, engines.PackedEngine))"),
    (house.engine_questions, "serving/a.py", "def f(x): return issubclass(type(x), NativeEngine | None)"),
    (house.engine_questions, "serving/a.py", "def f(x): return type(x) is ModuleEngine"),
    (house.engine_questions, "serving/a.py", "def f(x): return type(x) in (PackedEngine, dict)"),
    (house.engine_questions, "serving/a.py", "def f(x):\n    match x:\n        case NativeEngine():\n            pass"),
    (house.special_ids, "serving/a.py", "from dragoman.text.tokenizer import EOS, own_length"),
    (house.special_ids, "models/a.py", "from dragoman.text import PAD"),
    (house.special_ids, "models/a.py", "def f():\n    from ..text.tokenizer import MASK as hidden"),
    (house.open_signatures, "data/open.py", "def read(**options): ..."),
    (house.open_signatures, "data/open.py", "class Store:\n    def __init__(self, **options): ..."),
    (house.undocumented, "data/silent.py", "x = 1"),
    (house.undocumented, "data/silent.py", '"""Module."""\ndef read(): ...'),
    (house.undocumented, "data/silent.py", '"""Module."""\nclass Store:\n    """Class."""\n    def read(self): ...'),
    (house.undocumented, "data/silent.py", '"""M."""\ndef read():\n    """Reads."""\n    raise DataError("no")'),
    (house.docstring_begins_with_a_verb, "data/noun.py", 'def read():\n    """The lines of a file."""'),
    (house.docstring_begins_with_a_verb, "data/noun.py", 'class Store:\n    def read(self):\n        """Reads it."""'),
    (house.shapeless_tensors, "nn/bare.py", "def f(x: Tensor) -> None: ..."),
    (house.shapeless_tensors, "nn/bare.py", "class Block:\n    def forward(self, x: torch.Tensor | None): ..."),
    (house.shapeless_tensors, "nn/bare.py", "def f() -> tuple[Tensor, int]: ..."),
    (house.import_effects, "data/busy.py", "STORE = open('store')"),
    (house.import_effects, "data/busy.py", "torch.set_num_threads(1)"),
    (house.import_effects, "data/busy.py", "HOME = os.environ['HOME']"),
    (house.import_effects, "data/busy.py", "try:\n    import tensorboard\nexcept ImportError:\n    pass"),
    (house.heavy_imports, "evaluation/slow.py", "import sacrebleu"),
    (house.heavy_imports, "evaluation/slow.py", "from matplotlib.figure import Figure"),
]
INNOCENT = '''"""A module that keeps every rule."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jaxtyping import Float

from dragoman import __version__
from dragoman.data.store import TokenStore
from dragoman.errors import ModelError

if TYPE_CHECKING:
    import sacrebleu

WORD = re.compile("x")


class Reader:
    """Reads."""


READER = Reader()


def build(x: Float[Tensor, "batch"], parts: dict[str, Tensor], act: Callable[[Tensor], Tensor]) -> Tensors:
    """Build.

    Raises:
        ModelError: always.
    """
    import matplotlib

    raise ModelError(x)


def _hidden(**options: int) -> Tensor: ...
'''


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Callable[[Path], list[str]]) -> None:
    assert rule(PACKAGE) == []


@pytest.mark.parametrize(("rule", "where", "source"), PLANTED)
def test_each_rule_sees_what_breaks_it(
    rule: Callable[[Path], list[str]], where: str, source: str, tmp_path: Path
) -> None:
    (tmp_path / where).parent.mkdir()
    (tmp_path / where).write_text(source, encoding="utf-8")
    assert len(rule(tmp_path)) == 1


def test_no_exception_is_kept_that_nothing_needs() -> None:
    def places(complaints: list[str]) -> list[str]:
        return [complaint.partition(":")[0] for complaint in complaints]

    assert set(places(house.engine_questions(PACKAGE, ()))) == house.ASKS_ENGINES
    assert {place.split("/")[0] for place in places(house.special_ids(PACKAGE, ()))} == house.IMPORTS_SPECIAL_IDS
    nouns = places(house.docstring_begins_with_a_verb(PACKAGE, ()))
    assert set(nouns) == house.WITHOUT_VERBS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_rule_complains_about_an_innocent_module(rule: Callable[[Path], list[str]], tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "innocent.py").write_text(INNOCENT, encoding="utf-8")
    assert rule(tmp_path) == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    assert house.places(ROOT) == []


def test_named_machines_and_registries_are_seen(tmp_path: Path) -> None:
    host = "py" + "pi.org"
    (tmp_path / ".gitignore").write_text("runs/\n", encoding="utf-8")
    for folder in ("docs", "runs", "scripts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "runs" / "log").write_text(host, encoding="utf-8")
    (tmp_path / "docs" / "a.md").write_text(f"see\nhttps://{host}/x", encoding="utf-8")
    (tmp_path / "docs" / "b.md").write_text("~/opt/x and ./root/x; cd /" + "home/me", encoding="utf-8")
    (tmp_path / house.MAY_NAME_A_HOST).write_text(f"{host}\n/" + "root/x", encoding="utf-8")
    assert [complaint.split(": names")[0] for complaint in house.places(tmp_path)] == [
        "docs/a.md:2",
        "docs/b.md:1",
        f"{house.MAY_NAME_A_HOST}:2",
    ]


@pytest.mark.parametrize("name", [name for name in dragoman.__all__ if name != "__version__"])
def test_a_public_name_is_there_and_documented(name: str) -> None:
    assert _own_documentation(getattr(dragoman, name))


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_exports_is_there_and_documented(room: str) -> None:
    module = import_module(f"dragoman.{room}")
    exported = {name: getattr(module, name) for name in getattr(module, "__all__", [])}
    documented = (type, type(inspect), type(_own_documentation))
    assert [name for name, it in exported.items() if isinstance(it, documented) and not _own_documentation(it)] == []


@pytest.mark.parametrize("path", sorted((PACKAGE / "nn").glob("*.py")), ids=lambda path: path.stem)
def test_each_block_names_its_source_in_the_paper(path: Path) -> None:
    documentation = import_module(f"dragoman.nn.{path.stem}").__doc__ if path.stem != "__init__" else "paper"
    assert path.stem == "cache" or "paper" in (documentation or "")


def _own_documentation(it: object) -> str:
    """The docstring somebody wrote: not an inherited one, nor the signature that dataclasses fill in."""
    text = it.__doc__ or ""
    return "" if text.startswith(f"{getattr(it, '__name__', '')}(") else text


LAZY = sorted(
    ".".join(("dragoman", *path.relative_to(PACKAGE).parent.parts))
    for path in PACKAGE.rglob("__init__.py")
    if "lazy_names(" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_the_names_that_are_looked_up_lazily(package: str) -> None:
    module = import_module(package)
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = [(one.module, name) for one in block.body if isinstance(one, ast.ImportFrom) for name in one.names]
    assert sorted(name.name for _, name in seen) == [name for name in module.__all__ if name != "__version__"]
    for home, name in seen:
        assert name.asname == name.name, "without `as` it is no public name to a type checker"
        assert getattr(import_module(home or ""), name.name) is getattr(module, name.name)
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_the_package_names_are_looked_up_lazily() -> None:
    assert len(LAZY) >= 6
    assert set(dir(dragoman)) >= set(dragoman.__all__)
    assert dragoman.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="no attribute 'Tranlator'"):
        dragoman.Tranlator  # noqa: B018


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    # Users have compiled bytecode; some build machines forbid it.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environ)


@pytest.mark.parametrize("module", ["dragoman", "dragoman.config", "dragoman.cli"])
def test_importing_it_is_light(module: str) -> None:
    loaded = _run(sys.executable, "-c", f"import {module}, json, sys; print(json.dumps(list(sys.modules)))").stdout
    assert not {"torch", "numpy", *house.HEAVY} & set(json.loads(loaded))


def test_help_comes_at_once() -> None:
    command = str(Path(sys.executable).with_name("dragoman"))
    assert "translate" in _run(command, "--help").stdout
    best = float("inf")
    # Other tests run beside this one: the least time on the processor is what an idle machine takes.
    for _ in range(20):
        start = os.times()
        _run(command, "--help")
        end = os.times()
        best = min(best, end.children_user + end.children_system - start.children_user - start.children_system)
        if best <= 0.3:
            break
    assert best <= 0.3


def test_shapes_and_types_are_checked_in_tests() -> None:
    import torch
    from jaxtyping import TypeCheckError

    from dragoman.nn import padding_mask

    assert padding_mask(torch.zeros(2, 3, dtype=torch.int64), 0).shape == (2, 1, 1, 3)
    with pytest.raises(TypeCheckError):
        padding_mask(torch.zeros(3, dtype=torch.int64), 0)
    with pytest.raises(TypeCheckError):
        padding_mask(torch.zeros(2, 3), 0)


def test_users_pay_nothing_for_the_checks() -> None:
    loaded = _run(sys.executable, "-c", "import dragoman.nn, json, sys; print(json.dumps(list(sys.modules)))").stdout
    assert "beartype" not in json.loads(loaded)
