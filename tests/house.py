"""The rules of the house: each reads a tree of source files and returns its complaints, one line each."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from pathlib import Path

# Highest first: a room imports rooms below it.
ROOMS = (
    "cli", "demo", "decoding", "serving", "jobs", "inspector", "inspection", "stages", "training", "runs", "importing",
    "planning", "optimizers", "losses", "distributed", "fast", "ray", "bulk", "cleaning", "studies", "export",
    "translation",
    "language", "memory", "engines", "search", "evaluation", "models", "data", "text", "audio", "profiles", "markov",
    "sequences", "nn", "canvas", "workers", "config", "directories", "files", "archive", "given", "shown", "events",
    "remote", "errors", "languages", "lazy", "pace", "protobuf",
)  # fmt: skip
# Rooms that do not know each other, though one stands below the other.
STRANGERS = {("text", "nn"), ("evaluation", "nn"), ("evaluation", "text")}
NN_MAY_IMPORT = {
    "__future__", "abc", "collections", "contextlib", "dataclasses", "dragoman", "enum", "functools", "jaxtyping",
    "math", "torch", "typing",
}  # fmt: skip
HEAVY = {"matplotlib", "sacrebleu", "sentencepiece", "tensorboard"}
HARMLESS_CALLS = {
    "Before", "BeforeValidator", "Bounds", "ConfigDict", "ContextVar", "dict", "dict.fromkeys", "FailFast", "Field",
    "float",
    "frozenset", "get_args", "lazy_names", "len", "Like",
    "namedtuple", "NewType", "ParamSpec", "Path", "range", "re.compile", "renamed_names", "set", "sorted",
    "str.maketrans", "struct.Struct", "tuple", "typer.Argument", "typer.Option", "typer.Typer", "TypeVar",
}  # fmt: skip
LONGEST_FILE, LONGEST_FUNCTION, LARGEST_ROOM = 400, 60, 5000
LANGUAGES = {".py": "Python", ".cpp": "C++", ".h": "C++", ".js": "JavaScript", ".css": "CSS", ".html": "HTML"}
# What still asks of which class an engine is: no file may be added.
ASKS_ENGINES: set[str] = set()
SPECIAL_IDS = {"PAD", "UNK", "BOS", "EOS", "MASK"}
# Whose they are; and the rooms that still frame and pad by hand: none may be added.
OWNS_SPECIAL_IDS = {"text", "sequences", "markov"}
IMPORTS_SPECIAL_IDS: set[str] = set()

# What the docstring of a public function may begin with.
VERBS = {
    "Add", "Advance", "Append", "As", "Attend", "Average", "Begin", "Break", "Build", "Call", "Capture", "Check",
    "Choose", "Compare", "Compile", "Complain", "Compute", "Continue", "Copy", "Count", "Delete", "Draw", "Drop",
    "Encode", "Estimate", "Explain", "Fill", "Find", "Finish", "Fit", "Generate", "Give", "Go", "Have", "Hold",
    "Import", "Join", "Keep", "Label", "Learn", "Leave", "Let", "Load", "Look", "Make", "Map", "Mark", "Measure",
    "Mix", "Move", "Multiply", "Normalise", "Open", "Pack", "Predict", "Print", "Put", "Raise", "Rank", "Read",
    "Refuse", "Reorder", "Replace", "Report", "Return", "Run", "Say", "Score", "Search", "See", "Seed", "Serve", "Set",
    "Show",
    "Start", "Take", "Tell", "Test", "Train", "Translate", "Try", "Undo", "Validate", "Verify", "Widen", "Write",
    "Yield",
}  # fmt: skip
# Whose docstrings do not: none may be added.
WITHOUT_VERBS: set[str] = set()

Function = ast.FunctionDef | ast.AsyncFunctionDef
MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(work|root|home|Users|opt|mnt)/\w")
REGISTRY_HOST = re.compile(
    r"\b(pypi\.org|pythonhosted\.org|pytorch\.org/whl|anaconda\.org|registry\.npmjs\.org|crates\.io|proxy\.golang\.org)"
)
# The set-up has to know where PyTorch keeps its CPU builds.
MAY_NAME_A_HOST = "scripts/setup_environment.py"


def modules(package: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Every module of the package, by its path inside it."""
    for path in sorted(package.rglob("*.py")):
        yield path.relative_to(package), ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def public_functions(tree: ast.Module | ast.ClassDef) -> Iterator[Function]:
    """The functions a user can call: public ones of the module, and methods of its public classes."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node)
        elif isinstance(node, Function) and (not node.name.startswith("_") or node.name.startswith("__")):
            yield node


def imported(relative: Path, tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Every import with the full dotted name of what it brings, those inside functions and for types too."""
    here = ["dragoman", *relative.with_suffix("").parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: -node.level] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            yield from ((node, f"{module}.{alias.name}") for alias in node.names)


