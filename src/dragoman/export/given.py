"""A model to be exported: opened, with what it has besides an encoder-decoder, and what of that is left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from dragoman.archive import as_directory
from dragoman.config import DecodingConfig, ModelConfig
from dragoman.errors import ConfigError, ModelError
from dragoman.export.pieces import Pieces, pieces_of
from dragoman.models.blueprint import Attention, Blueprint, Matrix, Norm, NotPlain
from dragoman.models.description import DATASTORE, Languages, check_ours, load_tokenizers, read_config
from dragoman.models.pretrained import load_pretrained
from dragoman.models.reading import read_blueprint
from dragoman.nn import Transformer
from dragoman.text.tokenizer_pair import TokenizerPair

# What a model may have that no other program knows, and what goes with it.
EXTRAS: Mapping[str, str] = {
    "right-to-left": "outputs are ranked by a right-to-left decoder too",
    "matches": "sources are read with fuzzy matches",
    "datastore": "a datastore is asked at each token",
}


@dataclass(frozen=True)
class Given:
    """A model to be exported.

    Attributes:
        directory: where it lies.
        model: its modules.
        blueprint: its parts with their weights.
        config: its shape.
        decoding: how it searches unless told otherwise.
        languages: of both sides, where known.
        tokenizers: of both sides, without fuzzy matches.
        source: the vocabulary of sources for another program.
        target: that of targets; the same object where they share one.
        dropped: which of `EXTRAS` it has and is exported without.
        license_name: of the model, as hubs of models call it; None if it is not known.
    """

    directory: Path
    model: Transformer
    blueprint: Blueprint[Tensor]
    config: ModelConfig
    decoding: DecodingConfig
    languages: Languages
    tokenizers: TokenizerPair
    source: Pieces
    target: Pieces
    dropped: tuple[str, ...]
    license_name: str | None = None

    @property
    def name(self) -> str:
        """What the model is called: as its directory."""
        return self.directory.absolute().name

    @property
    def longest(self) -> int:
        """How many positions a source or an output takes at most, what frames it counted."""
        most = self.decoding.max_source_length
        return max(most, self.decoding.output_limit(most)) + 1

    @property
    def begin(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The tokens of languages that sources and outputs of a model for many begin with; none of any other."""
        source, target = (tuple(getattr(one, "begin", ())) for one in (self.tokenizers.source, self.tokenizers.target))
        return source, target

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The embeddings of source and target `[vocab, d_model]`, those of fuzzy matches left out."""
        blueprint = self.blueprint
        assert blueprint.source is not None
        return array(blueprint.source.rows)[: len(self.source.names)], array(blueprint.target.rows)


def open_given(directory: str | Path, drop: Collection[str] = (), license_name: str | None = None) -> Given:
    """Open a model to be exported.

    Args:
        directory: a run or model directory.
        drop: which of `EXTRAS` may be left out.
        license_name: of the model, as hubs of models call it.

    Raises:
        ConfigError: the model has more than is exported and may not be left out, or `drop` names what it has not.
        ModelError: there is no encoder-decoder, it is damaged, or has parts of its own kind.
    """
    directory = as_directory(Path(directory))
    config, _, _ = read_config(directory)
    if config.family != "transformer":
        hint = "`dragoman bundle` copies any model"
        raise ModelError("only models that translate can be exported", file=directory, expected="a transformer",
                         found=config.family, hint=hint)  # fmt: skip
    check_ours(directory, "exported")
    dropped = _without(directory, config, drop)
    tokenizers = load_tokenizers(directory, config).without_matches()
    if tokenizers.sound is not None:
        hint = "`dragoman bundle` copies any model"
        raise ModelError("speech models cannot be exported", file=directory, found=tokenizers.sound, hint=hint)
    found = load_pretrained(directory)
    model = found.model
    assert isinstance(model, Transformer)
    try:
        blueprint = read_blueprint(model)
    except NotPlain as reason:
        raise ModelError("the model cannot be exported", file=directory, found=reason) from reason
    source = pieces_of(tokenizers.source)
    target = source if tokenizers.joint else pieces_of(tokenizers.target)
    return Given(directory, model, blueprint, config, found.decoding, found.languages, tokenizers, source, target,
                 dropped, license_name)  # fmt: skip


def _without(directory: Path, config: ModelConfig, drop: Collection[str]) -> tuple[str, ...]:
    has = {
        "right-to-left": bool(config.right_to_left),
        "matches": bool(config.matches),
        "datastore": (directory / DATASTORE).exists(),
    }
    for name in drop:
        if not has.get(name, False):
            expected = (
                ", ".join(one for one, there in has.items() if there) or "nothing: the whole model can be represented"
            )
            raise ConfigError("the model has nothing of this name to drop", file=directory, expected=expected,
                              found=name)  # fmt: skip
    kept = [name for name, there in has.items() if there and name not in drop]
    if kept:
        found = "; ".join(f"{name} ({EXTRAS[name]})" for name in kept)
        hint = f"{' '.join(f'--drop {name}' for name in kept)} leaves it out, and shows what that costs"
        raise ConfigError(
            "the model has parts that other programs do not support", file=directory, found=found, hint=hint
        )
    return tuple(name for name in EXTRAS if name in drop)


def begin_notes(given: Given) -> list[str]:
    """Return what begins sources and outputs of a model for many languages, which no SentencePiece model adds."""
    sides = zip(("a source", "an output (target_prefix of CTranslate2)"), given.begin, strict=True)
    return [
        f"{side} begins with the token {' '.join(begin)}: another one is another language"
        for side, begin in sides
        if begin
    ]


def refuse(given: Given, program: str, reasons: Sequence[str], hint: str | None = None) -> None:
    """Refuse a model that a format cannot hold.

    Raises:
        ConfigError: there are reasons; says all of them.
    """
    if reasons:
        raise ConfigError(f"{program} cannot represent this model", file=given.directory, found="; ".join(reasons),
                          hint=hint)  # fmt: skip


def endless(given: Given) -> list[str]:
    """Return why a tokenizer that ends each source itself does not read the model's sources; nothing if it does."""
    ends = given.tokenizers.source.specials.ends_source
    return [] if ends else ["sources without `</s>`, which the tokenizers of transformers put after each"]


