"""The learned matrices of a model by their names, those of attention one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.inspection.tables import ROWS, number, table
from dragoman.nn import MultiHeadAttention
from dragoman.stages.words import say

_PACKED = ("query", "key", "value")


def weights_of(model: nn.Module) -> dict[str, Float[Tensor, "..."]]:
    """Return all parameters by their dotted names; what attention packs into one is cut into query, key and value."""
    found = {}
    attentions = {path: part for path, part in model.named_modules() if isinstance(part, MultiHeadAttention)}
    for name, values in model.named_parameters(remove_duplicate=False):
        home, _, part = name.rpartition(".")
        path, _, owner = home.rpartition(".")
        if owner == "projection" and path in attentions:
            cut = values.detach().split(list(attentions[path].widths), dim=0)
            found |= {f"{path}.{which}.{part}": one for which, one in zip(_PACKED, cut, strict=True)}
        else:
            found[name] = values.detach()
    return found


def chosen_weights(weights: Mapping[str, Tensor], patterns: tuple[str, ...]) -> dict[str, Tensor]:
    """Return those whose names are given, begin so, or fit a pattern, on the CPU.

    Raises:
        ConfigError: a name fits none.
    """
    chosen: dict[str, Tensor] = {}
    for pattern in patterns:
        names = [one for one in weights if one == pattern or one.startswith(f"{pattern}.") or fnmatchcase(one, pattern)]
        if not names:
            known = [one for one in weights if ".layers." not in one or ".layers.0." in one]
            expected = "one of these, what they begin with, or a pattern such as '*.query.weight':\n    "
            raise ConfigError(f"there are no weights {pattern!r}", expected=expected + "\n    ".join(known))
        chosen |= {name: weights[name].cpu() for name in names}
    return chosen


def weight_lines(weights: Mapping[str, Tensor], count: int, rows: int = ROWS) -> Iterator[str]:
    """Yield matrices as tables, at most `count` numbers in each of at most so many rows.

    Args:
        weights: by their names.
        count: numbers in a row; 0 is shapes only.
        rows: of each matrix at most.
    """
    for name, values in weights.items():
        yield f"{name}  {list(values.shape)}"
        if values.dim() == 2 and "embedding" not in name:
            yield "   " + say("a row for each number that comes out, a column for each that goes in: x · Wᵀ")
        matrix = values.reshape(1, -1) if values.dim() < 2 else values.flatten(1)
        if count:
            more = ["…"] if matrix.shape[1] > count else []
            yield from table([[*map(number, row), *more] for row in matrix[:rows, :count].tolist()], 6, left=0)
            if len(matrix) > rows:
                yield "      (" + say("{count} more rows").format(count=len(matrix) - rows) + ")"
