"""The inspector with a server behind it, in a real browser: what is typed and clicked is traced anew."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser can be driven")

from playwright.sync_api import Browser, Locator, Page, expect

from browsing import ACCESS, watched
from end_to_end import small

TEXT, OTHER = "ba ce di fo gu", "lo mu ne"
HOSTILE = "<img src=x onerror=alert(1)>"
SELF = "decoder.layers.0.self_attention"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command's own server, in a process of its own: nothing checks its types, which takes most of the time."""
    model = small.saved(tmp_path_factory.mktemp("live") / "model", small.word_pair())
    command = [sys.executable, "-m", "dragoman", "inspect", str(model), "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+/inspect/", process.stderr.readline())
        try:
            assert found
            yield found[0]
        finally:
            process.terminate()
            process.communicate()
    assert process.returncode == 0


def asked(address: str, text: str = TEXT, **body: object) -> dict[str, Any]:
    """The record of what is asked."""
    answer = httpx.post(f"{address}api/trace", json={"text": text, "views": False, **body}, timeout=60)
    size = int.from_bytes(answer.content[:8], "little")
    return json.loads(json.loads(answer.content[8 : 8 + size])["__metadata__"]["record"])


def written(address: str, text: str = TEXT) -> list[str]:
    return [piece["text"] for piece in asked(address, text)["output"]["pieces"]]


def go(page: Page, **state: object) -> None:
    page.evaluate("(hash) => { location.hash = hash; }", urlencode(state))
    expect(page.locator("main")).to_have_attribute("data-view", str(state["view"]))


def pieces(page: Page, row: int) -> list[str]:
    return page.locator(f"#strip ol >> nth={row} >> b").all_text_contents()


def output_is(page: Page, wanted: list[str]) -> None:
    expect(page.locator("#strip ol >> nth=1 >> b")).to_have_text(wanted)


def test_what_if_is_answered_at_once_and_stands_in_the_address(browser: Browser, address: str) -> None:
    usual = written(address)
    with watched(browser, address) as page:
        text = page.get_by_role("textbox", name="Text", exact=True)
        expect(page.get_by_text("Type a text.")).to_be_visible()
        text.fill(OTHER)
        output_is(page, written(address, OTHER))
        text.fill(TEXT)
        output_is(page, usual)
        assert pieces(page, 0) == [*TEXT.split(), "</s>"]

        page.get_by_role("button", name="Heads", exact=True).click()
        page.get_by_role("button", name="Switch head").click()
        chip = page.get_by_role("button", name=re.compile("Undo: off: .* head"))
        expect(chip).to_be_visible()
        page.reload()  # a link leads to the same state
        expect(chip).to_be_visible()
        chip.click()
        output_is(page, usual)

        page.get_by_role("button", name="Search").click()
        rows = page.get_by_role("group", name="Beam tree").get_by_role("button")
        rows.nth(2).click()
        word = page.locator("#candidate dd").first.text_content() or ""
        page.get_by_role("button", name="Force this branch and go on").click()
        expect(page.locator("#strip ol >> nth=1 >> b").first).to_have_text(word.split("“")[1].rstrip("”"))
        assert "forced=" in page.url
        page.get_by_role("button", name=re.compile("Undo: begins with")).click()
        output_is(page, usual)

        page.evaluate(
            "(hash) => { location.hash = hash; }",
            urlencode({"text": TEXT, "view": "stage", "stage": f"{SELF}.weights", "row": 0, "col": 1}),
        )
        expect(page.locator("#number")).to_have_text("0.00000")
        page.get_by_role("button", name="Remove the causal mask").click()
        expect(page.locator("#number")).not_to_have_text("0.00000")
        page.get_by_text("What if", exact=True).click()
        page.get_by_role("checkbox", name="causal mask").check()
        page.get_by_role("textbox", name="Longer sentence beside it").fill(f"{TEXT} {TEXT}")
        expect(page.get_by_role("button", name="Undo: beside")).to_be_visible()
        expect(page.locator("#strip ol >> nth=0 >> b")).to_have_text([*TEXT.split(), "</s>"])
        page.get_by_role("textbox", name="Forced target").fill("ri pa")
        page.get_by_role("button", name="Judging").click()
        expect(page.locator("main")).to_contain_text("Verdict")
        assert page.evaluate(ACCESS) == []

        text.fill(HOSTILE)
        expect(page.locator("#strip ol >> nth=0 >> b").first).to_have_text("<unk>")
        assert page.locator("img").count() == 0
        text.fill("ba " * 400)
        expect(page.get_by_role("alert")).to_contain_text("256 pieces")
        page.route("**/api/trace", lambda route: route.abort())
        text.fill("ba ce")
        expect(page.get_by_role("alert")).to_contain_text("does not answer")