def array(tensor: Shaped[Tensor, "..."]) -> np.ndarray:
    """Return weights as a NumPy array over the same memory."""
    return tensor.detach().numpy()


def bias_of(matrix: Matrix[Tensor]) -> np.ndarray:
    """Return the offsets of a linear map, zeros where it has none."""
    return array(torch.zeros(len(matrix.weight)) if matrix.bias is None else matrix.bias)


def norm_of(norm: Norm[Tensor], d_model: int) -> tuple[np.ndarray, np.ndarray]:
    """Return weight and bias of a norm, those that it has not as 1 and 0."""
    weight = torch.ones(d_model) if norm.weight is None else norm.weight
    return array(weight), array(torch.zeros(d_model) if norm.bias is None else norm.bias)


def projections(attention: Attention[Tensor], width: int) -> list[Matrix[Tensor]]:
    """Return the maps to queries, keys and values; `width` is that of queries, and of keys, of all heads together."""
    weight, bias = attention.projection.weight, attention.projection.bias
    ends = (slice(0, width), slice(width, 2 * width), slice(2 * width, None))
    return [Matrix(weight[part], None if bias is None else bias[part]) for part in ends]


def epsilon(given: Given) -> float | None:
    """Return the epsilon that all norms share; None if they differ."""
    found = {
        norm.eps for stack in (given.blueprint.encoder, given.blueprint.decoder) if stack for norm in stack.norms()
    }
    return found.pop() if len(found) == 1 else None
