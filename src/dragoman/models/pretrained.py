"""A model as a directory: `config.json` and `model.safetensors`, nothing pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor, nn

from dragoman.archive import as_directory
from dragoman.config import DecodingConfig, Markov, ModelConfig
from dragoman.errors import ConfigError, ModelError
from dragoman.models.build import build_model
from dragoman.models.description import CONFIG, WEIGHTS, Languages, read_config, read_profile, save_config
from dragoman.models.tensors import read_tensors, write_tensors
from dragoman.nn import CausalLM, MaskedLM, Transformer


@dataclass(frozen=True)
class Pretrained:
    """A model and what its `config.json` says of it."""

    model: Transformer | CausalLM | MaskedLM
    config: ModelConfig
    decoding: DecodingConfig
    languages: Languages


def save_weights(directory: Path, model: nn.Module | Mapping[str, Tensor]) -> None:
    """Write `model.safetensors`, whole or not at all, in place of an earlier one."""
    write_tensors(directory / WEIGHTS, model.state_dict() if isinstance(model, nn.Module) else model)


def save_pretrained(
    directory: str | Path,
    model: nn.Module,
    config: ModelConfig,
    decoding: DecodingConfig | None = None,
    languages: Languages | None = None,
) -> None:
    """Write both files; `load_pretrained` reads them, and saving what it read gives identical bytes."""
    save_config(Path(directory), config, decoding, languages)
    save_weights(Path(directory), model)


def load_pretrained(directory: str | Path, device: torch.device | str = "cpu") -> Pretrained:
    """Build the model that `config.json` describes and fill it with the weights beside it.

    Raises:
        ModelError: a file is missing or damaged, or the weights do not fit the configuration; says which.
    """
    directory = as_directory(Path(directory))
    config, decoding, languages = read_config(directory)
    if config.family in get_args(Markov):
        hint = "`dragoman complete` and `dragoman score` run it"
        expected = "an encoder-decoder, causal or masked model"
        raise ModelError("a Markov model is no Transformer", file=directory, expected=expected, found=config.family,
                         hint=hint)  # fmt: skip
    tensors = read_tensors(directory / WEIGHTS)
    if (profile := read_profile(directory)) is not None:
        from dragoman.models.profiled import load_profiled  # not above: few models need the founding systems

        founding = load_profiled(profile, tensors, directory / CONFIG)
        return Pretrained(founding.to(device).eval(), config, decoding, languages)
    layers = (config.num_encoder_layers or 0) + (config.num_decoder_layers or 0)
    if layers > len(tensors):  # before so many are built
        found = f"{len(tensors)} tensors"
        raise ModelError("the weights do not fit the model", file=directory / WEIGHTS, expected=f"{layers} layers",
                         found=found)  # fmt: skip
    try:
        with torch.device("meta"):
            model = build_model(config)
    except (ConfigError, RuntimeError, OverflowError, TypeError) as error:
        found = error if isinstance(error, ConfigError) else str(error).partition("\n")[0]
        raise ModelError("no model can be built from this", file=directory / CONFIG, found=found) from error
    fill(model, tensors, directory / WEIGHTS)
    return Pretrained(model.to(device).eval(), config, decoding, languages)


def fill(model: nn.Module, tensors: Mapping[str, Tensor], file: Path | None = None) -> None:
    """Put tensors into a model, which may be on the meta device; tied parameters stay tied.

    Raises:
        ModelError: names or shapes are not those of the model.
    """
    check_fit(model, tensors, file)
    filled: dict[int, nn.Parameter] = {}
    for path, module in model.named_modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            key = f"{path}.{name}" if path else name
            if id(parameter) not in filled:
                filled[id(parameter)] = nn.Parameter(tensors[key])
            setattr(module, name, filled[id(parameter)])


def check_fit(model: nn.Module, tensors: Mapping[str, Tensor], file: Path | None = None) -> None:
    """Refuse tensors whose names or shapes are not those of the model, naming the first that differs.

    Raises:
        ModelError: one is missing, left over, or of another shape.
    """
    expected = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: list(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            wanted, got = (f"{name} {shapes[name]}" if name in shapes else f"no {name}" for shapes in (expected, found))
            raise ModelError("the weights do not fit the model", file=file, expected=wanted, found=got)
