"""Where pieces stand among each other: the nearest rows of a table of embeddings, and a map of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.text.tokenizer import Tokenizer

NEAREST = 8
# Rows that the axes of the map are found from, besides those that are shown.
_ROWS = 4096


@torch.no_grad()
def embedding_map(table: Float[Tensor, "vocab d_model"], ids: Sequence[int], tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the nearest pieces of each piece by cosine, and the place of all these on the two widest axes (PCA).

    Args:
        table: with a row for each piece.
        ids: of the pieces that are asked for.
        tokenizer: of the same vocabulary.
    """
    rows = table.detach().float().cpu()
    unit = torch.nn.functional.normalize(rows, dim=1)
    asked = list(dict.fromkeys(ids))
    cosines = unit[asked] @ unit.T
    cosines[range(len(asked)), asked] = -2  # nobody is a neighbour of himself
    values, places = cosines.topk(min(NEAREST, len(rows) - 1), dim=1)
    pieces = dict(zip(range(len(rows)), tokenizer.pieces(range(len(rows))), strict=True))
    near = [
        {"id": token, "piece": pieces[token],
         "nearest": [[other, pieces[other], round(value, 5)] for other, value in zip(some, own, strict=True)]}
        for token, some, own in zip(asked, places.tolist(), values.tolist(), strict=True)
    ]  # fmt: skip
    shown = list(dict.fromkeys([*asked, *places.flatten().tolist()]))
    some = rows[list(dict.fromkeys([*shown, *range(min(_ROWS, len(rows)))]))].double()
    centre = some.mean(0)
    spread, axes = torch.linalg.eigh((some - centre).T @ (some - centre))
    axes = axes[:, -2:].flip(1)
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()  # a sign that is the same everywhere
    at = ((rows[shown].double() - centre) @ axes).tolist()
    part = float(spread[-2:].sum() / spread.sum().clamp(min=1e-30))
    points = [[token, pieces[token], round(x, 5), round(y, 5)] for token, (x, y) in zip(shown, at, strict=True)]
    return {"pieces": near, "map": points, "explained": round(part, 5)}
