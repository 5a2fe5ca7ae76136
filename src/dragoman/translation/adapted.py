"""Translators of one base with adapters: several at once, which share what they do not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from dragoman.config import Placement
from dragoman.errors import ConfigError
from dragoman.models import Pretrained
from dragoman.models.adapters import load_adapter, with_adapter
from dragoman.models.description import WEIGHTS, load_tokenizers
from dragoman.translation.opening import backend_of
from dragoman.translation.torch_backend import load_models, transformers_of
from dragoman.translation.translator import Translator


class Bases:
    """Models that adapters stand over, each loaded once while one of its translators is there."""

    def __init__(self) -> None:
        self._loaded: WeakValueDictionary[tuple[object, ...], Pretrained] = WeakValueDictionary()

    def translator(self, base: Path, adapter: str | Path, placement: Placement) -> Translator:
        """Return what translates with an adapter over a base.

        Raises:
            ModelError: there is no adapter, it is of another base, or one of both is damaged.
        """
        loaded_adapter = load_adapter(adapter)
        loaded_adapter.check_base(base)
        pretrained = self._base(base, placement.device)
        adapted = with_adapter(pretrained, loaded_adapter)
        placed = replace(placement, device="auto")  # it is there already
        models = list(transformers_of([adapted]))
        backend = backend_of(models, placed, right_to_left=bool(adapted.config.right_to_left))
        tokenizers = load_tokenizers(base, adapted.config)
        translator = Translator(backend, tokenizers, adapted.decoding, adapted.languages)
        translator.base = pretrained  # kept for others
        return translator

    def _base(self, path: Path, device: str) -> Pretrained:
        stat = (path / WEIGHTS).stat()
        key = (path.resolve(), stat.st_ino, stat.st_mtime_ns, stat.st_size, device)
        found = self._loaded.get(key)
        if found is None:
            found = self._loaded[key] = load_models([path], device)[0]
        return found


def open_adapters(
    paths: Sequence[Path], adapters: Mapping[str, str | Path], placement: Placement
) -> dict[str, Translator]:
    """Return a translator for each adapter over the only model, by name; errors as for `open_adapted`."""
    _check_one(paths)
    bases = Bases()
    return {name: bases.translator(paths[0], one, placement) for name, one in adapters.items()}


def open_adapted(paths: Sequence[Path], adapter: str | Path, placement: Placement) -> Translator:
    """Return what translates with an adapter over a model.

    Raises:
        ConfigError: there are several models.
        ModelError: there is no adapter, or it is of another base.
    """
    _check_one(paths)
    return Bases().translator(paths[0], adapter, placement)


def _check_one(paths: Sequence[Path]) -> None:
    if len(paths) > 1:
        hint = "merge each into its base first (dragoman merge)"
        raise ConfigError("an adapter stands over one model, not over several", found=f"{len(paths)} models", hint=hint)
