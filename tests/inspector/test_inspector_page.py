"""The inspector's page in a real browser, opened from disk: its numbers are NumPy's, and it asks nobody."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser can be driven")

from playwright.sync_api import Browser, Page, expect

from browsing import ACCESS, watched
from dragoman.inspection import beam_events
from dragoman.inspector.inspecting import inspect
from dragoman.inspector.offline import offline_page
from dragoman.inspector.record import Inspection
from dragoman.markov import FirstOrder
from dragoman.stages.words import chinese
from end_to_end import small

Open = Callable[..., AbstractContextManager[Page]]
TEXT = "ba ce di fo gu"
HOSTILE = "</script><img src=x onerror=alert(1)>"
VIEWS = ("map", "stage", "steps", "search", "heads", "judging", "embeddings", "compare", "tour", "quiz")
ENCODER, CROSS = "encoder.layers.0.self_attention", "decoder.layers.0.cross_attention"


@pytest.fixture(scope="module")
def found() -> Inspection:
    return inspect(small.translator(small.word_pair(), 1, num_decoder_layers=2, num_heads=2), TEXT, beam_size=3)


@pytest.fixture(scope="module")
def file(found: Inspection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(offline_page(found), encoding="utf-8")
    return path


@pytest.fixture
def open_page(browser: Browser, file: Path) -> Open:
    return lambda **how: watched(browser, file.as_uri(), **how)


def go(page: Page, **state: object) -> None:
    page.evaluate("(hash) => { location.hash = hash; }", urlencode(state))
    expect(page.locator("main")).to_have_attribute("data-view", str(state["view"]))


# Goes through addresses inside the page, and tells what a selector has at each.
SWEEP = """async ([hashes, selector]) => {
  const found = [];
  for (const hash of hashes) {
    location.hash = hash;
    await new Promise((done) => setTimeout(done));
    await new Promise((done) => setTimeout(done));
    found.push([...document.querySelectorAll(selector)].map((element) => element.dataset.check || element.textContent));
  }
  return found;
}"""


def sweep(page: Page, states: list[dict[str, object]], selector: str) -> list[list[str]]:
    """What a selector has in each state."""
    return page.evaluate(SWEEP, [[urlencode(state) for state in states], selector])


def said(value: float) -> str:
    """A number as the page says it."""
    small_one = value != 0 and abs(value) < 0.5e-5
    return (f"{value:.1e}" if small_one else f"{value:.5f}").replace("-", "−")


def chosen_cells(found: Inspection) -> list[tuple[str, int, int, int, float]]:
    """Ten cells of as many kinds of stages, worked out by NumPy from their operands."""
    arrays = {name: values.astype(np.float64) for name, values in found.arrays.items()}
    root = math.sqrt(arrays[f"{ENCODER}.query"].shape[-1])
    cells = []
    for path, head, row, col in ((ENCODER, 0, 0, 1), (ENCODER, 1, 2, 0), (CROSS, 1, 0, 2)):
        query, key, value = (arrays[f"{path}.{part}"][0, head] for part in ("query", "key", "value"))
        scores = query @ key.T / root
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = powers / powers.sum(axis=-1, keepdims=True)
        cells += [(f"{path}.scores", head, row, col, scores[row, col])]
        cells += [(f"{path}.weights", head, row, col, weights[row, col])]
        cells += [(f"{path}.mixed", head, row, col, (weights @ value)[row, col])]
    total = arrays["source_embedding.tokens"] + arrays["source_embedding.position_rows"]
    return [*cells, ("source_embedding.positions", 0, 1, 3, total[0, 1, 3])]


def test_ten_cells_are_those_of_numpy_and_explain_themselves(open_page: Open, found: Inspection) -> None:
    cells = chosen_cells(found)
    assert len(cells) == 10
    with open_page() as page:
        for stage, head, row, col, value in cells:
            go(page, view="stage", stage=stage, head=head, row=row, col=col)
            shown = float((page.locator("#number").text_content() or "").replace("−", "-"))
            assert shown == pytest.approx(value, abs=2e-5), stage
            expect(page.locator("[data-check]")).to_have_attribute("data-check", "agrees")


def test_every_stage_agrees_with_what_the_page_computes(open_page: Open, found: Inspection) -> None:
    nodes = found.record["graph"]["nodes"]
    states: list[dict[str, object]] = [{"view": "stage", "stage": node["id"], "row": 1, "col": 1} for node in nodes]
    with open_page() as page:
        told = sweep(page, states, "#shape, [data-check]")
    for node, [shape, *check] in zip(nodes, told, strict=True):
        assert "parts" not in check, node["id"]
        assert f"{node['axes'][-1]}={node['shape'][-1]}" in shape
    assert sum(len(check) for _, *check in told) > 0.8 * len(nodes)


def test_a_click_on_a_box_and_on_a_cell(open_page: Open, found: Inspection) -> None:
    with open_page() as page:
        page.locator(f"[data-key='box:{CROSS}.weights']").click()
        expect(page.locator("main")).to_have_attribute("data-view", "stage")
        grid = page.get_by_role("grid").filter(has=page.locator(f"[data-key^='cell:{CROSS}.weights']"))
        grid.get_by_role("gridcell").nth(1).click()
        number = found.arrays[f"{CROSS}.weights"][0, 0, 0, 1]
        expect(page.locator("#number")).to_have_text(said(float(number)))
        page.keyboard.press("ArrowRight")
        number = found.arrays[f"{CROSS}.weights"][0, 0, 0, 2]
        expect(page.locator("#number")).to_have_text(said(float(number)))
        assert "col=2" in page.url  # a link leads here


def test_figures_are_saved_with_real_text(open_page: Open) -> None:
    with open_page() as page:
        for view, words in (("map", "masked self-attention"), ("search", found_piece(page))):
            go(page, view=view)
            with page.expect_download() as download:
                page.get_by_role("button", name="Save as SVG").click()
            text = Path(download.value.path()).read_text(encoding="utf-8")
            root = ElementTree.fromstring(text)
            drawn = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
            assert words in drawn
            assert "light-dark" not in text  # colours are numbers: no rule of the page is needed


def found_piece(page: Page) -> str:
    """The first piece that was written."""
    return page.locator("#strip button b").first.text_content() or ""


def test_a_hidden_cell_says_why(open_page: Open) -> None:
    with open_page() as page:
        go(page, view="stage", stage="decoder.layers.0.self_attention.weights", row=0, col=1)
        expect(page.locator("#number")).to_have_text("0.00000")
        expect(page.locator(".details")).to_contain_text("causal mask")


def test_keys_change_the_step_the_layer_and_the_head(open_page: Open, found: Inspection) -> None:
    with open_page() as page:
        expect(page.locator("main")).to_have_attribute("data-view", "map")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#strip [aria-pressed=true]")).to_have_attribute("data-key", "step:2")
        go(page, view="stage", stage="decoder.layers.0.self_attention.weights")
        page.keyboard.press("]")
        page.keyboard.press("ArrowUp")
        assert "head=1" in page.url
        assert "layers.1" in page.url


def test_the_beam_has_a_node_for_every_candidate(open_page: Open, found: Inspection) -> None:
    with open_page() as page:
        go(page, view="search", show=1)
        events = found.record["beam"]["events"]
        expect(page.locator("g.candidate")).to_have_count(len(events))
        page.locator(f"[data-key='beam:{events[-1]['id']}']").press("Enter")
        expect(page.locator("#candidate")).to_contain_text(events[-1]["why"])


def test_reasons_of_a_search_are_told_in_chinese(open_page: Open, found: Inspection) -> None:
    sentences = [text for text in vars(beam_events).values() if isinstance(text, str) and text in chinese()]
    told = [re.sub(r"\{\w+\}", "3", text) for text in sentences]
    told += [event["why"] for event in found.record["beam"]["events"]]
    told += [found.record["beam"]["stop"], found.record["search"]["name"], found.record["search"]["formula"]]
    assert len(sentences) > 5
    with open_page(locale="zh-CN") as page:
        asked = "async (all) => { const { told } = await import('page/words.js'); return all.map(told); }"
        answers = page.evaluate(asked, told)
    assert [text for text, answer in zip(told, answers, strict=True) if not re.search("[\u4e00-\u9fff]", answer)] == []


def test_top_k_and_temperature_leave_what_they_should(open_page: Open, found: Inspection) -> None:
    logits = found.arrays["generator"][0, 0].astype(np.float64)
    powers = np.sort(np.exp((logits - logits.max()) / 0.5))[::-1][:2]
    with open_page() as page:
        go(page, view="search", t=1, k=2, temperature=0.5)
        expect(page.locator("main")).to_contain_text(f"2 of {len(logits)} pieces are left")
        cells = page.locator("section table tr:not(.gone) td:nth-child(4)").all_text_contents()[:2]
        shares = [float(cell.rstrip("%")) / 100 for cell in cells]
        assert shares == pytest.approx(powers / powers.sum(), abs=0.006)


@pytest.mark.parametrize("locale", ["en-GB", "zh-CN"])
def test_the_tour_and_the_quiz_run_to_the_end(open_page: Open, locale: str) -> None:
    with open_page(locale=locale) as page:
        go(page, view="tour")
        stops = page.locator(".stops li").count()
        assert stops == 14
        for at in range(stops):
            expect(page.locator("#stop")).to_contain_text(str(at + 1))
            answer = page.locator("#answer").text_content() or ""
            assert len(answer) > 15
            assert not any(word in answer for word in ("undefined", "NaN", "null")), answer
            if at < stops - 1:
                page.locator("[data-key=next]").click()
        expect(page.locator("[data-key=next]")).to_be_disabled()
        go(page, view="quiz")
        questions = page.locator(".quiz fieldset")
        for at in range(questions.count()):
            questions.nth(at).get_by_role("radio").first.check()
            words = questions.nth(at).locator(".told").text_content() or ""
            right = re.sub("^(Right|No|对|不对)[:：] ?(it is |是 )?", "", words)
            questions.nth(at).get_by_role("radio", name=right, exact=True).check()
        assert questions.count() == 6
        expect(page.locator("#quiz-result")).to_contain_text("6")
        assert (page.locator("#quiz-result").text_content() or "").count("6") == 2


@pytest.mark.parametrize(("locale", "scheme", "width"), [("en-GB", "dark", 1280), ("zh-CN", "light", 390)])
def test_everybody_can_use_each_view(open_page: Open, locale: str, scheme: str, width: int) -> None:
    with open_page(locale=locale, scheme=scheme, width=width) as page:
        for view in VIEWS:
            go(page, view=view, row=0, col=1)
            assert page.evaluate(ACCESS) == [], view
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (view, width)


def test_hostile_pieces_stay_text_and_nothing_is_asked(browser: Browser, found: Inspection, tmp_path: Path) -> None:
    pieces = {step["writes"]["piece"] for step in found.record["steps"]}
    pieces |= {piece["text"] for piece in found.record["source"]["pieces"]}

    def hostile(value: object) -> object:
        if isinstance(value, dict):
            return {key: hostile(each) for key, each in value.items()}
        if isinstance(value, list):
            return [hostile(each) for each in value]
        return HOSTILE if value in pieces else value

    record = hostile(json.loads(found.json()))
    assert isinstance(record, dict)
    path = tmp_path / "page.html"
    path.write_text(offline_page(Inspection(record, found.arrays)), encoding="utf-8")
    asked: list[str] = []

    def listen(page: Page) -> None:
        page.on("request", lambda request: asked.append(request.url))

    with watched(browser, path.as_uri(), prepare=listen) as page:
        for view in VIEWS:
            go(page, view=view, row=0, col=0)
            assert page.locator("img").count() == 0
        expect(page.locator("#strip b").first).to_have_text(HOSTILE)
    assert [url for url in asked if not url.startswith(("data:", path.as_uri()))] == []


def records_of(kind: str, folder: Path) -> Inspection:
    pair = small.word_pair()
    if kind == "causal":
        return inspect(small.saved(folder, pair, "causal"), "ba ce", beam_size=3)
    if kind == "masked":
        return inspect(small.masked(folder), "ba <mask> ce <mask>")
    if kind == "markov":
        folder.mkdir()
        rows = [pair.target.encode(text) for text in small.sentences(40)]
        FirstOrder.fit(rows, len(pair.target)).save(folder)
        pair.save(folder)
        return inspect(folder, "ba", beam_size=3)
    options: dict[str, dict[str, object]] = {
        "post": {"norm": "post"}, "rotary": {"positions": "rotary"}, "relative": {"positions": "relative"},
        "alibi": {"positions": "alibi"},
    }  # fmt: skip
    model = small.translator(pair, 1, num_encoder_layers=1, num_decoder_layers=1, **options.get(kind, {}))
    how: dict[str, Any] = {
        "target": {"target": "ri pa ne"}, "beside": {"beside": "ba ce di fo gu ha ki lo mu"},
        "head off": {"heads_off": [(ENCODER, 0)]}, "no causal mask": {"causal_mask": False},
    }  # fmt: skip
    return inspect(model, TEXT, **how.get(kind, {}))


KINDS = ["causal", "masked", "markov", "post", "rotary", "relative", "alibi", "target", "beside", "head off"]


@pytest.mark.parametrize("kind", [*KINDS, "no causal mask"])
def test_records_of_every_kind_are_shown(browser: Browser, tmp_path: Path, kind: str) -> None:
    found = records_of(kind, tmp_path / "model")
    path = tmp_path / "page.html"
    path.write_text(offline_page(found), encoding="utf-8")
    nodes = found.record["graph"]["nodes"]
    with watched(browser, path.as_uri()) as page:
        views = sweep(page, [{"view": view} for view in VIEWS], "main > *")
        assert all(views), list(zip(VIEWS, map(len, views), strict=True))
        states = [{"view": "stage", "stage": node["id"], "row": 1, "col": 1} for node in nodes]
        checks = dict(zip((node["id"] for node in nodes), sweep(page, states, "[data-check]"), strict=True))
    assert [name for name, check in checks.items() if "parts" in check] == []
    if kind in ("rotary", "relative", "alibi"):
        for part in ("query", "key", "scores", "weights"):
            assert checks[f"{ENCODER}.{part}"] == ["agrees"], part


def test_a_chosen_theme_and_language_stay(open_page: Open) -> None:
    with open_page() as page:
        page.click("#interface-language")
        expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
        expect(page.locator("#views")).to_contain_text("词向量")
        page.click("#theme")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.reload()
        expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
