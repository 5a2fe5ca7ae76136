"""The masks of a text as a batch would have them: beside a longer text, so that there is padding to be hidden."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from dragoman.inspection.stage import Stage, make_stage
from dragoman.inspection.words import say
from dragoman.nn import causal_mask, combine_masks, key_mask
from dragoman.sequences import length_mask

PAD_PIECE = "<pad>"


def mask_stages(
    source: Int[Tensor, "1 src"],
    inputs: Int[Tensor, "1 tgt"],
    pieces: tuple[Sequence[str], Sequence[str]],
    *,
    padding: int = 2,
) -> list[Stage]:
    """Return `masks.padding`, `masks.causal` and `masks.combined`, as far as the model has such sides.

    Args:
        source: framed ids; no column if there is no encoder.
        inputs: what the decoder is given; no column if there is no decoder.
        pieces: what stands at the positions of each.
        padding: how many positions longer the longest text of the imagined batch is.
    """
    stages = []
    sides = zip((source, inputs), pieces, ("src", "tgt"), strict=True)
    (of_keys, of_source, src), (own, of_inputs, tgt) = (
        (
            key_mask(length_mask([ids.shape[1]], ids.shape[1] + padding)),
            [*names, *[PAD_PIECE] * padding],
            f"{length}+{padding}",
        )
        for ids, names, length in sides
    )
    if of_source != [PAD_PIECE] * padding:
        what = say("padding mask: beside a longer text {padding} <pad> fill the row, hidden from every query").format(
            padding=padding
        )
        stages.append(make_stage("masks.padding", ("1", "1", "1", src), of_keys, what, (), of_source))
    if of_inputs != [PAD_PIECE] * padding:
        causal = causal_mask(inputs.shape[1] + padding)
        combined = combine_masks(own, causal)
        assert combined is not None
        square = ("1", "1", tgt, tgt)
        what = say("causal mask: a row sees itself and what came before, the triangle")
        stages.append(make_stage("masks.causal", square, causal, what, of_inputs, of_inputs))
        what = say("combined: allowed by the causal mask and by the padding mask of the target")
        stages.append(make_stage("masks.combined", square, combined, what, of_inputs, of_inputs))
    return stages
