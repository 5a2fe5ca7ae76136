"""Inspecting one text: what `explain` tells, and more, as a record for a page or a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.archive import as_directory
from dragoman.audio.listing import Given
from dragoman.config import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.inspection.agreement import serial_logits
from dragoman.inspection.beam_events import shown_watch, watched_plan, watched_search
from dragoman.inspection.explain import search_name, shown_request
from dragoman.inspection.hearing import Read, heard_notes, read_given, readings_of
from dragoman.inspection.neighbours import retrievals
from dragoman.inspection.ranking import ranked_by, ranked_hypotheses, verdict_of
from dragoman.inspection.subject import MAX_PIECES, check_length, encode
from dragoman.inspector.arrays import OPERANDS, Arrays
from dragoman.inspector.comparing import compared, name_of
from dragoman.inspector.inspecting_texts import inspect_text
from dragoman.inspector.presets import preset_questions
from dragoman.inspector.question import Question, other_of
from dragoman.inspector.record import FORMAT, Inspection
from dragoman.inspector.recording import (
    Pass,
    beam_facts,
    candidate,
    embedding_facts,
    model_facts,
    search_facts,
    steps_of,
    text_facts,
)
from dragoman.inspector.sounds import sound_facts, source_facts, twice_of
from dragoman.inspector.summaries import flags_of
from dragoman.inspector.what_if import Changes, changed_model
from dragoman.language.loading import family_of
from dragoman.memory.knn import KnnModel
from dragoman.models.description import read_config
from dragoman.search.guard import is_finished
from dragoman.search.hypothesis import Hypothesis
from dragoman.search.joint import ctc_share
from dragoman.search.request import SearchRequest, changed
from dragoman.sequences import SourceBatch, frame_target, pad_rows
from dragoman.stages.stage import Sides
from dragoman.text.tokenizer import SPECIALS
from dragoman.translation import Translator
from dragoman.translation.checks import prefix_ids
from dragoman.translation.plan import SearchPlan

_NO_PADDING = "The text in the same batch is no longer than this one, so that there is no padding."


def inspect(
    model: Translator | str | Path,
    text: Given,
    target: str | Sequence[int] | None = None,
    *,
    beam_size: int | None = None,
    length_penalty: float | None = None, length_penalty_formula: str | None = None,
    max_length: int | None = None,
    prefix: str | Sequence[int] = "",
    heads_off: Sequence[tuple[str, int]] = (),
    causal_mask: bool = True, padding_mask: bool = True,
    beside: Given | None = None,
    convention: str | None = None,
    precision: str = "float32",
    against: Translator | str | Path | None = None,
    views: bool = True, presets: bool = False,
    source_language: str | None = None, target_language: str | None = None,
    device: str = "auto",
) -> Inspection:  # fmt: skip
    """Return what happens to a text on its way through a trained model, as a record with arrays; all families have one.

    Args:
        model: a run or model directory, a packed model, or a translator of one model.
        text: what is translated, continued, or filled at its `<mask>`; of a model that listens a sound (see `explain`).
        target: for an encoder-decoder, a text in the target language, or its ids: the stages of the decoder are then
            those of this text, and it is told why it was not written.
        beam_size: 1 is greedy; the model's own if None.
        length_penalty: as for `Translator.translate`, like the next.
        length_penalty_formula: "gnmt", "power" or "reward".
        max_length: pieces of the output at most, and 256 at most; the model's own rule if None.
        prefix: what the output must begin with, as a text or as ids of the target's vocabulary.
        heads_off: heads that are switched off: path of the attention (`encoder.layers.0.self_attention`) and number.
        causal_mask: False lets decoder positions see later ones, in the pass over all positions.
        padding_mask: False lets everybody see padding, of which there is some with `beside`.
        beside: a longer text, or sound, that stands in the same batch.
        convention: a system whose conventions the same weights follow: annotated, jadore, lsdefine, d2l or marian.
        precision: of the linear maps: float32, or int8 as the engines compute it.
        against: what to set beside it (`record["against"]`): another model, or the same one as `greedy`, in `int8`, or
            by a system's conventions.
        views: whether each step is computed in three ways: with a cache, as a prefix, and as a row of all positions.
        presets: whether a page of it offers some changes, each traced too.
        source_language: of a model for many languages, another than that of its import.
        target_language: likewise.
        device: where a directory's model runs.

    Raises:
        ConfigError: an option does not fit the model, or it has no such language.
        DataError: the text is empty or longer than 256 pieces; the sound longer than 10.24 s, or it cannot be read.
        ModelError: there is no model, or it is damaged.
    """
    _check_length(max_length)
    options = _given(beam_size=beam_size, length_penalty=length_penalty, length_penalty_formula=length_penalty_formula,
                     max_length=max_length)  # fmt: skip
    off = tuple((name, int(head)) for name, head in heads_off)
    question = Question(text, _ids(target), _ids(prefix), beside,
                        Changes(off, causal_mask, padding_mask, convention, precision), options, views)  # fmt: skip
    model = _speaking(opened(model, device), source_language, target_language)
    found = _inspected(model, question, device)
    found = found if against is None else _beside(found, model, question, against, device)
    return _with_presets(found, model, question, device) if presets and isinstance(model, Translator) else found


def opened(model: Translator | str | Path, device: str) -> Translator | Path:
    """Return an encoder-decoder opened so that one can look into it, and the directory of a model of another family.

    Args:
        model: a run or model directory, a packed model, or a translator.
        device: where a directory's model runs.

    Raises:
        ModelError: there is no model, or it is damaged.
    """
    if isinstance(model, Translator):
        return model
    path = as_directory(Path(model))
    if family_of(path) != "transformer":
        return path
    return Translator.from_pretrained(path, device=device, engine="module")


def _speaking(model: Translator | Path, source: str | None, target: str | None) -> Translator | Path:
    if isinstance(model, Translator):
        return model.with_languages(source, target)
    if source is not None or target is not None:
        raise ConfigError("only an encoder-decoder is for several languages", found=f"a {family_of(model)} model")
    return model


def _beside(
    found: Inspection, model: Translator | Path, question: Question, against: Translator | str | Path, device: str
) -> Inspection:
    """The record with what it is set beside."""
    other, asked = other_of(model, question, against)
    other = opened(other, device)
    listens = [isinstance(one, Translator) and one.tokenizers.sound is not None for one in (model, other)]
    if listens[0] != listens[1]:
        raise ConfigError("a model that reads and one that listens have nothing in common to be compared")

    def ask(target: tuple[int, ...] | None) -> Inspection:
        return _inspected(other, replace(asked, target=target, views=False), device)

    return replace(found, record={**found.record, "against": compared(found, ask, name_of(against))})


def _with_presets(found: Inspection, model: Translator, question: Question, device: str) -> Inspection:
    asked = preset_questions(question, found, twice_of(model.tokenizers, question.text))
    return replace(found, presets={name: _inspected(model, one, device) for name, one in asked})


def _inspected(model: Translator | Path, question: Question, device: str) -> Inspection:
    if isinstance(model, Translator):
        path = None if model.opened is None else model.opened.directories[0]
        return _finished(*_Translation.of(model, question).record(), path)
    if others := [name for name in ("target", "beside", "prefix") if getattr(question, name)]:
        raise ConfigError(f"only an encoder-decoder has `{others[0]}`", found=f"a {family_of(model)} model")
    if not isinstance(question.text, str):
        raise ConfigError("the model reads texts, and does not listen to sounds", found=str(question.text))
    made = inspect_text(
        model, question.text, question.changes, dict(question.options), views=question.views, device=device
    )
    return _finished(*made, model)


def _ids(given: str | Sequence[int] | None) -> Any:
    """A text as it is, ids as a tuple."""
    return given if given is None or isinstance(given, str) else tuple(given)


def _given(**options: int | float | str | None) -> tuple[tuple[str, int | float | str], ...]:
    return tuple((name, value) for name, value in options.items() if value is not None)


def _check_length(length: int | None) -> None:
    if length is not None and length > MAX_PIECES:
        expected = f"a max_length of {MAX_PIECES} or less"
        raise ConfigError("an output of this length cannot be explained", expected=expected, found=length)


def _finished(record: dict[str, Any], arrays: Arrays, path: Path | None) -> Inspection:
    """The record with what does not depend on the family."""
    model = record["model"]
    config = {} if path is None or model["family"] == "markov" else read_config(path)[0].to_dict()
    record["model"] = {"name": path.name if path else "", **model, "config": config}
    common = {
        "format": FORMAT,
        "dragoman": version("dragoman"),
        "prompt": 0,
        "notes": [],
        "against": None,
        "sound": None,
    }
    record = {**common, **record, "arrays": arrays.table()}
    return Inspection(record, arrays.values)


@dataclass(frozen=True)
class _Translation:
    """A translator of a model that may have been changed, and what is asked of it."""

    translator: Translator
    question: Question
    options: DecodingConfig
    read: Read
    request: SearchRequest
    mates: tuple[Read, ...]

    @classmethod
    def of(cls, translator: Translator, question: Question) -> _Translation:
        """Return what is asked of a translator, checked, with the search for it."""
        if len(translator.transformers) > 1:
            raise ConfigError("an ensemble is not explained", expected="one model", found=len(translator.transformers))
        twin = Translator(
            [changed_model(translator.transformers[0], question.changes)], translator.tokenizers, translator.decoding,
            translator.languages, engine="module", datastores=translator.backend.torch.datastores,
            right_to_left=translator.right_to_left,
        )  # fmt: skip
        changes = {"n_best": 1, "sampling": False, "min_length": 0, **dict(question.options)}
        options = twin.options(changes)
        read = read_given(twin.tokenizers, question.text)
        if read.heard is not None and question.changes.convention is not None:
            hint = "leave it out: those systems do not read sounds"
            raise ConfigError("a convention is one of systems that read texts", hint=hint)
        mates = () if question.beside is None else (read_given(twin.tokenizers, question.beside),)
        prefix = question.prefix
        if isinstance(prefix, str):
            own = twin.tokenizers.target
            prefix = tuple(encode(own, prefix) if prefix else prefix_ids(own, ""))
        if not all(0 <= token < len(twin.tokenizers.target) for token in prefix):
            raise ConfigError("a prefix has an id that is not in the vocabulary", found=str(prefix))
        plan = twin.plan(options).with_all_finished()
        request = shown_request(plan.request(read.source, prefix))
        return cls(twin, question, request.options, read, request, mates)

    @property
    def plan(self) -> SearchPlan:
        """Without the search for different texts: all that one beam finishes is shown."""
        return replace(self.translator.plan(self.options).with_all_finished(), decode=None)

    @property
    def _target(self) -> str:
        """The target that was given, as a text."""
        target = self.question.target
        return target if isinstance(target, str) else self.translator.tokenizers.target.decode(target or ())

    def _forced(self) -> list[int] | None:
        """The ids of the target that was given."""
        target, tokenizer = self.question.target, self.translator.tokenizers.target
        if target is None or isinstance(target, str):
            return None if target is None else encode(tokenizer, target)
        check_length(target)
        if not all(0 <= token < len(tokenizer) for token in target):
            raise ConfigError("a target has an id that is not in the vocabulary", found=str(target))
        return list(target)

    def record(self) -> tuple[dict[str, Any], Arrays]:
        """Return the record of an encoder-decoder, and its arrays."""
        tokenizer, model = self.translator.tokenizers.target, self.translator.transformers[0]
        mates = tuple(shown_request(self.plan.request(mate.source)) for mate in self.mates)
        found, watches = watched_plan(self.plan, self.request, mates)
        watch = shown_watch(found, watches)
        written, both = found[0].tokens, [self.read, *self.mates]
        batch = SourceBatch.of([one.source for one in both], self.translator.device)
        ids, mask = batch.ids[:1], batch.mask[:1]
        forced = self._forced()
        shown = frame_target(written if forced is None else forced)
        inputs = pad_rows([shown[:-1]], self.translator.device)
        padding = (SPECIALS[0],) * (max(len(one.pieces) for one in both) - len(self.read.pieces))
        sides = Sides(
            "transformer", (*self.read.pieces, *padding), tuple(tokenizer.pieces(shown[:-1])), others=self.read.others
        )
        arrays, heard = Arrays(), self.read.heard
        one = Pass(model, ids, mask, inputs, sides, self.question.changes, self.question.views, heard)
        body = one.record(arrays)
        given = serial_logits(model, ids, pad_rows([frame_target(written)[:-1]], ids.device), mask)[0].cpu()
        if forced is not None:
            arrays.add("steps.logits", given, OPERANDS)
        steps = steps_of(tokenizer, given, frame_target(written), forced=len(self.request.prefix))
        self._retrieve(steps, given, written)
        cut = not is_finished(found[0], self.request.max_length)
        # Most of a sound says nothing new: that nobody looks at it is nothing odd.
        coverage = body["summaries"]["coverage"] if forced is None and heard is None else []
        flags = flags_of(coverage, self.read.text.ids, written, tokenizer.unk, cut=cut)
        body["summaries"]["flags"] = flags
        record = {
            **self._asked(one, len(padding)),
            "output": text_facts(tokenizer, tokenizer.decode(written), frame_target(written)[1:]),
            "decoder_input": text_facts(tokenizer, self._target if forced else tokenizer.decode(written), shown[:-1]),
            "logits": {"output": "generator" if forced is None else "steps.logits", "decoder_input": "generator"},
            "steps": steps,
            "beam": beam_facts(watch, found, self._greedy(mates), tokenizer, tokenizer.decode),
            "embeddings": embedding_facts(model, (
                *([] if heard else [("source_embedding", self.translator.tokenizers.source, self.read.text.ids)]),
                ("target_embedding", tokenizer, [*shown, *written]),
            )),
            **self._judged(found, forced, given, steps, one),
            **body,
        }  # fmt: skip
        return record, arrays

    def _asked(self, one: Pass, padding: int) -> dict[str, Any]:
        """What was read, and what is asked of which model."""
        model, own = self.translator.transformers[0], self.translator.tokenizers
        share = ctc_share(self.options, model.ctc is not None)
        return {
            "model": {
                **model_facts(model, "transformer"), "engine": "module",
                "languages": {"source": self.translator.languages.source, "target": self.translator.languages.target},
            },
            "text": self.read.name,
            "sound": sound_facts(self.read, readings_of(one.read_off, own, model.pad), share),
            "search": search_facts(self.request, search_name(self.options), self.plan.right_to_left_share),
            "what_if": {
                "prefix": list(self.request.prefix), "beside": self.mates[0].name if self.mates else None,
                **self.question.changes.to_dict(),
            },
            "source": {**source_facts(own.source, self.read), "truncated": False, "padding": padding},
            "notes": [*heard_notes(self.read, share), *([_NO_PADDING] if self.mates and not padding else [])],
        }  # fmt: skip

    def _greedy(self, mates: Sequence[SearchRequest]) -> list[int]:
        """What greedy search would write."""
        options = changed(changed(self.options, "n_best", 1), "beam_size", 1)
        model = self.translator.backend.torch.next_token_model(options)
        found, _ = watched_search(
            model, self.request.with_options(options), [mate.with_options(options) for mate in mates]
        )
        return frame_target(found[0].tokens)[1:]

    def _retrieve(self, steps: list[dict[str, Any]], logits: Tensor, written: Sequence[int]) -> None:
        """What a datastore adds to each step."""
        searched = self.translator.backend.torch.next_token_model(self.options)
        if not isinstance(searched, KnnModel) or searched.weight == 0:
            return
        sources = SourceBatch.of([self.read.source], self.translator.device)
        found = retrievals(searched, sources, logits.to(sources.device), written, self.translator.tokenizers.target)
        for step, one in zip(steps, found, strict=True):
            step["retrieval"] = {
                "weight": one.weight, "together": one.together,
                "neighbours": [vars(neighbour) for neighbour in one.neighbours],
            }  # fmt: skip

    def _judged(
        self,
        found: Sequence[Hypothesis],
        forced: list[int] | None,
        given: Tensor,
        steps: list[dict[str, Any]],
        one: Pass,
    ) -> dict[str, Any]:
        """The ranking, and what a known target is in it."""
        tokenizer, share = self.translator.tokenizers.target, self.plan.right_to_left_share
        wanted = None if forced is None else self.plan.known([self.read.source], [forced])[0]
        ranking = ranked_hypotheses(found, wanted, tokenizer.decode, self.options)
        by = {"ranked_by": ranked_by(self.options, share), "ranking": [asdict(one) for one in ranking]}
        if forced is None:
            return {**by, "reference": None, "verdict": None}
        framed = frame_target(forced)
        logits = serial_logits(self.translator.transformers[0], one.source, one.inputs, one.mask)[0].cpu()
        told = steps_of(tokenizer, logits, framed)
        for step, row, token in zip(steps, given, framed[1:], strict=False):
            [piece] = tokenizer.pieces([token])
            step["reference"] = {"id": token, "piece": piece, **candidate(row.double(), token)}
            if token != step["writes"]["id"]:
                break  # from here on the prefixes differ
        kind, sentence = verdict_of(ranking, greedy=self.options.beam_size == 1)
        text = text_facts(tokenizer, self._target, framed[1:])
        return {**by, "reference": {**text, "steps": told}, "verdict": {"kind": kind, "text": sentence}}
