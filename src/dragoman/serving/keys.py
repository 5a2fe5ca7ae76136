"""Keys of callers: a file with the SHA-256 of each, never the keys themselves, and what each may do."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
import tomllib
from pathlib import Path
from typing import Annotated

import tomli_w
from pydantic import Field, ValidationError

from dragoman.errors import ConfigError
from dragoman.files import write_bytes
from dragoman.serving.faults import RequestError
from dragoman.serving.settings import Checked, Count, in_words

PREFIX = "dgm_"


class Key(Checked):
    """One caller.

    Attributes:
        name: shown in logs and counts.
        sha256: of the key.
        requests_per_minute: at most; any number if None.
        characters_per_day: at most; any number if None.
        admin: whether it may reload models.
    """

    name: Annotated[str, Field(pattern=r"^[\w .@-]{1,64}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    requests_per_minute: Count | None = None
    characters_per_day: Count | None = None
    admin: bool = False


class Usage:
    """What a caller used of its limits so far: requests of this minute, characters of this day, of all time."""

    def __init__(self) -> None:
        self.minute, self.requests = 0, 0
        self.day, self.characters = 0, 0
        self.total = 0

    def begin(self, key: Key) -> None:
        """Count a request.

        Raises:
            RequestError: 429, there were as many in this minute as the key allows.
        """
        now = time.time()
        if (minute := int(now // 60)) != self.minute:
            self.minute, self.requests = minute, 0
        if key.requests_per_minute is not None and self.requests >= key.requests_per_minute:
            wait = 60 - now % 60
            raise RequestError(429, "too_many_requests", "this key has used up its requests of this minute", wait=wait)
        self.requests += 1

    def spend(self, key: Key, characters: int) -> None:
        """Count characters.

        Raises:
            RequestError: 429, there would be more on this day than the key allows.
        """
        now = time.time()
        if (day := int(now // 86_400)) != self.day:
            self.day, self.characters = day, 0
        if key.characters_per_day is not None and self.characters + characters > key.characters_per_day:
            wait = 86_400 - now % 86_400
            raise RequestError(429, "quota_exceeded", "this key has used up its characters of this day", wait=wait)
        self.characters += characters
        self.total += characters


class Keys:
    """Who may call a service. Without a file everyone may.

    Args:
        file: TOML with a table `[[key]]` for each, or None.

    Raises:
        ConfigError: the file cannot be read or is no list of keys.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.keys = () if file is None else read_keys(file)
        self.unnamed = 0  # characters of callers without a key
        self.usage: dict[str, Usage] = {key.name: Usage() for key in self.keys}

    @property
    def are_needed(self) -> bool:
        """Whether a caller must have one."""
        return self.file is not None

    def find(self, given: str | None) -> Key | None:
        """Return whose key it is; None where nobody needs one.

        Raises:
            RequestError: 401 none was given, 403 it is not known.
        """
        if not self.are_needed:
            return None
        if not given:
            hint = "send the header Authorization: Bearer KEY"
            raise RequestError(401, "no_key", "this service needs a key", hint=hint)
        found, told = None, hash_of(given)
        for key in self.keys:  # all of them, so that time tells nothing
            if hmac.compare_digest(key.sha256, told):
                found = key
        if found is None:
            raise RequestError(403, "wrong_key", "this key is not known here")
        self.usage[found.name].begin(found)
        return found

    def spend(self, key: Key | None, characters: int) -> None:
        """Count characters of a caller.

        Raises:
            RequestError: 429, they are more than its key allows.
        """
        if key is None:
            self.unnamed += characters
        else:
            self.usage[key.name].spend(key, characters)

    def used(self, key: Key | None) -> tuple[int, int | None]:
        """Return how many characters a caller used, and how many it may: of this day where its key has a quota.

        Without a quota they are all since the service began, and the second one is None.
        """
        if key is None:
            return self.unnamed, None
        usage = self.usage[key.name]
        if key.characters_per_day is None:
            return usage.total, None
        return usage.characters if usage.day == int(time.time() // 86_400) else 0, key.characters_per_day


def hash_of(key: str) -> str:
    """Return the SHA-256 of a key, as the file of keys has it."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def read_keys(file: Path) -> tuple[Key, ...]:
    """Return the keys of a file.

    Raises:
        ConfigError: it cannot be read, or is no list of keys.
    """
    try:
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        hint = f"make one: dragoman serve --new-key NAME --keys {file}"
        raise ConfigError("the keys cannot be read", file=file, found=error.strerror, hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("not TOML", file=file, found=error) from error
    rows = tree.get("key", [])
    if set(tree) - {"key"} or not isinstance(rows, list):
        raise ConfigError("a file of keys has tables [[key]] and nothing else", file=file)
    try:
        keys = tuple(Key.model_validate(row) for row in rows)
    except ValidationError as error:
        raise ConfigError(f"the keys are not valid:{in_words(error)}", file=file) from None
    if len({key.name for key in keys}) < len(keys):
        raise ConfigError("two keys have the same name", file=file)
    return keys


def new_key(file: Path, name: str, *, admin: bool = False) -> str:
    """Make a key, add its hash to a file, and return the key, which is kept nowhere.

    Raises:
        ConfigError: the file is no list of keys, or has one of this name.
    """
    keys = read_keys(file) if file.exists() else ()
    made = PREFIX + secrets.token_urlsafe(24)
    try:
        added = Key(name=name, sha256=hash_of(made), admin=admin)
    except ValidationError:
        raise ConfigError("a key's name has letters, digits and . @ - _", found=name) from None
    if any(key.name == name for key in keys):
        raise ConfigError("there is a key of this name already", file=file, found=name)
    rows = [key.model_dump(exclude_none=True, exclude_defaults=True) for key in (*keys, added)]
    tables = [f"[[key]]\n{tomli_w.dumps(row)}" for row in rows]  # as a list it would be one line, and limits are added
    write_bytes(file, "\n".join(tables).encode("utf-8"))
    file.chmod(0o600)
    return made
