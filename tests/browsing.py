"""A browser that is watched: pages that ask nobody else, run no code of others and break no policy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from dragoman.languages import language_name

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright, Route

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A policy that is broken is told to nobody else; a status that is no success is told by the browser itself.
WATCH = "addEventListener('securitypolicyviolation', (event) => console.error('policy', event.violatedDirective))"
EXPECTED = "Failed to load resource"


def find_browser() -> str | None:
    """The program of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def launch(playwright: Playwright, program: str, *flags: str) -> Browser:
    # Neither a sandbox nor much shared memory is there in a container.
    args = ["--no-sandbox", "--disable-dev-shm-usage", *flags]
    return playwright.chromium.launch(executable_path=program, args=args)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each file of tests: one that lived on would keep its event loop running."""
    yield from started()


def started(*flags: str) -> Iterator[Browser]:
    """A browser with these flags, until it is closed; skips the test where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: no browser can be driven"
    )
    program = find_browser()
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    sync_api.expect.set_options(timeout=20_000)
    with sync_api.sync_playwright() as playwright:
        browser = launch(playwright, program, *flags)
        yield browser
        browser.close()


@contextmanager
def watched(
    browser: Browser,
    address: str,
    *,
    width: int = 1100,
    locale: str = "en-GB",
    scheme: Any = "light",
    prepare: Callable[[Page], None] = lambda page: None,
) -> Iterator[Page]:
    """Open the page in a context of its own; complain of whatever it must not do, once the block is left."""
    complaints: list[str] = []
    context = browser.new_context(
        locale=locale, color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
    )
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.add_init_script(WATCH)
    page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))

    def hear(message: Any) -> None:
        if message.type == "error" and EXPECTED not in message.text:
            complaints.append(f"console: {message.text}")

    def see(request: Any) -> None:
        if urlsplit(request.url).netloc != urlsplit(address).netloc and not request.url.startswith(("data:", "blob:")):
            complaints.append(f"request: {request.url}")

    page.on("console", hear)
    page.on("request", see)
    prepare(page)
    try:
        page.goto(address)
        yield page
    finally:
        context.close()
    assert complaints == []


def answer(page: Page, path: str, body: object, status: int = 200, **headers: str) -> list[dict[str, Any]]:
    """Let the page have this answer, and return the list of what it asks, which grows."""
    asked: list[dict[str, Any]] = []

    def fulfil(route: Route) -> None:
        asked.append({"headers": route.request.headers, "body": json.loads(route.request.post_data or "null")})
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        text = body if isinstance(body, str) else json.dumps(body)
        route.fulfill(status=status, body=text, headers={"Content-Type": "application/json"} | sent)

    page.route(f"**{path}", fulfil)
    return asked


def events(*pairs: tuple[str, object]) -> str:
    """A stream of events."""
    return "".join(f"event: {name}\ndata: {json.dumps(value)}\n\n" for name, value in pairs)


def segment(source: str, text: str, sources: list[list[list[int]]], probability: float = 0.9) -> dict[str, Any]:
    """A sentence as the server tells it: its words, split at blanks, came from these places."""
    words, start = [], 0
    for word, came in zip(text.split(" "), sources, strict=True):
        words.append({"start": start, "end": start + len(word), "probability": probability, "sources": came})
        start += len(word) + 1
    return {"source": source, "before": "", "after": "", "text": text, "score": -0.1, "words": words}


def translation(text: str, *segments: dict[str, Any], **more: object) -> dict[str, Any]:
    """A result as the server tells it."""
    known = {"source": "zh", "target": "en", "models": ["zh-en"], "pivot": None}
    state = {"truncated": False, "unknown": 0, "finished": True}
    return {"text": text, **known, **state, "segments": list(segments), **more}


def models(
    *pairs: tuple[str, str], characters: int = 10_000, many: Sequence[str] = (), **named: tuple[str, str]
) -> dict[str, Any]:
    """What `/v1/models` tells of models for these pairs, of some with other names, and of one for many languages."""
    every = {f"{source}-{target}": (source, target) for source, target in pairs} | named
    told: list[dict[str, Any]] = [
        {"name": name, "source": source, "target": target, "loaded": True, "engine": "native in int8",
         "sources": [{"language": source, "own": None}], "targets": [{"language": target, "own": None}]}
        for name, (source, target) in every.items()
    ]  # fmt: skip
    if many:
        tags = [{"language": tag, "name": language_name(tag), "own": f"{tag}_Xxxx"} for tag in many]
        both = {"source": many[0], "target": many[1], "sources": tags, "targets": tags}
        told.append({"name": "many", "loaded": True, "engine": "native in int8", **both})
    routes = [{"source": one, "target": other, "models": [f"{one}-{other}"], "pivot": None} for one, other in pairs]
    limits = {"characters": characters, "texts": 128, "document_bytes": 1 << 20, "beam_size": 16}
    return {"models": told, "pairs": routes, "limits": limits}


# What a person who sees little or uses no mouse would stumble over. Returns complaints.
ACCESS = """() => {
  const complaints = [];
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length;
  const all = [...document.body.querySelectorAll("*")].filter(seen);
  const line = (element) => element.outerHTML.slice(0, 90);

  const rgb = (color) => {
    const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    paint.fillStyle = color;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  for (const element of all) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const field = element.matches("textarea, select, input:not([type=checkbox])");
    if ((!own && !field) || element.closest(":disabled, .unseen, .skip, option, optgroup")) continue;
    if (getComputedStyle(element).color === "rgba(0, 0, 0, 0)") continue; // the marks behind the textarea
    const found = contrast(rgb(getComputedStyle(element).color), ground(element));
    if (found < 4.5) complaints.push(`contrast ${found.toFixed(2)}: ${line(element)}`);
  }

  const kinds = "a, button, select, textarea, input, progress, [role=button]";
  const controls = all.filter((element) => element.matches(kinds));
  for (const element of controls) {
    const by = (element.getAttribute("aria-labelledby") ?? "").split(" ");
    const names = by.map((id) => document.getElementById(id)?.textContent);
    names.push(element.getAttribute("aria-label"), ...[...(element.labels ?? [])].map((label) => label.textContent));
    if (element.matches("a, button, [role=button]")) names.push(element.textContent);
    if (!names.some((name) => name?.trim())) complaints.push(`no name: ${line(element)}`);
  }
  for (const element of document.querySelectorAll("[aria-labelledby], [aria-describedby], label[for]")) {
    for (const name of ["aria-labelledby", "aria-describedby", "for"]) {
      for (const id of (element.getAttribute(name) ?? "").split(" ").filter(Boolean)) {
        if (!document.getElementById(id)) complaints.push(`no such id ${id}: ${line(element)}`);
      }
    }
  }
  const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
  for (const id of ids.filter((id, at) => ids.indexOf(id) < at)) complaints.push(`twice: ${id}`);
  for (const name of ["header", "main", "footer", "h1"]) {
    if (document.querySelectorAll(`body ${name}`).length !== 1) complaints.push(`not one ${name}`);
  }
  if (!/^(en|zh-Hans)$/.test(document.documentElement.lang)) complaints.push("no language");
  if (document.querySelector("[tabindex]:not([tabindex='0'], [tabindex='-1'])")) complaints.push("an order of its own");
  return complaints;
}"""

# Where the focus is, and whether one sees it.
FOCUS = """() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const style = getComputedStyle(element);
  const pane = getComputedStyle(element.closest(".pane") ?? element);
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const framed = element.matches("textarea") && pane.boxShadow !== "none";
  return { name: element.id || element.textContent.trim(), visible: outlined || framed };
}"""
