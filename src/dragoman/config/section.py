"""What the sections are made of: frozen tables of settings that check what they are given.

All that is known of a setting stands in its `setting(...)`: a table of settings anywhere else is a query over these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, cast, dataclass_transform, get_type_hints

from dragoman.config.values import Bounds, Mistake, convert_fields, in_words, shown, told
from dragoman.errors import ConfigError

S = TypeVar("S", bound="Section")
Content = Literal["data", "run"]
Files = Literal["pairs", "text", "prepared"]
# What other settings must be, by their dotted names: within bounds, or one of some values; `...`: or still open.
Need = Mapping[str, "Bounds | tuple[object, ...]"]
_MESSAGE = "the settings do not hold together:"


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """All that is known of a setting.

    Attributes:
        default: its value where none is given; `...`: one must be given. None: chosen for you, or as the description
            says.
        description: what it means, in one sentence.
        chosen: how its value is chosen where none is given; "" where nothing is chosen.
        unit: what a number counts or measures; "" for shares, factors and words.
        flag: the option of the command line that gives it, beside `--set`; "" if it has none.
        changeable: whether it may change when a run is resumed: it says where files are, how long the run goes on and
            what it tells, but not what is computed.
        content: what is another one with another value: prepared "data", or the "run" with its checkpoints.
        files: what sort of files or directory it names, if it does: such paths are not content, but what is in them.
        families: the families of models that it means something to; None: all.
        since: the first version that has it.
        before: what was done before the setting existed, in data and checkpoints that are still read; `...`: it was
            there from the first.
        elsewhere: what other toolkits call it.
        needs: without one of these, whole, the setting does nothing (`config.effects`); none: it needs nothing.
        section: the section that it stands in; "" for the top of the tree.
        name: its name there.
        owner: the class of that section.
    """

    default: object = ...
    description: str = ""
    chosen: str = ""
    unit: str = ""
    flag: str = ""
    changeable: bool = False
    content: frozenset[Content] = frozenset()
    files: Files | None = None
    families: tuple[str, ...] | None = None
    since: str = "0.1.0"
    before: object = ...
    elsewhere: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    section: str = ""
    name: str = ""
    owner: type[Section] | None = None

    @property
    def dotted(self) -> str:
        """Its name with that of its section."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def shown_default(self) -> str:
        """Its default as a file of settings has it; of one that is chosen, how."""
        if self.default is ...:
            return "must be given"
        if self.default is None:
            return f"chosen: {self.chosen}" if self.chosen else "unset"
        if isinstance(self.default, Section):
            return "a section"
        words = str(list(self.default)) if isinstance(self.default, tuple) else str(self.default)
        return words.lower() if isinstance(self.default, bool) else words

    @property
    def kind(self) -> Any:
        """Its type, with bounds and conversions in the metadata."""
        assert self.owner is not None
        return self.owner.types()[self.name]

    @property
    def expected(self) -> str:
        """Its type in words: "a whole number of at least 1"."""
        return in_words(self.kind)

    def concerns(self, family: str) -> bool:
        """Return whether it means something to a family of models."""
        return self.families is None or family in self.families


def setting(
    *,
    default: Any = ...,
    description: str,
    chosen: str = "",
    unit: str = "",
    flag: str = "",
    changeable: bool | None = None,
    content: frozenset[Content] | None = None,
    files: Files | None = None,
    families: tuple[str, ...] | None = None,
    since: str = "0.1.0",
    before: object = ...,
    needs: tuple[Need, ...] = (),
    elsewhere: str | tuple[str, ...] = (),
) -> Any:
    """Return a setting of a section; see `Setting` for the arguments.

    What is None is as the class of the section says. Names of elsewhere may stand in one string, blanks between them.
    """
    elsewhere = tuple(elsewhere.split()) if isinstance(elsewhere, str) else elsewhere
    return {name: value for name, value in locals().items() if value is not None or name in ("default", "before")}


def _take(section: Section, **given: Any) -> None:
    section.__dict__.update(section.from_dict(given).__dict__)


def _answer(name: str, known: Collection[str]) -> str | None:
    from dragoman.config.elsewhere import answer_for  # which reads all sections

    return answer_for(name, known)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting,))
