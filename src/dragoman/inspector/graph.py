"""The stages of a trace as a graph: what each is computed from, of which kind it is, and whose weights it takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from dragoman.nn import MultiHeadAttention, PreNorm
from dragoman.stages.convolutions import CONVOLUTIONS, GATES, HOME
from dragoman.stages.stage import Stage

_KINDS = {
    "one_hot": "one_hot", "rows": "embed", "tokens": "scale", "position_rows": "position", "positions": "add",
    "query": "heads", "key": "heads", "value": "heads", "scores": "scores", "mask": "mask", "weights": "softmax",
    "mixed": "mix", "output": "merge", "inner": "linear", "activated": "activation", "outer": "linear",
    "norm": "norm", "sum": "add",
}  # fmt: skip
# Of a sound: kind, what it is computed from, and by which module.
_SOUND: dict[str, tuple[str, list[str], str]] = {
    f"{HOME}.waveform": ("waveform", [], ""),
    f"{HOME}.log_mels": ("frames", [f"{HOME}.waveform"], ""),
    f"{HOME}.frames": ("normalise", [f"{HOME}.log_mels"], ""),
    f"{CONVOLUTIONS}.0": ("convolution", [f"{HOME}.frames"], f"{CONVOLUTIONS}.0"),
    f"{GATES}.0": ("gate", [f"{CONVOLUTIONS}.0"], ""),
    f"{CONVOLUTIONS}.1": ("convolution", [f"{GATES}.0"], f"{CONVOLUTIONS}.1"),
    f"{GATES}.1": ("gate", [f"{CONVOLUTIONS}.1"], ""),
    f"{HOME}.scaled": ("scale", [f"{GATES}.1"], ""),
    "ctc": ("logits", ["memory"], "ctc"),
}
_EMBEDDINGS = ("source_embedding", "target_embedding", "embedding")


def graph_of(stages: Sequence[Stage], model: nn.Module, source: str | None) -> list[dict[str, Any]]:
    """Return a node for each stage, in their order, and at the end the choice of a token.

    Args:
        stages: of one pass, as `find_stages` gives them.
        model: whose stages they are.
        source: the name of the embedding that goes into the encoder; None if there is no encoder.
    """
    scene = _Scene(model, {stage.name for stage in stages}, source)
    nodes = [scene.node(stage) for stage in stages]
    last = nodes[-1]
    # What the head for CTC reads off the frames may have a say.
    beside = ["ctc"] if "ctc" in scene.names else []
    return [*nodes, {
        "id": "choose", "kind": "choose", "stack": last["stack"], "layer": None, "inputs": [last["id"], *beside],
        "array": None,
        "axes": last["axes"][:-1], "shape": last["shape"][:-1], "parameters": [],
        "formula": "which piece is written: the search takes it from these probabilities",
    }]  # fmt: skip


@dataclass
class _Scene:
    """A model, the names of all stages, and which stage each stack has come to."""

    model: nn.Module
    names: set[str]
    source: str | None
    stream: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    last: str = ""

    def node(self, stage: Stage) -> dict[str, Any]:
        kind, inputs, module = self._place(stage.name)
        inputs = [name for name in inputs if name in self.names]
        parameters, rows = self._parameters(stage.name, module)
        shown = stage.values is not None and stage.name != "probabilities"
        node: dict[str, Any] = {
            "id": stage.name, "kind": kind, "stack": self._stack(stage.name), "layer": stage.layer, "inputs": inputs,
            "array": stage.name if shown else None, "axes": list(stage.dims), "shape": list(stage.shape),
            "formula": stage.what, "parameters": parameters,
        }  # fmt: skip
        if stage.picked:
            node["picked"] = list(stage.picked)
        if rows is not None:
            node["parameter_rows"] = list(rows)
        self.last = stage.name
        return node

    def _stack(self, name: str) -> str:
        root = name.partition(".")[0]
        if root in ("encoder", "memory", "ctc") or root == self.source:
            return "encoder"
        if root in ("decoder", "target_embedding") or (root == "embedding" and self.source is None):
            return "decoder"
        return ""

    def _place(self, name: str) -> tuple[str, list[str], str]:
        """The kind of a stage, what it is computed from, and the path of the module that computes it."""
        home, _, part = name.rpartition(".")
        if name in _SOUND:
            if part == "scaled":
                self.stream["encoder"] = self.given["encoder"] = name
            return _SOUND[name]
        if name.split(".")[0] in _EMBEDDINGS:
            return self._embedded(name, home, part)
        if name in ("memory", "encoder.output", "decoder.output"):
            stack = name.partition(".")[0].replace("memory", "encoder")
            normed = isinstance(getattr(self.model.get_submodule(stack), "norm", None), nn.LayerNorm)
            found = [self._stream(stack)]
            self.stream[stack] = name
            return "memory" if name == "memory" else "norm" if normed else "output", found, f"{stack}.norm"
        if name == "generator":
            return "logits", [self.last], "generator"
        if name == "probabilities":
            return "softmax", ["generator"], ""
        stack = name.partition(".")[0]
        if part in ("self_attention_residual", "cross_attention_residual", "feed_forward_residual"):
            return self._residual(name, stack)
        if part in ("norm", "sum") and home.endswith("_residual"):
            return self._before(name, home, part, stack)
        return self._inside(home, part, stack)

    def _embedded(self, name: str, home: str, part: str) -> tuple[str, list[str], str]:
        root = name.partition(".")[0]
        stack = "encoder" if root == self.source else "decoder"
        before = {"rows": [f"{root}.one_hot"], "tokens": [f"{root}.rows"]}
        before["positions"] = [f"{root}.tokens", f"{root}.scaled", f"{root}.position_rows"]
        inputs = before.get(part, [] if home else [self._stream(stack)])
        if part not in ("one_hot", "rows", "position_rows"):
            self.stream[stack] = self.given[stack] = name
        return _KINDS.get(part, "add") if home else "add", inputs, f"{root}.tokens" if part == "rows" else ""

    def _residual(self, name: str, stack: str) -> tuple[str, list[str], str]:
        pre = isinstance(self.model.get_submodule(name), PreNorm)
        inputs = [self._stream(stack), self.last] if pre else [f"{name}.sum"]
        self.stream[stack] = self.given[stack] = name
        return "add" if pre else "norm", inputs, "" if pre else f"{name}.norm"

    def _before(self, name: str, home: str, part: str, stack: str) -> tuple[str, list[str], str]:
        if part == "norm":
            self.given[stack] = name
            return "norm", [self._stream(stack)], name
        return "add", [self._stream(stack), self.last], ""

    def _inside(self, home: str, part: str, stack: str) -> tuple[str, list[str], str]:
        given = self.given.get(stack, self._stream(stack))
        seen = "memory" if home.endswith("cross_attention") else given
        inputs = {
            "query": [given], "key": [seen], "value": [seen], "scores": [f"{home}.query", f"{home}.key"], "mask": [],
            "weights": [f"{home}.scores", f"{home}.mask"], "mixed": [f"{home}.weights", f"{home}.value"],
            "output": [f"{home}.mixed"], "inner": [given], "activated": [f"{home}.inner"],
            "outer": [f"{home}.activated"],
        }  # fmt: skip
        modules = {"query": "projection", "key": "projection", "value": "projection", "output": "output",
                   "inner": "inner", "outer": "outer", "scores": "positions"}  # fmt: skip
        return _KINDS.get(part, "other"), inputs.get(part, []), f"{home}.{modules[part]}" if part in modules else ""

    def _stream(self, stack: str) -> str:
        return self.stream.get(stack, "")

    def _parameters(self, name: str, module: str) -> tuple[list[str], tuple[int, int] | None]:
        if not module:
            return [], None
        try:
            part = self.model.get_submodule(module)
        except AttributeError:
            return [], None
        found = [f"{module}.{own}" for own, _ in part.named_parameters()]
        home, _, which = name.rpartition(".")
        if which not in ("query", "key", "value"):
            return found, None
        attention = self.model.get_submodule(home)
        assert isinstance(attention, MultiHeadAttention)
        place = ("query", "key", "value").index(which)
        first = sum(attention.widths[:place])
        return found, (first, first + attention.widths[place])


def parameter_names(nodes: Iterable[dict[str, Any]]) -> list[str]:
    """Return the names of all parameters that nodes take, each once."""
    return list(dict.fromkeys(name for node in nodes for name in node["parameters"]))
