"""`dragoman translate --workers`, and what is done by Ray: long files, in several processes or on several machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.options import argument_text, decoding_settings, tell

if TYPE_CHECKING:
    from dragoman.bulk import BulkResult
    from dragoman.ray import Cluster

Ray = Annotated[str | None, typer.Option("--ray", help="Translate by Ray: its address, or local.", metavar="ADDRESS")]
Workers = Annotated[
    str | None,
    typer.Option(
        help="Translate a long --input in so many processes; the same call goes on with it. With --ray FEWEST,MOST.",
        metavar="N",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="With --ray: of tables.  [default: source=text,target=translation]", metavar="COLUMNS"),
]
PartLines = Annotated[int, typer.Option(help="Lines that a worker takes at a time.", min=1)]


def translate_in_parts(given: Mapping[str, Any]) -> None:
    """Translate a file in several processes or by Ray, and tell what has no translation.

    Args:
        given: the arguments of `translate`, with `named` and `how` as it makes them.

    Raises:
        ConfigError: there is no file to read or to write, or outputs would have more than a line.
    """
    from dragoman.errors import ConfigError

    if given["input_"] is None or given["output"] is None:
        hint = "give --input FILE and --output FOLDER (or a file name with a suffix)"
        raise ConfigError("several workers translate a file into files", hint=hint)
    one_line_each = {"TEXT": "text", "--nbest": "nbest", "--alignments": "alignments", "--word-alignments": "words"}
    if found := [flag for flag, name in one_line_each.items() if given[name]]:
        raise ConfigError("several workers write one line for each source", found=", ".join(found), hint="leave it out")
    if given["adapter"] is not None:
        hint = "dragoman merge makes one model of both"
        raise ConfigError("several workers cannot use adapters", found="--adapter", hint=hint)
    if given["on_bad_text"] == "replace":
        hint = "leave it out"
        raise ConfigError("several workers always leave bad lines empty", found="--on-bad-text replace", hint=hint)
    _tell_result(_by_processes(given) if given["ray"] is None else _by_ray(given))


def _by_processes(given: Mapping[str, Any]) -> BulkResult:
    from dragoman.bulk import translate_file
    from dragoman.bulk.tables import kind_of
    from dragoman.errors import ConfigError

    if given["columns"] is not None or kind_of(given["input_"]) == ".parquet":
        hint = "give --ray local too, or a file of lines without --columns"
        raise ConfigError("columns of tables are translated by Ray only", file=given["input_"], hint=hint)
    fewest, most = workers_of(given["workers"])
    if fewest != most:
        raise ConfigError("a range of workers needs --ray", found=given["workers"], hint="give one number")
    return translate_file(workers=most, columns={"scores": given["scores"], "as_json": given["as_json"]},
                          threads=given["threads"] or 1, **_common(given))  # fmt: skip


def _by_ray(given: Mapping[str, Any]) -> BulkResult:
    from dragoman.config.kinds import read_columns
    from dragoman.errors import ConfigError
    from dragoman.ray import translate_file

    if given["as_json"]:
        hint = "give an --output whose name ends in .jsonl"
        raise ConfigError("--ray writes lines or tables", found="--json", hint=hint)
    try:
        columns = read_columns(given["columns"] or "source=text,target=translation")
    except ValueError:
        expected = "source=NAME,target=NAME"
        raise ConfigError("--columns must name two columns", expected=expected, found=given["columns"]) from None
    cluster = cluster_of(given["ray"], given["workers"], given["threads"])
    return translate_file(cluster=cluster, columns=columns, scores=given["scores"], **_common(given))


def _common(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": [given["model"], *(given["ensemble"] or [])],
        "source": given["input_"],
        "output": given["output"],
        "part_lines": given["part_lines"],
        "settings": decoding_settings(given["settings"], given["named"]),
        "prefix": argument_text(given["prefix"]),
        "source_language": given["source_language"],
        "target_language": given["target_language"],
        "report": tell,
        **given["how"],
    }


def cluster_of(address: str, workers: str | None, threads: int | None) -> Cluster:
    """Return where Ray runs, and how many actors may work.

    Raises:
        ConfigError: `workers` is not N or FEWEST,MOST.
    """
    from dragoman.ray import Cluster

    return Cluster(address, None if workers is None else workers_of(workers), threads or 1)


def workers_of(text: str) -> tuple[int, int]:
    """Return fewest and most workers of N or FEWEST,MOST.

    Raises:
        ConfigError: it is neither.
    """
    from dragoman.errors import ConfigError

    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise ConfigError("--workers is a number, or with --ray two", expected="N, or FEWEST,MOST", found=text)
    return numbers[0], numbers[-1]


def check_alone(ray: str | None, workers: str | None) -> None:
    """Refuse a number of workers without Ray.

    Raises:
        ConfigError: it was given.
    """
    from dragoman.errors import ConfigError

    if ray is None and workers is not None:
        raise ConfigError("--workers needs --ray here", found="--workers", hint="give --ray local too, or leave it out")


def check_ray(given: Mapping[str, Any]) -> None:
    """Refuse options that have no meaning with Ray.

    Args:
        given: options by name, as `--sampling`; those that were not given are None or False.

    Raises:
        ConfigError: one was given.
    """
    from dragoman.errors import ConfigError

    if found := [option for option, value in given.items() if value]:
        raise ConfigError("this cannot be combined with --ray", found=", ".join(found), hint="leave it out")


def whole(path: Path | None, option: str) -> Path:
    """Return a file that Ray is to read.

    Raises:
        ConfigError: it is standard input.
    """
    from dragoman.errors import ConfigError

    if path is None or str(path) == "-":
        raise ConfigError("Ray reads files", hint=f"give {option} FILE, which every machine sees")
    return path


def _tell_result(result: BulkResult) -> None:
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
