"""How jadore801120/attention-is-all-you-need-pytorch (2021) searches: part of the `jadore` profile."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.nn import DecoderCache, Transformer


def beam_score(
    log_probabilities: Float[Tensor, " beams"],
    hypotheses: Int[Tensor, "beams len"],
    trg_eos_idx: int,
    alpha: float = 0.7,
) -> Float[Tensor, " beams"]:
    """Return log p / length^alpha; the length is up to the first `</s>`, `<s>` and that `</s>` included.

    What follows that `</s>` counts in the log-probability, but not in the length.
    """
    lengths = (hypotheses == trg_eos_idx).int().argmax(1) + 1
    return log_probabilities / lengths.float() ** alpha


@torch.no_grad()
def translate_sentence(
    model: Transformer,
    src_seq: Int[Tensor, "1 src"],
    *,
    trg_bos_idx: int = 2,
    trg_eos_idx: int = 3,
    beam_size: int = 5,
    max_seq_len: int = 100,
    alpha: float = 0.7,
) -> list[int]:
    """Translate one sentence by their beam search: ids with `<s>` and, if it ended, `</s>`.

    Hypotheses that have ended go on growing, and their scores with them, until all hold a `</s>`: then the one with
    the best `beam_score` is cut after its first. Should that never come, it is the first hypothesis, whatever its
    score.

    Args:
        model: in evaluation mode; for their numbers, loaded with `faithful_to_bug="unscaled_translation"`.
        src_seq: ids; theirs passes them without `<s>` and `</s>`.
        trg_bos_idx: id of `<s>`.
        trg_eos_idx: id of `</s>`.
        beam_size: hypotheses.
        max_seq_len: longest output, `<s>` and `</s>` included, at least 3.
        alpha: exponent of the length.
    """
    state = model.start(src_seq)
    logs, tokens = _likeliest(model, state, src_seq.new_full((1,), trg_bos_idx), beam_size)
    totals, state = logs[0], state.reorder(src_seq.new_zeros(beam_size))
    history = torch.stack([torch.full_like(tokens[0], trg_bos_idx), tokens[0]], dim=1)
    best = 0
    while history.shape[1] < max_seq_len:
        logs, tokens = _likeliest(model, state, history[:, -1], beam_size)
        totals, place = (logs + totals[:, None]).flatten().topk(beam_size)
        rows = place // beam_size
        state = state.reorder(rows)
        history = torch.cat([history[rows], tokens.flatten()[place, None]], dim=1)
        if (history == trg_eos_idx).any(1).all():
            best = int(beam_score(totals, history, trg_eos_idx, alpha).argmax())
            break
    found = history[best].tolist()
    return found[: found.index(trg_eos_idx) + 1] if trg_eos_idx in found else found


def _likeliest(model: Transformer, state: DecoderCache, tokens: Tensor, count: int) -> tuple[Tensor, Tensor]:
    # The logarithm comes after the softmax, as in theirs: what underflows there is impossible.
    probabilities, following = model.step(state, tokens).softmax(-1).topk(count)
    return probabilities.log(), following
