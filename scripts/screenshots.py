"""Draw the pictures of the README: the inspector's page for 猫吃鱼, in both languages, out of a trained demo.

    python scripts/screenshots.py runs/demo

The page is the offline one of `dragoman inspect`, opened in the Chromium of the system.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

import dragoman
from dragoman.inspector.offline import offline_page

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
LANGUAGES = {"en": "en-GB", "zh": "zh-CN"}


def draw(model: str, folder: Path = IMAGES) -> None:
    """Write `inspector-en.png` and `inspector-zh.png` into a folder."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        page = Path(scratch) / "page.html"
        page.write_text(offline_page(dragoman.inspect(model, "猫吃鱼"), parameters=False), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for language, locale in LANGUAGES.items():
            context = browser.new_context(locale=locale, viewport=ViewportSize(width=1200, height=760))
            shown = context.new_page()
            shown.goto(page.as_uri())
            shown.wait_for_load_state("networkidle")
            shown.screenshot(path=folder / f"inspector-{language}.png")
        browser.close()


if __name__ == "__main__":
    draw(sys.argv[1])
