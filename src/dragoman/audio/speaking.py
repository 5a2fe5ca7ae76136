"""Texts spoken by a synthesiser: espeak-ng, with the package `espeakng-loader` that brings it. Offline.

Its voices are formulas, not recordings: a language, and a variant that says what the speaker sounds like.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock

import numpy as np
import torch

from dragoman.audio.resampling import resample
from dragoman.audio.waveform import Waveform
from dragoman.errors import ConfigError, DataError

SPEEDS, PITCHES, LONGEST = (80, 450), (0, 99), 5000


@dataclass(frozen=True)
class Voice:
    """Who speaks, and how.

    Attributes:
        language: espeak-ng's code of it, with the accent: `en-us`, `en-gb-scotland`, `cmn`.
        variant: its name of a speaker, such as `f2` or `Andy`; "": the language's own.
        speed: words a minute, 80 to 450.
        pitch: 0 to 99; 50 is the speaker's own.

    Raises:
        DataError: speed or pitch are out of range.
    """

    language: str = "en-us"
    variant: str = ""
    speed: int = 175
    pitch: int = 50

    def __post_init__(self) -> None:
        for name, value, (low, high) in (("speed", self.speed, SPEEDS), ("pitch", self.pitch, PITCHES)):
            if not low <= value <= high:
                raise DataError(f"the {name} is out of range for a voice", expected=f"{low} to {high}", found=value)

    def __str__(self) -> str:
        return f"{self.language}+{self.variant}" if self.variant else self.language


class Speaker:
    """A process that holds the synthesiser. What it says does not depend on what it said before.

    Use it in a `with` statement: it ends with it.

    Raises:
        ConfigError: the package is not installed, or its library does not load.
    """

    def __init__(self) -> None:
        try:
            import espeakng_loader
        except ImportError as error:
            hint = "pip install 'dragoman[audio]'"
            raise ConfigError("speaking needs espeakng-loader, which is not installed", hint=hint) from error
        child = Path(__file__).with_name("speaking_child.py")
        places = [espeakng_loader.get_library_path(), espeakng_loader.get_data_path()]
        self._lock = Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(child), *places],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            self.sample_rate = int(self._answer()["rate"])
        except DataError as error:
            raise ConfigError("espeak-ng does not start", found=error) from error

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the process end."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        self._process.wait()

    def say(self, text: str, voice: Voice | None = None, *, sample_rate: int | None = None) -> Waveform:
        """Return a text as a voice says it: the same samples each time.

        Args:
            text: of at most 5,000 characters.
            voice: whose; `Voice()` if none is given.
            sample_rate: resample to this rate in Hz.

        Raises:
            DataError: there is no such voice, the text is too long, or nothing can be heard.
        """
        voice = voice or Voice()
        if len(text) > LONGEST:
            raise DataError("the text is too long to be said", expected=f"{LONGEST:,} characters", found=len(text))
        request = json.dumps([text.replace("\0", " "), str(voice), voice.speed, voice.pitch])
        with self._lock:
            try:
                assert self._process.stdin is not None
                assert self._process.stdout is not None
                self._process.stdin.write(request.encode() + b"\n")
                self._process.stdin.flush()
                answer = self._answer()
                data = self._process.stdout.read(answer.get("bytes", 0))
            except (OSError, ValueError) as error:
                raise DataError("the speech synthesiser has stopped", found=error) from error
        if "error" in answer:
            raise DataError(f"the synthesiser: {answer['error']}", hint="voices are named as in espeak-ng: en-us, f2")
        samples = torch.from_numpy(np.frombuffer(data, dtype="<i2").astype(np.float32) / 32768)
        if not len(samples) or not samples.any():
            raise DataError("speaking this text makes no sound", found=text)
        rate = sample_rate or self.sample_rate
        return Waveform(resample(samples, self.sample_rate, rate).clamp(-1, 1), rate)

    def _answer(self) -> dict:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DataError("the speech synthesiser has stopped")
        return json.loads(line)


def say_all(
    texts: Iterable[tuple[str, Voice]], *, sample_rate: int | None = None, workers: int = 1
) -> Iterator[Waveform]:
    """Yield many texts as voices say them, in order, by several processes.

    Args:
        texts: each with its voice.
        sample_rate: resample to this rate in Hz.
        workers: how many processes speak.

    Raises:
        ConfigError: as `Speaker`.
        DataError: as `Speaker.say`.
    """
    speakers = [Speaker() for _ in range(max(1, workers))]
    pending = iter(texts)

    def say(each: tuple[int, tuple[str, Voice]]) -> Waveform:
        number, (text, voice) = each
        return speakers[number % len(speakers)].say(text, voice, sample_rate=sample_rate)

    try:
        with ThreadPoolExecutor(len(speakers)) as pool:
            while batch := list(enumerate(islice(pending, 64 * len(speakers)))):
                yield from pool.map(say, batch)
    finally:
        for speaker in speakers:
            speaker.close()


def say(text: str, voice: Voice | None = None, *, sample_rate: int | None = None) -> Waveform:
    """Return one text as a voice says it; whoever has many keeps a `Speaker`, or calls `say_all`.

    Args:
        text: see `Speaker.say`.
        voice: likewise.
        sample_rate: likewise.

    Raises:
        ConfigError: as `Speaker`.
        DataError: as `Speaker.say`.
    """
    with Speaker() as speaker:
        return speaker.say(text, voice, sample_rate=sample_rate)
