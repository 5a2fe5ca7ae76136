"""The verb that hears: transcribe."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import (
    BeamSize,
    DecodingSet,
    Device,
    Engine,
    Ensemble,
    Json,
    LengthPenalty,
    Model,
    Precision,
    Threads,
    argument_text,
    begun,
    open_output,
    open_translator,
    tell,
    told,
)

if TYPE_CHECKING:
    from dragoman.audio.listing import Given
    from dragoman.config import DecodingConfig
    from dragoman.studies.transcribing import Utterance, Word
    from dragoman.translation import Translation, Translator

Stream = Annotated[
    bool, typer.Option("--stream", help="Of standard input as it comes (SOUND is -): words as they become certain.")
]
Rate = Annotated[
    int | None,
    typer.Option(help="With --stream: of samples without a header, 16 bits, in Hz.  [default: the model's]", min=1),
]
# Bytes of standard input at most.
MOST = 1 << 30


def transcribe(
    model: Model,
    sounds: Annotated[
        list[str],
        typer.Argument(
            help="Files of sound, folders of them, lists of recordings (.tsv); - is one on standard input.",
            metavar="SOUND...",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(help="Where to write.  [default: standard output]", metavar="FILE")
    ] = None,
    ensemble: Ensemble = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    nbest: Annotated[int | None, typer.Option(help="Print so many outputs each: number, score, text.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Print the score before each, as --nbest does too.")] = False,
    prefix: Annotated[str, typer.Option(help="What every output must begin with.")] = "",
    settings: DecodingSet = None,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    times: Annotated[
        bool, typer.Option("--times", help="A line for each part that somebody speaks in: start, end, text.")
    ] = False,
    words: Annotated[
        bool, typer.Option("--words", help="As --times, with a line for each word: start, end, word.")
    ] = False,
    stream: Stream = False,
    rate: Rate = None,
    as_json: Json = False,
) -> None:
    """Write down what is said: a line for each sound, in order, with a model that was trained on recordings."""
    from dragoman.studies.listening import check_listens
    from dragoman.studies.transcribing import check_head, guarded

    _check_stream(stream, sounds, rate, [nbest, scores, prefix, times, words])
    asked = [] if stream else list(_heard(sounds))
    named = {"beam_size": beam_size, "length_penalty": length_penalty, "n_best": nbest}
    translator, options = open_translator(
        model, ensemble, settings, named, device=device, engine=engine, precision=precision, threads=threads
    )
    check_listens(translator.tokenizers)
    if stream:
        return _stream(translator, options, rate, output, as_json)
    counted = told(asked, "sounds:", len(asked), output=output)
    if words:
        check_head(translator)
    if times or words:
        with open_output(output) as place:
            return place.writelines(line + "\n" for line in _timed(translator, counted, options, words, as_json))
    assert translator.tokenizers.sound is not None
    heard = guarded(counted, translator.tokenizers.sound.sample_rate)
    lines = translator.translate_lines(heard, options, prefix=argument_text(prefix))
    shown = {"n_best": nbest is not None, "scores": scores, "as_json": as_json}
    return _write(begun(lines, output, None), options, output, shown)


def _write(
    results: Iterable[Translation], options: DecodingConfig, output: Path | None, shown: dict[str, bool]
) -> None:
    """Write a line for each sound, or several, and tell at the end what there is to know."""
    from dragoman.translation import format_translation
    from dragoman.translation.notes import Notes

    notes = Notes(options)
    with open_output(output) as place:
        for number, result in enumerate(results, 1):
            notes.add(number, result)
            place.writelines(line + "\n" for line in format_translation(result, number, **shown))
    for line in notes.lines():
        tell(f"warning: {line}")


def _check_stream(stream: bool, sounds: list[str], rate: int | None, others: Sequence[object]) -> None:
    """Refuse what does not go with a stream, and what goes with nothing else."""
    if not stream:
        if rate is not None:
            raise typer.BadParameter("it is of a stream, and goes with --stream", param_hint="--rate")
        return
    if sounds != ["-"]:
        raise typer.BadParameter("a stream is standard input, and nothing beside it: -", param_hint="SOUND")
    if any(others):
        raise typer.BadParameter("--nbest, --scores, --prefix, --times, --words go without it", param_hint="--stream")


def _stream(
    translator: Translator, options: DecodingConfig, rate: int | None, output: Path | None, as_json: bool
) -> None:
    with open_output(output) as place:
        for text in _streamed(translator, options, rate, as_json):
            place.write(text)
            place.flush()


def _streamed(translator: Translator, options: DecodingConfig, rate: int | None, as_json: bool) -> Iterator[str]:
    """What is said on standard input: words as they become stable, a line for each utterance; or an object a time."""
    from dragoman.audio.streaming import read_stream
    from dragoman.studies.transcribing import transcribe_stream

    front_end = translator.tokenizers.sound
    assert front_end is not None
    blocks = read_stream(sys.stdin.buffer, rate=rate or front_end.sample_rate)
    told = 0
    for one in transcribe_stream(translator, blocks, options=options):
        if as_json:
            yield json.dumps(
                {
                    "start": round(one.start, 2), "end": round(one.end, 2), "stable": one.stable,
                    "tentative": one.tentative, "final": one.final,
                },
                ensure_ascii=False,
            ) + "\n"  # fmt: skip
            continue
        words = one.stable.split()
        yield "".join(f" {word}" if number else word for number, word in enumerate(words) if number >= told)
        told = 0 if one.final else len(words)
        if one.final and words:
            yield "\n"


def _timed(
    translator: Translator, sounds: Iterable[Given], options: DecodingConfig, words: bool, as_json: bool
) -> Iterator[str]:
    """The parts of each sound, or their words, with their times: tables, or an object for each sound."""
    from dragoman.audio.listing import as_sounds
    from dragoman.audio.waveform import Waveform
    from dragoman.studies.transcribing import transcribe as transcribe_parts

    for one in as_sounds(sounds):
        sound = one if isinstance(one, Waveform) else one.read()
        parts = transcribe_parts(translator, sound, words=words, options=options)
        if as_json:
            rows = [_row(p) | ({"words": list(map(_row, p.words))} if words else {}) for p in parts]
            told = {"source": str(one), "seconds": round(sound.seconds, 2), "parts": rows}
            yield json.dumps(told, ensure_ascii=False)
        else:
            said = [word for part in parts for word in part.words or (part,)]  # without times of words, the part
            yield from (f"{p.start:.2f}\t{p.end:.2f}\t{p.text}" for p in said)


def _row(said: Utterance | Word) -> dict[str, object]:
    return {"start": round(said.start, 2), "end": round(said.end, 2), "text": said.text}


def _heard(sounds: list[str]) -> Iterator[Given]:
    """What the arguments name, in their order.

    Raises:
        DataError: a file is not there, or standard input is no sound.
    """
    from dragoman.errors import DataError
    from dragoman.studies.listening import named_recordings

    for one in sounds:
        if one != "-":
            yield from named_recordings(Path(one))
            continue
        from dragoman.audio.reading import read_audio

        data = sys.stdin.buffer.read(MOST + 1)
        if len(data) > MOST:
            raise DataError("standard input is too large for a sound", expected=f"{MOST:,} bytes at most")
        yield read_audio(data)
