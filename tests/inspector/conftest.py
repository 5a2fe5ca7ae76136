"""One browser for all tests of the inspector's page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser can be driven")

from playwright.sync_api import Browser, expect, sync_playwright

from browsing import find_browser, launch


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = launch(playwright, program)
        yield browser
        browser.close()
