"""What of a model is trained: all of it, some of its parts, or adapters beside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path

from torch import Tensor, nn

from dragoman.config import TrainConfig, TrainingConfig
from dragoman.errors import ConfigError, ModelError
from dragoman.files import sum_of
from dragoman.models.adapters import has_adapter, load_adapter, save_adapter
from dragoman.models.low_rank import LowRank, matrices_in
from dragoman.models.pretrained import WEIGHTS, save_weights
from dragoman.training.tasks import Model

# What several parts are called together.
GROUPS = {
    "encoder": ("encoder",),
    "decoder": ("decoder", "right_to_left_decoder"),
    "embeddings": ("source_embedding", "target_embedding", "embedding"),
    "generator": ("generator",),
}
_SHOWN = 5  # names in a message


class Learner:
    """The trained part of a model.

    Args:
        model: on its device; with adapters it holds the weights of the base.
        config: completed.

    Attributes:
        module: what has the parameters that are trained: the model, or its adapters.

    Raises:
        ConfigError: something to be frozen is not there, or nothing is left to train.
    """

    def __init__(self, model: Model, config: TrainConfig) -> None:
        settings = config.training
        self.model, self.settings = model, settings
        frozen = frozen_names(model, settings.freeze)
        self.factors = _factors(model, settings, frozen) if settings.lora_rank else None
        self.module: nn.Module = self.factors or model
        self._base = sum_of(Path(settings.init_from or "") / WEIGHTS) if self.factors is not None else ""
        for name, parameter in model.named_parameters(remove_duplicate=False):
            if name in frozen:
                parameter.requires_grad_(False)
        if not any(one.requires_grad for one in self.module.parameters()):
            raise ConfigError("nothing is left to train", found=f"freeze = {', '.join(settings.freeze)}")

    def told(self) -> str:
        """Return how many parameters are trained, in words."""
        everything = sum(one.numel() for one in self.model.parameters())
        trained = sum(one.numel() for one in self.module.parameters() if one.requires_grad)
        if self.factors is not None:
            kinds = ", ".join(dict.fromkeys(one.name.rpartition(".")[2] for one in self.factors.matrices))
            return f"{trained:,} parameters of adapters are trained, of rank {self.factors.rank} on {kinds}, beside " \
                f"{everything:,}"  # fmt: skip
        return f"{everything:,} parameters" if trained == everything else f"{trained:,} of {everything:,} parameters"

    def take_gradients(self) -> None:
        """Have what is trained take over gradients of the model, where it is not the model itself."""
        if self.factors is not None:
            self.factors.take_gradients()

    def moved(self) -> None:
        """Let the model see that what is trained has changed."""
        if self.factors is not None:
            self.factors.merge()

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint keeps of it."""
        return dict(self.module.state_dict())

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from an earlier `state`."""
        self.module.load_state_dict(dict(state))
        self.moved()

    def save(self, directory: Path) -> None:
        """Write the model as it is into a run, merged, and its adapter apart."""
        if self.factors is not None:
            save_adapter(directory, self.factors, str(self.settings.init_from), self._base)
        save_weights(directory, self.model)


def _factors(model: Model, settings: TrainingConfig, frozen: Collection[str]) -> LowRank:
    matrices = [one for one in matrices_in(model, settings.lora_matrices) if one.parameter not in frozen]
    rank = settings.lora_rank
    try:
        return LowRank(model, rank, settings.lora_alpha or 2.0 * rank, matrices)
    except ModelError as error:
        raise ConfigError(error.message, expected=error.expected, found=error.found,
                          hint="lower training.lora_rank") from error  # fmt: skip


def frozen_names(model: nn.Module, patterns: Collection[str]) -> set[str]:
    """Return the names of parameters that patterns mean, those tied to them too.

    Args:
        model: any.
        patterns: groups of `GROUPS`, or dotted names of parameters or modules, with `*` for any letters.

    Raises:
        ConfigError: one means nothing; names near ones.
    """
    named = dict(model.named_parameters(remove_duplicate=False))
    found: set[int] = set()
    for pattern in patterns:
        wanted = [one for plain in GROUPS.get(pattern, (pattern,)) for one in (plain, f"{plain}.*")]
        meant = [name for name in named if any(fnmatchcase(name, one) for one in wanted)]
        if not meant:
            known = {*GROUPS, *(one for name in named for one in accumulate(name.split("."), "{}.{}".format))}
            near = get_close_matches(pattern, sorted(known), _SHOWN, 0.5) or [*GROUPS]
            raise ConfigError("no part of the model has such a name", found=f"training.freeze = {pattern}",
                              hint=f"is one of these meant: {', '.join(near)}")  # fmt: skip
        found |= {id(named[name]) for name in meant}
    return {name for name, parameter in named.items() if id(parameter) in found}


def base_again(settings: TrainingConfig, run: Path) -> Path | None:
    """Return the base of a run that goes on training adapters; None where it trains the weights themselves.

    Raises:
        ConfigError: it is gone.
        ModelError: it is not what it was.
    """
    if not settings.lora_rank:
        return None
    base = Path(settings.init_from or "")
    if not (base / WEIGHTS).exists():
        hint = "say where it is now with --init-from"
        raise ConfigError("the base model of the adapters is missing", file=base, hint=hint)
    if has_adapter(run):
        load_adapter(run).check_base(base)
    return base
