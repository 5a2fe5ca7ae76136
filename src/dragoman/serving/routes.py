"""Which models of a service a text goes through, and which one hears a sound: by languages, or by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.serving.faults import RequestError

if TYPE_CHECKING:
    from dragoman.serving.registry import ServedModel

UNKNOWN = "und"  # the code of a language that nobody named
LANGUAGES_BETWEEN = ("en",)  # tried first where a text goes through a third language
READING_ELSE = "send sounds to /v1/transcribe, and texts to a model that reads"


@dataclass(frozen=True)
class Route:
    """Models that a text goes through, one after another, and the language between two of them."""

    models: tuple[ServedModel, ...]

    @property
    def pivot(self) -> str | None:
        """The language between, where there are two models."""
        return self.models[0].target if len(self.models) > 1 else None

    @property
    def source(self) -> str:
        """What is translated from."""
        return self.models[0].source

    @property
    def target(self) -> str:
        """What is translated to."""
        return self.models[-1].target


def readers(models: Mapping[str, ServedModel]) -> list[ServedModel]:
    """Return the models that read texts."""
    return [model for model in models.values() if not model.listens]


def pairs(models: Mapping[str, ServedModel]) -> list[tuple[str, str, Route]]:
    """Return every pair of languages that can be translated, and how; direct ones first."""
    reading = readers(models)
    found = [
        (source, target, route)
        for source in dict.fromkeys(model.source for model in reading)
        for target in dict.fromkeys(model.target for model in reading)
        if source != target and (route := _route(reading, source, target)) is not None
    ]
    found += [(model.source, model.target, Route((model,))) for model in reading if model.source == model.target]
    return sorted(found, key=lambda one: len(one[2].models))


def named(models: Mapping[str, ServedModel], name: str) -> ServedModel:
    """Return a model by its name.

    Raises:
        RequestError: 404, there is none.
    """
    if name not in models:
        hint = "there are " + ", ".join(models)
        raise RequestError(404, "no_model", f"there is no model {name!r}", hint=hint, param="model")
    return models[name]


def route(models: Mapping[str, ServedModel], source: str | None, target: str | None, name: str | None) -> Route:
    """Return what translates from one language to another; see `Registry.route`."""
    reading = readers(models)
    if name is not None:
        model = named(models, name)
        if model.listens:
            raise RequestError(422, "listens", f"{name} listens to sounds, and does not read texts", hint=READING_ELSE)
        _check_languages(model, source, target, "translates")
        return Route((model,))
    if not reading:
        raise RequestError(422, "listens", "the models here listen to sounds, and do not read texts", hint=READING_ELSE)
    if source is None or target is None:
        return Route((_only([one for one in reading if _asks(one, source, target)]),))
    found = _route(reading, source, target)
    if found is None:
        told = ", ".join(f"{one} to {other}" for one, other, _ in pairs(models))
        raise RequestError(422, "no_pair", f"{source} to {target} cannot be translated here", hint=f"here: {told}")
    return found


def listener(
    models: Mapping[str, ServedModel], source: str | None, target: str | None, name: str | None
) -> ServedModel:
    """Return what hears a language and writes another, or the same; see `Registry.listener`."""
    if name is not None:
        model = named(models, name)
        if not model.listens:
            message = f"{name} reads texts, and does not listen to sounds"
            raise RequestError(422, "reads", message, hint=_others(models), param="model")
        _check_languages(model, source, target, "transcribes")
        return model
    hearing = [model for model in models.values() if model.listens]
    if not hearing:
        raise RequestError(422, "reads", "the models here read texts, and do not listen to sounds", param="model")
    fitting = [one for one in hearing if _asks(one, source, target)]
    # A model whose language nobody named may be the one that is meant.
    fitting = fitting or [one for one in hearing if _asks(one, source, target, or_unknown=True)]
    if not fitting:
        heard = ", ".join(f"{one.source} to {one.target}" for one in hearing)
        told = " to ".join(code for code in (source, target) if code is not None)
        message = f"{told} cannot be transcribed here"
        raise RequestError(422, "no_pair", message, hint=f"here: {heard}", param="language")
    return _only(fitting)


def _others(models: Mapping[str, ServedModel]) -> str:
    names = [name for name, model in models.items() if model.listens]
    return f"to sounds listen: {', '.join(names)}" if names else "no model here does"


def _only(fitting: Sequence[ServedModel]) -> ServedModel:
    """The first of models that are all of one pair of languages."""
    if len({(one.source, one.target) for one in fitting}) != 1:
        raise RequestError(422, "which_pair", f"{len(fitting)} models fit", hint="say source and target, or model")
    return fitting[0]


def _check_languages(model: ServedModel, source: str | None, target: str | None, does: str) -> None:
    for said, has in ((source, model.source), (target, model.target)):
        if said is not None and has != UNKNOWN and not same_language(said, has):
            message = f"{model.name} {does} from {model.source} to {model.target}"
            raise RequestError(422, "other_pair", message, param="language")


def _asks(model: ServedModel, source: str | None, target: str | None, *, or_unknown: bool = False) -> bool:
    sides = ((source, model.source), (target, model.target))
    return all(said is None or same_language(said, has) or (or_unknown and has == UNKNOWN) for said, has in sides)


def _route(models: Sequence[ServedModel], source: str, target: str) -> Route | None:
    for model in models:
        if same_language(source, model.source) and same_language(target, model.target):
            return Route((model,))
    if same_language(source, target):
        return None
    first = [one for one in models if same_language(source, one.source)]
    second = [one for one in models if same_language(target, one.target)]
    through = [(one, two) for one in first for two in second if one.target == two.source != UNKNOWN]
    through.sort(key=lambda both: both[0].target not in LANGUAGES_BETWEEN)
    return Route(through[0]) if through else None


def same_language(asked: str, has: str) -> bool:
    """Return whether a code asks for a language: `zh-CN` and `ZH` ask for `zh`; `pt-BR` is not asked by `pt-PT`."""
    asked, has = asked.lower().replace("_", "-"), has.lower().replace("_", "-")
    if asked == has:
        return True
    one, other = asked.partition("-"), has.partition("-")
    return one[0] == other[0] and not (one[2] and other[2])


def best_match(code: str, codes: Iterable[str]) -> str | None:
    """Return the first of some codes that asks for the same language as another code, or None."""
    return next((one for one in codes if same_language(code, one)), None)
