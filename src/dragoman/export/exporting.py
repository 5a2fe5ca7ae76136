"""A model written for another program and tried by it: what `dragoman export` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from dragoman.directories import check_new, prepared, put
from dragoman.errors import ConfigError
from dragoman.export import for_argos, for_ctranslate2, for_marian, for_nllb, for_onnx, web_page
from dragoman.export.checking import LINES, Check, Loss, Peer, check_lines, compare, loss_of
from dragoman.export.given import Given, begin_notes, open_given
from dragoman.export.peers import ArgosPeer, CTranslate2Peer, MarianPeer, NllbPeer, OnnxPeer
from dragoman.pace import silent

Format = Literal["ctranslate2", "marian", "nllb", "onnx", "argos"]


class _Way(NamedTuple):
    """How a format is written, what runs it, and in which types its weights may be kept."""

    write: Callable[[Given, Path, str], None]
    peer: Callable[[Given, Path, str], Peer]
    quantizations: tuple[str, ...]


_WAYS = {
    "ctranslate2": _Way(for_ctranslate2.write, CTranslate2Peer, for_ctranslate2.QUANTIZATIONS),
    "marian": _Way(for_marian.write, MarianPeer, for_marian.QUANTIZATIONS),
    "nllb": _Way(for_nllb.write, NllbPeer, for_nllb.QUANTIZATIONS),
    "onnx": _Way(for_onnx.write, OnnxPeer, for_onnx.QUANTIZATIONS),
    "argos": _Way(for_argos.write, ArgosPeer, for_argos.QUANTIZATIONS),
}


@dataclass(frozen=True)
class Exported:
    """A model in another program's format.

    Attributes:
        directory: where it is.
        format: whose.
        files: its files -> their bytes.
        check: how the program's outputs compare with ours; None where it was not tried.
        loss: what dropping changed; None where nothing was dropped or there was nothing to measure it by.
        notes: what is otherwise there, in words.
    """

    directory: Path
    format: str
    files: dict[str, int]
    check: Check | None
    loss: Loss | None
    notes: tuple[str, ...]

    def told(self) -> list[str]:
        """Return what is to be known of it, as lines of text."""
        found = [f"note: {note}" for note in self.notes]
        return [*found, *(line for part in (self.loss, self.check) if part is not None for line in part.told())]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        parts = {name: None if part is None else dict(vars(part)) for name, part in
                 (("check", self.check), ("loss", self.loss))}  # fmt: skip
        return {"directory": str(self.directory), "format": self.format, "files": self.files, **parts,
                "notes": list(self.notes)}  # fmt: skip


def export_model(
    model: str | Path,
    to: str,
    out: str | Path,
    *,
    drop: Sequence[str] = (),
    quantization: str = "float32",
    check: bool = True,
    check_file: str | Path | None = None,
    web: bool = False,
    license_name: str | None = None,
    report: Callable[[str], None] = silent,
) -> Exported:
    """Write a model that translates as another program reads it, and let that program try it.

    Args:
        model: a run or model directory.
        to: `ctranslate2`, `marian` (MarianMT of transformers), `nllb` (NLLB and M2M100 of transformers), `onnx` or
            `argos`.
        out: the directory to make; for `argos` the file, which ends in `.argosmodel`.
        drop: what may be left out of it where the format cannot hold it: `right-to-left`, `matches`, `datastore`.
        quantization: of weights: float32; for CTranslate2 int8, int8_float32, int8_float16, int16, float16 or bfloat16
            too; for MarianMT and NLLB float16; for ONNX int8.
        check: whether the program translates 200 lines, which are compared with our own.
        check_file: lines to check with; those of the run's held-out pairs if None, and random tokens where it has none.
        web: whether a page that translates in a browser is written beside the graphs; for `onnx`.
        license_name: of the model, as hubs of models call it, for its card.
        report: takes lines about the progress.

    Raises:
        ConfigError: the format is unknown, cannot hold the model, `out` is there already, or what writes or checks it
            is not installed.
        ModelError: there is no model that translates, or it is damaged.
        DataError: the lines to check with cannot be read.
    """
    out = Path(out)
    way, packed = _way(to, out, quantization), to == "argos"
    if web and to != "onnx":
        raise ConfigError("only ONNX graphs run in a web page", expected="--to onnx with --web", found=f"--to {to}")
    given = open_given(model, drop, license_name)
    checked, lost = None, None
    with prepared(out) as made:
        way.write(given, made, quantization)
        if web:
            web_page.write_page(given, made, quantization)
        if check:
            report(f"written for {to}; now it translates {LINES} lines")
            lines = check_lines(given, check_file)
            checked, lost = compare(given, way.peer(given, made, quantization), lines), loss_of(given, lines)
        if packed:
            for_argos.pack(made, made / out.name)
            os.replace(made / out.name, out)
        else:
            put(made, out)
    written = [out] if packed else [one for one in sorted(out.rglob("*")) if one.is_file()]
    files = {one.name if packed else str(one.relative_to(out)): one.stat().st_size for one in written}
    more = for_argos.notes(given) if packed else web_page.notes(out) if web else ()
    notes = dict.fromkeys((*given.source.notes, *given.target.notes, *begin_notes(given), *more))
    return Exported(out, to, files, checked, lost, tuple(notes))


def _way(to: str, out: Path, quantization: str) -> _Way:
    """How a format is written, once it is known that this can be asked for."""
    if to not in get_args(Format):
        raise ConfigError("unknown format", expected=", ".join(get_args(Format)), found=to)
    check_new(out)
    way = _WAYS[to]
    if quantization not in way.quantizations:
        expected = ", ".join(way.quantizations)
        raise ConfigError(f"unknown quantization for {to}", expected=expected, found=quantization)
    if to == "argos" and (out.suffix != for_argos.ENDING or out.is_dir()):
        raise ConfigError("an Argos package is a single file", expected=f"--out NAME{for_argos.ENDING}", found=out)
    return way
