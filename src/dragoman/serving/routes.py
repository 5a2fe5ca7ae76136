"""Which models of a service a text goes through, and which one hears a sound: by languages, or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.languages import best_match, same_language
from dragoman.models.language_tokens import few_of
from dragoman.serving.faults import RequestError

if TYPE_CHECKING:
    from dragoman.serving.registry import ServedModel

UNKNOWN = "und"  # the code of a language that nobody named
LANGUAGES_BETWEEN = ("en",)  # tried first where a text goes through a third language
READING_ELSE = "send sounds to /v1/transcribe, and texts to a model that reads"


@dataclass(frozen=True)
class Route:
    """Models that a text goes through, one after another.

    Attributes:
        models: one or two.
        languages: tags of what is read first, of what stands between two models, and of what is written last.
    """

    models: tuple[ServedModel, ...]
    languages: tuple[str, ...]

    @property
    def hops(self) -> list[tuple[ServedModel, str, str]]:
        """Each model with what it translates from and to."""
        return list(zip(self.models, self.languages, self.languages[1:], strict=False))

    @property
    def pivot(self) -> str | None:
        """The language between, where there are two models."""
        return self.languages[1] if len(self.models) > 1 else None

    @property
    def source(self) -> str:
        """What is translated from."""
        return self.languages[0]

    @property
    def target(self) -> str:
        """What is translated to."""
        return self.languages[-1]


def readers(models: Mapping[str, ServedModel]) -> list[ServedModel]:
    """Return the models that read texts, those for many languages last: where both translate a pair, others do."""
    return sorted((model for model in models.values() if not model.listens), key=lambda model: model.is_many)


def languages(models: Mapping[str, ServedModel], side: str, name: str | None = None) -> list[str]:
    """Return the languages of a side, `sources` or `targets`: of all models that read texts, or of one by its name."""
    reading = readers(models) if name is None else [named(models, name)]
    return list(dict.fromkeys(tag for model in reading for tag in getattr(model, side)))


def pairs(models: Mapping[str, ServedModel]) -> list[tuple[str, str, Route]]:
    """Return the pairs of languages that can be translated, and how; direct ones first.

    Left out is what a model for many languages translates by itself: each of its sources to each of its targets.
    """
    reading = readers(models)
    many = [model for model in reading if model.is_many]
    found = []
    for source in languages(models, "sources"):
        able = [model for model in many if best_match(source, model.sources)]
        known = {source}.union(*(model.targets for model in able))
        others = (one for one in languages(models, "targets") if one not in known)
        targets = [one for one in others if not any(best_match(one, model.targets) for model in able)]
        targets += [model.target for model in reading if not model.is_many and model.source == source]
        routes = [(one, _route(reading, source, one)) for one in dict.fromkeys(targets)]
        found += [(source, one, way) for one, way in routes if way is not None]
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
        return Route((model,), _checked_languages(model, source, target, "translates"))
    if not reading:
        raise RequestError(422, "listens", "the models here listen to sounds, and do not read texts", hint=READING_ELSE)
    for side, code in (("source", source), ("target", target)):
        if code is not None and not any(best_match(code, getattr(one, f"{side}s")) for one in reading):
            known = [one for one in languages(models, f"{side}s") if one != UNKNOWN]
            message = f"{code} is not supported as a {side} language here"
            raise RequestError(400, "no_language", message, hint=f"here: {few_of(known, code)}", param=side)
    if source is None or target is None:
        model, *pair = _only([(one, *spoken) for one in reading if (spoken := _spoken(one, source, target))])
        return Route((model,), (pair[0], pair[1]))
    found = _route(reading, source, target)
    if found is None:
        ways = [f"the languages of {model.name}" for model in reading if model.is_many]
        told = few_of([*ways, *(f"{one} to {other}" for one, other, _ in pairs(models))], "")
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
        _checked_languages(model, source, target, "transcribes")
        return model
    hearing = [model for model in models.values() if model.listens]
    if not hearing:
        raise RequestError(422, "reads", "the models here read texts, and do not listen to sounds", param="model")
    fitting = [(one, *spoken) for one in hearing if (spoken := _spoken(one, source, target))]
    # A model whose language nobody named may be the one that is meant.
    unsure = [(one, *spoken) for one in hearing if (spoken := _spoken(one, source, target, or_unknown=True))]
    if not unsure:
        heard = ", ".join(f"{one.source} to {one.target}" for one in hearing)
        told = " to ".join(code for code in (source, target) if code is not None)
        message = f"{told} cannot be transcribed here"
        raise RequestError(422, "no_pair", message, hint=f"here: {heard}", param="language")
    return _only(fitting or unsure)[0]


def _others(models: Mapping[str, ServedModel]) -> str:
    names = [name for name, model in models.items() if model.listens]
    return f"to sounds listen: {', '.join(names)}" if names else "no model here does"


def _only(fitting: Sequence[tuple[ServedModel, str, str]]) -> tuple[ServedModel, str, str]:
    """The first of models that are all of one pair of languages."""
    if len({(source, target) for _, source, target in fitting}) != 1:
        raise RequestError(422, "which_pair", f"{len(fitting)} models fit", hint="say source and target, or model")
    return fitting[0]


def _checked_languages(model: ServedModel, source: str | None, target: str | None, does: str) -> tuple[str, str]:
    found = _spoken(model, source, target, or_unknown=True)
    if found is None:
        message, hint = f"{model.name} {does} from {model.source} to {model.target}", None
        if model.is_many:
            message = f"{model.name} does not translate from {source or model.source} to {target or model.target}"
            hint = f"it reads {few_of(model.sources, source or '')}; it writes {few_of(model.targets, target or '')}"
        raise RequestError(422, "other_pair", message, hint=hint, param="language")
    return found


def _spoken(
    model: ServedModel, source: str | None, target: str | None, *, or_unknown: bool = False
) -> tuple[str, str] | None:
    """The languages of a model that are asked for, or that it has where none is; None if it has not got them."""
    found = []
    for code, usual, tags in ((source, model.source, model.sources), (target, model.target, model.targets)):
        tag = usual if code is None else best_match(code, tags)
        tag = UNKNOWN if tag is None and or_unknown and UNKNOWN in tags else tag
        if tag is None:
            return None
        found.append(tag)
    return found[0], found[1]


def _route(models: Sequence[ServedModel], source: str, target: str) -> Route | None:
    for model in models:
        pair = _spoken(model, source, target)
        if pair is not None and (pair[0] != pair[1] or not model.is_many):
            return Route((model,), pair)
    if same_language(source, target):
        return None
    first = [(model, tag) for model in models if (tag := best_match(source, model.sources))]
    second = [(model, tag) for model in models if (tag := best_match(target, model.targets))]
    through = [
        Route((one, two), (read, between, written))
        for one, read in first
        for two, written in second
        for between in one.targets
        if between in two.sources and between not in (UNKNOWN, read, written)
    ]
    return min(through, key=lambda way: way.pivot not in LANGUAGES_BETWEEN, default=None)
