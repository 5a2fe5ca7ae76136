"""One file holds the page and a record; nothing in a text can get out of its place, and nothing is asked of anybody."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser
from safetensors.numpy import load

from dragoman.errors import DataError
from dragoman.inspector.offline import inline_frame, offline_page
from dragoman.inspector.record import Inspection

HOSTILE = "</script><script>document.title = 'broken'</script><!-- \u2028 <img src=x onerror=alert(1)>"
INDEX = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>stub</title>
<link rel="stylesheet" href="./look.css">
<script type="module" src="./main.js"></script>
</head><body><main></main></body></html>
"""
MAIN = """import { shown } from "./parts/shown.js";
const record = JSON.parse(document.getElementById("record").textContent);
const bytes = Uint8Array.from(atob(document.getElementById("arrays").textContent), (sign) => sign.charCodeAt(0));
shown(record.text, bytes.length);
"""
SHOWN = """import { sign } from "../sign.js";
export function shown(text, size) {
  document.querySelector("main").textContent = sign + text + sign + size + "</script>";
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "page"
    (made / "parts").mkdir(parents=True)
    (made / "index.html").write_text(INDEX, encoding="utf-8")
    (made / "look.css").write_text("main { color: rgb(1, 2, 3) }", encoding="utf-8")
    (made / "main.js").write_text(MAIN, encoding="utf-8")
    (made / "parts" / "shown.js").write_text(SHOWN, encoding="utf-8")
    (made / "sign.js").write_text('export const sign = "|";\n', encoding="utf-8")
    return made


@pytest.fixture
def found() -> Inspection:
    table = {name: {"dtype": "float32", "shape": [3], "level": level} for name, level in (("a", 1), ("w", 3))}
    record = {"format": 1, "text": HOSTILE, "output": {"text": ""}, "graph": {"nodes": []}, "arrays": table}
    return Inspection(record, {name: np.arange(3, dtype=np.float32) for name in table})


def element(page: str, name: str) -> str:
    [inside] = re.findall(rf'<script type="[^"]*" id="{name}"[^>]*>(.*?)</script>', page, flags=re.DOTALL)
    return inside


def test_the_record_and_the_arrays_are_in_it(folder: Path, found: Inspection) -> None:
    page = offline_page(found, folder)
    assert json.loads(element(page, "record")) == found.record
    assert "<" not in element(page, "record")
    assert load(gzip.decompress(base64.b64decode(element(page, "arrays")))).keys() == {"a", "w"}
    less = offline_page(found, folder, parameters=False)
    assert load(gzip.decompress(base64.b64decode(element(less, "arrays")))).keys() == {"a"}
    for part in ("href=", "src="):
        assert part not in page.partition('id="record"')[0]
    assert "http:" not in page
    assert "https:" not in page
    frame = inline_frame(found, folder)
    assert frame.startswith("<iframe srcdoc=")
    assert "<" not in frame[1:].removesuffix("</iframe>")


def test_a_missing_file_is_named(folder: Path, found: Inspection) -> None:
    (folder / "sign.js").unlink()
    with pytest.raises(DataError, match=r"sign\.js"):
        offline_page(found, folder)


def test_a_browser_shows_it_from_the_disk_and_asks_nobody(
    browser: Browser, folder: Path, found: Inspection, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(offline_page(found, folder), encoding="utf-8")
    said: list[str] = []
    with browser.new_page() as page:
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_function("document.querySelector('main').textContent !== ''")
        size = len(base64.b64decode(element(file.read_text(encoding="utf-8"), "arrays")))
        assert page.locator("main").text_content() == f"|{HOSTILE}|{size}</script>"
        assert page.title() == "stub"
        colour = page.locator("main").evaluate("(main) => getComputedStyle(main).color")
    assert colour == "rgb(1, 2, 3)"
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    assert said == []
