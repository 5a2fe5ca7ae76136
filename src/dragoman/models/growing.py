"""Weights for a larger vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from dragoman.text.tokenizer import SPECIALS

Parts = Sequence[Sequence[int]]


def with_more_rows(
    tensors: Mapping[str, Tensor], model: nn.Module, source: Parts = (), target: Parts = ()
) -> dict[str, Tensor]:
    """Return tensors whose embeddings and output rows are as many as the model has; those there are stay as they are.

    New rows are the mean of those of the parts that their entries were made of before. Of one without parts it is the
    mean of all old ones, those of special ids aside: as an input that is no word in particular, as an
    output about as likely as a word is on average, which is hardly ever chosen before something was learned of it.

    Args:
        tensors: of a model of the same shape with a smaller vocabulary.
        model: the larger one; what fits it is returned as it is.
        source: the former ids of each new entry of the source vocabulary; none are known of further ones.
        target: likewise of the target vocabulary, or of a joint one.
    """
    grown = dict(tensors)
    for name, wanted in model.state_dict().items():
        old = tensors.get(name)
        if old is None or old.dim() == 0 or old.shape[1:] != wanted.shape[1:] or len(old) >= len(wanted):
            continue
        rows = old.new_empty(wanted.shape)
        rows[: len(old)] = old
        rows[len(old) :] = old[len(SPECIALS) :].mean(0)
        parts = source if name.startswith("source_embedding") else target
        for row, ids in enumerate(parts, len(old)):
            if ids:
                rows[row] = old[list(ids)].mean(0)
        grown[name] = rows
    return grown
