"""Inspecting models of one text: decoder-only, masked and Markov models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.engines import ModuleEngine
from dragoman.errors import ConfigError
from dragoman.inspection.agreement import serial_logits
from dragoman.inspection.beam_events import watched_search
from dragoman.inspection.explain import search_name, shown_request
from dragoman.inspection.facts import Step
from dragoman.inspection.gaps import explain_filling
from dragoman.inspection.ranking import ranked_by, ranked_hypotheses
from dragoman.inspection.subject import encode
from dragoman.inspector.arrays import OPERANDS, Arrays
from dragoman.inspector.recording import (
    Pass,
    beam_facts,
    embedding_facts,
    model_facts,
    search_facts,
    steps_of,
    text_facts,
)
from dragoman.inspector.summaries import flags_of
from dragoman.inspector.what_if import Changes, changed_model
from dragoman.language import Completer, Filler, load_language_model
from dragoman.markov import MarkovModel
from dragoman.nn import CausalLM, MaskedLM
from dragoman.search.guard import is_finished
from dragoman.search.protocol import NextTokenModel
from dragoman.search.request import changed, changed_options
from dragoman.sequences import SourceBatch, frame_target, pad_rows
from dragoman.sequences.source import NOTHING
from dragoman.stages.stage import Sides


def inspect_text(
    path: Path, text: str, changes: Changes, options: dict[str, Any], *, views: bool, device: str
) -> tuple[dict[str, Any], Arrays]:
    """Return the record of a model of one text, but for what all families have, and its arrays.

    Args:
        path: of the model's directory.
        text: a prompt, or a text with gaps.
        changes: about the model.
        options: of the search, where they differ from the model's own.
        views: whether each step is computed in all three ways.
        device: where the model runs.

    Raises:
        ConfigError: an option does not fit the model.
        DataError: the text is empty, or too long.
    """
    loaded = load_language_model(path, device=device)
    common: dict[str, Any] = {"reference": None, "verdict": None, "text": text}
    common["what_if"] = {"prefix": [], "beside": None, **changes.to_dict()}
    if isinstance(loaded.model, MaskedLM):
        if options:
            raise ConfigError("a masked model fills gaps without a search", hint="leave out beam size and length")
        record, arrays = _filling(Filler(changed_model(loaded.model, changes), loaded.tokenizer), text, changes)
    else:
        model: NextTokenModel
        module = None
        if isinstance(loaded.model, MarkovModel):
            if changes != Changes():
                raise ConfigError("a Markov model has neither heads nor masks", hint="leave the changes out")
            model = loaded.model
        else:
            assert isinstance(loaded.model.model, CausalLM)
            module = changed_model(loaded.model.model, changes)
            model = ModuleEngine(module)
        settings = changed_options(loaded.decoding, {"n_best": 1, "sampling": False, "min_length": 0, **options})
        completer = Completer(model, loaded.tokenizer, settings)
        record, arrays = _completion(completer, module, text, changes, views)
    record["model"]["languages"] = {"source": loaded.languages.source, "target": loaded.languages.target}
    return {**common, **record}, arrays


def _completion(
    completer: Completer, lm: CausalLM | None, text: str, changes: Changes, views: bool
) -> tuple[dict[str, Any], Arrays]:
    """The record of a completion; `lm` is the decoder that makes it, if it is no Markov model."""
    tokenizer, prompt = completer.tokenizer, encode(completer.tokenizer, text)
    model, options = completer.model, completer.decoding
    request = shown_request(completer.request(prompt, options.replace({"n_best": options.beam_size})))
    found, watch = watched_search(model, request)
    one_best = changed(changed(request.options, "n_best", 1), "beam_size", 1)
    [greedy, *_], _ = watched_search(model, request.with_options(one_best))
    written = found[0].tokens
    framed = frame_target(written, tokenizer.specials)
    arrays = Arrays()
    body: dict[str, Any]
    inputs = pad_rows([framed[:-1]], model.device)
    if lm is not None:
        nothing = inputs[:, :0]
        sides = Sides("causal", target=tuple(tokenizer.pieces(framed[:-1])))
        body = Pass(lm, nothing, nothing.bool(), inputs, sides, changes, views).record(arrays)
        logits, facts = serial_logits(lm, nothing, inputs)[0].cpu(), model_facts(lm, "causal")
        facts["engine"], where = "module", "generator"
        body["embeddings"] = embedding_facts(lm, [("embedding", tokenizer, framed)])
    else:
        logits, where = _log_probabilities(model, inputs), "steps.logits"
        arrays.add(where, logits.clamp(min=torch.finfo(torch.float32).min), OPERANDS)
        body = {"graph": {"nodes": []}, "symbols": {}, "views": [], "summaries": {"heads": [], "coverage": []}}
        body["embeddings"] = {"source": None, "target": None}
        facts = {
            "family": "markov", "sizes": {"vocab": logits.shape[1]}, "positions": "other", "norm": "none", "tied": {},
            "parameters": 0, "attentions": [], "engine": getattr(model, "kind", "markov"),
        }  # fmt: skip
    whole = completer.text(text, prompt, written)
    steps = steps_of(tokenizer, logits, framed, first=len(prompt))
    cut = not is_finished(found[0], request.max_length)
    body["summaries"]["flags"] = flags_of([], prompt, written, tokenizer.unk, cut=cut)

    def told(ids: Sequence[int]) -> str:
        return completer.text(text, prompt, ids)

    ranking = ranked_hypotheses(found, None, told, request.options)
    return {
        "model": facts,
        "search": search_facts(request, search_name(options)),
        "source": None,
        "prompt": len(prompt),
        "output": text_facts(tokenizer, whole, framed[1:]),
        "decoder_input": text_facts(tokenizer, whole, framed[:-1]),
        "logits": {"output": where, "decoder_input": where},
        "steps": steps,
        "beam": beam_facts(watch, found, frame_target(greedy.tokens, tokenizer.specials)[1:], tokenizer, told),
        "ranked_by": ranked_by(request.options, 0.0),
        "ranking": [asdict(one) for one in ranking],
        **body,
    }, arrays


@torch.no_grad()
def _log_probabilities(model: NextTokenModel, inputs: Tensor) -> Tensor:
    """Of the next token at each position, `[length, vocab]`."""
    state = model.start(SourceBatch.of([NOTHING], model.device))
    rows = []
    for place in range(inputs.shape[1]):
        values, state = model.step(state, inputs[:, place])
        rows.append(values[0].cpu())
    return torch.stack(rows)


def _filling(filler: Filler, text: str, changes: Changes) -> tuple[dict[str, Any], Arrays]:
    trace = explain_filling(filler, text)
    assert trace.source is not None
    tokenizer, arrays = filler.tokenizer, Arrays()
    source = pad_rows([trace.source.ids], next(filler.model.parameters()).device)
    mask = torch.ones_like(source, dtype=torch.bool)
    sides = Sides("masked", trace.source.pieces)
    body = Pass(filler.model, source, mask, source[:, :0], sides, changes).record(arrays)
    flags = flags_of([], trace.source.ids, trace.output.ids, tokenizer.unk, cut=False)
    body["summaries"]["flags"] = flags | {"looping": False}
    return {
        "model": {**model_facts(filler.model, "masked"), "engine": "module"},
        "search": {"name": trace.search},
        "source": {**text_facts(tokenizer, text, trace.source.ids), "truncated": False, "padding": 0},
        "output": text_facts(tokenizer, trace.output.text, trace.output.ids),
        "decoder_input": None,
        "logits": {"output": "generator", "decoder_input": None},
        "steps": [_filled(step) for step in trace.steps],
        "beam": None,
        "ranked_by": "",
        "ranking": [],
        "notes": list(trace.notes),
        "embeddings": embedding_facts(filler.model, [("embedding", tokenizer, trace.source.ids)]),
        **body,
    }, arrays


def _filled(step: Step) -> dict[str, Any]:
    """A gap that was filled, as a step."""
    logs = torch.tensor([one.probability for one in (step.chosen, *step.top)], dtype=torch.float64).log()
    own, *others = (round(value, 6) if value > float("-inf") else None for value in logs.tolist())
    top = [[one.id, one.piece, value] for one, value in zip(step.top, others, strict=True)]
    assert step.place is not None
    reads = {"piece": step.given[step.place], "id": None}
    return {
        "t": step.number, "place": step.place, "given": list(step.given), "reads": reads,
        "writes": {"piece": step.chosen.piece, "id": step.chosen.id}, "log_probability": own, "rank": step.chosen.rank,
        "entropy": None, "log_sum": None, "top": top, "forced": False, "reference": None,
    }  # fmt: skip
