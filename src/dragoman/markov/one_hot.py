"""Words as one-hot vectors: a dot product tells whether two are the same, a matrix product looks up a row.

>>> import torch
>>> files, photos = one_hot(torch.tensor([1, 2]), vocab=4)
>>> photos.tolist()
[0.0, 0.0, 1.0, 0.0]
>>> (photos @ photos).item(), (photos @ files).item()
(1.0, 0.0)
>>> table = torch.tensor([[0.0, 1.0], [0.2, 0.8], [0.5, 0.5], [1.0, 0.0]], dtype=torch.float64)
>>> (photos @ table).tolist() == table[2].tolist()
True
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def one_hot(ids: Int[Tensor, "*rows"], vocab: int) -> Float[Tensor, "*rows {vocab}"]:
    """Return a vector per id: 1 at the place of the word, 0 elsewhere."""
    return torch.nn.functional.one_hot(ids.long(), vocab).double()


def several_hot(ids: Int[Tensor, "rows len"], vocab: int) -> Float[Tensor, "rows {vocab}"]:
    """Return a vector per row of ids: 1 at the place of each word that is there, however often, 0 elsewhere."""
    return torch.zeros(len(ids), vocab, dtype=torch.float64).scatter(1, ids.long(), 1.0)
