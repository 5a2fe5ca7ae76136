"""Looking settings up: by a word of their names or meanings, or by what another toolkit calls them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from dragoman.config.elsewhere import answers, simplified
from dragoman.config.near import near_names
from dragoman.config.section import Setting
from dragoman.config.tree import SECTIONS, all_settings
from dragoman.errors import ConfigError

_WIDTH = 100  # of a line, where nobody says how wide his window is


@dataclass(frozen=True, repr=False)
class SettingList:
    """Settings that were looked up; printed, a page of text, by section.

    Attributes:
        word: what was looked for; "" for all.
        settings: those found, in the order of the file of settings.
        answer: what is said of the word itself, if it is a name of another toolkit that is no setting here.
    """

    word: str
    settings: tuple[Setting, ...]
    answer: str | None = None

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    def __repr__(self) -> str:
        return self.to_text()

    def to_text(self, *, width: int = _WIDTH, bold: str = "{}") -> str:
        """Return them as text, grouped by section.

        Args:
            width: characters of a line, at most.
            bold: how a name is set off: a format with one place.
        """
        lines = [] if self.answer is None else [*textwrap.wrap(f"{self.word}: {self.answer}", width), ""]
        home = None
        for one in self.settings:
            if one.section != home:
                home = one.section
                about = (SECTIONS[home].__doc__ or "").split("\n")[0] if home else "The top of a file of settings."
                lines += [bold.format(f"[{home}]") + f"  {about}" if home else about, ""]
            lines += [*_entry(one, width, bold), ""]
        return "\n".join(lines).rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain values, for JSON."""
        return {"word": self.word, "answer": self.answer, "settings": [described(one) for one in self.settings]}


def settings(word: str = "") -> SettingList:
    """Return the settings that have to do with a word: of their names, of what they mean, or of other toolkits.

    Args:
        word: a name, with or without its section; the name of a section; a name of another toolkit; or any word or
            words. "" for all settings.

    Raises:
        ConfigError: there is none.
    """
    known = tuple(all_settings())
    wanted, name = word.strip(), simplified(word)
    if not wanted:
        return SettingList("", known)
    if exact := [one for one in known if name in (one.dotted, one.name)]:
        return SettingList(wanted, tuple(exact))
    if section := [one for one in known if one.section == name]:
        return SettingList(wanted, tuple(section))
    told = answers().get(name)
    named = () if told is None else tuple(one for one in known if re.search(rf"\b{re.escape(one.dotted)}\b", told))
    renamed = tuple(one for one in known if name in one.elsewhere)
    found = named or renamed or tuple(one for one in known if all(_tells_of(one, part) for part in wanted.split()))
    if not found and told is None:
        near = near_names(name, [*SECTIONS, *(one.name for one in known)])
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "`dragoman settings` lists all settings"
        raise ConfigError("no setting matches this", found=word, hint=hint)
    return SettingList(wanted, found, told)


def _tells_of(one: Setting, word: str) -> bool:
    """Whether a word is part of its names, or begins one of its words."""
    part = simplified(word)
    if part in one.dotted or any(part in name for name in one.elsewhere):
        return True
    text = f"{one.description} {one.expected} {one.chosen} {one.unit} {one.flag}"
    return re.search(rf"(?<!\w){re.escape(word)}", text, re.IGNORECASE) is not None


def traits(one: Setting) -> list[str]:
    """Return what else is to be known of it, each in some words."""
    found = [one.expected, *([f"in {one.unit}"] if one.unit else []), *([one.flag] if one.flag else [])]
    if one.changeable:
        found.append("may change on resume")
    if one.families is not None and one.families != ("transformer", "causal", "masked"):
        found.append(f"for {', '.join(one.families)}")
    return found


def described(one: Setting) -> dict[str, Any]:
    """Return all that a program may want to know of a setting, as plain values."""
    options = next((part for part in _parts(one.kind) if get_origin(part) is Literal), None)
    return {
        "name": one.dotted,
        "section": one.section,
        "default": None if one.default is ... else one.default,
        "must_be_given": one.default is ...,
        "chosen": one.chosen or None,
        "expected": one.expected,
        "choices": None if options is None else list(get_args(options)),
        "unit": one.unit or None,
        "description": one.description,
        "flag": one.flag or None,
        "may_change_on_resume": one.changeable,
        "families": None if one.families is None else list(one.families),
        "elsewhere": list(one.elsewhere),
        "since": one.since,
    }


def _parts(kind: Any) -> Iterator[Any]:
    """A type and those it is made of."""
    yield kind
    for part in () if get_origin(kind) is Literal else get_args(kind):
        yield from _parts(part)


def _entry(one: Setting, width: int, bold: str) -> Iterator[str]:
    """A setting: its name and default, what it means, its kind, and what others call it."""
    yield f"  {bold.format(one.dotted)} = {one.shown_default}"
    others = [f"elsewhere: {', '.join(one.elsewhere)}"] if one.elsewhere else []
    for text in (one.description, f"({'; '.join(traits(one))})", *others):
        yield from textwrap.wrap(text, max(40, width), initial_indent="      ", subsequent_indent="      ",
                                 break_on_hyphens=False)  # fmt: skip
