"""The microphone of the page in a real browser, which hears a file: what is sent, what is shown, what is told."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser can be driven")

import soundfile
from playwright.sync_api import Browser, Page, Route, expect

from browsing import ACCESS, started, watched
from dragoman.serving import ServeSettings
from served import Served
from small_sounds import RATE, speak, wav_bytes

HEARD = 48_000  # Hz, of the file that the browser takes for a microphone
PATH = "**/v1/transcribe"
REFUSE = "navigator.mediaDevices.getUserMedia = async () => {{ throw new DOMException('', '{name}'); }}"


def melody() -> np.ndarray:
    """Six seconds in which no half second sounds like another: a slow slide with a slow beat."""
    time = np.arange(6 * HEARD) / HEARD
    slide = 2 * np.pi * (200 * time + 250 * time**2 / 2)
    return 0.5 * np.sin(slide) * (0.6 + 0.4 * np.sin(2 * np.pi * 0.7 * time**1.5))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One whose microphone hears the melody, again and again, and whose user allows everything."""
    file = tmp_path_factory.mktemp("microphone") / "melody.wav"
    file.write_bytes(wav_bytes(melody(), HEARD))
    fake = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    yield from started(*fake, f"--use-file-for-fake-audio-capture={file}")


@pytest.fixture(scope="module")
def alone(listening: ServeSettings) -> Iterator[Served]:
    """A service of nothing but a model that listens."""
    with Served(listening.model_copy(update={"models": listening.models[:1]})) as served:
        yield served


def told(page: Page, **how: Any) -> list[dict[str, Any]]:
    """Let the page have a transcript that is known; return the list of what it sends, which grows."""
    sent: list[dict[str, Any]] = []
    body = {"text": "low mid", "source": "en", "target": "en", "model": "tones", "duration": 1.0, "segments": []}

    def fulfil(route: Route) -> None:
        head = f"content-type: {route.request.headers['content-type']}\r\n\r\n".encode()
        form = BytesParser(policy=HTTP).parsebytes(head + (route.request.post_data_buffer or b""))
        parts: Any = form.iter_parts()
        sent.append(
            {part.get_param("name", header="content-disposition"): part.get_payload(decode=True) for part in parts}
        )
        route.fulfill(json=body | how)

    page.route(PATH, fulfil)
    return sent


def recorded(page: Page, seconds: str) -> None:
    """Record for some seconds."""
    page.click("#record")
    expect(page.locator("#recorded")).to_have_text(seconds)
    page.click("#record")


def test_what_is_sent_is_what_was_heard(browser: Browser, alone: Served) -> None:
    with watched(browser, alone.address) as page:
        sent = told(page)
        page.click("#record")
        expect(page.locator("#record")).to_have_text("Stop")
        expect(page.locator("#recorded")).to_have_text("0:02")
        assert page.evaluate("document.querySelector('#level').value") > 0.5
        page.click("#record")
        expect(page.locator("#source")).to_have_value("low mid")
        expect(page.locator("#record")).to_have_text("Record")
        expect(page.locator("#record")).to_be_focused()
        expect(page.locator("#meter")).to_be_hidden()
    assert sent[0]["model"] == b"tones"
    info = soundfile.info(io.BytesIO(sent[0]["file"]))
    assert (info.format, info.subtype, info.channels) == ("WAV", "PCM_16", 1)
    assert info.samplerate in (44_100, 48_000)
    assert 2 <= info.duration < 15  # until the button was found
    samples, _ = soundfile.read(io.BytesIO(sent[0]["file"]))
    assert likeness(samples[-info.samplerate :], info.samplerate) > 0.98


def likeness(heard: np.ndarray, rate: int) -> float:
    """The correlation of a second with the likest second of the melody, whatever the gain."""
    given = np.concatenate([melody()] * 2)
    given = np.interp(np.arange(0, len(given) / HEARD, 1 / rate), np.arange(len(given)) / HEARD, given)
    size = len(given)
    together = np.fft.irfft(np.fft.rfft(given) * np.conj(np.fft.rfft(heard, size)), size)[: size - len(heard)]
    at = int(together.argmax())
    return float(np.corrcoef(given[at : at + len(heard)], heard)[0, 1])


def test_a_real_service_writes_down_and_translates_on(browser: Browser, hearing: Served) -> None:
    with watched(browser, hearing.address) as page:
        expect(page.locator("#listener option")).to_have_count(2)
        page.fill("#source", "ba ce")
        recorded(page, "0:01")
        expect(page.locator("#source")).to_have_value(re.compile(r"^ba ce\n(low|mid|high|top)"))
        expect(page.locator("#notes")).to_have_text(re.compile("This is English, from which nothing is translated"))
        page.fill("#source", "")
        told(page, target="zh", text="ba ce di")
        recorded(page, "0:01")
        expect(page.locator("#source")).to_have_value("ba ce di")
        body = {"text": "ba ce di", "source": "zh", "target": "en"}
        expected = hearing.client.post("/v1/translate", json=body).json()["translations"][0]["text"]
        expect(page.locator("#output")).to_have_text(expected)


