"""A sound told in plain text: its lengths on the way to the encoder, and what a head for CTC reads off it."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.inspection.facts import Reading
from dragoman.inspection.tables import table
from dragoman.inspection.trace import Trace
from dragoman.stages.words import printable, say, shown


def heard_lines(trace: Trace) -> Iterator[str]:
    """Yield how long a sound is, from its samples to the positions of the encoder.

    Args:
        trace: of a sound.
    """
    sound = trace.sound
    assert sound is not None
    size = say("{seconds} s at {rate} Hz").format(seconds=f"{sound.seconds:.2f}", rate=f"{sound.sample_rate:,}")
    yield f"   {printable(trace.text)}  [{size}]"
    yield "   " + say("{samples} samples → {frames} frames of {mels} log-mels, one every {shift} ms").format(
        samples=f"{sound.samples:,}", frames=sound.frames, mels=sound.mels, shift=f"{1000 * sound.seconds_frame:g}"
    )
    halves = -(-sound.frames // 2)
    yield "   " + say(
        "→ {halves} vectors → {positions} vectors: each convolution takes a step of 2; one position every {each} ms"
    ).format(halves=halves, positions=sound.positions, each=f"{1000 * sound.seconds_each:g}")


def reading_lines(trace: Trace) -> Iterator[str]:
    """Yield what a head for CTC finds likeliest, a line for each piece; nothing where there is no head.

    Args:
        trace: of a sound.
    """
    if not trace.readings:
        return
    yield ""
    told = say("The likeliest piece of each stretch, with its mean probability; — where nothing is likeliest:")
    yield f"   {told}"
    yield ""
    yield from table([_row(one) for one in trace.readings], 6, left=2)
    read = " ".join(one.piece for one in trace.readings if one.piece)
    yield "   " + say("read off: {text}").format(text=printable(read) or "—")


def _row(one: Reading) -> list[str]:
    return [f"{one.start:.2f}–{one.end:.2f} s", shown(one.piece) if one.piece else "—", f"{one.probability:.3f}"]
