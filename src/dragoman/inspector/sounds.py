"""What a record tells of a sound: its lengths, where its frames lie, and what a head for CTC reads off it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from dragoman.audio import Waveform
from dragoman.audio.listing import Given
from dragoman.inspection.facts import Reading
from dragoman.inspection.hearing import Read, read_given
from dragoman.inspection.subject import MAX_PIECES
from dragoman.inspector.recording import text_facts
from dragoman.stages.convolutions import HOME
from dragoman.text import TokenizerPair
from dragoman.text.tokenizer import Tokenizer


def sound_facts(read: Read, readings: Sequence[Reading], share: float) -> dict[str, Any] | None:
    """Return what there is to know of a sound; None of a text.

    Args:
        read: what the model hears.
        readings: of a head for CTC.
        share: of the head in the search.
    """
    if read.heard is None:
        return None
    told = [
        {
            **asdict(one),
            "start": round(one.start, 6),
            "end": round(one.end, 6),
            "probability": round(one.probability, 6),
        }
        for one in readings
    ]
    names = {"waveform": f"{HOME}.waveform", "spectrogram": f"{HOME}.frames"}
    return {**asdict(read.heard.facts), "arrays": names, "ctc": told, "ctc_share": share}


def source_facts(tokenizer: Tokenizer, read: Read) -> dict[str, Any]:
    """Return a source with what stands at each position of the encoder: pieces, or of a sound times.

    Args:
        tokenizer: of sources.
        read: what the model reads.
    """
    if read.heard is None:
        return text_facts(tokenizer, read.name, read.text.ids, read.pieces)
    pieces = [
        {"text": time, "id": place, "start": None, "end": None, "unknown": False}
        for place, time in enumerate(read.pieces)
    ]
    return {"text": read.name, "pieces": pieces}


def twice_of(tokenizers: TokenizerPair, given: Given) -> Given | None:
    """Return the same text, or sound, twice: what may stand in one batch with it; None where that is too long.

    Args:
        tokenizers: of the model.
        given: a text, or a sound.
    """
    if tokenizers.sound is None:
        return f"{given} {given}"
    heard = read_given(tokenizers, given).heard
    assert heard is not None
    both = Waveform(torch.cat([heard.sound.samples] * 2), heard.sound.sample_rate)
    return both if both.seconds <= MAX_PIECES * tokenizers.sound.seconds_each else None