def test_words_are_shown_while_they_are_spoken(browser: Browser, hearing: Served) -> None:
    words = re.compile("low|mid|high|top")
    with watched(browser, hearing.address) as page:
        page.click("#record")
        expect(page.locator("#sound-state")).to_have_text(words, timeout=20_000)
        page.click("#record")
        expect(page.locator("#source")).to_have_value(words)
        expect(page.locator("#sound-state")).to_be_empty()
        page.route("**/v1/transcribe/live*", lambda route: route.fulfill(status=503, json={}))  # too many are heard
        page.fill("#source", "")
        page.click("#record")
        expect(page.locator("#record")).to_have_text("Stop")  # the clock still tells of the recording before
        expect(page.locator("#recorded")).to_have_text("0:02")
        page.click("#record")
        expect(page.locator("#source")).to_have_value(words)


def test_a_file_is_chosen_or_dropped(browser: Browser, alone: Served, tmp_path: Path) -> None:
    data = wav_bytes(speak(["low", "mid"], np.random.default_rng(0)))
    file = tmp_path / "said.wav"
    file.write_bytes(data)
    drop = """async () => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([new Uint8Array(DATA)], 'said.wav', { type: 'audio/wav' }));
      dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, cancelable: true }));
    }""".replace("DATA", str(list(data[:3000])))
    with watched(browser, alone.address) as page:
        said = alone.client.post("/v1/transcribe", files={"file": ("a.wav", data)}).json()["text"]
        page.set_input_files("#sound-file", file)
        expect(page.locator("#source")).to_have_value(said)
        sent = told(page, text="high")
        page.evaluate(drop)
        expect(page.locator("#source")).to_have_value(f"{said}\nhigh")
        assert sent[0]["file"] == data[:3000]
        page.unroute(PATH)
        file.write_text("low mid")
        page.set_input_files("#sound-file", file)
        expect(page.locator("#error-text")).to_contain_text("no sound that can be read here")
        file.write_bytes(wav_bytes(np.zeros(RATE)))
        page.set_input_files("#sound-file", file)
        expect(page.locator("#error-text")).to_have_text("The model heard nobody speak.")


@pytest.mark.parametrize(
    ("script", "english", "chinese"),
    [
        (REFUSE.format(name="NotAllowedError"), "was not allowed to use the microphone", "未获准使用麦克风"),
        (REFUSE.format(name="NotFoundError"), "No microphone was found", "没有找到麦克风"),
        (REFUSE.format(name="NotReadableError"), "perhaps another program has it", "可能正被其他程序占用"),
        ("Object.defineProperty(navigator, 'mediaDevices', { value: undefined })", "only to pages that come over https",
         "只允许通过 https"),
        ("delete globalThis.AudioWorkletNode", "could not record", "无法录音"),
    ],
)  # fmt: skip
def test_why_there_is_no_recording(browser: Browser, alone: Served, script: str, english: str, chinese: str) -> None:
    with watched(browser, alone.address, prepare=lambda page: page.add_init_script(script)) as page:
        page.click("#record")
        expect(page.locator("#error-text")).to_contain_text(english)
        expect(page.locator("#record")).to_have_text("Record")
        page.click("#interface-language")
        expect(page.locator("#error-text")).to_contain_text(chinese)


def test_it_stops_where_the_server_takes_no_more(browser: Browser, listening: ServeSettings) -> None:
    limits = listening.limits.model_copy(update={"audio_seconds": 1.5})
    settings = listening.model_copy(update={"limits": limits, "models": listening.models[:1]})
    with Served(settings) as served, watched(browser, served.address) as page:
        page.click("#record")
        expect(page.locator("#source")).not_to_have_value("")
        expect(page.locator("#record")).to_have_text("Record")


def test_a_service_of_texts_shows_no_microphone(browser: Browser, service: Served) -> None:
    with watched(browser, service.address) as page:
        expect(page.locator("#model-line")).not_to_be_empty()
        for name in ("#record", "#choose-sound", "#listener", "#empty-said"):
            expect(page.locator(name)).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
def test_it_is_reachable_and_fits(browser: Browser, hearing: Served, alone: Served, scheme: str, width: int) -> None:
    """By keyboard alone, in both themes, on a phone too."""
    for served in (hearing, alone):
        with watched(browser, served.address, scheme=scheme, width=width, locale="zh-CN") as page:
            told(page, target="zh")
            expect(page.locator("#record")).to_be_visible()
            page.locator("#source").focus()
            for _ in range(3):
                page.keyboard.press("Tab")
                if page.evaluate("document.activeElement.id") == "record":
                    break
            page.keyboard.press("Enter")
            expect(page.locator("#recorded")).to_have_text("0:01")
            assert page.evaluate(ACCESS) == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.keyboard.press("Space")
            expect(page.locator("#source")).to_have_value("low mid")
            assert page.evaluate(ACCESS) == []
            shown = page.locator("#output-pane").is_visible()
            assert shown == (served is hearing)
