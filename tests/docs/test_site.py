"""The guide's site in a real browser: it asks nobody else, both languages find each other, and its search finds."""

from __future__ import annotations

import functools
import importlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browsing import find_browser, watched

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(ROOT / "scripts"))
glossary = importlib.import_module("glossary")

needs_browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium")
ANCHOR = re.compile(r'<h[1-6] id="([^"]*)"')
HAN = "[\u3400-\u9fff]"
# What is found is in shadow trees.
FOUND = """() => {
  const found = [], walk = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) walk(element.shadowRoot);
      if (element.matches("a[href*='?h=']")) found.push(element.href);
    }
  };
  walk(document);
  return found;
}"""
SHADOW_TEXT = """() => [...document.querySelectorAll("*")].filter((element) => element.shadowRoot)
  .map((element) => element.shadowRoot.textContent).join(" ")"""
SLANTED = f"""() => {{
  const walker = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT), found = [];
  for (let node; (node = walker.nextNode());) {{
    const slanted = getComputedStyle(node.parentElement).fontStyle !== "normal";
    if (slanted && /{HAN}/.test(node.data)) found.push(node.data);
  }}
  return found;
}}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def guide_pages(site: Path) -> list[str]:
    """The English pages of the guide, from the root of the site."""
    return ["", *(f"en/{path.parent.name}/" for path in sorted((site / "en").glob("*/index.html")))]


def in_chinese(page: str) -> str:
    return "zh/" + page.removeprefix("en/")


def test_every_page_has_the_same_anchors_in_both_languages(site: Path) -> None:
    pages = guide_pages(site)
    assert len(pages) > 25
    for page in pages:
        here, there = ((site / one / "index.html").read_text(encoding="utf-8") for one in (page, in_chinese(page)))
        assert ANCHOR.findall(here) == ANCHOR.findall(there), page
        assert '<html lang="en"' in here
        assert '<html lang="zh"' in there


def test_no_page_names_a_file_of_another_host(site: Path) -> None:
    for path in site.rglob("*.html"):
        loaded = re.findall(r'(?:src|<link[^>]*href)="(?:https?:)?//[^"]*"', path.read_text(encoding="utf-8"))
        assert loaded == [], path


def test_the_first_use_of_a_word_leads_to_the_glossary(site: Path) -> None:
    """In each chapter, in both languages; and where a word is explained stands its name in the other language too."""
    for language in ("en", "zh"):
        known = glossary.terms(DOCS / language / "glossary.md")
        assert len(known) > 40
        for chapter in sorted((DOCS / language).glob("[01]*.md")):
            text = chapter.read_text(encoding="utf-8")
            where = ("zh" if language == "zh" else "en") + f"/{chapter.stem}/index.html"
            linked = re.findall(r'class="term" href="[^"]*#([\w-]+)"', (site / where).read_text(encoding="utf-8"))
            assert len(linked) == len(set(linked))
            assert len(linked) >= 2
            for term in known:
                if term.page == chapter.stem:
                    assert any(term.pattern.search(piece) for _, piece in glossary.prose(text)), (chapter, term.word)
                    assert language == "en" or term.other.lower() in text.lower(), (chapter.stem, term.other)


def test_both_glossaries_have_the_same_words_and_places() -> None:
    here, there = (glossary.terms(DOCS / language / "glossary.md") for language in ("en", "zh"))
    assert [(one.anchor, one.word, one.page, one.section) for one in here] == [
        (one.anchor, one.other, one.page, one.section) for one in there
    ]


def test_a_link_to_the_glossary_replaces_prose_only() -> None:
    known = [
        glossary.Term("layer-norm", "layer norm", "层归一化", "08", "x"),
        glossary.Term("head", "head", "头", "06", "x"),
    ]
    text = "# head\n\n`head` and [head](x.md), **layer\nnorms** of heads, head\n"
    linked = glossary.with_links(text, known, "glossary.md")
    assert linked == (
        "# head\n\n`head` and [head](x.md), "
        '**<a class="term" href="glossary.md#layer-norm" title="层归一化">layer\nnorms</a>** of '
        '<a class="term" href="glossary.md#head" title="头">heads</a>, head\n'
    )


def test_a_chinese_word_inside_another_is_no_use_of_it() -> None:
    known = [glossary.Term("head", "头", "head", "06", "x"), glossary.Term("sampling", "采样", "sampling", "11", "x")]
    assert "term" not in glossary.with_links("口头命令的开头，下采样后的采样点\n", known, "glossary.md")
    linked = glossary.with_links("口头：八个头；采样点：从分布中采样\n", known, "glossary.md")
    assert ">头</a>；" in linked
    assert "中<a " in linked


def test_a_chapter_leads_to_its_notebook_and_one_page_shows_all_figures(site: Path) -> None:
    for language in ("en", "zh"):
        figures = (site / language / "figures" / "index.html").read_text(encoding="utf-8")
        for chapter in sorted((DOCS / language).glob("[01]*.md")):
            page = site / language / chapter.stem
            (link,) = re.findall(r'class="notebook" href="([^"]*)"', (page / "index.html").read_text(encoding="utf-8"))
            assert (page / link).resolve().is_file()
            for picture in re.findall(
                r"^!\[.*?\]\(\.\./images/(.*?)\)$", chapter.read_text(encoding="utf-8"), re.MULTILINE
            ):
                assert f'images/{picture}"' in figures, picture


def test_formulas_are_mathml_without_what_could_not_be_read(site: Path) -> None:
    for page in ("en/06-attention", "zh/06-attention", "en/10-training", "zh/11-search"):
        text = (site / page / "index.html").read_text(encoding="utf-8")
        formulas = re.findall(r"<math.*?</math>", text)
        assert formulas, page
        assert [formula for formula in formulas if "\\" in formula] == []


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_pages_fit_their_window_and_ask_nobody_else(
    site: Path, browser: Browser, address: str, width: int, scheme: str
) -> None:
    """On a telephone and a desk, light and dark: no page is wider than its window, no Chinese letter slants."""
    some = ["", "en/06-attention/", "en/12-a-translating-model/", "en/settings/", "api/nn/"]
    pages = some[:2] if scheme == "dark" else some if width > 400 else guide_pages(site)
    for page in [*pages, *(in_chinese(one) for one in pages if not one.startswith("api"))]:
        with watched(browser, address + page, width=width, scheme=scheme) as shown:
            assert shown.evaluate("document.documentElement.scrollWidth") <= width, page
            assert shown.evaluate(SLANTED) == [], page
            if page.startswith("en/06"):
                ground = shown.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
                assert (sum(ground[:3]) < 3 * 128) == (scheme == "dark")


@needs_browser
def test_the_switch_of_language_leads_to_the_same_section_and_back(browser: Browser, address: str) -> None:
    for page in ("en/06-attention/#several-heads", ""):
        with watched(browser, address + page) as shown:
            shown.wait_for_load_state("networkidle")
            shown.locator("a.guide-twin").click()
            shown.wait_for_url("**/zh/**")
            assert shown.url == address + in_chinese(page)
            assert shown.evaluate("document.documentElement.lang") == "zh"
            shown.wait_for_load_state("networkidle")
            shown.locator("a.guide-twin").click()
            shown.wait_for_url(lambda url: "/zh/" not in url)
            assert shown.url == address + page


@needs_browser
def test_a_chapter_has_the_next_and_the_previous_and_buttons_to_copy(browser: Browser, address: str) -> None:
    for language, others in (("en", ("05-embedding-and-positions", "07-masks")), ("zh", ("05-embed", "07-masks"))):
        with watched(browser, f"{address}{language}/06-attention/") as shown:
            for kind, other in zip(("prev", "next"), others, strict=True):
                link = shown.locator(f".md-footer__link--{kind}")
                assert other in str(link.get_attribute("href"))
            blocks = shown.locator("article .highlight").count()
            assert (
                shown.locator("article .highlight [data-clipboard-target], article .md-code__button").count() >= blocks
            )
            words = shown.locator(".md-footer, .md-header").all_inner_texts()
            assert bool(re.search(HAN, " ".join(words).replace("中文", ""))) == (language == "zh")


def search(page: Page, query: str) -> list[str]:
    """The addresses that a query finds, best first, from the root of the site."""
    page.locator(".md-search__button").click()
    page.wait_for_timeout(200)
    page.keyboard.type(query)
    page.wait_for_function(f"({FOUND})().length > 0")
    page.wait_for_timeout(200)
    return [re.sub(r"^http://[^/]*/|\?h=[^#]*", "", link) for link in page.evaluate(FOUND)]


@needs_browser
@pytest.mark.parametrize(
    ("start", "query", "expected"),
    [
        ("zh/", "位置编码", "zh/05-embedding-and-positions/#a-clock-with-many-hands"),
        ("zh/", "困惑度", "zh/02-markov-models/#the-probability-of-a-sentence"),
        ("zh/", "束搜索", "zh/11-search/#beam-search"),
        ("", "teacher forcing", "en/09-decoder/#shifted-right"),
        ("", "positional encoding", "en/05-embedding-and-positions/#a-clock-with-many-hands"),
        ("", "temperature", "en/11-search/#sampling"),
        ("", "BatchNorm", "en/questions/#batchnorm-or-layernorm"),
    ],
)
def test_the_search_finds_the_page_that_explains_it(
    browser: Browser, address: str, start: str, query: str, expected: str
) -> None:
    with watched(browser, address + start) as shown:
        assert search(shown, query)[0] == expected
        if start:
            assert "results" not in shown.evaluate(SHADOW_TEXT)


# The ten questions of the inspector's tour: what one types for each in both languages, and where the answer is.
QUESTIONS = (
    ("shape", "形状", "09-decoder/#the-shapes-in-training-and-in-translation"),
    ("dot product", "点积", "06-attention/#why-the-scores-are-divided-by-d_k"),
    ("causal mask", "因果掩码", "07-masks/#the-causal-mask"),
    ("cache", "缓存", "09-decoder/#only-the-newest-word-is-a-query"),
    ("cross-attention", "交叉注意力", "06-attention/#three-kinds-of-attention"),
    ("divided by √d_k", "除以", "06-attention/#why-the-scores-are-divided-by-d_k"),
    ("layer norm", "层归一化", "08-encoder/#layer-norm"),
    ("beam search", "束搜索", "11-search/#beam-search"),
    ("exposure bias", "暴露偏差", "09-decoder/#shifted-right"),
    ("five systems", "五个系统", "#five-systems-one-implementation"),
)


@needs_browser
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_search_finds_the_answers_to_the_ten_questions(browser: Browser, address: str, language: str) -> None:
    """Among the first six that are found."""
    for english, chinese, where in QUESTIONS:
        query, start = (chinese, "zh/") if language == "zh" else (english, "")
        first = "zh/" if language == "zh" else "" if where.startswith("#") else "en/"
        with watched(browser, address + start) as shown:
            assert first + where in search(shown, query)[:6], query


def test_the_index_keeps_what_stands_on_the_page(site: Path) -> None:
    """A Chinese word is found wherever it stands, by each of its beginnings."""
    items = json.loads((site / "zh" / "search.json").read_text(encoding="utf-8"))["items"]
    (mask,) = (item for item in items if item["location"] == "07-masks/#the-causal-mask")
    assert {"因果掩码", "果掩码", "掩码", "码"} <= {word[:4] for word in mask["text"].split()}