def import_direction(package: Path) -> list[str]:
    """Rooms import downwards only; `nn` imports PyTorch and itself only."""
    complaints = []
    for relative, tree in modules(package):
        room = relative.with_suffix("").parts[0]
        if room in ("__init__", "__main__"):
            continue
        if room not in ROOMS:
            complaints.append(f"{relative}: {room} is no room of the house")
            continue
        for node, name in imported(relative, tree):
            if reason := _wrong_import(room, name):
                complaints.append(f"{relative}:{node.lineno}: {reason}")
    return complaints


def _wrong_import(room: str, name: str) -> str | None:
    top, *rest = name.split(".")
    if room == "nn" and top not in NN_MAY_IMPORT:
        return f"nn imports {top}"
    if top != "dragoman" or rest == ["__version__"]:
        return None
    other = rest[0] if rest else ""
    if other not in ROOMS:
        # The public names may live in any room; only the command line stands above them all.
        return None if room == "cli" else f"{room} imports {name}, not its room"
    if ROOMS.index(other) < ROOMS.index(room) or (room, other) in STRANGERS or (room == "nn" and other != "nn"):
        return f"{room} imports {other}"
    return None


def sizes(package: Path) -> list[str]:
    """Short files and short functions."""
    complaints = []
    for relative, tree in modules(package):
        lines = len((package / relative).read_text(encoding="utf-8").splitlines())
        if lines > LONGEST_FILE:
            complaints.append(f"{relative}: {lines} lines, more than {LONGEST_FILE}")
        for function in functions(tree):
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            if length > LONGEST_FUNCTION:
                complaints.append(f"{relative}:{function.lineno}: {function.name} is {length} lines long")
    return complaints


def room_sizes(package: Path) -> list[str]:
    """No room that one cannot know: its lines of each language."""
    lines: Counter[tuple[str, str]] = Counter()
    for path in package.rglob("*"):
        room = path.relative_to(package).parts[0]
        if path.suffix in LANGUAGES and (package / room).is_dir():
            lines[room, LANGUAGES[path.suffix]] += len(path.read_text(encoding="utf-8").splitlines())
    return [
        f"{room}: {count} lines of {language}, more than {LARGEST_ROOM}"
        for (room, language), count in sorted(lines.items())
        if count > LARGEST_ROOM
    ]


def engine_questions(package: Path, excepted: Collection[str] = ASKS_ENGINES) -> list[str]:
    """Only `engines` asks of which class an engine is: others ask what it supports."""
    return [
        f"{relative}:{node.lineno}: asks whether it is a {name}"
        for relative, tree in modules(package)
        if relative.parts[0] != "engines" and relative.as_posix() not in excepted
        for node in ast.walk(tree)
        for name in sorted(_classes_asked_for(node))
        if name.endswith("Engine")
    ]


def _classes_asked_for(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Call) and _last_name(node.func) in ("isinstance", "issubclass"):
        asked = node.args[1:]
    elif isinstance(node, ast.Compare):
        asked = [node.left, *node.comparators]
    else:
        asked = [node.cls] if isinstance(node, ast.MatchClass) else []
    inner = (part for one in asked for part in ast.walk(one) if isinstance(part, (ast.Name, ast.Attribute)))
    return {_last_name(part) for part in inner}


def special_ids(package: Path, excepted: Collection[str] = IMPORTS_SPECIAL_IDS) -> list[str]:
    """Other rooms than those that own the special ids are given them by the tokenizer or the source."""
    complaints = []
    for relative, tree in modules(package):
        room = relative.with_suffix("").parts[0]
        if room in OWNS_SPECIAL_IDS or room in excepted:
            continue
        for node, name in imported(relative, tree):
            if name.startswith("dragoman.") and name.rpartition(".")[2] in SPECIAL_IDS:
                complaints.append(f"{relative}:{node.lineno}: imports {name}")
    return complaints


def open_signatures(package: Path) -> list[str]:
    """No public `**kwargs`: a misspelt argument must be an error."""
    return [
        f"{relative}:{function.lineno}: {function.name} takes **{function.args.kwarg.arg}"
        for relative, tree in modules(package)
        for function in public_functions(tree)
        if function.args.kwarg
    ]


def undocumented(package: Path) -> list[str]:
    """Modules, public classes, functions and methods have docstrings; a function that raises our errors says so."""
    complaints = []
    for relative, tree in modules(package):
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        named = [function for function in public_functions(tree) if not function.name.startswith("__")]
        complaints += [
            f"{relative}:{getattr(node, 'lineno', 1)}: {getattr(node, 'name', 'the module')} has no docstring"
            for node in (tree, *classes, *named)
            if not ast.get_docstring(node) and not _is_overload(node)
        ]
        complaints += [
            f"{relative}:{function.lineno}: {function.name} does not say that it raises {error}"
            for function in named
            for error in sorted(_own_errors(function))
            if error not in (ast.get_docstring(function) or "")
        ]
    return complaints


