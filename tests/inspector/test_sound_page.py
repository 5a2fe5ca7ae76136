"""The inspector's page of a sound in a real browser: spectrogram, attention over time, and nothing of texts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser can be driven")

from playwright.sync_api import Browser, Page, expect

from browsing import ACCESS, watched
from dragoman.inspector import Inspection, inspect
from dragoman.inspector.offline import offline_page
from small_sounds import listener, saved_listener, waveform, write_wav

VIEWS = ("map", "stage", "steps", "search", "heads", "judging", "embeddings", "compare", "tour", "quiz")
HOME = "source_embedding"


@pytest.fixture(scope="module")
def found() -> Inspection:
    return inspect(listener(positions="interleaved"), waveform("mid", "top"), beam_size=2)


@pytest.fixture(scope="module")
def file(found: Inspection, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(offline_page(found), encoding="utf-8")
    return path.as_uri()


def go(page: Page, **state: object) -> None:
    page.evaluate("(hash) => { location.hash = hash; }", urlencode(state))
    expect(page.locator("main")).to_have_attribute("data-view", str(state["view"]))


def test_the_strip_is_the_spectrogram_and_tells_time_frame_and_attention(
    browser: Browser, file: str, found: Inspection
) -> None:
    sound = found.record["sound"]
    with watched(browser, file) as page:
        size = page.locator(".spectrogram").evaluate("(canvas) => [canvas.width, canvas.height]")
        assert size == [sound["frames"], sound["mels"]]
        assert page.locator("#strip ol").count() == 1  # pieces of the output alone
        page.keyboard.press("ArrowRight")
        expect(page.locator("#strip [aria-pressed=true]")).to_have_attribute("data-key", "step:2")
        panels = page.locator(".panels")
        panels.focus()
        for _ in range(4):
            page.keyboard.press("ArrowRight")
        weight = found.arrays["decoder.layers.0.cross_attention.weights"][0, :, 1, 3].mean()
        expect(page.locator(".sound .readout")).to_contain_text("position 4 (0.12–0.16 s) · step 2")
        expect(page.locator(".sound .readout")).to_contain_text(f"looks here with {weight:.3f}")
        box = panels.bounding_box()
        assert box is not None
        panels.hover(position={"x": box["width"] / 2, "y": 20})
        seconds = sound["positions"] * sound["seconds_each"] / 2
        expect(page.locator(".sound .readout")).to_contain_text(f"{seconds:.2f} s")
        drawn = page.locator(".listened").evaluate("(canvas) => [canvas.width, canvas.height]")
        assert drawn == [sound["positions"], len(found.record["steps"])]
        page.locator(".listened").click(position={"x": 5, "y": 3})
        expect(page.locator("#strip [aria-pressed=true]")).to_have_attribute("data-key", "step:1")


def test_numbers_before_the_encoder_explain_themselves(browser: Browser, file: str, found: Inspection) -> None:
    stages = [f"{HOME}.frames", f"{HOME}.scaled", f"{HOME}.positions", "ctc"]
    stages += [f"{HOME}.subsampling.{kind}.{number}" for kind in ("convolutions", "gates") for number in (0, 1)]
    with watched(browser, file) as page:
        for stage in stages:
            for row in (0, 3):
                go(page, view="stage", stage=stage, row=row, col=2)
                shown = float((page.locator("#number").text_content() or "").replace("−", "-"))
                assert shown == pytest.approx(float(found.arrays[stage][0, row, 2]), abs=2e-5), stage
                expect(page.locator("[data-check]")).to_have_attribute("data-check", "agrees")
        go(page, view="stage", stage=f"{HOME}.waveform")
        expect(page.locator(".wave")).to_be_visible()


@pytest.mark.parametrize(("locale", "scheme", "width"), [("en-GB", "light", 1100), ("zh-CN", "dark", 390)])
def test_every_view_is_there_and_nothing_is_asked_of_texts(
    browser: Browser, file: str, locale: str, scheme: str, width: int
) -> None:
    with watched(browser, file, locale=locale, scheme=scheme, width=width) as page:
        for view in VIEWS:
            go(page, view=view)
            assert page.locator("main").inner_text().strip()
            assert page.evaluate(ACCESS) == []
        go(page, view="tour")
        told = page.locator("#answer").inner_text()
        assert re.search("pressure of the air|空气压力", told)
        go(page, view="judging")
        assert not re.search("Coverage of the source|源文覆盖度", page.locator("main").inner_text())
        go(page, view="map")
        names = page.locator(".box .name").all_text_contents()
        assert any(re.search("head for CTC|CTC 输出层", name) for name in names)
        assert sum(bool(re.search("gated|门控", name)) for name in names) == 2


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("live")
    model = saved_listener(folder / "model")
    for name, words in (("order", ("mid", "top")), ("other", ("low", "high", "top"))):
        write_wav(folder / f"{name}.wav", waveform(*words).samples.numpy())
    command = [sys.executable, "-m", "dragoman", "inspect", str(model), str(folder / "order.wav"), "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = re.search(r"http://\S+", process.stderr.readline())
        try:
            assert address
            yield address[0], folder
        finally:
            process.terminate()
            process.communicate()


def test_another_recording_is_chosen_in_the_page(browser: Browser, live: tuple[str, Path]) -> None:
    address, folder = live
    with watched(browser, address) as page:
        expect(page.locator(".sound")).to_contain_text("order.wav", timeout=60_000)
        assert page.locator("#ask-text, #ask-beside, #ask-convention").count() == 0
        page.set_input_files("#ask-sound", folder / "other.wav")
        expect(page.locator(".sound")).to_contain_text("other.wav")
        assert "text=other.wav" in page.url
        weights = "decoder.layers.0.cross_attention.weights"
        go(page, view="heads", text="other.wav", stage=weights)
        page.get_by_role("button", name="Switch head 0 off").click()
        expect(page.locator("#ask-changes")).to_contain_text("head 0")
        expect(page.locator(".sound")).to_contain_text("other.wav")
        page.set_input_files("#ask-sound", {"name": "no.wav", "mimeType": "audio/wav", "buffer": b"no sound"})
        expect(page.get_by_role("alert")).to_contain_text("no sound that can be read")
