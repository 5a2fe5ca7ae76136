"""`dragoman translate --workers`: a long file, in several processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from dragoman.cli.options import argument_text, decoding_settings, tell


def translate_in_parts(given: Mapping[str, Any]) -> None:
    """Translate a file in several processes, and tell what has no translation.

    Args:
        given: the arguments of `translate`, with `named` and `how` as it makes them.

    Raises:
        ConfigError: there is no file to read or to write, or outputs would have more than a line.
    """
    from dragoman.bulk import translate_file
    from dragoman.errors import ConfigError

    if given["input_"] is None or given["output"] is None:
        hint = "give --input FILE and --output FOLDER (or a file name with a suffix)"
        raise ConfigError("several workers translate a file into files", hint=hint)
    one_line_each = {"TEXT": "text", "--nbest": "nbest", "--alignments": "alignments", "--word-alignments": "words"}
    if found := [flag for flag, name in one_line_each.items() if given[name]]:
        raise ConfigError("several workers print one line for each", found=", ".join(found), hint="leave it out")
    if given["adapter"] is not None:
        hint = "dragoman merge makes one model of both"
        raise ConfigError("several workers open models without adapters", found="--adapter", hint=hint)
    if given["on_bad_text"] == "replace":
        hint = "leave it out"
        raise ConfigError("several workers leave bad lines empty", found="--on-bad-text replace", hint=hint)
    result = translate_file(
        [given["model"], *(given["ensemble"] or [])],
        given["input_"],
        given["output"],
        workers=given["workers"],
        part_lines=given["part_lines"],
        settings=decoding_settings(given["settings"], given["named"]),
        prefix=argument_text(given["prefix"]),
        columns={"scores": given["scores"], "as_json": given["as_json"]},
        threads=given["threads"] or 1,
        report=tell,
        **given["how"],
    )
    kept = f", {result.kept:,} of them done before" if result.kept else ""
    tell(f"{result.lines:,} lines{kept}, in {result.path}")
    for problem in result.problems[:10]:
        tell(f"line {problem.line:,} has no translation: {problem.reason}")
    if len(result.problems) > 10:
        kept = f"; {result.path} has all in *.problems.jsonl" if result.path.is_dir() else ""
        tell(f"... and {len(result.problems) - 10:,} more lines{kept}")
    if result.left_out:
        tell(f"left out: parts {', '.join(map(str, result.left_out))}; the same call tries them again")
        raise typer.Exit(1)
