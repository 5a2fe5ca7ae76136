"""The translation page in a real browser: against a real service, and against answers that a service may give."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser can be driven")

from playwright.sync_api import Browser, Page, expect

from browsing import ACCESS, FOCUS, answer, events, models, segment, translation, watched
from served import Served

Open = Callable[..., AbstractContextManager[Page]]
STREAM, ALTERNATIVES = "/v1/translate/stream", "/v1/alternatives"
HEIGHTS = "[source.offsetHeight, backdrop.offsetHeight, source.scrollHeight, source.clientHeight]"
HOSTILE = "</script><img src=x onerror=alert(1)>"
# Two sentences, the first with a character that is two units of JavaScript's strings.
SOURCE = "猫😀吃鱼。\n狗睡觉。"
CATS = translation(
    "Cats 😀 eat fish.\nDogs sleep.",
    segment("猫😀吃鱼。", "Cats 😀 eat fish.", [[[0, 1]], [[1, 2]], [[2, 3]], [[3, 5]]]),
    segment("狗睡觉。", "Dogs sleep.", [[[0, 1]], [[1, 4]]], 0.3),
)
OTHERS = [
    {"word": "munch", "text": "Cats 😀 munch fish.", "score": -1.0, "probability": 0.2},
    {"word": "like", "text": "Cats 😀 like fish.", "score": -1.5, "probability": 0.0001},
]


@pytest.fixture
def open_page(browser: Browser, service: Served) -> Open:
    return lambda **how: watched(browser, service.address, **how)


def told(page: Page, result: dict[str, Any] = CATS, text: str = SOURCE) -> list[dict[str, Any]]:
    """Fill the page with a translation that is known."""
    asked = answer(page, STREAM, events(("start", {}), ("result", result)), Content_Type="text/event-stream")
    page.select_option("#source-language", "zh")
    page.select_option("#target-language", "en")
    page.fill("#source", text)
    expect(page.locator("#output")).to_have_text(result["text"])
    expect(page.locator("#output")).to_have_attribute("aria-busy", "false")
    return asked


def word(page: Page, text: str) -> Any:
    return page.locator("#output").get_by_role("button", name=text, exact=True)


def test_what_is_typed_is_translated(open_page: Open, service: Served) -> None:
    with open_page() as page:
        page.select_option("#source-language", "zh")
        page.select_option("#target-language", "en")
        page.locator("#source").press_sequentially("ba ce di")
        body = {"text": "ba ce di", "source": "zh", "target": "en"}
        expected = service.client.post("/v1/translate", json=body).json()["translations"][0]["text"]
        expect(page.locator("#output")).to_have_text(expected)
        expect(page.locator("#model-line")).to_contain_text("zh-en (native")
        expect(page.locator("#count")).to_have_text("8 / 10,000")
        page.click("#clear")
        expect(page.locator("#output")).to_be_empty()
        expect(page.locator("#empty")).to_be_visible()
        assert page.evaluate("document.activeElement.id") == "source"


def test_the_policy_is_strict_and_the_page_has_nothing_inline(service: Served) -> None:
    page = service.client.get("/")
    rules = dict(rule.strip().split(" ", 1) for rule in page.headers["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert " style=" not in page.text
    assert " onclick=" not in page.text
    assert "<style" not in page.text


def test_a_word_is_replaced_by_an_alternative_and_back(open_page: Open) -> None:
    again = translation(
        "Cats 😀 munch fish.",
        segment("猫😀吃鱼。", "Cats 😀 munch fish.", [[[0, 1]], [[1, 2]], [[2, 3]], [[3, 5]]], 0.1),
    )
    with open_page() as page:
        told(page)
        asked = answer(page, ALTERNATIVES, {"alternatives": [*OTHERS, {**OTHERS[0], "text": "Cats 😀 eat fish."}]})
        redone = answer(page, "/v1/translate", {"translations": [again], "seconds": 0.1})
        word(page, "eat").click()
        items = page.get_by_role("menuitem")
        expect(items).to_have_count(2)
        expect(items.nth(1)).to_contain_text("< 0.1%")
        assert asked[0]["body"]["text"] == "猫😀吃鱼。"
        assert asked[0]["body"]["prefix"] == "Cats 😀"
        items.first.click()
        expect(page.locator("#output")).to_have_text("Cats 😀 munch fish.\nDogs sleep.")
        expect(word(page, "munch")).to_have_class("word grade-3")
        expect(word(page, "munch")).to_be_focused()
        assert redone[0]["body"]["prefixes"] == ["Cats 😀 munch fish."]
        page.click("#undo")
        expect(page.locator("#output")).to_have_text(CATS["text"])
        expect(page.locator("#undo")).to_be_hidden()


def test_the_menu_of_a_real_model(open_page: Open) -> None:
    with open_page() as page:
        page.select_option("#source-language", "zh")
        page.select_option("#target-language", "en")
        page.fill("#source", "ba ce di fo")
        page.locator("#output .word").first.click()
        page.locator("#menu button, #menu-status:not(:empty)").first.wait_for()
        expect(page.locator("#menu-status")).not_to_have_text("Looking for alternatives …")
        if page.get_by_role("menuitem").count():
            text = page.locator("#menu .whole").last.text_content() or ""
            page.get_by_role("menuitem").last.click()
            expect(page.locator("#output")).to_have_text(text)


def test_all_of_it_by_keyboard(open_page: Open) -> None:
    with open_page() as page:
        told(page)
        answer(page, ALTERNATIVES, {"alternatives": OTHERS})
        answer(page, "/v1/translate", {"error": {"code": "overloaded", "message": "no"}}, status=503)
        page.locator("#source").focus()
        for key in ("Tab", "Tab", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        expect(word(page, "eat")).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(word(page, "sleep.")).to_be_focused()
        for key in ("Home", "ArrowLeft", "ArrowRight", "End", "ArrowUp"):
            page.keyboard.press(key)
        expect(word(page, "eat")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("menuitem").first).to_be_focused()
        page.keyboard.press("ArrowUp")
        expect(page.get_by_role("menuitem").last).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#menu")).to_be_hidden()
        expect(word(page, "eat")).to_be_focused()
        page.keyboard.press("Space")
        expect(page.get_by_role("menuitem").first).to_be_focused()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        # The words of it are not known, as the server was busy: they can be opened all the same.
        expect(page.locator("#output")).to_have_text("Cats 😀 like fish.\nDogs sleep.")
        expect(word(page, "like")).to_be_focused()


def test_pointing_at_a_word_marks_what_it_came_from(open_page: Open) -> None:
    with open_page() as page:
        told(page)
        for text, source in (("eat", "吃"), ("😀", "😀"), ("sleep.", "睡觉。")):
            word(page, text).hover()
            expect(page.locator("#backdrop mark")).to_have_text([source])
            expect(page.locator("#word-detail")).to_contain_text(f"from “{source}”")
        box, layer = (page.locator(id).bounding_box() for id in ("#source", "#backdrop"))
        assert box == layer
        page.locator("#source").hover()
        expect(page.locator("#backdrop mark")).to_have_count(0)
        word(page, "eat").focus()
        expect(page.locator("#backdrop mark")).to_have_text(["吃"])
        # The marks are of the text that was translated: of another they would be wrong.
        answer(page, STREAM, {"error": {"code": "overloaded", "message": "no"}}, status=503)
        page.fill("#source", "我" + SOURCE)
        word(page, "eat").hover()
        expect(page.locator("#backdrop mark")).to_have_count(0)


def test_the_layer_has_the_textarea_s_metrics(open_page: Open) -> None:
    with open_page(width=390) as page:
        told(page)
        for text in ("a", "line\n\n", "w" * 300, "zwei Worte " * 40 + "\n\n\n猫" * 30, "\ttab\t\tافلام " * 20):
            page.fill("#source", text)
            assert len(set(page.evaluate(HEIGHTS))) == 1, text


def test_uncertain_words_are_marked_and_told_about(open_page: Open) -> None:
    with open_page() as page:
        told(page)
        expect(word(page, "Dogs")).to_have_class("word grade-2")
        expect(word(page, "Cats")).to_have_class("word")
        style = "word => getComputedStyle(word).textDecorationLine"
        assert word(page, "Dogs").evaluate(style) == "underline"
        expect(page.locator("#legend-text")).to_contain_text("not whether the word is right")
        page.uncheck("#uncertain")
        assert word(page, "Dogs").evaluate(style) == "none"
        page.reload()
        expect(page.locator("#uncertain")).not_to_be_checked()


def test_a_document_comes_back_translated(open_page: Open, tmp_path: Path) -> None:
    lines = ["ba ce", "", "di fo gu"] * 20
    document = {"name": "notes.txt", "mimeType": "text/plain", "buffer": "\n".join(lines).encode()}
    with open_page() as page:
        page.select_option("#source-language", "zh")
        page.select_option("#target-language", "en")
        page.set_input_files("#file", [document])
        link = page.get_by_role("link", name="Download notes.en.txt")
        link.wait_for()
        with page.expect_download() as download:
            link.click()
        assert download.value.suggested_filename == "notes.en.txt"
        download.value.save_as(tmp_path / "out.txt")
        translated = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
        assert len(translated) == len(lines)
        assert set(translated[1::3]) == {""}
        page.set_input_files("#file", [{**document, "name": "photo.png"}])
        expect(page.get_by_text("Files of this kind are not read here")).to_be_visible()
        page.get_by_role("button", name="Remove photo.png").click()
        expect(page.locator("#document-list li")).to_have_count(1)


def test_a_document_can_be_dropped(open_page: Open) -> None:
    with open_page() as page:
        page.select_option("#source-language", "zh")
        carried = page.evaluate_handle(
            "() => { const t = new DataTransfer(); t.items.add(new File(['ba ce'], 'a.txt')); return t; }"
        )
        page.dispatch_event("body", "dragover", {"dataTransfer": carried})
        expect(page.locator("#drop")).to_be_visible()
        page.dispatch_event("body", "drop", {"dataTransfer": carried})
        expect(page.locator("#drop")).to_be_hidden()
        page.get_by_role("link", name="Download a.").wait_for()


def test_hostile_text_is_text(open_page: Open) -> None:
    words = [[[0, 1]] for _ in HOSTILE.split(" ")]
    result = translation(HOSTILE, segment(HOSTILE, HOSTILE, words), models=[HOSTILE])
    offered = models(("zh", "en"), **{HOSTILE: ("und", "und")})
    with open_page(prepare=lambda page: answer(page, "/v1/models", offered)) as page:
        told(page, result, HOSTILE)
        answer(page, ALTERNATIVES, {"alternatives": [{**OTHERS[0], "word": HOSTILE, "text": HOSTILE + "!"}]})
        page.locator("#output .word").first.click()
        page.get_by_role("menuitem").filter(has_text=HOSTILE).first.click()
        expect(page.locator("#output")).to_have_text(HOSTILE + "!")
        expect(page.locator("#model-line")).to_contain_text(HOSTILE)
        page.set_input_files("#file", [{"name": HOSTILE + ".png", "mimeType": "text/plain", "buffer": b"ba"}])
        expect(page.locator("#document-list .name")).to_contain_text("<img")
        answer(page, STREAM, {"error": {"code": "odd", "message": HOSTILE, "hint": HOSTILE}}, status=422)
        page.fill("#source", "ba")
        expect(page.locator("#error-text")).to_contain_text(HOSTILE)
        assert page.locator("img, main script").count() == 0


def test_the_real_server_leaves_hostile_text_alone(open_page: Open) -> None:
    with open_page() as page:
        page.select_option("#source-language", "zh")
        page.fill("#source", HOSTILE)
        expect(page.locator("#output .word, #notes p").first).to_be_visible()
        assert page.locator("img, main script").count() == 0


@pytest.mark.parametrize(("scheme", "locale"), [("light", "en-GB"), ("dark", "zh-CN")])
def test_nobody_stumbles(open_page: Open, scheme: str, locale: str) -> None:
    with open_page(scheme=scheme, locale=locale) as page:
        assert page.evaluate(ACCESS) == []
        told(page, {**CATS, "pivot": "de", "unknown": 2, "truncated": True})
        answer(page, ALTERNATIVES, {"alternatives": OTHERS})
        word(page, "Dogs").click()
        page.get_by_role("menuitem").first.wait_for()
        assert page.evaluate(ACCESS) == []
        page.keyboard.press("Escape")
        answer(page, STREAM, {"error": {"code": "no_key", "message": "no"}}, status=401)
        page.fill("#source", "ba")
        expect(page.locator("#key-form")).to_be_visible()
        assert page.evaluate(ACCESS) == []


def test_the_tab_key_reaches_everything_visibly(open_page: Open) -> None:
    with open_page() as page:
        told(page)
        page.evaluate("() => document.activeElement.blur()")
        page.locator("h1").click()
        reached = []
        for _ in range(30):
            page.keyboard.press("Tab")
            found = page.evaluate(FOCUS)
            if found is None or found["name"] in reached:
                break
            assert found["visible"], found["name"]
            reached.append(found["name"])
        wanted = "theme interface-language source-language target-language source clear Cats copy uncertain choose-file"
        assert [name for name in reached if name in wanted.split()] == wanted.split()
        assert {"Interface for programs", "OpenAPI"} <= set(reached)


@pytest.mark.parametrize("locale", ["en-GB", "zh-CN"])
def test_a_phone_never_scrolls_sideways(open_page: Open, locale: str) -> None:
    wide = "w" * 200
    with open_page(width=390, locale=locale) as page:
        told(page, translation(wide, segment(wide, wide, [[[0, 9]]]), models=[wide]), wide)
        answer(page, ALTERNATIVES, {"alternatives": [{**OTHERS[0], "word": wide, "text": wide + "!"}]})
        page.set_input_files("#file", [{"name": wide + ".png", "mimeType": "text/plain", "buffer": b"ba"}])
        page.locator("#output .word").click()
        page.get_by_role("menuitem").wait_for()
        menu = page.locator("#menu").bounding_box()
        assert menu
        assert menu["x"] >= 0
        assert menu["x"] + menu["width"] <= 390
        answer(page, STREAM, {"error": {"code": "odd", "message": wide}}, status=422)
        page.fill("#source", wide * 2)
        expect(page.locator("#error-text")).to_contain_text(wide)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_interface_speaks_both_languages(open_page: Open) -> None:
    with open_page(locale="zh-CN") as page:
        assert page.evaluate("document.documentElement.lang") == "zh-Hans"
        expect(page.locator("#source-language")).to_contain_text("中文")
        told(page, {**CATS, "unknown": 2})
        expect(page.locator("#notes")).to_contain_text("模型不认识")
        page.get_by_role("button", name="English").click()
        assert page.evaluate("document.documentElement.lang") == "en"
        expect(page.locator("#notes")).to_contain_text("does not know")
        expect(page.locator("#source-language")).to_have_value("zh")
        expect(page.locator("#source-language")).to_contain_text("Chinese")
        expect(page.locator("#output")).to_have_text(CATS["text"])
        page.reload()
        expect(page.get_by_role("button", name="中文")).to_be_visible()
        texts = page.evaluate("async () => (await import('/static/texts.js')).TEXTS")
        assert list(texts["en"]) == list(texts["zh"])
        for key, english in texts["en"].items():
            assert set(re.findall(r"{\w+}", english)) == set(re.findall(r"{\w+}", texts["zh"][key])), key


def test_the_theme_follows_the_system_until_one_is_chosen(open_page: Open) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with open_page(scheme="dark") as page:
        dark = page.evaluate(ground)
        page.emulate_media(color_scheme="light")
        light = page.evaluate(ground)
        assert light != dark
        page.click("#theme")
        expect(page.locator("#theme")).to_have_attribute("aria-pressed", "true")
        assert page.evaluate(ground) == dark
        page.reload()
        assert page.evaluate(ground) == dark


def test_a_busy_server_is_waited_for(open_page: Open) -> None:
    error = {"error": {"code": "overloaded", "message": "no"}}
    with open_page() as page:
        told(page)
        answer(page, STREAM, error, status=503, Retry_After="2")
        page.fill("#source", "ba")
        expect(page.locator("#error-wait")).to_have_text(re.compile(r"The next try is in [12] s\."))
        told_again = answer(page, STREAM, events(("result", translation("Well.", segment("ba", "Well.", [[[0, 2]]])))))
        expect(page.locator("#output")).to_have_text("Well.")
        expect(page.locator("#error")).to_be_hidden()
        assert len(told_again) == 1


ERRORS = [
    (403, "wrong_origin", "The server says: Because."),
    (413, "too_much", "too long"),
    (422, "no_pair", "no model goes"),
    (429, "quota_exceeded", "used up"),
    (503, "overloaded", "Too much"),
    (503, "failed", "went wrong inside"),
    (504, "too_slow", "took too long"),
    (502, None, "HTTP 502"),
    (200, "too_slow", "took too long"),
    (0, "none", "cannot be reached"),
]


def test_errors_are_told_in_words(open_page: Open) -> None:
    with open_page() as page:
        told(page)
        for status, code, words in ERRORS:
            error = {"error": {"code": code, "message": "Because.", "hint": ""}}
            if status == 0:
                page.route(f"**{STREAM}", lambda route: route.abort())
            elif status == 200:
                answer(page, STREAM, events(("start", {}), ("error", error)))
            else:
                answer(page, STREAM, error if code else "<html>Bad gateway</html>", status)
            page.fill("#source", f"ba {words}")
            text = page.locator("#error-text")
            expect(text).to_contain_text(words)
            assert "{" not in (text.text_content() or "")
            assert "undefined" not in (text.text_content() or "")
            told(page)
            expect(page.locator("#error")).to_be_hidden()


def test_a_key_is_asked_for_and_kept_in_the_tab(open_page: Open) -> None:
    def locked(page: Page) -> None:
        answer(page, "/v1/models", {"error": {"code": "no_key", "message": "no"}}, status=401)

    with open_page(prepare=locked) as page:
        expect(page.locator("#error-text")).to_have_text("This server asks for a key.")
        asked = answer(page, "/v1/models", models(("zh", "en")))
        page.fill("#key", "sesame")
        page.keyboard.press("Enter")
        expect(page.locator("#target-language")).to_have_value("en")
        expect(page.locator("#error")).to_be_hidden()
        assert asked[0]["headers"]["authorization"] == "Bearer sesame"
        assert told(page)[-1]["headers"]["authorization"] == "Bearer sesame"
        assert "sesame" not in page.evaluate("JSON.stringify(localStorage)")


def test_a_long_text_goes_in_parts(open_page: Open) -> None:
    lines = [f"ba ce {n}." if n % 4 else "" for n in range(40)] + ["ba ce di. " * 12]
    bodies: list[str] = []

    def limited(page: Page) -> None:
        answer(page, "/v1/models", models(("zh", "en"), characters=40))
        page.on("request", lambda request: bodies.append(request.post_data or "") if STREAM in request.url else None)

    with open_page(prepare=limited) as page:
        page.fill("#source", "\n".join(lines))
        expect(page.locator("#count")).to_contain_text("in parts")
        page.locator("#output .word").last.wait_for()
        written = (page.locator("#output").text_content() or "").split("\n")
        assert len(written) == len(lines)
        assert set(written[:40:4]) == {""}
        texts = [json.loads(body)["text"] for body in bodies]
        assert len(texts) > 4
        assert all(0 < len(text) <= 40 for text in texts)
        before = len(bodies)
        page.fill("#source", "\n".join(lines) + "ne.")
        page.locator("#output .word").last.wait_for()
        assert len(bodies) - before <= 2  # the other parts were translated before


def test_typing_on_ends_the_request_before(open_page: Open) -> None:
    listen = """() => {
      const ask = fetch;
      window.signals = [];
      window.fetch = (address, options) => (signals.push(options.signal), ask(address, options));
    }"""
    with open_page() as page:
        told(page)
        page.evaluate(listen)
        held: list[object] = []
        page.route(f"**{STREAM}", lambda route: held.append(route))  # and never answered
        page.fill("#source", "ba")
        while not held:
            page.wait_for_timeout(20)
        answer(page, STREAM, events(("result", translation("Mice.", segment("鼠", "Mice.", [[[0, 1]]])))))
        page.fill("#source", "鼠")
        expect(page.locator("#output")).to_have_text("Mice.")
        assert page.evaluate("signals.map((signal) => signal.aborted)") == [True, False]


def test_what_an_input_method_has_not_settled_is_not_sent(open_page: Open) -> None:
    with open_page() as page:
        asked = told(page)
        page.clock.install()
        page.evaluate(
            """() => { source.value += "ni"; const event = { inputType: "insertCompositionText", isComposing: true };
            source.dispatchEvent(new InputEvent("input", event)); }"""
        )
        page.clock.run_for(2000)
        assert len(asked) == 1
        page.locator("#source").dispatch_event("compositionend")
        with page.expect_request(f"**{STREAM}"):
            page.clock.run_for(2000)


def test_control_and_enter_do_not_wait(open_page: Open) -> None:
    with open_page() as page:
        told(page)
        page.clock.install()
        page.fill("#source", "ba")
        with page.expect_request(f"**{STREAM}"):
            page.locator("#source").press("Control+Enter")


def test_languages_are_swapped_where_there_is_a_way_back(open_page: Open) -> None:
    with open_page() as page:
        told(page)
        page.click("#swap")
        expect(page.locator("#source")).to_have_value(CATS["text"])
        expect(page.locator("#source-language")).to_have_value("en")
        expect(page.locator("#target-language")).to_have_value("zh")
        page.select_option("#target-language", "de")
        expect(page.locator("#swap")).to_be_disabled()


def test_the_language_that_was_found_is_told(open_page: Open) -> None:
    with open_page() as page:
        told(page)
        page.select_option("#source-language", "auto")
        expect(page.locator("#source-language")).to_contain_text("Chinese (detected)")
        expect(page.locator("#swap")).to_be_enabled()
        assert page.locator("#source").get_attribute("lang") == "zh"
        assert page.locator("#output").get_attribute("lang") == "en"


def test_a_third_language_between_is_told(open_page: Open) -> None:
    with open_page() as page:
        page.select_option("#source-language", "zh")
        page.select_option("#target-language", "de")
        page.fill("#source", "ba ce di")
        expect(page.locator("#notes")).to_contain_text("by way of English")
        between = {**segment("Cats", "Katzen schlafen", [[], []]), "words": []}
        told(page, translation("Katzen schlafen", between, pivot="en", target="de"), "猫")
        asked = answer(page, ALTERNATIVES, {"alternatives": []})
        page.select_option("#target-language", "de")
        expect(page.locator("#output")).to_have_attribute("lang", "de")
        word(page, "schlafen").click()
        expect(page.locator("#backdrop mark")).to_have_count(0)
        expect(page.locator("#menu-status")).to_have_text("The model has no other word here.")
        assert (asked[0]["body"]["source"], asked[0]["body"]["target"]) == ("en", "de")


def test_models_are_chosen_by_name_where_languages_do_not_tell_them_apart(open_page: Open) -> None:
    offered = models(("zh", "en"), bigger=("zh", "en"), spelling=("und", "und"))
    with open_page(prepare=lambda page: answer(page, "/v1/models", offered)) as page:
        asked = told(page)
        page.select_option("#model", "bigger")
        page.select_option("#source-language", "model:spelling")
        expect(page.locator("#target-language")).to_be_disabled()
        expect(page.locator("#model-choice")).to_be_hidden()
        expect(page.locator("#output")).to_have_attribute("lang", "")
        bodies = [{name: one["body"][name] for name in ("source", "target", "model")} for one in asked[-2:]]
        assert bodies[0] == {"source": "zh", "target": "en", "model": "bigger"}
        assert bodies[1] == {"source": None, "target": None, "model": "spelling"}


# As many languages as nobody looks through; some differ in their script alone.
MANY = [
    "en",
    "fr",
    "de",
    "zh-Hans",
    "zh-Hant",
    "ja",
    "ko",
    "es",
    "pt",
    "it",
    "ru",
    "ar",
    "tr",
    "hi",
    "ace-Arab",
    "ace-Latn",
    "sw",
    "zu",
    "yo",
    "vi",
    "th",
    "uk",
]


def chosen(page: Page, side: str) -> Any:
    return page.locator(f"#{side}-language-button")


def test_a_language_among_many_is_searched_for(open_page: Open) -> None:
    offered = models(("en", "fr"), many=MANY)
    with open_page(prepare=lambda page: answer(page, "/v1/models", offered)) as page:
        asked = answer(page, STREAM, events(("start", {}), ("result", CATS)), Content_Type="text/event-stream")
        expect(page.locator("#source-language")).to_be_hidden()
        expect(chosen(page, "source")).to_have_text("Detect language")
        expect(chosen(page, "target")).to_have_text("English")
        chosen(page, "source").click()
        options = page.locator("#chooser-list").get_by_role("option")
        expect(options).to_have_count(len(MANY) + 1)
        searched = {"acehn": ["ace-Arab", "ace-Latn"], "DEUTSCH": ["de"], "espan": ["es"], "yor": ["yo"]}
        for typed, found in searched.items():
            page.fill("#chooser-search", typed)
            expect(options).to_have_count(len(found))
            assert [one.get_attribute("data-value") for one in options.all()] == found
        page.fill("#chooser-search", "qqq")
        expect(page.locator("#chooser-status")).to_have_text("There is no such language here.")
        page.keyboard.press("Enter")
        page.fill("#chooser-search", "chin")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator("#chooser")).to_be_hidden()
        expect(chosen(page, "source")).to_be_focused()
        expect(chosen(page, "source")).to_have_text("Traditional Chinese")
        chosen(page, "target").press("Enter")
        page.get_by_role("option", name="French").click()
        page.fill("#source", SOURCE)
        expect(page.locator("#output")).to_have_text(CATS["text"])
        body = asked[-1]["body"]
        assert (body["source"], body["target"], body["model"]) == ("zh-Hant", "fr", None)
        page.click("#swap")
        expect(chosen(page, "source")).to_have_text("French")
        expect(chosen(page, "target")).to_have_text("Traditional Chinese")
        page.reload()
        expect(chosen(page, "source")).to_have_text("French")
        chosen(page, "source").click()
        page.keyboard.press("Escape")
        expect(page.locator("#chooser")).to_be_hidden()
        expect(chosen(page, "source")).to_be_focused()


def test_a_model_of_one_pair_comes_before_one_of_many(open_page: Open) -> None:
    offered = models(many=MANY)
    offered["models"] += models(("en", "fr"))["models"]
    offered["pairs"] = models(("en", "fr"))["pairs"]
    with open_page(prepare=lambda page: answer(page, "/v1/models", offered)) as page:
        for side, name in (("source", "English"), ("target", "French")):
            chosen(page, side).click()
            page.get_by_role("option", name=name, exact=False).first.click()
        assert [one.inner_text() for one in page.locator("#model option").all()] == ["en-fr", "many"]
        expect(page.locator("#model")).to_have_value("en-fr")
        chosen(page, "target").click()
        expect(page.locator("#chooser-list li")).to_have_count(len(MANY) - 1)  # not into what it is translated from


@pytest.mark.parametrize(("scheme", "locale", "width"), [("light", "en-GB", 1100), ("dark", "zh-CN", 390)])
def test_nobody_stumbles_over_many_languages(open_page: Open, scheme: str, locale: str, width: int) -> None:
    offered = models(many=MANY)
    prepare = lambda page: answer(page, "/v1/models", offered)  # noqa: E731
    with open_page(scheme=scheme, locale=locale, width=width, prepare=prepare) as page:
        chosen(page, "target").click()
        expect(page.locator("#chooser-list li")).to_have_count(len(MANY))
        assert page.evaluate(ACCESS) == []
        box = page.locator("#chooser").bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert page.evaluate(FOCUS) == {"name": "chooser-search", "visible": True}
        if locale == "zh-CN":
            page.fill("#chooser-search", "繁体")
            expect(page.locator("#chooser-list li")).to_have_count(1)


def test_scripts_from_right_to_left(open_page: Open) -> None:
    text = "القطط تأكل السمك"
    with open_page() as page:
        told(page, translation(text, segment("猫吃鱼", text, [[[0, 1]], [[1, 2]], [[2, 3]]])), "猫吃鱼")
        first, last = (page.locator("#output .word").nth(place).bounding_box() for place in (0, 2))
        assert first
        assert last
        assert first["x"] > last["x"]
        page.locator("#output .word").first.focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#output .word").nth(1)).to_be_focused()


def test_the_translation_is_copied(open_page: Open) -> None:
    with open_page() as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        told(page)
        page.click("#copy")
        expect(page.locator("#word-detail")).to_have_text("Copied.")
        assert page.evaluate("navigator.clipboard.readText()") == CATS["text"]
        page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }")
        page.click("#copy")
        expect(page.locator("#word-detail")).to_contain_text("Ctrl and C")
        assert page.evaluate("getSelection().toString()") == CATS["text"]


def test_events_are_read_however_they_are_cut(open_page: Open) -> None:
    read = """async ([text, size]) => {
      const { readEvents } = await import("/static/stream.js");
      const bytes = new TextEncoder().encode(text);
      const body = new ReadableStream({ start(control) {
        for (let at = 0; at < bytes.length; at += size) control.enqueue(bytes.slice(at, at + size));
        control.close();
      } });
      const found = [];
      for await (const event of readEvents(body)) found.push([event.name, event.data]);
      return found;
    }"""
    text = ': hello\n\nevent: progress\ndata: {"stable":\ndata:"猫😀"}\n\ndata: 1\n\nevent: unfinished\ndata: 2\n'
    with open_page() as page:
        for line_end in ("\n", "\r\n", "\r"):
            for size in (1, 2, 3, 7, 1000):
                found = page.evaluate(read, [text.replace("\n", line_end), size])
                assert found == [["progress", {"stable": "猫😀"}], ["message", 1]]


def test_parts_of_a_text_are_the_text(open_page: Open) -> None:
    texts = ["", "\n", "a", "a\n\n\nb\n", "x" * 25, "One. Two! " * 9, "猫吃鱼。" * 9, "😀" * 25, " \n \n" * 9]
    split = """async ([texts, most]) => {
      const { splitParagraphs } = await import("/static/paragraphs.js");
      return texts.map((text) => splitParagraphs(text, most));
    }"""
    with open_page() as page:
        for most in (1, 4, 10, 1000):
            for text, parts in zip(texts, page.evaluate(split, [texts, most]), strict=True):
                assert "".join(parts) == text
                assert all(0 < len(part) <= most for part in parts)
