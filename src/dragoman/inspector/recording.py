"""Making a record of what a neural model does with given ids: one observed pass, its steps, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from dragoman.inspection.agreement import Model, sizes_of
from dragoman.inspection.beam_events import Watch, with_pieces
from dragoman.inspection.hearing import Heard
from dragoman.inspection.subject import ctc_stage
from dragoman.inspector.arrays import OPERANDS, Arrays, norms_of
from dragoman.inspector.embeddings import embedding_map
from dragoman.inspector.graph import graph_of, parameter_names
from dragoman.inspector.step_views import step_views
from dragoman.inspector.summaries import coverage_of, distribution, head_summaries
from dragoman.inspector.what_if import Changes
from dragoman.models import count_parameters
from dragoman.nn import AttentionPositions, MaskedLM, MultiHeadAttention, PreNorm, SinusoidalPositions, Transformer
from dragoman.nn.positions import KINDS
from dragoman.search.hypothesis import Hypothesis, check_numbers, length_penalty
from dragoman.search.request import SearchRequest
from dragoman.sequences.source import positions_of
from dragoman.stages.capture import captured
from dragoman.stages.finding import find_stages
from dragoman.stages.stage import Sides, Stage
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.spans import piece_spans

TOP = 20
_FORMULAS = {
    "gnmt": "score = sum / ((5 + length) / 6)^alpha",
    "power": "score = sum / length^alpha",
    "reward": "score = sum + alpha · length",
}


@dataclass(frozen=True)
class Pass:
    """What one pass of a model is about.

    Attributes:
        model: in evaluation mode.
        source: framed ids, padded, or frames; no column if there is no encoder.
        mask: where the source has tokens, or frames.
        inputs: what the decoder is given; no column if there is none.
        sides: what stands at the positions.
        changes: what is changed about the model already.
        views: whether each step is computed by itself too.
        heard: of a sound, how it became frames.
        read_off: what the head for CTC makes of the memory, once there is a record.
    """

    model: Model
    source: Shaped[Tensor, "1 given ..."]
    mask: Bool[Tensor, "1 given"]
    inputs: Int[Tensor, "1 tgt"]
    sides: Sides
    changes: Changes = field(default_factory=Changes)
    views: bool = True
    heard: Heard | None = None
    read_off: list[Stage] = field(default_factory=list)

    @property
    def real(self) -> int:
        """How many positions of the encoder are no padding."""
        given = int(self.mask.sum())
        return given if self.heard is None else positions_of(given)

    @torch.no_grad()
    def record(self, arrays: Arrays) -> dict[str, Any]:
        """Return the graph and what belongs to it; numbers are added to `arrays`.

        Raises:
            ModelError: the model gives NaN.
        """
        with captured(self.model) as calls:
            logits = self._logits()
        check_numbers([float(logits.sum())])
        stages = find_stages(self.model, calls, self.sides)
        if self.heard is not None:
            stages = self._with_sound(self.heard, stages)
        encoder = {"transformer": "source_embedding", "masked": "embedding"}.get(self.sides.family)
        graph = graph_of(stages, self.model, encoder)
        nodes = {node["id"]: node for node in graph}
        arrays.add_stages(stages)
        norms_of(calls, arrays, nodes)
        self._tell_masks(nodes)
        names = parameter_names(graph)
        kept = arrays.add_parameters(self.model, names)
        for node in graph:
            node["parameters"] = [kept[name] for name in node["parameters"]]
            if "norm" in node:
                own = {part: node["norm"][part] for part in ("gain", "bias")}
                node["norm"] |= {part: None if name is None else kept.get(name, name) for part, name in own.items()}
        real = {"src": self.real, "tgt": self.inputs.shape[1]}
        views = []
        if self.views and not isinstance(self.model, MaskedLM):
            views = step_views(self.model, self.source, self.mask, self.inputs, stages, arrays)
        coverage = coverage_of(stages, real["src"])
        if (table := self._positions()) is not None:
            arrays.add("positions", table, OPERANDS)
        return {
            "graph": {"nodes": graph},
            "symbols": _symbols(stages),
            "views": views,
            "summaries": {"heads": head_summaries(stages, real), "coverage": coverage},
        }

    def _with_sound(self, heard: Heard, stages: list[Stage]) -> list[Stage]:
        """The stages of a pass with those before it, and with what the head for CTC makes of the memory."""
        if (read := ctc_stage(self.model, stages, self.sides)) is not None:
            self.read_off.append(read)
            stages.insert([stage.name for stage in stages].index("memory") + 1, read)
        wave, mels = heard.stages()
        if (
            self.source.shape[1] > mels.shape[1]
        ):  # beside a longer sound, whose frames are as many as those of the batch
            mels = replace(mels, dims=("batch", "own frames", "mels"))
        return [wave, mels, *stages]

    def _logits(self) -> Tensor:
        if isinstance(self.model, Transformer):
            real = torch.ones_like(self.inputs, dtype=torch.bool)
            return self.model(self.source, self.inputs, self.mask, real)
        return self.model(self.source, self.mask) if isinstance(self.model, MaskedLM) else self.model(self.inputs)

    def _tell_masks(self, nodes: dict[str, dict[str, Any]]) -> None:
        """Why each mask hides what it hides."""
        padded = list(range(self.real, len(self.sides.source)))
        for name, node in nodes.items():
            if node["kind"] != "mask":
                continue
            looks_back = name.startswith("decoder.") and node["axes"][-1] == "tgt"
            of_source = node["axes"][-1] == "src"
            node["causal"] = looks_back and self.changes.causal
            node["padding"] = padded if of_source and self.changes.padding else []
            node["removed"] = [
                *(["causal"] if looks_back and not self.changes.causal else []),
                *(["padding"] if of_source and padded and not self.changes.padding else []),
            ]

    def _positions(self) -> Float[Tensor, "positions d_model"] | None:
        for name in ("source_embedding", "embedding"):
            add = getattr(getattr(self.model, name, None), "positions", None)
            if isinstance(add, nn.Module):
                weight = self.model.generator.weight
                count = max(len(self.sides.source), len(self.sides.target), 32)
                return add(weight.new_zeros(1, count, weight.shape[1]))[0]
        return None


def _symbols(stages: Iterable[Stage]) -> dict[str, int]:
    found = {"batch": 1}
    for stage in stages:
        found.update(zip(stage.dims, stage.shape, strict=True))
    return found


def model_facts(model: Model, family: str) -> dict[str, Any]:
    """Return what a model is: its sizes, how it knows positions, where its norms stand, and which weights are tied."""
    positions = [part for part in model.modules() if isinstance(part, (SinusoidalPositions, AttentionPositions))]
    inside = [name for name, kind in KINDS.items() if any(isinstance(part, kind) for part in positions)]
    layouts = [part.layout for part in positions if isinstance(part, SinusoidalPositions)]
    every = dict(model.named_parameters(remove_duplicate=False))
    kept = {id(weight): name for name, weight in model.named_parameters()}
    return {
        "family": family,
        "sizes": sizes_of(model),
        "positions": [*inside, *layouts][0] if inside or layouts else "other",
        "norm": "pre" if any(isinstance(part, PreNorm) for part in model.modules()) else "post",
        "tied": {name: kept[id(weight)] for name, weight in every.items() if kept[id(weight)] != name},
        "parameters": count_parameters(model),
        "attentions": [name for name, part in model.named_modules() if isinstance(part, MultiHeadAttention)],
    }


def text_facts(
    tokenizer: Tokenizer, text: str, ids: Sequence[int], pieces: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return a text with the pieces of its ids, and where each begins and ends in it, counted in characters."""
    found = list(tokenizer.pieces(ids)) if pieces is None else list(pieces)
    control = {tokenizer.pad, tokenizer.bos, tokenizer.eos}
    plain = [place for place, token in enumerate(ids) if token not in control]
    spans = dict(zip(plain, piece_spans(text, [found[place] for place in plain]), strict=True)) if plain else {}
    return {
        "text": text,
        "pieces": [
            {"text": piece, "id": token, "start": spans.get(place, (None, None))[0],
             "end": spans.get(place, (None, None))[1], "unknown": token == tokenizer.unk}
            for place, (piece, token) in enumerate(zip(found, ids, strict=True))
        ],
    }  # fmt: skip


