"""Which columns, keys or languages of a file of pairs are its source and its target."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from dragoman.config import DataConfig
from dragoman.config.data import LANGUAGE_OF_COUNTRY
from dragoman.config.kinds import columns_text, read_columns
from dragoman.errors import ConfigError
from dragoman.languages import LANGUAGE_NAMES

_ROLES = frozenset((
    "source", "target", "src", "tgt", "trg", "input", "output", "source_text", "target_text", "source_sentence",
    "target_sentence", "original", "translation",
))  # fmt: skip
_TAG = re.compile("([a-z]{2,3})(?:[-_][a-z0-9]{2,8})*")
_SHOWN = 10  # columns or keys that a message lists


@dataclass(frozen=True)
class PairFormat:
    """Where the two sides stand in files that hold more than pairs, or do not say which side is which.

    Args:
        columns: of source and target: two numbers from 1, or two names: of a header, of keys, of languages.
        source_language: for files that name the languages of their texts, where `columns` do not tell.
        target_language: likewise.
    """

    columns: tuple[str, str] | None = None
    source_language: str | None = None
    target_language: str | None = None

    @classmethod
    def of(
        cls,
        columns: str | Mapping[str, object] | None,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> PairFormat:
        """Return the format that columns given as in settings stand for: "source=2,target=3", or the same as a dict.

        Raises:
            ConfigError: the columns are not of that form.
        """
        text = columns_text(columns)
        if columns is not None and not isinstance(text, str):
            raise ConfigError("no columns", expected="source=...,target=...", found=columns)
        return cls(None if text is None else read_columns(str(text)), source_language, target_language)

    @classmethod
    def from_config(cls, data: DataConfig) -> PairFormat:
        """Return the format that settings describe."""
        columns = None if data.columns is None else read_columns(data.columns)
        return cls(columns, data.source_language, data.target_language)

    @property
    def numbers(self) -> tuple[int, int] | None:
        """The columns, counted from 0, if they are numbers."""
        if self.columns is None or not self.columns[0].isdigit():
            return None
        return int(self.columns[0]) - 1, int(self.columns[1]) - 1

    @property
    def names(self) -> tuple[str, str] | None:
        """The columns, if they are names."""
        return self.columns if self.numbers is None else None

    @property
    def languages(self) -> tuple[str, str] | None:
        """The languages of both sides, if they are known: as columns that are languages say, else as settings do."""
        if self.names is not None:
            source, target = map(_tag_of, self.names)
            if source is not None and target is not None:
                return source, target
        if self.source_language is None or self.target_language is None:
            return None
        return self.source_language, self.target_language

    @property
    def codes(self) -> tuple[str | None, str | None]:
        """The two-letter codes of the languages that columns are named by, where they are."""
        return (None, None) if self.names is None else (code_of(self.names[0]), code_of(self.names[1]))

    def keys(self, found: Collection[str], file: str, line: int) -> tuple[str, str]:
        """Return which of the keys of a record, each a language, are source and target.

        Raises:
            ConfigError: nobody has said it, or those that were said are not there.
        """
        if self.names is not None and all(name in found for name in self.names):
            return self.names
        if (wanted := self.languages) is None:
            raise direction_unsaid(found, file, line)
        source, target = (next((key for key in found if is_language(key, one)), None) for one in wanted)
        if source is None or target is None or source == target:
            expected = " and ".join(wanted)
            raise ConfigError(
                "the languages are not there", file=file, line=line, expected=expected, found=listed(found)
            )
        return source, target


ANY_PAIRS = PairFormat()


def is_language(tag: str, wanted: str) -> bool:
    """Return whether a tag as in `xml:lang` is of a language: de-DE and DE are "de", de is not "de-DE"."""
    tag, wanted = (text.casefold().replace("_", "-") for text in (tag, wanted))
    return tag == wanted or tag.startswith(wanted + "-")


def code_of(name: str) -> str | None:
    """Return the two-letter code of a language that a column is named by (de, de-DE, German), or None."""
    code = (_tag_of(name) or "").casefold()[:3].partition("-")[0].partition("_")[0]
    code = LANGUAGE_OF_COUNTRY.get(code, code)
    return code if code in LANGUAGE_NAMES else None


def _tag_of(name: str) -> str | None:
    """The tag of a language that a name is, or stands for."""
    plain = name.strip().casefold()
    named = next((code for code, language in LANGUAGE_NAMES.items() if language.lower() == plain), None)
    return named or (name.strip() if _TAG.fullmatch(plain) else None)


def is_header(source: str, target: str) -> bool:
    """Return whether two texts name columns: `source` and `target`, `en` and `de`, or `English` and `German`."""
    names = [text.strip().casefold() for text in (source, target)]
    known = all(name in _ROLES for name in names) or all(code_of(name) is not None for name in names)
    return known and names[0] != names[1]


def listed(names: Collection[str]) -> str:
    """Return the first of some names in words."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return (", ".join(islice(names, _SHOWN)) or "(none)") + more


def direction_unsaid(found: Collection[str], file: str, line: int | None = None) -> ConfigError:
    """Return an error that asks which of the languages found is the source."""
    one, other = (*sorted(found), "...", "...")[:2]
    hint = f"--columns source={one},target={other}"
    if len(found) == 2:
        hint += f", or the other way round: --columns source={other},target={one}"
    message = "the file does not say which language is the source"
    return ConfigError(message, file=file, line=line, found=listed(sorted(found)), hint=hint)


def find_columns(header: Sequence[str], names: tuple[str, str], file: str, line: int) -> tuple[int, int]:
    """Return where two columns stand, counted from 0, that the header names.

    Raises:
        ConfigError: it does not, or names one twice.
    """
    places = []
    for name in names:
        here = [i for i, cell in enumerate(header) if cell.strip() == name]
        here = here or [i for i, cell in enumerate(header) if cell.strip().casefold() == name.casefold()]
        if len(here) != 1:
            what = "two columns have that name" if here else "there is no such column"
            raise ConfigError(
                what, file=file, line=line, expected=name, found=listed(header),
                hint="name columns of the first line, or give their numbers: --columns source=1,target=2",
            )  # fmt: skip
        places.append(here[0])
    if places[0] == places[1]:
        raise ConfigError("source and target are one column", file=file, line=line, found=header[places[0]])
    return places[0], places[1]
