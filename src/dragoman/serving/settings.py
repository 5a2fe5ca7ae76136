"""How a service is set up: what `serve.toml` may say, checked."""

from __future__ import annotations

import ipaddress
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.config.near import near_names
from dragoman.config.values import Mistake, shown, told
from dragoman.errors import ConfigError

MAX_SETTINGS_BYTES = 1 << 20
Count = Annotated[int, Field(ge=1, le=1 << 40)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
# What pydantic finds, in the words of the other settings; the rest is as it says it.
_EXPECTED = {
    "greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}", "greater_than": "more than {gt}",
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "finite_number": "a number",
    "bool_type": "true or false", "bool_parsing": "true or false", "string_type": "text", "path_type": "a path",
    "tuple_type": "a list", "model_type": "a table", "string_pattern_mismatch": "text that matches {pattern}",
}  # fmt: skip
Language = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$")]


class Checked(BaseModel):
    """A group of settings: unknown names are refused, and nothing changes once it is made."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelEntry(Checked):
    """A model to serve.

    Attributes:
        path: its run or model directory, or a packed model.
        name: what requests call it; the directory's name if None.
        source: language of its sources; what the directory says if None. Of a model for many the one that is served.
        target: language of its outputs; likewise.
        adapter: directory of an adapter over it, or of the run that trained one: a model of its own for requests, which
            shares with others over the same path what they do not change.
    """

    path: Path
    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")] | None = None
    source: Language | None = None
    target: Language | None = None
    adapter: Path | None = None


class RequestLimits(Checked):
    """What one request may ask, and what is taken on at once.

    Attributes:
        body_bytes: of a request.
        document_bytes: of a document that is uploaded.
        audio_bytes: of a recording that is uploaded.
        audio_seconds: of a recording; of one with more than 48,000 samples a second accordingly fewer.
        characters: of all texts of a request together.
        texts: of a request.
        beam_size: of a search; also the most outputs per text.
        live_sounds: sounds that are heard while they come in, at once.
        requests: that are under way at once; more are told to come back.
        documents: that are kept at once.
        receive_seconds: until a request has come in whole.
        translate_seconds: until it is answered.
        keep_alive_seconds: that an idle connection stays open.
        drain_seconds: that requests under way have when the service ends.
        document_minutes: that a translated document is kept.
    """

    body_bytes: Count = 1 << 20
    document_bytes: Count = 10 << 20
    audio_bytes: Count = 25 << 20
    audio_seconds: Annotated[float, Field(gt=0, le=2_400)] = 600.0
    characters: Count = 10_000
    texts: Count = 128
    beam_size: Annotated[int, Field(ge=1, le=1024)] = 16
    live_sounds: Count = 4
    requests: Count = 256
    documents: Count = 32
    receive_seconds: Seconds = 10
    translate_seconds: Seconds = 60
    keep_alive_seconds: Seconds = 5
    drain_seconds: Seconds = 30
    document_minutes: Seconds = 60


class ServeSettings(Checked):
    """All settings of a service.

    Attributes:
        models: to serve.
        host: address to listen on.
        port: 0 takes a free one.
        keys: file of keys that callers must have; demanded where `host` is no loopback address.
        hosts: names that requests may be sent to besides loopback ones and `host`; those of a proxy in front.
        origins: web pages, as `https://example.org`, that may call the service from a browser besides its own.
        memory: MB of weights that are held at once; the models that were not used for longest are closed. All if None.
        threads: that work on a step of one model; all there are if None.
        device: where models run.
        engine: which engine runs them.
        precision: in which precision.
        log: how each request is told on standard error.
        log_texts: whether that has the texts too.
        limits: of requests.
    """

    models: tuple[ModelEntry, ...] = ()
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 5000
    keys: Path | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    memory: Count | None = None
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    device: str = "auto"
    engine: Literal["auto", "native", "packed", "module"] = "auto"
    precision: Literal["auto", "float32", "int8", "bfloat16"] = "auto"
    log: Literal["json", "text", "none"] = "text"
    log_texts: bool = False
    limits: RequestLimits = RequestLimits()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own."""
    host = host.strip("[]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_settings(file: str | Path | None, given: dict[str, Any]) -> ServeSettings:
    """Return the settings of a file, with what was given besides it on top.

    Args:
        file: a TOML file, or None. Relative paths in it are relative to it.
        given: settings by name; those that are None are left as they are.

    Raises:
        ConfigError: the file cannot be read, or a setting is unknown or wrong.
    """
    tree = {} if file is None else _read(Path(file))
    tree |= {name: value for name, value in given.items() if value is not None}
    try:
        return ServeSettings.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(f"the settings of the service are not valid:{in_words(error)}", file=file) from None


def in_words(error: ValidationError) -> str:
    """Return all that pydantic found wrong, a line for each, as other settings tell it."""
    return told([Mistake(".".join(map(str, one["loc"])), _message(one)) for one in error.errors()])


def _message(one: Any) -> str:
    if one["type"] == "missing":
        return "must be given"
    if one["type"] == "extra_forbidden":
        groups = (ServeSettings, RequestLimits, ModelEntry)
        near = near_names(str(one["loc"][-1]), [name for group in groups for name in group.model_fields])
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        return f"there is no such setting{hint}"
    limits = {
        name: f"{value:,}".removesuffix(".0") if isinstance(value, (int, float)) else value
        for name, value in one.get("ctx", {}).items()
    }
    known = _EXPECTED.get(one["type"])
    expected = known.format(**limits) if known else one["msg"].removeprefix("Input should be ")
    return f"expected {expected} (found {shown(one['input'])})"


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_SETTINGS_BYTES + 1)
        if len(data) > MAX_SETTINGS_BYTES:
            raise ConfigError("the file is too long for settings", file=file, expected=f"<= {MAX_SETTINGS_BYTES} bytes")
        tree = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise ConfigError("the settings cannot be read", file=file, found=error.strerror) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError("not TOML", file=file, found=error) from error
    folder = file.resolve().parent
    if isinstance(keys := tree.get("keys"), str):
        tree["keys"] = folder / keys
    if isinstance(models := tree.get("models"), list):
        for model in models:
            for key in ("path", "adapter"):
                if isinstance(model, dict) and isinstance(path := model.get(key), str):
                    model[key] = folder / path
    return tree
