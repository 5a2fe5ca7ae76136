"""Models of the founding systems as model directories: weights by the names they have there, read by their profile.

Their formulas differ from ours in ways that no setting of a model tells. So `config.json` names the profile that
computes as they do, with its options; what it says of the model's shape is for those who only look.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.errors import ConfigError, DragomanError, ModelError
from dragoman.nn import Transformer

SYSTEMS = ("annotated", "jadore", "lsdefine", "d2l", "torch_nn")
NAMES = "names."  # before what `torch_nn.Names` calls the parts
_OWN = {"state", "dtype", "names"}
_MOST = 1 << 16  # of any number, such as the rows of a table of positions


def load_profiled(profile: object, tensors: Mapping[str, Tensor], file: Path) -> Transformer:
    """Return a model of a founding system, in evaluation mode.

    Args:
        profile: `{"system": ..., "options": {...}}`, options being those of the profile's `load`.
        tensors: by the names they have there.
        file: where the profile stands, for messages.

    Raises:
        ModelError: there is no such profile or option, or the weights are not those of the system.
    """
    if not isinstance(profile, Mapping) or profile.keys() != {"system", "options"}:
        raise ModelError("not a model's profile", file=file, expected="system and options")
    system, options = profile["system"], profile["options"]
    if system not in SYSTEMS or not isinstance(options, Mapping):
        raise ModelError("there is no such profile", file=file, expected=", ".join(SYSTEMS), found=str(system)[:80])
    try:
        return loaded(system, tensors, options)
    except ModelError as error:
        error.file = error.file or str(file)
        raise
    except DragomanError as error:
        raise ModelError("the profile's options cannot be taken", file=file, found=error) from error


def loaded(system: str, tensors: Mapping[str, Tensor], options: Mapping[str, Any]) -> Transformer:
    """Return what the profile of a system makes of tensors.

    Raises:
        ConfigError: an option is not one of the profile's.
        ModelError: the weights are not those of the system.
    """
    module = importlib.import_module(f"dragoman.profiles.{system}")
    known = [name for name in inspect.signature(module.load).parameters if name not in _OWN]
    parts = list(module.Names.__dataclass_fields__) if system == "torch_nn" else []
    for name, value in options.items():
        if name not in known and name.removeprefix(NAMES) not in parts:
            more = [NAMES + one for one in parts]
            raise ConfigError(f"{system} has no such option", expected=", ".join([*known, *more]), found=name)
        plain = value is None or isinstance(value, str) or (isinstance(value, (int, float)) and abs(value) <= _MOST)
        if not plain:
            expected = "a text, a number, true, false or null"
            raise ConfigError(f"cannot take {name}", expected=expected, found=repr(value)[:80])
    given = {name: value for name, value in options.items() if name in known}
    if parts:
        names = {name.removeprefix(NAMES): value for name, value in options.items() if name.startswith(NAMES)}
        given["names"] = module.Names(**names)
    try:
        model: Transformer = module.load(dict(tensors), **given)
    except (TypeError, ValueError, RuntimeError, ArithmeticError, LookupError, AttributeError) as error:
        told = str(error).partition("\n")[0]
        raise ModelError(f"the weights are not those of {system}, or its options are others", found=told) from error
    return model
