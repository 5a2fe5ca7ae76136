"""The verb that serves: models behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dragoman.cli.options import Device, Engine, Precision, Threads, tell
from dragoman.cli.packed import fetched


def serve(
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="Models: directories, or files.", metavar="MODEL", show_default=False, callback=fetched),
    ] = None,
    adapters: Annotated[
        list[str] | None,
        typer.Option("--adapter", help="An adapter over the only MODEL, as a further model.", metavar="NAME=DIR"),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; keys are demanded of any but this machine's own.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="0 takes a free one.  [default: 5000]")] = None,
    keys: Annotated[Path | None, typer.Option(help="File of the keys that callers must have.", metavar="FILE")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings, in TOML.", metavar="FILE")] = None,
    hosts: Annotated[
        list[str] | None, typer.Option("--allow-host", help="Name that requests may be sent to.", metavar="NAME")
    ] = None,
    memory: Annotated[
        int | None, typer.Option(help="MB of weights that are held at once.  [default: all]", metavar="MB")
    ] = None,
    log: Annotated[Literal["json", "text", "none"] | None, typer.Option(help="How requests are told.")] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Tell their texts too.")] = False,
    new_key: Annotated[
        str | None,
        typer.Option(help="Make a key for --keys.", metavar="NAME"),
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="It may reload models.")] = False,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
) -> None:
    """Serve models over HTTP. A page to translate on, and the interfaces of LibreTranslate and DeepL."""
    from dragoman.serving import check_installed, make_settings, run

    check_installed()
    if new_key is not None:
        _make_key(new_key, keys, admin, models)
        return
    if admin:
        raise typer.BadParameter("it is a property of a new key: give --new-key NAME", param_hint="--admin")
    given: dict[str, Any] = {
        "host": host, "port": port, "keys": keys, "hosts": tuple(hosts) if hosts else None, "memory": memory,
        "log": log, "log_texts": log_texts or None, "threads": threads,
    }  # fmt: skip
    placed = {"device": device, "engine": engine, "precision": precision}
    given |= {name: value for name, value in placed.items() if value != "auto"}
    if adapters:
        given["models"], models = _with_adapters(models or [], adapters, config), []
    run(models or (), make_settings(config, given))


def _with_adapters(models: list[Path], adapters: list[str], config: Path | None) -> list[dict[str, str]]:
    """The only model, and each adapter over it, as `models` of a file of settings has them."""
    if len(models) != 1 or config is not None:
        hint = "of several models, and with --config, write adapter = DIR into [[models]] of that file"
        raise typer.BadParameter(f"it stands over one model: {hint}", param_hint="--adapter")
    if wrong := [one for one in adapters if not all(one.partition("="))]:
        raise typer.BadParameter(f"expected NAME=DIR, found {wrong[0]}", param_hint="--adapter")
    named = [one.partition("=") for one in adapters]
    path = str(models[0])
    return [{"path": path}, *({"path": path, "name": name, "adapter": one} for name, _, one in named)]


def _make_key(name: str, file: Path | None, admin: bool, models: list[Path] | None) -> None:
    from dragoman.errors import ConfigError
    from dragoman.serving import new_key

    if file is None:
        raise ConfigError("a key needs a file", hint="--keys FILE says where its hash goes")
    if models:
        raise typer.BadParameter("it makes a key and serves nothing: leave the models out", param_hint="--new-key")
    print(new_key(file, name, admin=admin))
    tell("it is shown this once; only its hash is kept")