def test_two_systems_side_by_side(browser: Browser, address: str) -> None:
    with watched(browser, f"{address}#{urlencode({'text': TEXT, 'view': 'compare', 'against': 'int8'})}") as page:
        against = asked(address, against="int8")["against"]
        expect(page.get_by_role("button", name="int8", exact=True)).to_have_attribute("aria-pressed", "true")
        first = next(told for told in against["stages"] if told["stage"] == against["first"])
        expect(page.locator("#first")).to_contain_text(f"{first['largest']:.5f}")
        page.locator("#first button").click()
        expect(page.locator("#number")).to_contain_text(f"{abs(first['one']):.5f}")
        page.get_by_role("button", name="Compare", exact=True).click()
        page.get_by_role("button", name="greedy search", exact=True).click()
        expect(page.locator("#first")).to_contain_text("the model is the same")
        page.get_by_role("button", name="marian", exact=True).click()
        expect(page.locator("#first")).to_contain_text("position encoding")
        told = asked(address, against="marian")["against"]
        assert told["only_one"]
        assert told["only_other"]
        expect(page.locator("main")).to_contain_text("Encoder · layer 0 · self-attention · LayerNorm")
        expect(page.locator("main")).to_contain_text("Encoder · layer 0 · self-attention · add")
        expect(page.locator("main")).not_to_contain_text("layers.0")


@dataclass
class Finder:
    """Looks for answers by role and name, and counts the clicks."""

    page: Page
    clicks: int = 0

    def click(self, role: str, name: str) -> None:
        self.one(role, name).click()
        self.clicks += 1

    def one(self, role: str, name: str) -> Locator:
        return self.page.get_by_role(role, name=re.compile(name)).first  # type: ignore[arg-type]

    def sees(self, role: str, name: str, text: str = "") -> None:
        expect(self.one(role, name)).to_be_visible()
        expect(self.one(role, name)).to_contain_text(text)


# Question, clicks on the way (role, name), and where the answer stands.
QUESTIONS: list[tuple[str, list[tuple[str, str]], tuple[str, str, str]]] = [
    ("shape", [], ("link", r"^masked self-attention.*\[batch=1, heads=2, tgt=\d+, tgt=\d+\]", "")),
    ("product", [("link", "^self-attention"), ("gridcell", "^ba, ce: ")], ("region", "q · k, term by term", "sum")),
    ("masked", [("link", "^masked self-attention")], ("gridcell", "lies in the future", "0")),
    ("steps", [("button", "^Steps$")], ("status", "", "The same computation")),
    ("memory", [("link", "^cross-attention"), ("button", "^keys K$")], ("button", "^memory$", "memory")),
    ("root", [("link", "^self-attention"), ("button", "without ÷ √d_k")], ("status", "", "times as large")),
    ("norm", [("link", "^LayerNorm"), ("gridcell", "^ba, d_model.0.")], ("complementary", "", "deviation")),
    ("beam", [("button", "^Search$")], ("main", "", "Greedy")),
    ("training", [("button", "^Steps$")], ("heading", "Training: all rows under the triangle", "")),
    ("systems", [("button", "^Compare$"), ("button", "^marian$")], ("table", "What both write", "marian")),
]  # fmt: skip


def test_ten_answers_are_found_by_role_and_name(browser: Browser, address: str) -> None:
    clicks = {}
    with watched(browser, f"{address}#{urlencode({'text': TEXT})}") as page:
        for question, way, (role, name, text) in QUESTIONS:
            go(page, text=TEXT, view="map")
            finder = Finder(page)
            for step in way:
                finder.click(*step)
            if role == "status":
                expect(page.get_by_role("status").filter(has_text=text).first).to_be_visible()
            elif name:
                finder.sees(role, name, text)
            else:
                expect(page.get_by_role(role).first).to_contain_text(text)  # type: ignore[arg-type]
            clicks[question] = finder.clicks
    assert max(clicks.values()) <= 2, clicks
