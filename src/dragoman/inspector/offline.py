"""One HTML file with the page and a record in it: opened from disk, it asks nothing of anybody."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import save

from dragoman.errors import DataError
from dragoman.inspector.arrays import ALL, OPERANDS

if TYPE_CHECKING:
    from dragoman.inspector.record import Inspection

PAGE = Path(__file__).parent / "page"
# Parameters go into a file by default while all arrays together are no larger than this.
MOST = 16 << 20
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data: blob:; style-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; connect-src data: blob:; base-uri 'none'; form-action 'none'"
)
_STYLE = re.compile(r"""<link\b[^>]*\brel=["']stylesheet["'][^>]*>""")
_SCRIPT = re.compile(r"""<script\b[^>]*\bsrc=["']([^"']+)["'][^>]*>\s*</script>""")
_HREF = re.compile(r"""\bhref=["']([^"']+)["']""")
_IMPORT = re.compile(r"""((?:^|[\s;}])(?:import|export)\b[^;'"()]*?|\bimport\s*\(\s*)(["'])(\.{1,2}/[^"']+)\2""")


def offline_page(inspection: Inspection, folder: Path = PAGE, *, parameters: bool | None = None) -> str:
    """Return a page that needs nothing else, with a record in it.

    `index.html` of the folder has its style sheets and modules put inside. The record stands in
    `<script type="application/json" id="record">`, the arrays as a safetensors file, packed by gzip, in base64 in
    `<script type="application/octet-stream" id="arrays">`; matrices of parameters are in half precision. Presets follow
    in the same form, without the arrays that are the same.

    Args:
        inspection: what is shown.
        folder: of the page's files.
        parameters: whether arrays of level 3 are in it too; if None, as long as they make no giant of the file.

    Raises:
        DataError: the folder has no `index.html`, or a file that it names is missing.
    """
    index = _read(folder, "index.html")
    if parameters is None:
        parameters = sum(values.nbytes for values in inspection.arrays.values()) <= MOST
    names = inspection.names(ALL if parameters else OPERANDS)
    data = _data("record", "arrays", inspection, names)
    for name, preset in inspection.presets.items():
        data += _data(f"record-{name}", f"arrays-{name}", preset, _other(preset, inspection), name)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
    page = _STYLE.sub(lambda found: _style(folder, found[0]), index)
    modules: dict[str, str] = {}
    page = _SCRIPT.sub(lambda found: _script(folder, found, modules), page)
    # A map of what modules are called comes before the first of them; the data before what reads it.
    head = "\n".join([policy, _import_map(modules)])
    page = re.sub(r"<head[^>]*>", lambda found: f"{found[0]}\n{head}", page, count=1)
    return page.replace("</body>", f"{data}</body>", 1) if "</body>" in page else page + data


def _data(record: str, arrays: str, found: Inspection, names: list[str], preset: str = "") -> str:
    """A record and its arrays as elements."""
    kind = f' data-preset="{html.escape(preset)}"' if preset else ""
    numbers = base64.b64encode(gzip.compress(_numbers(found, names), mtime=0)).decode("ascii")
    return (
        f'<script type="application/json" id="{record}"{kind}>{_inside(found.json())}</script>\n'
        f'<script type="application/octet-stream" id="{arrays}" data-packed="gzip">{numbers}</script>\n'
    )


def _other(preset: Inspection, found: Inspection) -> list[str]:
    """The arrays of a preset that are not those of the record itself, which are in the page already."""
    return [
        name
        for name in preset.names(OPERANDS)
        if name not in found.arrays or not np.array_equal(preset.arrays[name], found.arrays[name])
    ]


def _numbers(found: Inspection, names: list[str]) -> bytes:
    """Arrays as a safetensors file, matrices of parameters in half precision: a quarter of all bytes is saved by it."""
    levels = found.record["arrays"]
    shared = found.parameters()
    values = {name: found.arrays[name] for name in dict.fromkeys(names)}
    for name, value in values.items():
        if levels[name]["level"] == ALL and name in shared and value.dtype == np.float32:
            values[name] = value.astype(np.float16)
    return save(values)


def inline_frame(inspection: Inspection, folder: Path = PAGE, *, height: int = 760) -> str:
    """Return the page as a frame of a notebook's cell.

    Args:
        inspection: what is shown.
        folder: of the page's files.
        height: in pixels.
    """
    page = html.escape(offline_page(inspection, folder), quote=True)
    return f'<iframe srcdoc="{page}" style="width:100%;height:{height}px;border:0" sandbox="allow-scripts"></iframe>'


def _read(folder: Path, name: str) -> str:
    file = folder / name
    if not file.resolve().is_relative_to(folder.resolve()) or not file.is_file():
        raise DataError("the page lacks a file", file=file, hint="install the package again")
    return file.read_text(encoding="utf-8")


def _inside(text: str) -> str:
    """JSON that nothing in it can end: `<` is written by its number."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _style(folder: Path, tag: str) -> str:
    found = _HREF.search(tag)
    name = found[1] if found else ""
    rules = _read(folder, name.removeprefix("./")).replace("</", "<\\/")
    return f"<style>\n{rules}\n</style>"


def _script(folder: Path, found: re.Match[str], modules: dict[str, str]) -> str:
    """A script that stands in the page; what it imports goes into `modules`."""
    name = found[1].removeprefix("./")
    code = _with_names(folder, name, modules)
    kind = ' type="module"' if "module" in found[0] else ""
    return f"<script{kind}>\n{_code(code)}\n</script>"


def _with_names(folder: Path, name: str, modules: dict[str, str]) -> str:
    """The code of a module, in which other modules have names that do not depend on where it stands."""
    home = Path(name).parent

    def called(found: re.Match[str]) -> str:
        other = _joined(home, found[3])
        if other not in modules:
            modules[other] = ""  # it may import what is being read
            modules[other] = _with_names(folder, other, modules)
        return f"{found[1]}{found[2]}page/{other}{found[2]}"

    return _IMPORT.sub(called, _read(folder, name))


def _joined(home: Path, name: str) -> str:
    parts: list[str] = list(home.parts)
    for part in name.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _import_map(modules: dict[str, str]) -> str:
    places = {
        f"page/{name}": "data:text/javascript;base64," + base64.b64encode(code.encode()).decode("ascii")
        for name, code in modules.items()
    }
    return f'<script type="importmap">{json.dumps({"imports": places})}</script>'


def _code(code: str) -> str:
    """JavaScript that cannot end its element; in strings and patterns `<\\/` is the same."""
    return re.sub(r"<(/script|!--)", r"<\\\1", code, flags=re.IGNORECASE)
