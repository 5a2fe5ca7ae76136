"""The stages of a model in the order of a walk-through, made of what its modules took in and gave out.

From a run on the meta device they have shapes and no numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from dragoman.nn import (
    AttentionPositions,
    AttentionRecord,
    Decoder,
    Encoder,
    FeedForward,
    FrameEmbedding,
    InputEmbedding,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    SinusoidalPositions,
    Subsampling,
    TokenEmbedding,
)
from dragoman.stages.capture import Call
from dragoman.stages.convolutions import convolution_stages, scaled_stage, subsampled_stages
from dragoman.stages.stage import Sides, Stage, make_stage
from dragoman.stages.words import say

_ACTIVATIONS = {"relu": "max(0, x)", "gelu": "x · Φ(x)", "silu": "x / (1 + e⁻ˣ)"}


def find_stages(model: nn.Module, calls: Sequence[Call], sides: Sides) -> list[Stage]:
    """Return the stages of what was captured, in the order in which they were computed.

    Args:
        model: whose calls they are.
        calls: of one pass through the whole model.
        sides: what stands at the positions.
    """
    scene = _Scene(model, sides)
    stages: list[Stage] = []
    for call in calls:
        stages += scene.tell(call)
        scene.seen[call.path] = call
    return stages


@dataclass
class _Scene:
    """A model, and the calls told so far by their paths."""

    model: nn.Module
    sides: Sides
    seen: dict[str, Call] = field(default_factory=dict)

    def tell(self, call: Call) -> Iterator[Stage]:
        """Return the stages of one call; none of what is no stage."""
        last = call.path.rpartition(".")[2]
        for part, make in _BY_NAME.items():
            if last == part:
                return make(self, call)
        for kind, make in _BY_KIND.items():
            if isinstance(call.module, kind):
                return make(self, call)
        return iter(())

    def stage(self, call: Call, part: str, values: Tensor, what: str, last: str = "d_model") -> Stage:
        """A stage of the call with one vector for each position."""
        length = self.sides.length(call.path)
        name = f"{call.path}.{part}" if part else call.path
        return make_stage(name, ("batch", length, last), values, what, self.sides.pieces(length))


def _tokens(scene: _Scene, call: Call) -> Iterator[Stage]:
    ids, table = call.given, getattr(call.module, "weight", None)
    assert ids is not None
    assert isinstance(table, Tensor)
    home = call.path.removesuffix(".tokens")
    length, vocab = scene.sides.length(home), scene.sides.vocabulary(home)
    pieces, (entries, width) = scene.sides.pieces(length), table.shape
    picked = () if ids.is_meta else tuple(ids[0].tolist())
    what = say(
        "one-hot rows: one column for each entry of the vocabulary, all 0 but for a 1 in the column of the piece's id"
    )
    dims = ("batch", length, vocab)
    yield Stage(f"{home}.one_hot", dims, (*ids.shape, entries), what, rows=pieces, picked=picked)
    found = table.new_empty(*ids.shape, width) if ids.is_meta else table.detach()[ids]
    dims = ("batch", length, "d_model")
    what = say("one-hot · E: the 1 picks a row of E, the learned table with a row for each entry")
    yield make_stage(f"{home}.rows", dims, found, what, pieces)
    yield make_stage(call.path, dims, call.gave, _scaling(call.module, found, call.gave), pieces)


def _scaling(module: nn.Module, rows: Tensor, scaled: Tensor) -> str:
    """What happens to the rows of the table, read off the numbers."""
    width = rows.shape[-1]
    root = math.sqrt(width)
    if rows.is_meta:
        if type(module) is TokenEmbedding:
            return f"× √d_model = √{width} = {root:.4g}"
        return say("scaled as this model does")
    place = int(rows.abs().argmax())
    factor = float(scaled.flatten()[place] / rows.flatten()[place])
    if not torch.allclose(rows * factor, scaled, atol=1e-6):
        return say("what {kind} makes of the rows").format(kind=type(module).__name__)
    if math.isclose(factor, 1, rel_tol=1e-6):
        return say("this model does not scale the rows")
    if math.isclose(factor, root, rel_tol=1e-5):
        return f"× √d_model = √{width} = {root:.4g}"
    return say("× {factor}, the factor of this model").format(factor=f"{factor:.6g}")


def _positions(scene: _Scene, call: Call) -> Iterator[Stage]:
    assert call.given is not None
    home, length = call.path.removesuffix(".positions"), scene.sides.length(call.path)
    with torch.no_grad():
        rows = call.module(torch.zeros_like(call.given[:1]))  # what is added to nothing
    what = say("the row of each position, as {kind} has it").format(kind=type(call.module).__name__)
    if isinstance(call.module, SinusoidalPositions):
        layout = call.module.layout
        if layout == "interleaved":
            what = say("the row of each position: even columns sin, odd ones cos of pos / 10000^(2i/d_model)")
        elif layout == "marian":
            what = say("the row of each position: first all sin, then all cos of pos / 10000^(i/(d_model/2 - 1))")
        elif layout == "fairseq":
            what = say("the row of each position: first all sin, then all cos of (pos + 2) / 10000^(i/(d_model/2 - 1))")
        else:
            what = say("the row of each position: first all sin, then all cos of pos / 10000^(2i/d_model)")
    places = [say("position {place}").format(place=place) for place in range(len(scene.sides.pieces(length)))]
    heard = isinstance(scene.model.get_submodule(home), FrameEmbedding)
    if heard:
        yield scaled_stage(call.given, scene.sides)
    yield make_stage(f"{home}.position_rows", ("1", length, "d_model"), rows, what, places)
    told = "vector + position: the sum goes into the first layer"
    told = say(told) if heard else say("piece + position: the sum goes into the first layer")
    yield scene.stage(call, "", call.gave, told)


def _embedding(scene: _Scene, call: Call) -> Iterator[Stage]:
    # `InputEmbedding` itself adds only dropout, which is off; its kin of other systems may do more.
    if isinstance(call.module, FrameEmbedding):
        yield from [] if call.module.positions is not None else [scaled_stage(call.gave, scene.sides)]
    elif type(call.module) is not InputEmbedding and isinstance(call.gave, Tensor):
        kind = type(call.module).__name__
        yield scene.stage(call, "", call.gave, say("what {kind} gives to the first layer").format(kind=kind))


def _convolution(scene: _Scene, call: Call) -> Iterator[Stage]:
    return convolution_stages(call, scene.sides)


def _subsampled(scene: _Scene, call: Call) -> Iterator[Stage]:
    return subsampled_stages(call, scene.sides)


def _attention(scene: _Scene, call: Call) -> Iterator[Stage]:
    record, module = call.record, call.module
    assert record is not None
    assert isinstance(module, MultiHeadAttention)
    cross = call.path.endswith("cross_attention")
    looking = scene.sides.length(call.path)
    seen = "src" if cross else looking
    queries, keys = scene.sides.pieces(looking), scene.sides.pieces(seen)
    plus, x = ("" if module.projection.bias is None else " + b"), (say("memory") if cross else "x")
    head = ("batch", "heads")

    def stage(part: str, dims: Sequence[str], values: Tensor, what: str, columns: Sequence[str] = ()) -> Stage:
        rows = keys if part in ("key", "value") else queries
        return make_stage(f"{call.path}.{part}", dims, values, what, rows, columns)

    positions = module.positions or AttentionPositions()
    placed = f", {say(positions.placing)}" if positions.placing else ""
    what = say(
        "Q = x W_q{plus}, cut into {heads} heads{placed}: what each position looks for").format(
        plus=plus, heads=module.num_heads, placed=placed,
    )  # fmt: skip
    yield stage("query", (*head, looking, "d_k"), record.query, what)
    what = say("K = {x} W_k{plus}{placed}: what each position offers to be found by").format(
        x=x, plus=plus, placed=placed
    )
    yield stage("key", (*head, seen, "d_k"), record.key, what)
    what = say("V = {x} W_v{plus}: what each position hands over").format(x=x, plus=plus)
    yield stage("value", (*head, seen, "d_v"), record.value, what)
    square = (*head, looking, seen)
    root = f"{math.sqrt(module.d_k):.4g}"
    what = say("QKᵀ / √d_k = QKᵀ / √{d_k} = QKᵀ / {root}, before the mask").format(d_k=module.d_k, root=root)
    if positions.adding:
        what += say(", {added} included").format(added=say(positions.adding))
    yield stage("scores", square, record.scores, what, keys)
    if record.mask is not None:
        mask = _full_mask(record)
        yield stage("mask", ("batch", "1", looking, seen), mask, _mask_sentence(cross, looking), keys)
    what = say("softmax over the keys: hidden ones get exactly 0, each row sums to 1")
    yield stage("weights", square, record.weights, what, keys)
    joined = scene.seen[f"{call.path}.output"].given
    assert joined is not None
    # [batch, len, heads * d_v] -> [batch, heads, len, d_v]
    mixed = joined.unflatten(-1, (module.num_heads, module.d_v)).transpose(1, 2)
    what = say("weights · V: for each query a mixture of the values")
    yield stage("mixed", (*head, looking, "d_v"), mixed, what)
    what = say("the heads side by side, heads·d_v={width} wide, times W_o{plus}").format(
        width=module.widths[2], plus=plus
    )
    yield stage("output", ("batch", looking, "d_model"), call.gave, what)


def _full_mask(record: AttentionRecord) -> Tensor:
    """The mask for every query and key; it is the same for all heads."""
    assert record.mask is not None
    batch, _, queries, keys = record.scores.shape
    return record.mask.expand(batch, -1, queries, keys)[:, :1]


def _mask_sentence(cross: bool, looking: str) -> str:
    if cross:
        return say("padding mask of the source: True where a key is a real piece")
    if looking == "src":
        return say("padding mask: True where a key is a real piece")
    return say("causal and padding mask: True for itself and what came before, never for what comes later")


def _feed_forward(scene: _Scene, call: Call) -> Iterator[Stage]:
    module = call.module
    assert isinstance(module, FeedForward)
    inner, outer = scene.seen[f"{call.path}.inner"], scene.seen[f"{call.path}.outer"]
    yield scene.stage(call, "inner", inner.gave, say("x W₁ + b₁: each position by itself, widened"), "d_ff")
    assert outer.given is not None
    name = getattr(module.activation, "__name__", type(module.activation).__name__)
    what = _ACTIVATIONS.get(name, name)
    if not outer.given.is_meta and name == "relu":
        share = f"{float((outer.given == 0).double().mean()):.0%}"
        what += say("; here {share} of the numbers are 0").format(share=share)
    yield scene.stage(call, "activated", outer.given, f"{name}: {what}", "d_ff")
    yield scene.stage(call, "outer", call.gave, say("· W₂ + b₂: back to the old width"))


def _norm(scene: _Scene, call: Call) -> Iterator[Stage]:
    path = call.path.rpartition(".")[0]
    owner = scene.model.get_submodule(path)
    assert call.given is not None
    if isinstance(owner, PreNorm):
        what = say("what the sub-layer is given: {norm}").format(norm=_formula(call.module))
        yield _normed(scene.stage(call, "", call.gave, what), call)
    elif isinstance(owner, PostNorm):
        length = scene.sides.length(path)
        what = say("x + sublayer(x): what came in is added to what came out")
        pieces = scene.sides.pieces(length)
        yield make_stage(f"{path}.sum", ("batch", length, "d_model"), call.given, what, pieces)


def _normed(stage: Stage, norm: Call) -> Stage:
    """A stage that a norm has made, with what the norm was given."""
    eps = getattr(norm.module, "eps", None)
    if eps is None:  # what ends a stack may be no norm
        return stage
    given = None if norm.given is None or norm.given.is_meta else norm.given.detach().cpu()
    return replace(stage, given=given, module=norm.path, eps=eps)


def _residual(scene: _Scene, call: Call) -> Iterator[Stage]:
    if isinstance(call.module, PreNorm):
        what = say("x + sublayer(norm(x)): what came in is added to what came out")
        yield scene.stage(call, "", call.gave, what)
    else:
        norm = scene.seen.get(f"{call.path}.norm")
        stage = scene.stage(call, "", call.gave, _formula(getattr(call.module, "norm", call.module)))
        yield stage if norm is None else _normed(stage, norm)


def _formula(norm: nn.Module) -> str:
    if isinstance(norm, nn.LayerNorm):
        formula = "LayerNorm(x) = (x − mean) / √(variance + {eps}) · γ + β, each position by itself"
        return say(formula).format(eps=f"{norm.eps:g}")
    return f"{type(norm).__name__}(x)"


def _stack(scene: _Scene, call: Call) -> Iterator[Stage]:
    norm = getattr(call.module, "norm", None)
    ends = norm is not None and not isinstance(norm, nn.Identity)
    ended = say(", after a last {norm}").format(norm=type(norm).__name__) if ends else ""
    if call.path == "encoder" and scene.sides.family == "transformer":
        what = say("the encoder's output{ended}: what the decoder looks at, computed once for all steps").format(
            ended=ended
        )
        length = scene.sides.length(call.path)
        stage = make_stage("memory", ("batch", length, "d_model"), call.gave, what, scene.sides.pieces(length))
    else:
        stage = scene.stage(call, "output", call.gave, say("the output of the last layer{ended}").format(ended=ended))
    yield _normed(stage, scene.seen[f"{call.path}.norm"]) if ends else stage


def _generator(scene: _Scene, call: Call) -> Iterator[Stage]:
    vocab = scene.sides.vocabulary(call.path)
    plus = "" if getattr(call.module, "bias", None) is None else " + b"
    what = say("logits = x W{plus}: one number for each entry of the vocabulary").format(plus=plus)
    yield replace(scene.stage(call, "", call.gave, what, vocab), entries=scene.sides.entries)
    what = say("softmax of each row: logits become probabilities that sum to 1")
    length = scene.sides.length(call.path)
    dims = ("batch", length, vocab)
    stage = make_stage("probabilities", dims, call.gave.softmax(-1), what, scene.sides.pieces(length))
    yield replace(stage, entries=scene.sides.entries)


# By the last part of the path first: other systems put modules of their own at these places.
_BY_NAME: dict[str, Callable[[_Scene, Call], Iterator[Stage]]] = {
    "tokens": _tokens, "positions": _positions, "generator": _generator, "source_embedding": _embedding,
    "target_embedding": _embedding, "embedding": _embedding, "norm": _norm,
}  # fmt: skip
_BY_KIND: dict[type[nn.Module], Callable[[_Scene, Call], Iterator[Stage]]] = {
    nn.Conv1d: _convolution,
    Subsampling: _subsampled,
    MultiHeadAttention: _attention,
    FeedForward: _feed_forward,
    PreNorm: _residual,
    PostNorm: _residual,
    Encoder: _stack,
    Decoder: _stack,
}