def steps_of(
    tokenizer: Tokenizer, logits: Float[Tensor, "steps vocab"], framed: Sequence[int], first: int = 0, forced: int = 0
) -> list[dict[str, Any]]:
    """Return what was read, written and found likely at each step.

    Args:
        tokenizer: of what is written.
        logits: of each step.
        framed: ids, one more than steps.
        first: so many steps were given, and are left out.
        forced: so many further ones were forced.
    """
    pieces, steps = tokenizer.pieces(framed), []
    for place in range(first, len(framed) - 1):
        row, token = logits[place].double(), framed[place + 1]
        likely = row.topk(min(TOP, len(row))).indices.tolist()
        steps.append({
            "t": place + 1,
            "reads": {"piece": pieces[place], "id": framed[place]},
            "writes": {"piece": pieces[place + 1], "id": token},
            **candidate(row, token),
            **distribution(row, tokenizer.pieces(likely), likely),
            "forced": place < first + forced,
            "reference": None,
        })  # fmt: skip
    return steps


def candidate(logits: Float[Tensor, " vocab"], token: int) -> dict[str, Any]:
    """Return the log-probability of one token, and its rank, 1 for the likeliest."""
    value = float(logits.log_softmax(-1)[token])
    return {
        "log_probability": round(value, 6) if value > float("-inf") else None,
        "rank": 1 + int((logits > logits[token]).sum()),
    }


