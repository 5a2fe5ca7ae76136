"""The masks of a text as a batch would have them: beside a longer text, so that there is padding to be hidden."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.nn import causal_mask, combine_masks, key_mask
from dragoman.sequences import length_mask
from dragoman.stages.stage import Stage, make_stage
from dragoman.stages.words import say

PAD_PIECE = "<pad>"


def mask_stages(
    pieces: tuple[Sequence[str], Sequence[str]],
    *,
    padding: int = 2,
) -> list[Stage]:
    """Return `masks.padding`, `masks.causal` and `masks.combined`, as far as the model has such sides.

    Args:
        pieces: what stands at the positions of encoder and decoder; nothing where there is none.
        padding: how many positions longer the longest text of the imagined batch is.
    """
    stages = []
    (of_keys, of_source, src), (own, of_inputs, tgt) = (
        (
            key_mask(length_mask([len(names)], len(names) + padding)),
            [*names, *[PAD_PIECE] * padding],
            f"{length}+{padding}",
        )
        for names, length in zip(pieces, ("src", "tgt"), strict=True)
    )
    if of_source != [PAD_PIECE] * padding:
        what = say("padding mask: beside a longer text {padding} <pad> fill the row, hidden from every query").format(
            padding=padding
        )
        stages.append(make_stage("masks.padding", ("1", "1", "1", src), of_keys, what, (), of_source))
    if of_inputs != [PAD_PIECE] * padding:
        causal = causal_mask(len(pieces[1]) + padding)
        combined = combine_masks(own, causal)
        assert combined is not None
        square = ("1", "1", tgt, tgt)
        what = say("causal mask: a row sees itself and what came before, the triangle")
        stages.append(make_stage("masks.causal", square, causal, what, of_inputs, of_inputs))
        what = say("combined: allowed by the causal mask and by the padding mask of the target")
        stages.append(make_stage("masks.combined", square, combined, what, of_inputs, of_inputs))
    return stages
