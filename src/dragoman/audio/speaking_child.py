"""The process that speaks: it holds espeak-ng and answers requests on standard input, one after the other.

It is run as a program of its own, not imported. The library keeps state from one utterance to the next, and draws
random numbers; so each utterance is spoken by a fork of the process as it was when it had just started, and sounds the
same whatever was said before. It imports nothing of Dragoman's, so that forks are cheap.

A request is a line of JSON `[text, voice, speed, pitch]`. The answer is a line of JSON, `{"bytes": n}` followed by n
bytes of 16-bit samples, or `{"error": "..."}`. The first line tells the sample rate.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

# Of `speak_lib.h`: synchronous output, no exit on errors; parameters; text in UTF-8.
SYNCHRONOUS, NO_EXIT, RATE, PITCH, UTF8 = 2, 0x8000, 1, 3, 1


def speak(library: ctypes.CDLL, text: str, voice: str, speed: int, pitch: int) -> bytes:
    """Return 16-bit samples of a text as a voice says it.

    Raises:
        ValueError: there is no such voice, or the library gives up.
    """
    parts: list[bytes] = []

    def take(samples: int | None, count: int, _events: int | None) -> int:
        if samples and count > 0:
            parts.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(take)
    library.espeak_SetSynthCallback(callback)
    if library.espeak_SetVoiceByName(voice.encode()):
        raise ValueError(f"there is no voice {voice!r}")
    # Else it draws by the clock.
    library.espeak_ng_SetRandSeed(ctypes.c_long(1))
    library.espeak_SetParameter(RATE, speed, 0)
    library.espeak_SetParameter(PITCH, pitch, 0)
    said = text.encode() + b"\0"
    if library.espeak_Synth(said, ctypes.c_size_t(len(said)), 0, 1, 0, UTF8, None, None):
        raise ValueError("espeak-ng cannot say this")
    return b"".join(parts)


def answer(library: ctypes.CDLL, request: list) -> bytes:
    """Return the answer to a request."""
    try:
        samples = speak(library, *request)
    except (ValueError, TypeError, ctypes.ArgumentError) as error:
        return json.dumps({"error": str(error)}).encode() + b"\n"
    return json.dumps({"bytes": len(samples)}).encode() + b"\n" + samples


def forked(library: ctypes.CDLL, request: list) -> bytes:
    """Return the answer of a fork of this process, which is as new as this one was."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with open(writing, "wb") as out:
            out.write(answer(library, request))
            out.flush()
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answers:
        data = answers.read()
    os.waitpid(child, 0)
    return data or json.dumps({"error": "espeak-ng broke down"}).encode() + b"\n"


def main() -> None:
    """Start the library and answer requests until standard input ends."""
    library = ctypes.CDLL(sys.argv[1])
    rate = library.espeak_Initialize(SYNCHRONOUS, 0, sys.argv[2].encode(), NO_EXIT)
    out = sys.stdout.buffer
    out.write(json.dumps({"rate": rate}).encode() + b"\n")
    out.flush()
    reply = forked if hasattr(os, "fork") else answer
    for line in sys.stdin.buffer:
        out.write(reply(library, json.loads(line)))
        out.flush()


if __name__ == "__main__":
    main()