def search_facts(request: SearchRequest, name: str, share: float = 0.0) -> dict[str, Any]:
    """Return how was searched, and by which formula outputs are ranked."""
    options = request.options
    return {
        "name": name,
        "beam_size": options.beam_size,
        "length_penalty": options.length_penalty,
        "length_penalty_formula": options.length_penalty_formula,
        "formula": _FORMULAS[options.length_penalty_formula],
        "max_length": request.max_length,
        "no_repeat_ngram": options.no_repeat_ngram,
        "right_to_left_share": share,
        "prefix": list(request.prefix),
    }


def beam_facts(
    watch: Watch,
    found: Sequence[Hypothesis],
    greedy: Sequence[int],
    tokenizer: Tokenizer,
    text: Callable[[Sequence[int]], str],
) -> dict[str, Any]:
    """Return every candidate of a search, what was finished, and the greedy path.

    Args:
        watch: of the search.
        found: as they are ranked, best first.
        greedy: ids of greedy search's output, its end included.
        tokenizer: of what is written.
        text: makes a string of ids.
    """
    options = watch.request.options
    events = [
        {
            "id": event.id, "step": event.step, "rank": event.rank, "parent": event.parent, "token": event.token,
            "piece": event.piece, "log_probability": round(event.log_probability, 6), "sum": round(event.sum, 6),
            "score": round(event.score, 6), **_penalty(event.step, watch.request), "fate": event.fate,
            "why": event.why,
        }
        for event in with_pieces(watch.events, tokenizer)
    ]  # fmt: skip
    final = [
        {
            "ids": list(one.tokens), "text": text(one.tokens), "sum": round(one.log_probability, 6),
            **_penalty(len(one.tokens) + 1, watch.request), "score": round(one.score, 6),
            "right_to_left": None if one.right_to_left is None else round(one.right_to_left, 6),
        }
        for one in found
    ]  # fmt: skip
    return {
        "size": options.beam_size, "candidates": 1 if options.beam_size == 1 else 2 * options.beam_size,
        "stop": watch.stop, "events": events, "final": final, "greedy": list(greedy),
        "greedy_events": _path(watch, greedy),
    }  # fmt: skip


def _path(watch: Watch, tokens: Sequence[int]) -> list[str | None]:
    """The candidates that an output runs through; None from where it leaves them."""
    found: list[str | None] = []
    places = {(event.parent, event.step, event.token): event.id for event in watch.events}
    for step, token in enumerate(tokens, 1):
        parent = found[-1] if found else None
        found.append(None if found and parent is None else places.get((parent, step, token)))
    return found


def _penalty(length: int, request: SearchRequest) -> dict[str, Any]:
    """What a sum is divided by at this length, or what is added to it."""
    options = request.options
    if options.length_penalty_formula == "reward":
        return {"length": length, "divisor": 1.0, "added": options.length_penalty * length}
    divisor = length_penalty(length, options.length_penalty, options.length_penalty_formula)
    return {"length": length, "divisor": round(divisor, 9), "added": 0.0}


def embedding_facts(
    model: Model, sides: Sequence[tuple[str, Tokenizer, Sequence[int]]]
) -> dict[str, dict[str, Any] | None]:
    """Return maps of the pieces of each side, and the array that has its table.

    Args:
        model: with tables of embeddings.
        sides: the name of the embedding's module, the tokenizer, and the ids that were met.
    """
    found: dict[str, dict[str, Any] | None] = {"source": None, "target": None}
    kept = {id(weight): name for name, weight in model.named_parameters()}
    for home, tokenizer, ids in sides:
        table = model.get_submodule(f"{home}.tokens").get_parameter("weight")
        side = "source" if home == "source_embedding" else "target"
        found[side] = {"array": kept[id(table)], **embedding_map(table, ids, tokenizer)}
    return found
