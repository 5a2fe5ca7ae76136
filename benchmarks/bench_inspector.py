"""How fast the inspector's page answers, in a browser without a window, and how much it takes to fetch and to hold.

`bench_inspector.py MODEL [TEXT]`: MODEL is a run of an encoder-decoder. Needs playwright and Chromium.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright
from rows import print_row

FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info", "--js-flags=--expose-gc"]
PIECES = 64
SHOWN = "main[data-view]:not([aria-busy=true])"
STEPS = """async ([key, times]) => {
  const took = [];
  for (let at = 0; at < times; at++) {
    const forth = at % 8 < 4;
    const began = performance.now();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: forth ? key : "ArrowLeft", bubbles: true }));
    document.body.offsetHeight;
    took.push(performance.now() - began);
    await new Promise((done) => setTimeout(done));
  }
  return took;
}"""
MAP = """async () => {
  const { drawMatrix } = await import(new URL("matrix.js", document.baseURI));
  const names = Array.from({ length: 512 }, (_, at) => `${at}`);
  const values = Float32Array.from({ length: 512 * 512 }, () => Math.random());
  const took = [];
  for (let at = 0; at < 5; at++) {
    const began = performance.now();
    const drawn = drawMatrix({ name: "map", key: "map", scale: "share", rows: names, cols: names, at: [3, 4],
      value: (i, j) => values[512 * i + j], hidden: (i, j) => j > i, choose: () => {} });
    document.body.append(drawn);
    document.body.offsetHeight;
    took.push(performance.now() - began);
    drawn.remove();
  }
  return took;
}"""
SOURCE = """(text) => new Promise((done) => {
  const field = document.getElementById("ask-text");
  const began = performance.now();
  new MutationObserver((_, watcher) => {
    const pieces = [...document.querySelectorAll("#strip ol:first-of-type b")];
    const shown = pieces.map((piece) => piece.textContent).join("");
    if (!shown.startsWith(text.slice(0, 2))) return;
    watcher.disconnect();
    done(performance.now() - began);
  }).observe(document.getElementById("strip"), { childList: true });
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
})"""
HEAP = "() => { gc(); return performance.memory.usedJSHeapSize; }"


def started(model: str, text: str) -> tuple[subprocess.Popen[str], str]:
    """The server and its page's address."""
    command = [sys.executable, "-m", "dragoman", "inspect", model, text, "--no-open"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    line = server.stderr.readline()
    found = re.search(r"http://\S+", line)
    assert found, line
    return server, found[0]


def opening(browser: Browser, model: str, text: str) -> None:
    """From the call to a page in which one can type, and to the first trace in it; the browser is there already."""
    page = browser.new_page()
    began = time.perf_counter()
    server, address = started(model, text)
    told = time.perf_counter() - began
    page.goto(address)
    page.wait_for_selector("#ask-text")
    usable = time.perf_counter() - began
    page.wait_for_selector(SHOWN)
    row = {"address_seconds": told, "usable_seconds": usable, "first_trace_seconds": time.perf_counter() - began}
    print_row("inspector", {"what": "opening", **row})
    page.close()
    server.terminate()
    server.wait()


def milliseconds(what: str, took: list[float], limit: float, facts: dict[str, object] | None = None) -> None:
    row = {"median_milliseconds": statistics.median(took), "worst_milliseconds": max(took), "limit": limit}
    print_row("inspector", {"what": what, **row, "times": len(took), **(facts or {})})


def go(page: Page, state: dict[str, str]) -> None:
    page.evaluate("(hash) => { location.hash = hash; }", urlencode(state))
    page.wait_for_selector(f"main[data-view={state['view']}]:not([aria-busy=true])")
    page.wait_for_timeout(300)


def answering(browser: Browser, model: str, text: str) -> None:
    server, address = started(model, text)
    page = browser.new_page()
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(len(answer.body())) if answer.url.endswith("/trace") else None)
    page.goto(address)
    page.wait_for_selector(SHOWN)
    page.wait_for_timeout(1500)  # what is fetched ahead
    pieces = page.locator("#strip ol >> nth=0 >> li").count()
    print_row("inspector", {"what": "first view", "bytes": sizes[0], "source_pieces": pieces, "limit": 300_000})
    for view in ("steps", "stage", "search"):
        go(page, {"text": text, "view": view})
        milliseconds("step change", page.evaluate(STEPS, ["ArrowRight", 40]), 50, {"view": view})
    milliseconds("512 x 512 map", page.evaluate(MAP), 300)
    go(page, {"text": text, "view": "map"})
    texts = [f"{text[at % len(text)]}{text}" for at in range(1, 8)]
    milliseconds("new source", [page.evaluate(SOURCE, one) for one in texts], 500)
    heap(page, text)
    server.terminate()
    server.wait()


def heap(page: Page, text: str) -> None:
    """The heap with a long text after all views were seen, and its growth over 200 changes of the step."""
    long = (text * PIECES)[: PIECES - 1]
    for view in ("map", "stage", "steps", "search", "heads", "judging", "embeddings", "tour", "quiz"):
        go(page, {"text": long, "view": view})
    pieces = page.locator("#strip ol >> nth=0 >> li").count()
    go(page, {"text": long, "view": "steps"})
    page.evaluate(STEPS, ["ArrowRight", 40])
    before = page.evaluate(HEAP)
    took = page.evaluate(STEPS, ["ArrowRight", 200])
    after = page.evaluate(HEAP)
    facts = {"source_pieces": pieces, "megabytes": after / 1e6, "limit": 300, "growth": after / before - 1}
    print_row("inspector", {"what": "heap after 200 steps", **facts})
    milliseconds("step change", took, 50, {"view": "steps", "source_pieces": pieces})


def files(model: str, text: str) -> None:
    from dragoman.inspector import inspect, offline_page

    found = inspect(model, text, presets=True)
    alone = inspect(model, text)
    sizes = {
        "bytes": len(offline_page(found).encode()),
        "without_presets": len(offline_page(alone).encode()),
        "without_parameters": len(offline_page(alone, parameters=False).encode()),
    }
    print_row("inspector", {"what": "offline file", **sizes})


def main() -> None:
    model, text = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "花想学中文。"
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program
    assert Path(model).is_dir()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        for _ in range(3):
            opening(browser, model, text)
        answering(browser, model, text)
        browser.close()
    files(model, text)


if __name__ == "__main__":
    main()
