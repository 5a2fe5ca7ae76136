"""What is explained: one text, the model that reads it, and the pieces both are told in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from dragoman.errors import DataError
from dragoman.inspection.agreement import Model, checks_of, parallel_logits, sizes_of
from dragoman.inspection.facts import Candidate, Step, Text
from dragoman.inspection.trace import Trace
from dragoman.inspection.weights import weights_of
from dragoman.models import count_parameters
from dragoman.search.hypothesis import check_numbers
from dragoman.stages.capture import captured
from dragoman.stages.finding import find_stages
from dragoman.stages.masks import mask_stages
from dragoman.stages.stage import Sides, Stage, make_stage
from dragoman.stages.words import say, spoken
from dragoman.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from dragoman.inspection.hearing import Heard

# A trace keeps everything, and attention grows with the square of the length.
MAX_PIECES = 256
TOP = 5
POSITIONS = 64


@dataclass(frozen=True)
class Subject:
    """One text with the model that is to be seen through.

    Attributes:
        model: in evaluation mode.
        source: framed ids, or frames of a sound; no column if there is no encoder.
        inputs: what the decoder is given; no column if there is no decoder.
        sides: what stands at the positions.
        text: what was given.
        heard: of a sound, how it became frames.
    """

    model: Model
    source: Shaped[Tensor, "1 given ..."]
    inputs: Int[Tensor, "1 tgt"]
    sides: Sides
    text: str
    heard: Heard | None = None

    def run(self) -> list[Stage]:
        """Return the stages of one observed pass, with the masks before the first layer.

        Raises:
            ModelError: the model gives NaN.
        """
        with captured(self.model) as calls:
            logits = parallel_logits(self.model, self.source, self.inputs)
        check_numbers([float(logits.sum())])
        with torch.no_grad():
            stages = find_stages(self.model, calls, self.sides)
        masks = mask_stages((self.sides.source, self.sides.target))
        stages = [*([] if self.heard is None else self.heard.stages()), *stages]
        names = [stage.name for stage in stages]
        if (read := ctc_stage(self.model, stages, self.sides)) is not None:
            stages.insert(names.index("memory") + 1, read)
        first = next(place for place, name in enumerate(names) if name.startswith(("encoder", "decoder", "memory")))
        return [self._named(stage) for stage in (*stages[:first], *masks, *stages[first:])]

    def _named(self, stage: Stage) -> Stage:
        """A stage with what its rows write, where these are what the decoder is asked at."""
        asks = stage.name.startswith(("decoder.", "generator", "probabilities", "masks.c"))
        asks = asks and "tgt" in stage.dims[-2] and not stage.name.endswith((".key", ".value"))
        return replace(stage, writes=self.sides.writes) if asks else stage

    @torch.no_grad()
    def positions(self) -> Float[Tensor, "positions d_model"] | None:
        """Return the first rows of the table of positions."""
        for name in ("source_embedding", "embedding"):
            add = getattr(getattr(self.model, name, None), "positions", None)
            if add is not None:
                count = max(POSITIONS, len(self.sides.source), len(self.sides.target))
                weight = self.model.generator.weight
                return add(weight.new_zeros(1, count, weight.shape[1]))[0].cpu()
        return None

    def trace(
        self,
        source: Text | None,
        target: Text | None,
        output: Text,
        *,
        search: str,
        steps: Sequence[Step],
        notes: tuple[str, ...] = (),
    ) -> Trace:
        """Return a trace of what the pass, the search and the checks found."""
        stages = self.run()
        return Trace(
            family=self.sides.family,
            sizes=sizes_of(self.model),
            parameters=count_parameters(self.model),
            text=self.text,
            source=source,
            target=target,
            output=output,
            search=search,
            stages=tuple(stages),
            steps=tuple(steps),
            checks=checks_of(self.model, self.source, self.inputs, stages),
            positions=self.positions(),
            notes=notes,
            weights=weights_of(self.model),
            lang=spoken(),
            sound=None if self.heard is None else self.heard.facts,
        )


@torch.no_grad()
def ctc_stage(model: Model, stages: Sequence[Stage], sides: Sides) -> Stage | None:
    """Return what the head for CTC makes of the memory, at each of its positions; None where there is no head.

    Args:
        model: whose stages they are.
        stages: the memory among them.
        sides: what stands at the positions.
    """
    head = getattr(model, "ctc", None)
    memory = next((stage.values for stage in stages if stage.name == "memory"), None)
    if head is None or memory is None:
        return None
    logits = head(memory.to(head.weight))
    what = say("the head for CTC: x W + b, what is said at each position; {blank} stands for nothing")
    [blank] = ["<pad>"] if sides.entries is None else sides.entries([model.pad])
    stage = make_stage("ctc", ("batch", "src", "target_vocab"), logits, what.format(blank=blank), sides.source)
    return replace(stage, entries=sides.entries)


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a text without its frame.

    Raises:
        DataError: there is nothing in it, or too much.
    """
    ids = tokenizer.encode(checked_text(text))
    check_length(ids)
    return ids


def checked_text(text: str) -> str:
    """Return a text that there is something in.

    Raises:
        DataError: it is blank.
    """
    if not text.strip():
        raise DataError("there is nothing to explain", expected="a text", found=repr(text))
    return text


def check_length(ids: Sequence[int]) -> None:
    """Refuse what would not fit into memory, or anybody's attention.

    Raises:
        DataError: there are more than 256 pieces.
    """
    if len(ids) > MAX_PIECES:
        raise DataError("the text is too long to be explained", expected=f"at most {MAX_PIECES} pieces", found=len(ids))


def framed(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> Text:
    """Return a text with the pieces of its ids."""
    return Text(text, tuple(tokenizer.pieces(ids)), tuple(ids))


def top_candidates(tokenizer: Tokenizer, logits: Float[Tensor, " vocab"], count: int = TOP) -> tuple[Candidate, ...]:
    """Return the likeliest candidates of the vocabulary for the next piece, likeliest first."""
    values, ids = logits.softmax(-1).topk(min(count, len(logits)))
    pieces = tokenizer.pieces(ids.tolist())
    found = zip(pieces, ids.tolist(), values.tolist(), strict=True)
    return tuple(Candidate(piece, token, value, rank) for rank, (piece, token, value) in enumerate(found, 1))


def candidate_of(tokenizer: Tokenizer, logits: Float[Tensor, " vocab"], token: int) -> Candidate:
    """Return one entry of the vocabulary as a candidate, with its probability and rank."""
    probability = float(logits.softmax(-1)[token])
    return Candidate(tokenizer.pieces([token])[0], token, probability, 1 + int((logits > logits[token]).sum()))
