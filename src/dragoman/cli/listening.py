"""The verb that hears: transcribe."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
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
    from dragoman.translation import Translator

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
    as_json: Json = False,
) -> None:
    """Write down what is said: a line for each sound, in order, with a model that was trained on recordings."""
    from dragoman.studies.listening import check_listens
    from dragoman.translation import format_translation
    from dragoman.translation.notes import Notes

    asked = list(_heard(sounds))
    named = {"beam_size": beam_size, "length_penalty": length_penalty, "n_best": nbest}
    how = {"device": device, "engine": engine, "precision": precision}
    translator, options = open_translator(model, ensemble, settings, named, **how, threads=threads)
    check_listens(translator.tokenizers)
    counted = told(asked, "sounds:", len(asked), output=output)
    if times:
        with open_output(output) as stream:
            stream.writelines(line + "\n" for line in _timed(translator, counted, as_json))
        return
    lines = translator.translate_lines(counted, options, prefix=argument_text(prefix))
    notes = Notes(options)
    with open_output(output) as stream:
        for number, result in enumerate(begun(lines, output, None), 1):
            notes.add(number, result)
            for line in format_translation(result, number, n_best=nbest is not None, scores=scores, as_json=as_json):
                stream.write(line + "\n")
    for line in notes.lines():
        tell(f"warning: {line}")


def _timed(translator: Translator, sounds: Iterable[Given], as_json: bool) -> Iterator[str]:
    """The parts of each sound with their times: tables, or an object for each sound."""
    from dragoman.audio.listing import as_sounds
    from dragoman.audio.waveform import Waveform
    from dragoman.studies.transcribing import transcribe as transcribe_parts

    for one in as_sounds(sounds):
        sound = one if isinstance(one, Waveform) else one.read()
        parts = transcribe_parts(translator, sound)
        if as_json:
            rows = [{"start": round(p.start, 2), "end": round(p.end, 2), "text": p.text} for p in parts]
            yield json.dumps(
                {"source": str(one), "seconds": round(sound.seconds, 2), "parts": rows}, ensure_ascii=False
            )
        else:
            yield from (f"{p.start:.2f}\t{p.end:.2f}\t{p.text}" for p in parts)


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
