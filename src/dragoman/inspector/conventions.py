"""The same weights by other systems' conventions: what each does otherwise, as far as weights of ours allow.

The profiles (`dragoman.profiles`) are these systems with weights of their own. Here nothing is trained for the change:
what comes out may be nonsense, and shows where, and by how much, each convention matters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.inspector.record import Inspection
from dragoman.nn import InputEmbedding, PostNorm, PreNorm, SinusoidalPositions, TokenEmbedding
from dragoman.profiles.lsdefine import DeviationNorm
from dragoman.profiles.parts import StdNorm


@dataclass(frozen=True)
class Convention:
    """What a system does.

    Attributes:
        post: norms after the residual connections, and none at the ends of the stacks; else before, and one there.
        norm: which divides by a deviation; None is PyTorch's layer norm.
        eps: of the norm.
        scaled: whether rows of the embeddings are multiplied by √d_model.
        layout: of the sinusoids.
        first: the position of the first token.
    """

    post: bool
    norm: type[StdNorm] | None = None
    eps: float = 1e-5
    scaled: bool = True
    layout: str = "interleaved"
    first: int = 0


# Differences of sums in another order are below it.
LEAST = 1e-5
CONVENTIONS = {
    "annotated": Convention(post=False, norm=StdNorm, eps=1e-6),
    "jadore": Convention(post=True, eps=1e-6),
    "lsdefine": Convention(post=True, norm=DeviationNorm, eps=1e-6, scaled=False, first=1),
    "d2l": Convention(post=True),
    "marian": Convention(post=True, layout="concatenated"),
}


def follow(model: nn.Module, name: str) -> None:
    """Let a model follow the conventions of a system, in place.

    Args:
        model: whose modules nobody else uses.
        name: of `CONVENTIONS`.

    Raises:
        ConfigError: there is no such system.
    """
    if name not in CONVENTIONS:
        raise ConfigError("there is no such system", expected=", ".join(CONVENTIONS), found=name)
    wanted = CONVENTIONS[name]
    for path, part in list(model.named_modules()):
        home, _, own = path.rpartition(".")
        if isinstance(part, (PreNorm, PostNorm)):
            kind = PostNorm if wanted.post else PreNorm
            made = object.__new__(kind)
            made.__dict__.update(part.__dict__)  # the same parts, called in another order
            setattr(model.get_submodule(home), own, made)
        elif isinstance(part, nn.LayerNorm):
            ends_stack = path.count(".") == 1 and path.endswith(".norm")
            made = nn.Identity() if ends_stack and wanted.post else _norm(part, wanted)
            setattr(model.get_submodule(home), own, made)
        elif isinstance(part, TokenEmbedding) and not wanted.scaled:
            part.register_forward_hook(lambda module, _, rows: rows / module.d_model**0.5)
        elif isinstance(part, InputEmbedding) and isinstance(part.positions, SinusoidalPositions):
            part.positions = _Shifted(part.positions.d_model, wanted.layout, wanted.first)


def _norm(old: nn.LayerNorm, wanted: Convention) -> nn.Module:
    if wanted.norm is None or old.weight is None or old.bias is None:
        old.eps = wanted.eps
        return old
    made = wanted.norm(old.normalized_shape[0], wanted.eps)
    made.weight, made.bias = old.weight, old.bias
    return made


class _Shifted(SinusoidalPositions):
    """Sinusoids of positions counted from another one than 0."""

    def __init__(self, d_model: int, layout: str, first: int) -> None:
        super().__init__(d_model, layout=layout)
        self.first = first

    def forward(self, x: Float[Tensor, "batch len d_model"], start: int = 0) -> Float[Tensor, "batch len d_model"]:
        return super().forward(x, start + self.first)


@dataclass(frozen=True)
class Difference:
    """How far a stage is from the same stage of another record: the largest of its numbers, None if shapes differ."""

    stage: str
    largest: float | None


def differences(one: Inspection, other: Inspection, *, least: float = LEAST) -> Iterable[Difference]:
    """Yield the stages of a record whose numbers are not those of another one, in the order of computation.

    Args:
        one: whose stages are gone through.
        other: of the same text, by another model, search or convention.
        least: what counts as a difference.
    """
    for node in one.record["graph"]["nodes"]:
        name = node["array"]
        if name is None or name not in other.arrays:
            continue
        here, there = one.arrays[name], other.arrays[name]
        if here.shape != there.shape:
            yield Difference(name, None)
        elif (largest := float(abs(here.astype("float64") - there.astype("float64")).max())) >= least:
            yield Difference(name, largest)