def docstring_begins_with_a_verb(package: Path, excepted: Collection[str] = WITHOUT_VERBS) -> list[str]:
    """Docstrings of public functions and methods say what they do ("Return ..."); properties may be noun phrases."""
    return [
        f"{relative}:{function.lineno}: the docstring of {function.name} begins with {words[0]}"
        for relative, tree in modules(package)
        if relative.as_posix() not in excepted
        for function in public_functions(tree)
        if not function.name.startswith("__") and not _is_property(function)
        if (words := (ast.get_docstring(function) or "").split()) and words[0].rstrip(".,:;") not in VERBS
    ]


def _is_property(function: Function) -> bool:
    return any(_last_name(mark) in ("property", "cached_property", "setter") for mark in function.decorator_list)


def _is_overload(node: ast.AST) -> bool:
    return isinstance(node, Function) and any(
        _last_name(mark) in ("overload", "setter") for mark in node.decorator_list
    )


def _own_errors(function: Function) -> set[str]:
    raised = (node.exc for node in ast.walk(function) if isinstance(node, ast.Raise))
    names = (_last_name(error.func) for error in raised if isinstance(error, ast.Call))
    return {
        name for name in names if name in ("ConfigError", "DataError", "ModelError", "DivergenceError", "SaveError")
    }


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def shapeless_tensors(package: Path) -> list[str]:
    """Public functions name the dimensions of the tensors they take and give (`Float[Tensor, "batch len"]`)."""
    return [
        f"{relative}:{annotation.lineno}: {function.name} has a bare {ast.unparse(annotation)}"
        for relative, tree in modules(package)
        for function in public_functions(tree)
        for annotation in _annotations(function)
        if _is_bare_tensor(annotation)
    ]


def _annotations(function: Function) -> Iterator[ast.expr]:
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg):
        if argument is not None and argument.annotation is not None:
            yield argument.annotation
    if function.returns is not None:
        yield function.returns


def _is_bare_tensor(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.BinOp):
        return _is_bare_tensor(annotation.left) or _is_bare_tensor(annotation.right)
    if isinstance(annotation, ast.Subscript) and _last_name(annotation.value) == "tuple":
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return any(_is_bare_tensor(part) for part in parts)
    return _last_name(annotation) == "Tensor"


def import_effects(package: Path) -> list[str]:
    """Importing a module defines things and does nothing else: no calls, no environment, no optional imports."""
    complaints = []
    for relative, tree in modules(package):
        local = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        for node in tree.body:
            if _acts(node, HARMLESS_CALLS | local, relative):
                complaints.append(f"{relative}:{node.lineno}: {ast.unparse(node).splitlines()[0]}")
    return complaints


def _acts(node: ast.stmt, harmless: set[str], relative: Path) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom, Function, ast.ClassDef)):
        return False
    if isinstance(node, ast.If):
        return ast.unparse(node.test) not in ("TYPE_CHECKING", "__name__ == '__main__'")
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return True
    called = {ast.unparse(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    return not called <= harmless or any(_last_name(part) == "environ" for part in ast.walk(node))


def heavy_imports(package: Path) -> list[str]:
    """Slow packages are imported by the functions that need them."""
    return [
        f"{relative}:{node.lineno}: imports {name.split('.')[0]} with the module"
        for relative, tree in modules(package)
        for node, name in imported(relative, ast.Module([n for n in tree.body if not isinstance(n, ast.If)], []))
        if node in tree.body and name.split(".")[0] in HEAVY
    ]


def kept_files(root: Path) -> Iterator[Path]:
    """The files that belong to the repository: all but those `.gitignore` names."""
    ignored = [".git", *(line.rstrip("/") for line in (root / ".gitignore").read_text(encoding="utf-8").split())]
    for path in sorted(root.iterdir()):
        yield from _kept(path, ignored)


def _kept(path: Path, ignored: list[str]) -> Iterator[Path]:
    if any(fnmatch(path.name, pattern) for pattern in ignored):
        return
    if path.is_dir():
        for inner in sorted(path.iterdir()):
            yield from _kept(inner, ignored)
    else:
        yield path


def places(root: Path) -> list[str]:
    """No file names a path of somebody's machine or the host of a package registry."""
    complaints = []
    for path in kept_files(root):
        relative = path.relative_to(root).as_posix()
        lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")
        for number, line in enumerate(lines, 1):
            host = None if relative == MAY_NAME_A_HOST else REGISTRY_HOST.search(line)
            if found := host or MACHINE_PATH.search(line):
                complaints.append(f"{relative}:{number}: names {found[0]}")
    return complaints
