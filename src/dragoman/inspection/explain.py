"""Explaining one text: a trained model runs on it as always, and everything on the way is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.archive import as_directory
from dragoman.audio.listing import Given
from dragoman.config import SETTINGS_FILE, DecodingConfig, TrainingConfig, make_config, read_toml
from dragoman.engines import ModuleEngine
from dragoman.errors import ConfigError, ModelError
from dragoman.inspection.agreement import parallel_logits, serial_logits
from dragoman.inspection.beam_events import shown_watch, watched_plan, watched_search, with_pieces
from dragoman.inspection.facts import Position, Step
from dragoman.inspection.gaps import explain_filling
from dragoman.inspection.hearing import heard_notes, read_given, readings_of
from dragoman.inspection.neighbours import retrievals
from dragoman.inspection.one_step import step_stages
from dragoman.inspection.ranking import ranked_by, ranked_hypotheses
from dragoman.inspection.subject import (
    MAX_PIECES,
    Subject,
    candidate_of,
    encode,
    framed,
    top_candidates,
)
from dragoman.inspection.trace import Trace
from dragoman.language import Completer, Filler, load_language_model
from dragoman.language.loading import family_of
from dragoman.markov import MarkovModel
from dragoman.memory import KnnModel
from dragoman.nn import MaskedLM
from dragoman.search import SearchRequest
from dragoman.search.joint import ctc_share
from dragoman.search.request import changed_options
from dragoman.sequences import SourceBatch, frame_target, pad_rows
from dragoman.stages.stage import Sides
from dragoman.stages.words import reads_writes, say, speaking
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation import Translator
from dragoman.translation.checks import prefix_ids

_WITH_DATASTORE = (
    "The output was searched for with the model's datastore. The stages show the model alone, the steps both."
)
_BOTH_DIRECTIONS = "The beam was ranked by both directions; stages and steps are those of the left-to-right one."
_IN_CIRCLES = "The search went in circles: shown is what a second one found, which repeats no tokens (`loop_guard`)."


def explain(
    model: Translator | str | Path,
    text: Given,
    target: str | None = None,
    *,
    beam_size: int = 1,
    max_length: int | None = None,
    step: int | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    lang: str = "en",
    device: str = "auto",
) -> Trace:
    """Explain a text, or a sound: return everything that happens to it on its way through a trained model.

    An encoder-decoder translates the text, or writes down what is said; a decoder-only model continues it; a masked
    model fills its `<mask>`.

    Args:
        model: a run or model directory, a packed model, or a translator of one model.
        text: what to explain; of a model that listens a sound: its path, the line of a list, a recording, a waveform.
        target: for an encoder-decoder, a text in the target language: the stages of the decoder and the training view
            are then those of this text, all positions at once, beside the same text fed one piece at a time.
        beam_size: of the search for the output; 1 is greedy.
        max_length: pieces of the output at most; the model's own rule if None, but 256 at the most.
        step: the stages are those of this decoding step alone, from 1, with its one query and its cache.
        source_language: of a model for many languages, another than that of its import.
        target_language: likewise.
        lang: the language in which it is told, "en" or "zh".
        device: where a directory's model runs.

    Raises:
        ConfigError: an option does not fit the model, or it has no such language.
        DataError: the text is empty or longer than 256 pieces, the sound longer than 256 positions (10.24 s), or it
            cannot be read.
        ModelError: there is no model, it is damaged, or it is of a kind that has no such stages.
    """
    changes: dict[str, Any] = {"beam_size": beam_size, "n_best": 1, "sampling": False, "min_length": 0}
    if max_length is not None:
        if max_length > MAX_PIECES:
            expected = f"a max_length of {MAX_PIECES} or less"
            raise ConfigError("an output of this length cannot be explained", expected=expected, found=max_length)
        changes["max_length"] = max_length
    with speaking(lang):
        asked = _Asked(changes, step, (source_language, target_language))
        return _explained(model, text, target, asked, device)


@dataclass(frozen=True)
class _Asked:
    """What the options of the search and the languages are to be, and the step that is to be shown alone."""

    changes: dict[str, Any]
    step: int | None
    languages: tuple[str | None, str | None]


def _explained(model: Translator | str | Path, text: Given, target: str | None, asked: _Asked, device: str) -> Trace:
    if isinstance(model, Translator):
        return _translation(model.with_languages(*asked.languages), text, target, asked)
    path = as_directory(Path(model))
    family = family_of(path)
    if family not in ("transformer", "causal", "masked"):
        hint = "see what it finds likely with `dragoman complete`"
        raise ModelError("a Markov model has no such stages", file=path, hint=hint)
    if family != "transformer" and any(asked.languages):
        raise ConfigError("only an encoder-decoder is for several languages", found=f"a {family} model")
    if family == "transformer":
        opened = Translator.from_pretrained(path, device=device, engine="module")
        trace = _translation(opened.with_languages(*asked.languages), text, target, asked)
    elif not isinstance(text, str):
        raise ConfigError("the model reads texts, and does not listen to sounds", found=str(text))
    elif target is not None:
        raise ConfigError("only an encoder-decoder has a target", found=f"a {family} model", hint="leave it out")
    else:
        trace = _language_model(path, text, asked, device)
    schedule, notes = _schedule(path)
    return replace(trace, schedule=schedule, notes=(*trace.notes, *notes))


def _schedule(directory: Path) -> tuple[TrainingConfig | None, tuple[str, ...]]:
    """How the run was trained, if the directory is a run's; or a note why that is not known."""
    file = directory / SETTINGS_FILE
    if not file.exists():
        return None, ()
    try:
        return make_config(read_toml(file)).training, ()
    except ConfigError as error:
        reason = " ".join(str(error).split())
        sentence = "how it was trained is not known, and pictures of it will be the paper's: {reason}"
        return None, (say(sentence).format(reason=reason),)


