"""Nothing in the package can run code out of a file: a scan of its syntax trees."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dragoman

PACKAGE = Path(dragoman.__file__).parent
MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
# Of yaml only what makes plain values; a loader that refuses aliases, by which a few bytes become any amount.
PLAIN_YAML = {"yaml", "yaml.SafeLoader", "yaml.events", "yaml.events.AliasEvent", "yaml.YAMLError"}
BUILTINS = {"eval", "exec", "compile", "__import__"}
NAMES = {
    *("torch.load", "torch.save", "torch.serialization", "torch.jit.load", "torch.hub", "torch.package"),
    *("torch.utils.serialization", "numpy.lib.npyio", "pandas.read_pickle", "shutil.unpack_archive"),
    *(f"builtins.{name}" for name in BUILTINS),
}
METHODS = {"extractall", "read_pickle"}


def imported_names(tree: ast.AST) -> dict[str, str]:
    """What each imported name of a file stands for, dotted in full."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """`t.load` as `torch.load` after `import torch as t`; empty for what is no plain dotted name."""
    if isinstance(node, ast.Name):
        builtin = node.id in BUILTINS and isinstance(node.ctx, ast.Load)
        return names.get(node.id, f"builtins.{node.id}" if builtin else "")
    if isinstance(node, ast.Attribute) and (base := dotted(node.value, names)):
        return f"{base}.{node.attr}"
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) > 1
    ):
        base, attribute = dotted(node.args[0], names), node.args[1]
        if base and isinstance(attribute, ast.Constant):
            return f"{base}.{attribute.value}"
    return ""


def forbidden(name: str) -> bool:
    parts = name.split(".")
    if parts[0] == "yaml":
        return name not in PLAIN_YAML
    return parts[0] in MODULES or any(".".join(parts[:n]) in NAMES for n in range(2, len(parts) + 1))


def allows_pickle(call: ast.Call, names: dict[str, str]) -> bool:
    """Whether a call is `numpy.load` (or `numpy.save`) with anything but a plain False for `allow_pickle`."""
    if dotted(call.func, names) not in ("numpy.load", "numpy.save", "numpy.memmap"):
        return False
    given = [keyword.value for keyword in call.keywords if keyword.arg in ("allow_pickle", None)] + call.args[2:3]
    return any(not (isinstance(value, ast.Constant) and value.value is False) for value in given)


def dangers(source: str) -> list[str]:
    """`line: what` for each thing in a file that could run code from data."""
    tree = ast.parse(source)
    names = imported_names(tree)
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        what = ""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            base = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            full = [f"{base[0]}.{alias.name}" if base else alias.name for alias in node.names]
            what = next((name for name in base + full if forbidden(name)), "")
        elif isinstance(node, ast.Attribute) and node.attr in METHODS:
            what = node.attr
        elif isinstance(node, ast.Call) and allows_pickle(node, names):
            what = "allow_pickle"
        if not what and isinstance(node, ast.expr) and forbidden(name := dotted(node, names)):
            what = name
        if what and isinstance(node, (ast.stmt, ast.expr)):
            found[f"{node.lineno}: {what}"] = None
    return list(found)


def test_the_package_is_safe() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 20
    found = {path.relative_to(PACKAGE).as_posix(): dangers(path.read_text(encoding="utf-8")) for path in files}
    assert {name: dangers for name, dangers in found.items() if dangers} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import pickle as p",
        "from pickle import loads",
        "def f():\n    import _pickle",
        "import marshal",
        "from shelve import open",
        "import dill, json",
        "import joblib",
        "import yaml\nyaml.load(x)",
        "from yaml import safe_load",
        "import torch\ntorch.load('x')",
        "import torch\ntorch.load('x', weights_only=True)",
        "import torch\nload = torch.load",
        "import torch as t\nt.save({}, 'x')",
        "from torch import load",
        "from torch import save as write",
        "from torch.serialization import load",
        "import torch.serialization",
        "import torch\ntorch.jit.load('x')",
        "from torch import jit\njit.load('x')",
        "import torch\ngetattr(torch, 'load')('x')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "import numpy as np\nnp.load('x', allow_pickle=flag)",
        "import numpy as np\nnp.load('x', None, True)",
        "import numpy as np\nnp.load('x', **options)",
        "from numpy import load\nload('x', allow_pickle=1)",
        "eval('1')",
        "exec(text)",
        "f = eval",
        "compile(text, '', 'exec')",
        "__import__('os')",
        "import builtins\nbuiltins.exec('')",
        "archive.extractall(path)",
        "import shutil\nshutil.unpack_archive('x')",
        "import pandas as pd\npd.read_pickle('x')",
    ],
)
def test_planted_dangers_are_found(source: str) -> None:
    assert dangers(source)


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()",
        "class Config:\n    compile: bool = False",
        "import torch\ntorch.compile(model)",
        "import re\nre.compile('x')",
        "from safetensors.torch import save, load",
        "import json\njson.load(file)",
        "import numpy as np\nnp.load('x')\nnp.load('x', allow_pickle=False)",
        "def load(path):\n    return save(path)",
        "'torch.load is not used'",
        "self.load(state)",
        "from . import pickle_free",
    ],
)
def test_harmless_code_passes(source: str) -> None:
    assert not dangers(source)
