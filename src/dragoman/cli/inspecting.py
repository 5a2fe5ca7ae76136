"""The verb that lets one look into a model: inspect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.decoding import Read, Written
from dragoman.cli.options import BeamSize, Device, Json, LengthPenalty, Model, argument_text, open_output, tell
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.audio.listing import Given

Text = Annotated[
    str | None,
    typer.Argument(help="What to translate, continue or fill; a recording.", metavar="TEXT", show_default=False),
]
Target = Annotated[
    str | None,
    typer.Option(help="Show the decoder at this target, and say why it was not written.", metavar="TEXT"),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="A page that needs nothing else (.html), or a directory for the record; else a page with a server.",
        metavar="FILE",
    ),
]
Port = Annotated[int, typer.Option(help="Of the server; 0 takes a free one.", min=0, max=65_535)]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the server's address, open no browser.")]
MaxLength = Annotated[int | None, typer.Option(help="Pieces of the output at most.", min=1)]
Prefix = Annotated[str, typer.Option(help="What the output must begin with.", metavar="TEXT")]
HeadOff = Annotated[
    list[str] | None,
    typer.Option(help="Switch a head off: encoder.layers.0.self_attention:2; repeatable.", metavar="NAME:N"),
]
NoCausal = Annotated[
    bool, typer.Option("--no-causal-mask", help="Let the decoder see what comes later, where all is there at once.")
]
NoPadding = Annotated[
    bool, typer.Option("--no-padding-mask", help="Let everybody see padding; there is some with --beside.")
]
Beside = Annotated[str | None, typer.Option(help="A longer text in the same batch.", metavar="TEXT")]
Convention = Annotated[
    str | None, typer.Option(help="The same weights as annotated, jadore, lsdefine, d2l or marian would run them.")
]
Against = Annotated[
    str | None,
    typer.Option(
        help="Side by side with another model, or with the same as greedy, int8, annotated, jadore, lsdefine, d2l "
        "or marian.",
        metavar="MODEL",
    ),
]


def inspect(
    model: Model,
    text: Text = None,
    target: Target = None,
    out: Out = None,
    port: Port = 0,
    no_open: NoOpen = False,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    prefix: Prefix = "",
    head_off: HeadOff = None,
    no_causal_mask: NoCausal = False,
    no_padding_mask: NoPadding = False,
    beside: Beside = None,
    convention: Convention = None,
    against: Against = None,
    source_language: Read = None,
    target_language: Written = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Look into a model at work. Stages, search and what if, as a page, or as a record for programs."""
    asked = {
        "text": text, "target": target, "beside": beside, "prefix": prefix, "beam": beam_size, "length": max_length,
        "off": ",".join(head_off or ()), "causal": 0 if no_causal_mask else None,
        "padding": 0 if no_padding_mask else None, "convention": convention, "against": against,
        "penalty": length_penalty, "from": source_language, "to": target_language,
    }  # fmt: skip
    if out is None and not as_json:
        _serve(
            model, {name: value for name, value in asked.items() if value not in (None, "")}, port, not no_open, device
        )
        return
    if text is None:
        raise typer.BadParameter("--out and --json need a text", param_hint="TEXT")
    from dragoman.inspector import inspect as look

    found = look(
        model, argument_text(text), None if target is None else argument_text(target),
        beam_size=beam_size, length_penalty=length_penalty, max_length=max_length, prefix=argument_text(prefix),
        heads_off=[_head(one) for one in head_off or ()], causal_mask=not no_causal_mask,
        padding_mask=not no_padding_mask,
        beside=None if beside is None else argument_text(beside), convention=convention, against=against,
        source_language=source_language, target_language=target_language,
        presets=out is not None and out.suffix.lower() in (".html", ".htm"), device=device,
    )  # fmt: skip
    if out is not None:
        found.save(out)
        tell(f"written to {out}")
    if as_json:
        with open_output(None) as stream:
            stream.write(found.json() + "\n")


def _serve(model: Path, asked: dict[str, object], port: int, opens: bool, device: str) -> None:
    """The page with a server behind it; what was asked stands in its address."""
    from urllib.parse import urlencode

    from dragoman.serving import inspect_live

    models, recordings = [model], _recordings(model, asked)
    other = asked.get("against")
    if isinstance(other, str) and Path(other).is_dir():
        models.append(Path(other))
        asked["against"] = Path(other).resolve().name
        if asked["against"] == model.resolve().name:
            asked["against"] += "-2"
    for name in ("text", "target", "beside", "prefix"):
        if name in asked:
            argument_text(str(asked[name]))

    def ready(address: str) -> None:
        page = f"{address}/inspect/" + (f"#{urlencode(asked)}" if asked else "")
        tell(f"{page}\nCtrl+C ends it")
        if opens:
            _open(page)

    example = next(iter(recordings), None) or _example(model)
    inspect_live(models, port=port, device=device, example=example, recordings=recordings, on_ready=ready)


def _recordings(model: Path, asked: dict[str, object]) -> dict[str, Given]:
    """For a model that listens: the recording that was named, or the first held-out one of the run, by its name."""
    from dragoman.audio.listing import Recording, read_list
    from dragoman.models.description import CONFIG, read_config

    if not (model / CONFIG).exists() or read_config(model)[0].mels is None:
        return {}
    if "text" in asked:
        one = Recording.of_line(str(asked["text"]))
        asked["text"] = Path(one.path).name
        return {Path(one.path).name: one}
    listing = model / "corpus" / "dev.tsv"
    try:
        with listing.open(encoding="utf-8") as lines:
            found = [*read_list(listing, [next(lines, "").rstrip("\r\n")])]
    except (OSError, UnicodeDecodeError, DragomanError):
        return {}
    return {Path(one.path).name: one for one in found}


def _open(page: str) -> None:
    """Open a browser, beside all else: some block until they are closed."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()


def _example(model: Path) -> str | None:
    """A text to begin with: the first held-out source of a run whose corpus is at hand."""
    from dragoman.models.description import CONFIG, read_config

    if not (model / CONFIG).exists():
        return None
    file = model / "corpus" / f"dev.{read_config(model)[2].source}"
    try:
        with file.open(encoding="utf-8") as lines:
            return next(lines, "").strip()[:200] or None
    except (OSError, UnicodeDecodeError):
        return None


def _head(told: str) -> tuple[str, int]:
    """An attention and the number of a head of it."""
    name, _, number = told.rpartition(":")
    if not name or not number.isdecimal():
        message = f"expected an attention and a head, as encoder.layers.0.self_attention:2, not {told!r}"
        raise typer.BadParameter(message, param_hint="--head-off")
    return name, int(number)