def _language_model(path: Path, text: str, asked: _Asked, device: str) -> Trace:
    loaded = load_language_model(path, device=device)
    if isinstance(loaded.model, MaskedLM):
        if asked.changes["beam_size"] != 1 or "max_length" in asked.changes or asked.step is not None:
            hint = "leave out beam size, length and step"
            raise ConfigError("a masked model fills gaps without a search", hint=hint)
        return explain_filling(Filler(loaded.model, loaded.tokenizer), text)
    assert not isinstance(loaded.model, MarkovModel)
    options = changed_options(loaded.decoding, asked.changes)
    return _completion(Completer.of(loaded, path), loaded.model, options, text, asked.step)


def _translation(translator: Translator, text: Given, target: str | None, asked: _Asked) -> Trace:
    if len(translator.transformers) > 1:
        raise ConfigError("an ensemble is not explained", expected="one model", found=len(translator.transformers))
    model, tokenizers, options = translator.transformers[0], translator.tokenizers, translator.options(asked.changes)
    read = read_given(tokenizers, text)
    read_source = read.source
    sources = SourceBatch.of([read_source], translator.device)
    plan = translator.plan(options).with_all_finished()
    request = shown_request(plan.request(read_source, prefix_ids(tokenizers.target, "")))
    [found], [again] = plan.run([request])
    written = found[0].tokens
    output = framed(tokenizers.target, tokenizers.target.decode(written), frame_target(written)[1:])
    shown = list(written) if target is None else encode(tokenizers.target, target)

    given = framed(tokenizers.target, output.text if target is None else target, frame_target(shown)[:-1])
    inputs = pad_rows([given.ids], translator.device)
    writes = tuple(tokenizers.target.pieces(frame_target(shown)[1:]))
    sides = Sides("transformer", read.pieces, given.pieces, tokenizers.target.pieces, writes, read.others)
    subject = Subject(model, sources.ids, inputs, sides, read.name, read.heard)
    own = serial_logits(model, sources.ids, pad_rows([frame_target(written)[:-1]], translator.device))[0].cpu()
    steps, notes = _steps(tokenizers.target, own, written), ()
    searched = translator.backend.torch.next_token_model(options)
    if isinstance(searched, KnnModel) and searched.weight > 0:
        found_near = retrievals(searched, sources, own.to(sources.device), written, tokenizers.target)
        steps = [replace(step, retrieval=one) for step, one in zip(steps, found_near, strict=True)]
        notes = (say(_WITH_DATASTORE),)
    notes += (say(_BOTH_DIRECTIONS),) if plan.right_to_left_share else ()
    notes += (say(_IN_CIRCLES),) if again else ()
    notes += heard_notes(read, ctc_share(options, model.ctc is not None))
    trace = subject.trace(read.text, given, output, search=search_name(options), steps=steps, notes=notes)
    trace = replace(trace, readings=readings_of(trace.stages, tokenizers, model.pad))
    if options.beam_size > 1:
        seen, watches = watched_plan(plan, request)
        watch = shown_watch(seen, watches)
        # Another engine may part ways with it where two candidates are as good.
        beam = watch.events if seen[0].tokens == written else ()
        trace = replace(trace, beam=with_pieces(beam, tokenizers.target))
    wanted = None if target is None else plan.known([read_source], [shown])[0]
    ranking = ranked_hypotheses(found, wanted, tokenizers.target.decode, options)
    trace = replace(trace, ranking=ranking, ranked_by=ranked_by(options, plan.right_to_left_share))
    if asked.step is not None:
        return _of_step(trace, subject, asked.step)
    if target is None:
        return trace
    logits = [views(model, sources.ids, inputs)[0].cpu() for views in (parallel_logits, serial_logits)]
    return replace(trace, training=_positions(tokenizers.target, logits[0], logits[1], frame_target(shown)))