class Section:
    """One frozen table of settings; unknown names are errors.

    A class of settings gives its name in the tree, and of what its settings have in common `changeable`, `content` and
    `families` (see `Setting`).

    Raises:
        ConfigError: a value has the wrong type or two contradict each other; all are listed at once.

    Attributes:
        section: its name in the tree of all settings.
        settings: what is known of each setting, by name.
        defaults: the values of those that have one.
        given: names of the settings that were not left at their defaults, though they may be the same.
    """

    section: ClassVar[str] = ""
    settings: ClassVar[dict[str, Setting]] = {}
    defaults: ClassVar[dict[str, Any]] = {}
    given: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(
        cls,
        *,
        section: str = "",
        changeable: bool = False,
        content: frozenset[Content] = frozenset(),
        families: tuple[str, ...] | None = None,
    ) -> None:
        common: dict[str, Any] = {"changeable": changeable, "content": content, "families": families}
        cls.section, cls.settings = section, {}
        for name in cls.__annotations__:
            known: dict[str, Any] = {**common, **cls.__dict__[name], "section": section, "name": name, "owner": cls}
            if known["changeable"]:
                known["content"] = frozenset()
            cls.settings[name] = Setting(**known)
            delattr(cls, name)
        told = (f"    {name} = {one.shown_default}: {one.description}\n" for name, one in cls.settings.items())
        cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n\nSettings:\n{''.join(told)}"  # for help()
        cls.defaults = {name: one.default for name, one in cls.settings.items() if one.default is not ...}

    __init__ = _take

    @classmethod
    def from_dict(cls: type[S], tree: Mapping[str, Any], *, file: str | Path | None = None) -> S:
        """Return a section of plain values by name, those of further sections in dicts of their own.

        Args:
            tree: the values that are not to be the defaults.
            file: where they are from.

        Raises:
            ConfigError: as for the class itself.
        """
        mistakes: list[Mistake] = []
        made = cls.read(tree, "", mistakes)
        if mistakes:
            raise ConfigError(_MESSAGE + told(mistakes), file=file)
        return made

    @classmethod
    def read(cls: type[S], value: object, place: str, mistakes: list[Mistake]) -> S:
        """Return a section of a table of values, or what is one already; anything at all once `mistakes` grew.

        Args:
            value: the table, or the section.
            place: its dotted name; if it stands alone "".
            mistakes: takes what is wrong.
        """
        if type(value) is cls:
            return value
        if not isinstance(value, Mapping):
            mistakes.append(Mistake(place, f"expected a table of settings (found {shown(value)})"))
            return cls.__new__(cls)
        before, needed = len(mistakes), cls.settings.keys() - cls.defaults.keys()
        found: dict[str, Any] = {}
        if value or needed:  # else the annotations need not be evaluated
            found = cls._converted(value, place or cls.section, mistakes, needed)
        section = cls.__new__(cls)
        if len(mistakes) == before:
            section._fill({**cls.defaults, **found}, frozenset(found), place, mistakes)
        return section

    @classmethod
    def _converted(
        cls, tree: Mapping[Any, Any], place: str, mistakes: list[Mistake], needed: Collection[str] = ()
    ) -> dict[str, Any]:
        return convert_fields(tree, cls.types(), place, mistakes, needed=needed, answer=_answer)

    def _fill(self, values: Mapping[str, Any], given: frozenset[str], place: str, mistakes: list[Mistake]) -> None:
        self.__dict__.update(values, given=given)
        try:
            self.check()
        except ValueError as error:
            mistakes.append(Mistake(place, str(error)))

    @classmethod
    def types(cls) -> dict[str, Any]:
        """Return the type of each setting by name, with bounds and conversions in its metadata."""
        if "_types" not in cls.__dict__:
            found = get_type_hints(cls, include_extras=True)
            cls._types = {name: found[name] for name in cls.settings}
        return cast(dict[str, Any], cls.__dict__["_types"])

    def check(self) -> None:
        """Hold the settings against each other.

        Raises:
            ValueError: two contradict each other.
        """

    def to_dict(self, *, unset: bool = True, none: bool = True) -> dict[str, Any]:
        """Return plain values by name, those of further sections in dicts of their own.

        Args:
            unset: those that were left at their defaults too.
            none: those that are None too.
        """
        values = {name: getattr(self, name) for name in self.settings if unset or name in self.given}
        return {
            name: value.to_dict(unset=unset, none=none) if isinstance(value, Section) else value
            for name, value in values.items()
            if none or value is not None
        }

    def replace(self: S, changes: Mapping[str, object]) -> S:
        """Return a copy with the named fields changed, checked again.

        Raises:
            ConfigError: the changed fields do not hold together with the others.
        """
        mistakes: list[Mistake] = []
        changed = self._converted(changes, self.section, mistakes)
        copy = self.__class__.__new__(self.__class__)
        if not mistakes:
            values = {name: getattr(self, name) for name in self.settings}
            copy._fill({**values, **changed}, self.given.union(changed), "", mistakes)
        if mistakes:
            raise ConfigError(_MESSAGE + told(mistakes))
        return copy

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings are frozen: {name} can be changed in a copy (replace)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"settings are frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == cast(Section, other)._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.settings)})"

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.settings)
