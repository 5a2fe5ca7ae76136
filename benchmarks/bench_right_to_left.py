"""What learning in both directions costs: an update, and a search with bidirectional reranking."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from bench_training import BATCH_TOKENS
from rows import Run, print_rows, settle
from workload import TINY, training_batches

from dragoman.config import DecodingConfig
from dragoman.data import Batch
from dragoman.fast import keep_memory, training_hidden
from dragoman.models import build_model
from dragoman.nn import Transformer
from dragoman.sequences import Direction, TargetBatch
from dragoman.text import TokenizerPair, Vocabulary
from dragoman.text.tokenizer import SPECIALS
from dragoman.training.step import BatchLoss, accumulate_gradients
from dragoman.translation import Translator

SENTENCES, WORDS = 64, 12


def in_both_directions(batch: Batch) -> Batch:
    """The same pairs, their targets a second time; which order they are in costs nothing."""
    once = batch.target
    target = TargetBatch(torch.cat([once.ids, once.ids]), torch.cat([once.mask, once.mask]), tuple(Direction))
    return replace(batch, target=target, target_tokens=2 * batch.target_tokens)


def update(model: Transformer, batches: list[Batch]) -> Run:
    """Forward and backward passes of some batches, as `train` runs them."""
    hidden = training_hidden(model)

    def run() -> None:
        for batch in batches:
            model.zero_grad(set_to_none=True)
            accumulate_gradients(BatchLoss(model, hidden), [batch], batch.target_tokens, smoothing=0.1)

    return run


def translator(model: Transformer) -> Translator:
    """A translator over a vocabulary of numbers."""
    words = Vocabulary("word", [*SPECIALS, *map(str, range((TINY.target_vocab or 0) - len(SPECIALS)))])
    return Translator([model], TokenizerPair(words, words), precision="int8", right_to_left=True)


def main() -> None:
    settle()
    keep_memory()
    torch.manual_seed(0)
    model = build_model(TINY)
    assert isinstance(model, Transformer)
    batches = training_batches(4, BATCH_TOKENS)
    other = build_model(TINY.replace({"right_to_left": True, "right_to_left_decoder": "own"}))
    assert isinstance(other, Transformer)
    both = [in_both_directions(one) for one in batches]
    updates = {
        "left to right": update(model, batches),
        "both": update(model, both),
        "both, a decoder each": update(other, both),
    }
    print_rows("update, right to left", {"model": "tiny", "batch_tokens": BATCH_TOKENS}, updates, budget=30.0)
    made = translator(model.eval())
    draw = torch.Generator().manual_seed(0)
    numbers = torch.randint(0, 3000, (SENTENCES, WORDS), generator=draw).tolist()
    texts = [" ".join(map(str, row)) for row in numbers]
    for beam_size in (4, 10):
        options = DecodingConfig(beam_size=beam_size, min_length=WORDS, max_length=WORDS)
        every = options.replace({"n_best": beam_size, "right_to_left_weight": 0.0})
        runs: dict[str, Run] = {
            "left to right": partial(made.translate_with, texts, options.replace({"right_to_left_weight": 0.0})),
            "left to right, all outputs": partial(made.translate_with, texts, every),
            "both": partial(made.translate_with, texts, options),
        }
        facts = {"model": "tiny", "engine": made.engine, "sentences": SENTENCES, "beam_size": beam_size}
        print_rows("search, right to left", facts, runs, budget=12.0, work={"output_tokens": SENTENCES * WORDS})


if __name__ == "__main__":
    main()
