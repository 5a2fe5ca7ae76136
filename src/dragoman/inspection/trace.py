"""The trace of one text through a model: stages, steps, the training view, and what was checked."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from jaxtyping import Float, Shaped
from torch import Tensor

from dragoman.config import TrainingConfig
from dragoman.errors import ConfigError
from dragoman.inspection.beam_events import Event
from dragoman.inspection.facts import Check, Position, RankedHypothesis, Reading, Sound, Step, Text
from dragoman.shown import html_table, short
from dragoman.stages.stage import Stage
from dragoman.stages.words import speaking

if TYPE_CHECKING:
    from dragoman.inspection.working import Working

# What `select` takes besides the names of stages.
PARTS = ("text", "steps", "ranking", "training", "checks")


@dataclass(frozen=True)
class Trace:
    """Everything one text met on its way through a model.

    Attributes:
        family: "transformer", "causal" or "masked".
        sizes: of the model: `d_model`, `num_heads`, `d_k` and so on.
        parameters: how many numbers it learned.
        text: what was given.
        source: the text as it goes into the encoder; None where there is none.
        target: what the stages of the decoder were given, shifted right: the output, or the target asked for.
        output: what the model writes.
        search: how it was searched for.
        stages: in the order of computation.
        steps: what the model was given and predicted, one piece at a time.
        beam: every candidate of a beam search, step by step; empty for other searches.
        ranking: what the search finished, best first, and a given target among it; empty where nothing was ranked.
        ranked_by: the formula of its scores.
        training: the positions of the training view, if a target was given.
        checks: proofs that what is shown is what the model computes.
        schedule: the run's training settings, if known.
        positions: the first rows of the position table.
        notes: what the reader should know, such as a text without gaps.
        parts: which of `text`, `steps`, `ranking`, `training` and `checks` are selected.
        weights: all parameters by their names, for `work_out` and `weights`; in no JSON unless asked for.
        lang: the language it is told in.
        worked: numbers that are worked out.
        chosen: weights that are shown.
        sound: of a sound, how long it is in every unit; None of a text.
        readings: what a head for CTC finds likeliest in the sound, stretch by stretch.
    """

    family: str
    sizes: dict[str, int]
    parameters: int
    text: str
    source: Text | None
    target: Text | None
    output: Text
    search: str
    stages: tuple[Stage, ...]
    steps: tuple[Step, ...] = ()
    beam: tuple[Event, ...] = ()
    ranking: tuple[RankedHypothesis, ...] = ()
    ranked_by: str = ""
    training: tuple[Position, ...] = ()
    checks: tuple[Check, ...] = ()
    schedule: TrainingConfig | None = None
    positions: Float[Tensor, "positions d_model"] | None = None
    notes: tuple[str, ...] = ()
    parts: tuple[str, ...] = field(default=PARTS)
    weights: Mapping[str, Shaped[Tensor, "..."]] = field(default_factory=dict, repr=False)
    lang: str = "en"
    worked: tuple[Working, ...] = ()
    chosen: Mapping[str, Shaped[Tensor, "..."]] = field(default_factory=dict, repr=False)
    sound: Sound | None = None
    readings: tuple[Reading, ...] = ()

    def __repr__(self) -> str:
        what = f"{self.family}, {len(self.stages)} stages, {len(self.steps)} steps"
        return f"{type(self).__name__}({short(self.text)} -> {short(self.output.text)}: {what})"

    def _repr_html_(self) -> str:
        """For notebooks: what the model was given and predicted, step by step."""
        rows = [
            (one.number, " ".join(one.given[-8:]), one.chosen.piece, f"{one.chosen.probability:.3f}")
            for one in self.steps
        ]
        title = f"{self.text} → {self.output.text} ({self.family}, {len(self.stages)} stages)"
        return html_table(rows, ("step", "given", "chosen", "probability"), title)

    @property
    def stage_names(self) -> tuple[str, ...]:
        """The names of all stages, in order."""
        return tuple(stage.name for stage in self.stages)

    def stage(self, name: str) -> Stage:
        """Return the stage of this name.

        Raises:
            ConfigError: there is none.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise self._unknown(name)

    def select(
        self,
        *names: str,
        layer: int | None = None,
        head: int | None = None,
        work_out: Sequence[str] = (),
        weights: Sequence[str] = (),
    ) -> Trace:
        """Return the trace with some of its stages only.

        Args:
            names: of stages; or what the dotted names begin with (`encoder.layers.0`), or patterns (`*.weights`); or
                `text`, `steps`, `ranking`, `training`, `checks`. All if there is none.
            layer: only stages of the layers with this number, from 0, of encoder and decoder.
            head: only stages that have heads, and of these only this head, from 0.
            work_out: places that are worked out besides, as `Trace.work_out` takes them.
            weights: names of learned matrices that are shown besides, what they begin with, or patterns.

        Raises:
            ConfigError: there is no such stage, layer or head.
        """
        more: dict[str, Any] = {}
        if work_out or weights:
            from dragoman.inspection.weights import chosen_weights

            more["worked"] = tuple(self.work_out(place) for place in work_out)
            more["chosen"] = chosen_weights(self.weights, tuple(weights))
        if not names and layer is None and head is None:
            return replace(self, stages=(), parts=(), **more) if more else self
        stages, parts = list(self.stages), ()
        if names:
            wanted = {name: self._found(name) for name in names}
            stages = [stage for stage in stages if any(stage.name in found for found in wanted.values())]
            parts = tuple(part for part in PARTS if part in names)
        if layer is not None:
            layers = sorted({stage.layer for stage in self.stages if stage.layer is not None})
            _check_number("layer", layer, len(layers))
            stages = [stage for stage in stages if stage.layer == layer]
        if head is not None:
            _check_number("head", head, self.sizes.get("num_heads", 0))
            stages = [stage.of_head(head) for stage in stages if "heads" in stage.dims or stage.name.endswith(".mask")]
        if not stages and (not parts or layer is not None or head is not None):
            chosen = f"layer {layer}" if head is None else f"head {head}" if layer is None else "this layer and head"
            raise ConfigError(f"{', '.join(names)} has no part in {chosen}", hint="leave out one of the choices")
        return replace(self, stages=tuple(stages), parts=parts, **more)

    def _found(self, name: str) -> set[str]:
        if name in PARTS:
            if name == "training" and not self.training:
                raise ConfigError("there is no training view", hint="give a target (--target TEXT)")
            if name == "ranking" and not self.ranking:
                hint = "search with a beam (--beam-size 4), or give a target (--target TEXT)"
                raise ConfigError("there was nothing to rank", expected="two outputs or more", found="one", hint=hint)
            return set()
        known = self.stage_names
        found = {one for one in known if one == name or one.startswith(f"{name}.") or fnmatchcase(one, name)}
        if not found and name[-1:].isalpha():  # `cross` begins `cross_attention`; `layers.1` does not begin `layers.10`
            found = {one for one in known if one.startswith(name)}
        if not found:
            raise self._unknown(name)
        return found

    def _unknown(self, name: str) -> ConfigError:
        known = self.stage_names
        begins = [".".join(one.split(".")[:count]) for one in known for count in range(1, one.count(".") + 2)]
        near = difflib.get_close_matches(name, dict.fromkeys([*begins, *PARTS]), n=1)
        return ConfigError(
            f"there is no stage {name!r}",
            expected="one of these, what they begin with, or a pattern such as '*.weights':\n    "
            + "\n    ".join(_abridged(known) + list(PARTS)),
            hint=f"did you mean {near[0]!r}?" if near else None,
        )

    def to_dict(self, *, numbers: bool = True) -> dict[str, Any]:
        """Return everything that is selected as plain values, for JSON.

        Args:
            numbers: whether the values of the stages are among them.
        """
        tree: dict[str, Any] = {"format": 1, "family": self.family, "parameters": self.parameters}
        tree |= {"sizes": dict(self.sizes), "text": self.text}
        if "text" in self.parts:
            texts = {"source": self.source, "target": self.target, "output": self.output}
            tree |= {name: asdict(text) for name, text in texts.items() if text is not None}
            tree |= {} if self.sound is None else {"sound": asdict(self.sound)}
            tree |= {"ctc": [asdict(one) for one in self.readings]} if self.readings else {}
        tree["stages"] = [stage.to_dict(numbers=numbers) for stage in self.stages]
        if "steps" in self.parts:
            tree |= {"search": self.search, "steps": [asdict(step) for step in self.steps]}
            tree |= {"beam": [{"id": one.id, **asdict(one)} for one in self.beam]} if self.beam else {}
        if "ranking" in self.parts and self.ranking:
            tree["ranking"] = {"by": self.ranked_by, "outputs": [asdict(one) for one in self.ranking]}
        if "training" in self.parts and self.training:
            tree["training"] = [asdict(position) for position in self.training]
        if "checks" in self.parts:
            tree["checks"] = [asdict(check) for check in self.checks]
        if self.worked:
            tree["worked"] = [one.to_dict() for one in self.worked]
        if self.chosen:
            tree["weights"] = [
                {"name": name, "shape": list(one.shape), **({"values": one.tolist()} if numbers else {})}
                for name, one in self.chosen.items()
            ]
        return tree | {"notes": list(self.notes)}

    def json(self, *, numbers: bool = True, pictures: Sequence[str] = ()) -> Iterator[str]:
        """Yield `to_dict` as JSON in pieces, a stage at a time: the numbers of a large model fill memory, all at once.

        Args:
            numbers: whether the values of the stages are among them.
            pictures: paths to be named besides.
        """
        tree = replace(self, stages=()).to_dict(numbers=numbers) | {"pictures": list(pictures)}
        del tree["stages"]
        yield _json(tree).removesuffix("}") + ', "stages": ['
        for place, stage in enumerate(self.stages):
            yield (", " if place else "") + _json(stage.to_dict(numbers=numbers))
        yield "]}"

    def lines(self, *, numbers: int | None = None) -> list[str]:
        """Return the trace as a walk-through in plain text.

        Args:
            numbers: values shown of each row; 0 shows shapes only. If None, a whole trace is told in short, and a
                selection with 6 values a row.
        """
        from dragoman.inspection.walk import walk

        with speaking(self.lang):
            return list(walk(self, numbers))

    def work_out(self, place: str) -> Working:
        """Return how one number comes about, term by term.

        Args:
            place: `encoder.layers.0.self_attention.scores[HEAD,QUERY,KEY]` for a score and what becomes of it,
                `encoder.layers.0.self_attention_residual.norm[POSITION]` for a vector of a norm; counted from 0.

        Raises:
            ConfigError: there is no such place.
        """
        from dragoman.inspection.working import work_out

        with speaking(self.lang):
            return work_out(self, place)


def _json(tree: dict[str, Any]) -> str:
    return json.dumps(tree, ensure_ascii=False, allow_nan=False)


def _check_number(what: str, number: int, count: int) -> None:
    if not 0 <= number < count:
        expected = f"0 to {count - 1}, counted from 0" if count else f"the model has no {what}s"
        raise ConfigError(f"there is no {what} {number}", expected=expected, found=number)


def _abridged(names: Sequence[str]) -> list[str]:
    """Stage names with those of further layers left out."""
    shown = [name for name in names if ".layers." not in name or ".layers.0." in name]
    more = "    (the same for further layers: encoder.layers.1 and so on)"
    return shown if len(shown) == len(names) else [*shown, more.strip()]