def _of_step(trace: Trace, subject: Subject, number: int) -> Trace:
    """The trace of one step: its stages alone."""
    stages = step_stages(subject.model, subject.source, subject.inputs, subject.sides, number)
    row = reads_writes(subject.sides.target[number - 1], subject.sides.writes[number - 1])
    told = (
        "Step {number}, {row}: one query. "
        "Of the {number} keys and values of self-attention, {before} come from the cache."
    )
    note = say(told).format(number=number, row=row, before=number - 1)
    if subject.sides.source:
        memory = say("Those of cross-attention come from the memory, the same at each step.")
        note += f"{'' if note.endswith('。') else ' '}{memory}"
    return replace(trace, stages=tuple(stages), parts=(), notes=(*trace.notes, note))


def _completion(
    completer: Completer, engine: ModuleEngine, options: DecodingConfig, text: str, step: int | None
) -> Trace:
    tokenizer = completer.tokenizer
    prompt = encode(tokenizer, text)
    nothing = torch.empty(1, 0, dtype=torch.long, device=engine.device)
    all_of = options.replace({"n_best": options.beam_size})
    found, watch = watched_search(engine, shown_request(completer.request(prompt, all_of)))
    written = found[0].tokens
    output = framed(tokenizer, completer.text(text, prompt, written), frame_target(written)[1:])
    given = framed(tokenizer, output.text, frame_target(written)[:-1])
    inputs = pad_rows([given.ids], engine.device)
    assert not isinstance(engine.model, MaskedLM)
    steps = _steps(tokenizer, serial_logits(engine.model, nothing, inputs)[0].cpu(), written, first=len(prompt))
    writes = tuple(tokenizer.pieces(frame_target(written)[1:]))
    sides = Sides("causal", target=given.pieces, entries=tokenizer.pieces, writes=writes)
    subject = Subject(engine.model, nothing, inputs, sides, text)
    trace = subject.trace(None, given, output, search=search_name(options), steps=steps)
    ranking = ranked_hypotheses(found, None, lambda one: completer.text(text, prompt, one), options)
    beam = with_pieces(watch.events, tokenizer) if options.beam_size > 1 else ()
    trace = replace(trace, beam=beam, ranking=ranking, ranked_by=ranked_by(options, 0.0))
    return trace if step is None else _of_step(trace, subject, step)


def shown_request(request: SearchRequest) -> SearchRequest:
    """Return the request for an output that can be shown, whatever length the model's own rule allows."""
    if request.max_length <= MAX_PIECES:
        return request
    return replace(request, options=request.options.replace({"max_length": MAX_PIECES}), limit=None)


def search_name(options: DecodingConfig) -> str:
    """Return in words how these options search."""
    if options.beam_size == 1:
        return say("greedy search")
    formula, alpha = options.length_penalty_formula, f"{options.length_penalty:g}"
    reward, penalty = "length reward {alpha}", "{formula} length penalty {alpha}"
    ranking = (
        say(reward).format(alpha=alpha) if formula == "reward" else say(penalty).format(formula=formula, alpha=alpha)
    )
    return say("beam search, {size} hypotheses, {ranking}").format(size=options.beam_size, ranking=ranking)


def _steps(
    tokenizer: Tokenizer, logits: Float[Tensor, "steps vocab"], written: Sequence[int], first: int = 0
) -> list[Step]:
    """What was predicted at each step but the first few, which were given."""
    framed_ids = frame_target(written, tokenizer.specials)
    given = tokenizer.pieces(framed_ids[:-1])
    return [
        Step(
            number=place + 1 - first,
            given=tuple(given[: place + 1]),
            top=top_candidates(tokenizer, logits[place]),
            chosen=candidate_of(tokenizer, logits[place], token),
        )
        for place, token in enumerate(framed_ids[1:])
        if place >= first
    ]


def _positions(
    tokenizer: Tokenizer,
    parallel: Float[Tensor, "labels vocab"],
    serial: Float[Tensor, "labels vocab"],
    framed_ids: Sequence[int],
) -> tuple[Position, ...]:
    """The training view of a framed target: `given` and `label` are it without its last and without its first."""
    pieces = tokenizer.pieces(framed_ids)
    found = []
    for place, label in enumerate(framed_ids[1:]):
        right = candidate_of(tokenizer, parallel[place], label)
        other = candidate_of(tokenizer, serial[place], label)
        [likeliest] = top_candidates(tokenizer, parallel[place], 1)
        found.append(Position(pieces[place], right.piece, right.probability, other.probability, right.rank, likeliest))
    return tuple(found)
