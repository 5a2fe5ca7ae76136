"""The `torch_nn` profile against `torch.nn.Transformer` itself."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.config import DecodingConfig
from dragoman.engines import ModuleEngine
from dragoman.errors import ConfigError, ModelError
from dragoman.nn import AttentionRecord, MultiHeadAttention
from dragoman.profiles import torch_nn
from dragoman.search import SearchRequest, beam_search
from dragoman.sequences import Frame, Source, SourceBatch, Specials

PAD, BOS, EOS, VOCAB, LONGEST = 1, 2, 3, 17, 24


class Tokens(nn.Module):
    def __init__(self, vocab: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model)


class Positions(nn.Module):
    pos_embedding: Tensor

    def __init__(self, d_model: int, length: int) -> None:
        super().__init__()
        self.register_buffer("pos_embedding", torch.zeros(length, 1, d_model))


class Theirs(nn.Module):
    """A translation model around `torch.nn.Transformer`, with the parts and names of PyTorch's tutorial."""

    def __init__(self, d_model: int, nhead: int, layers: tuple[int, int], d_ff: int, **options) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "enable_nested_tensor")
            self.transformer = nn.Transformer(d_model, nhead, *layers, d_ff, **options)
        self.generator = nn.Linear(d_model, VOCAB)
        self.src_tok_emb = Tokens(VOCAB + 2, d_model)
        self.tgt_tok_emb = Tokens(VOCAB, d_model)
        self.positional_encoding = Positions(d_model, LONGEST)

    def embed(self, tokens: Tokens, ids: Tensor) -> Tensor:
        x = tokens.embedding(ids) * math.sqrt(self.transformer.d_model)
        return x + self.positional_encoding.pos_embedding[: ids.shape[1], 0]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = self.embed(self.src_tok_emb, source), self.embed(self.tgt_tok_emb, target)
        if not self.transformer.batch_first:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        hidden = self.transformer(
            x,
            y,
            tgt_mask=future,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return self.generator(hidden if self.transformer.batch_first else hidden.transpose(0, 1))


@dataclass(frozen=True)
class Shape:
    nhead: int = 2
    d_head: int = 4
    layers: tuple[int, int] = (2, 2)
    d_ff: int = 12
    activation: str = "relu"
    layer_norm_eps: float = 1e-5
    norm_first: bool = False
    bias: bool = True
    batch_first: bool = True
    dtype: torch.dtype = torch.float64
    seed: int = 0

    def theirs(self) -> Theirs:
        torch.manual_seed(self.seed)
        model = Theirs(
            self.nhead * self.d_head,
            self.nhead,
            self.layers,
            self.d_ff,
            activation=self.activation,
            layer_norm_eps=self.layer_norm_eps,
            norm_first=self.norm_first,
            bias=self.bias,
            batch_first=self.batch_first,
        )
        shake(model)
        return model.to(self.dtype).eval()

    def ours(self, theirs: nn.Module, names: torch_nn.Names | None = None):
        return torch_nn.load(
            theirs.state_dict(),
            pad=PAD,
            nhead=self.nhead,
            activation=self.activation,
            layer_norm_eps=self.layer_norm_eps,
            norm_first=self.norm_first,
            names=names,
            dtype=self.dtype,
        ).eval()


def shake(model: nn.Module) -> None:
    """Random numbers everywhere: gains about 1, offsets about 0, matrices that keep the variance."""
    with torch.no_grad():
        for name, parameter in (*model.named_parameters(), *model.named_buffers()):
            if parameter.dim() > 1:
                parameter.normal_(std=parameter.shape[-1] ** -0.5)
            else:
                parameter.normal_(mean=float("norm" in name and name.endswith("weight")), std=0.3)


shapes = st.builds(
    Shape,
    nhead=st.integers(1, 4),
    d_head=st.integers(1, 5),
    layers=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    d_ff=st.integers(1, 12),
    activation=st.sampled_from(["relu", "gelu"]),
    layer_norm_eps=st.sampled_from([1e-5, 1e-6, 1e-3]),
    norm_first=st.booleans(),
    bias=st.booleans(),
    batch_first=st.booleans(),
    seed=st.integers(0, 1000),
)
batches = st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6))


def ids(rows: int, length: int) -> Tensor:
    """Sequences of different lengths, padded on the right."""
    tokens = torch.randint(4, VOCAB, (rows, length))
    lengths = torch.randint(1, length + 1, (rows, 1))
    return tokens.masked_fill(torch.arange(length) >= lengths, PAD)


def tolerance(dtype: torch.dtype) -> float:
    return 1e-10 if dtype == torch.float64 else 1e-5


def traced(model: nn.Module, source: Tensor, target: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Theirs, slowly: memory, layers and attention maps by name, and the logits."""
    found: dict[str, Tensor] = {}

    def ask(module, arguments, options):
        return arguments, {**options, "need_weights": True, "average_attn_weights": False}

    def keep(name):
        def hook(module, arguments, output):
            kept = output[1] if isinstance(output, tuple) else output
            found[name] = kept if isinstance(output, tuple) or model.transformer.batch_first else kept.transpose(0, 1)

        return hook

    for name, module in model.transformer.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            module.register_forward_pre_hook(ask, with_kwargs=True)
            module.register_forward_hook(keep(name))
        elif name in ("encoder", "decoder") or isinstance(
            module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
        ):
            module.register_forward_hook(keep(name))
    return found, model(source, target)


def traced_ours(model, source: Tensor, target: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """The same of ours, under their names."""
    found: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        own = name.replace("cross_attention", "multihead_attn").replace("self_attention", "self_attn")
        if isinstance(module, MultiHeadAttention):

            def observe(record: AttentionRecord, own: str = own) -> None:
                found[own] = record.weights

            module.observe(observe)
        elif name in ("encoder", "decoder") or name.split(".")[-2:-1] == ["layers"]:
            module.register_forward_hook(lambda module, arguments, output, own=own: found.update({own: output}))
    return found, model(source, target)


@settings(max_examples=25)
@given(shapes, batches)
def test_every_stage_equals_theirs(shape, batch):
    check(shape, *batch)


@settings(max_examples=10)
@given(shapes, batches)
def test_every_stage_equals_theirs_in_single_precision(shape, batch):
    # Narrow vectors may have next to no variance, and the norm then multiplies rounding errors of both.
    check(replace(shape, nhead=2 * shape.nhead, d_head=8, dtype=torch.float32), *batch)


def check(shape: Shape, rows: int, src: int, tgt: int) -> None:
    theirs = shape.theirs()
    ours = shape.ours(theirs)
    source, target = ids(rows, src), ids(rows, tgt)
    expected, expected_logits = traced(theirs, source, target)
    found, logits = traced_ours(ours, source, target)
    assert found.keys() == expected.keys()
    assert len(found) == 2 + 2 * shape.layers[0] + 3 * shape.layers[1]
    for name, tensor in expected.items():
        assert found[name].dtype == shape.dtype
        assert (found[name] - tensor).abs().max() <= tolerance(shape.dtype), name
    assert (logits - expected_logits).abs().max() <= tolerance(shape.dtype)
    with torch.no_grad():
        assert (ours(source, target) - logits).abs().max() <= tolerance(shape.dtype)


@settings(max_examples=8)
@given(shapes)
def test_gradients_equal_theirs(shape):
    theirs = shape.theirs()
    ours = shape.ours(theirs)
    source, target = ids(3, 5), ids(3, 4)
    labels = target.roll(-1, 1)
    for model in (theirs, ours):
        F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten(), ignore_index=PAD).backward()
    layer, own = ours.decoder.layers[0], theirs.transformer.decoder.layers[0]
    pairs = [
        (layer.self_attention.projection.weight, own.self_attn.in_proj_weight),
        (layer.cross_attention.output.weight, own.multihead_attn.out_proj.weight),
        (layer.cross_attention_residual.norm.weight, own.norm2.weight),
        (layer.feed_forward.inner.weight, own.linear1.weight),
        (ours.encoder.norm.weight, theirs.transformer.encoder.norm.weight),
        (ours.source_embedding.tokens.weight, theirs.src_tok_emb.embedding.weight),
        (ours.generator.bias, theirs.generator.bias),
    ]
    for mine, its in pairs:
        assert (mine.grad - its.grad).abs().max() <= 1e-10


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fast_path_gives_the_same_logits_and_memory_where_there_are_tokens(norm_first):
    shape = Shape(norm_first=norm_first, nhead=2)
    theirs = shape.theirs()
    ours = shape.ours(theirs)
    source, target = ids(4, 7), ids(4, 5)
    source[0], source[1, 2:] = torch.arange(4, 11), PAD
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")
        x = theirs.embed(theirs.src_tok_emb, source)
        memory = theirs.transformer.encoder(x, src_key_padding_mask=source == PAD)
        logits = theirs(source, target)
        own_memory, _ = ours.encode(source)
        assert (ours(source, target) - logits).abs().max() <= 1e-10
    real = source != PAD
    assert (own_memory - memory)[real].abs().max() <= 1e-10
    # The documented trait: its padded rows are zeros that went through the final norm.
    offset = theirs.transformer.encoder.norm.bias
    assert bool((memory[~real] == offset).all()) is not norm_first


@settings(max_examples=6)
@given(shapes)
def test_cached_steps_equal_the_parallel_pass(shape):
    model = shape.ours(shape.theirs())
    source, target = ids(3, 6), torch.randint(4, VOCAB, (3, 20))
    with torch.no_grad():
        state = model.start(source)
        serial = torch.stack([model.step(state, target[:, i]) for i in range(20)], dim=1)
        assert (serial - model(source, target)).abs().max() <= 1e-10


@dataclass
class History:
    source: Tensor
    tokens: Tensor

    def reorder(self, indices: Tensor) -> History:
        return History(self.source[indices], self.tokens[indices])


class Rerun:
    """Their model as a next-token model without any cache: the whole prefix again at every step."""

    device = torch.device("cpu")

    def __init__(self, model: Theirs) -> None:
        self.model = model

    def start(self, sources: SourceBatch) -> History:
        return History(sources.ids, sources.ids[:, :0])

    @torch.no_grad()
    def step(self, state: History, tokens: Tensor) -> tuple[Tensor, History]:
        state = History(state.source, torch.cat([state.tokens, tokens[:, None]], dim=1))
        return self.model(state.source, state.tokens)[:, -1].log_softmax(-1), state


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_it_translates_through_the_cached_search_as_theirs_re_run(norm_first, beam_size):
    shape = Shape(norm_first=norm_first, batch_first=False)
    theirs = shape.theirs()
    with torch.no_grad():
        # What the source says must count.
        theirs.transformer.decoder.norm.bias.zero_()
        for layer in theirs.transformer.decoder.layers:
            layer.multihead_attn.out_proj.weight.mul_(4)
        theirs.generator.bias[EOS] += 1
    options = DecodingConfig(beam_size=beam_size, n_best=beam_size, max_length=9, min_length=2)
    specials = Specials(PAD, unk=-1, bos=BOS, eos=EOS)
    requests = [
        SearchRequest(
            Source(tuple(int(one) for one in row if one != PAD), (), specials, end=()), options,
            frame=Frame(BOS, EOS), never=(PAD, BOS),
        )
        for row in ids(5, 6)
    ]  # fmt: skip
    ours = beam_search(ModuleEngine(shape.ours(theirs)), requests)
    expected = beam_search(Rerun(theirs), requests)
    assert [[h.tokens for h in row] for row in ours] == [[h.tokens for h in row] for row in expected]
    assert len({h.tokens for row in ours for h in row}) > 1
    for row, its in zip(ours, expected, strict=True):
        assert [h.score for h in row] == pytest.approx([h.score for h in its], abs=1e-10)


# Names


class Elsewhere(nn.Module):
    """Two stacks alone, other names, one table for all, learned positions on the source side only, no final norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, 8)
        self.where = nn.Parameter(torch.empty(1, LONGEST, 8))
        options = {"batch_first": True, "dropout": 0.0}
        self.reader = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, **options), 2)
        self.writer = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, **options), 1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.reader(self.table(source) + self.where[:, : source.shape[1]], src_key_padding_mask=source == PAD)
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        hidden = self.writer(
            self.table(target), memory, future, None, target == PAD, memory_key_padding_mask=source == PAD
        )
        return F.linear(hidden, self.table.weight)


NAMES = torch_nn.Names(
    encoder="reader",
    decoder="writer",
    source_embedding="table.weight",
    target_embedding="table.weight",
    source_positions="where",
    target_positions=None,
    generator="table.weight",
    generator_bias=None,
)


def test_any_names_and_sharing_and_stacks_without_a_final_norm():
    theirs = Elsewhere().double().eval()
    shake(theirs)
    state = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    ours = torch_nn.load(state, pad=PAD, nhead=2, scale_embedding=False, names=NAMES, dtype=torch.float64).eval()
    assert ours.generator.weight is ours.source_embedding.tokens.weight is ours.target_embedding.tokens.weight
    source, target = ids(3, 6), ids(3, 5)
    assert (ours(source, target) - theirs(source, target)).abs().max() <= 1e-10


def test_one_table_of_positions_is_one_part():
    model = Shape().ours(Shape().theirs())
    assert model.source_embedding.positions is model.target_embedding.positions


# Building


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "bias": False}])
def test_build_draws_what_the_tutorial_draws(options):
    torch.manual_seed(3)
    theirs = Theirs(8, 2, (2, 3), 12, **options)
    for parameter in theirs.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    theirs.positional_encoding.pos_embedding = torch_nn.exponential_sinusoids(LONGEST, 8)[:, None]
    torch.manual_seed(3)
    ours = torch_nn.build(
        VOCAB + 2,
        VOCAB,
        pad=PAD,
        d_model=8,
        nhead=2,
        num_encoder_layers=2,
        num_decoder_layers=3,
        dim_feedforward=12,
        maxlen=LONGEST,
        **options,
    )
    source, target = ids(3, 6), ids(3, 5)
    assert (ours.eval()(source, target) - theirs.eval()(source, target)).abs().max() <= 1e-5
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    if "bias" not in options:
        first, second = (layer.feed_forward.inner.bias for layer in ours.decoder.layers[:2])
        assert torch.equal(first, second)
        assert bool(first.abs().max() > 0)


def test_dropout_is_where_theirs_is():
    model = torch_nn.build(VOCAB, VOCAB, pad=PAD, d_model=8, nhead=2, dim_feedforward=12, dropout=0.25, maxlen=9)
    drops = {name for name, module in model.named_modules() if getattr(module, "p", None) == 0.25}
    assert {"source_embedding.dropout", "target_embedding.dropout"} < drops
    assert {"feed_forward.dropout", "feed_forward_residual.dropout", "self_attention_residual.dropout"} == {
        name.removeprefix("encoder.layers.5.") for name in drops if name.startswith("encoder.layers.5.")
    }
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert [attention.dropout for attention in attentions] == [0.25] * 18


@pytest.mark.parametrize("d_model", [6, 7])
def test_the_table_is_the_formula_by_the_exponential_route(d_model):
    table = torch_nn.exponential_sinusoids(5000, d_model).numpy()
    assert table.dtype == np.float32
    exact = np.empty((5000, d_model))
    for column in range(d_model):
        angle = np.arange(5000) / 10000 ** ((column - column % 2) / d_model)
        exact[:, column] = np.cos(angle) if column % 2 else np.sin(angle)
    assert np.abs(table - exact)[:100].max() <= 1e-5
    # A table rounded from float64 would be within 6e-8 everywhere.
    assert 1e-5 < np.abs(table - exact).max() <= 1e-3


# Refusals


def test_every_entry_is_used_once_or_named():
    state = dict(Shape().theirs().state_dict())
    state["transformer.decoder.layers.1.norm3.gain"] = state.pop("transformer.decoder.layers.1.norm3.weight")
    state["transformer.encoder.layers.0.self_attn.in_proj_weight"] = torch.zeros(8, 24)
    state["transformer.encoder.layers.7.norm1.weight"] = torch.zeros(8)
    with pytest.raises(ModelError) as caught:
        torch_nn.load(state, pad=PAD, nhead=2)
    for complaint in (
        "transformer.decoder.layers.1.norm3.weight: missing, expected [8]",
        "transformer.decoder.layers.1.norm3.gain: left over",
        "transformer.encoder.layers.0.self_attn.in_proj_weight: expected [24, 8], found [8, 24]",
        "transformer.encoder.layers.7.norm1.weight: left over",
    ):
        assert complaint in str(caught.value)
    assert str(caught.value).count("\n") == 4


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("src_tok_emb.embedding.weight", None, "src_tok_emb.embedding.weight: missing, expected [rows, 8]"),
        ("src_tok_emb.embedding.weight", torch.zeros(8), "src_tok_emb.embedding.weight: expected [rows, 8], found [8]"),
        ("tgt_tok_emb.embedding.weight", torch.zeros(VOCAB, 6), "expected [rows, 8], found [17, 6]"),
        ("positional_encoding.pos_embedding", torch.zeros(5, 2, 8), "expected [length, 8], found [5, 2, 8]"),
        ("positional_encoding.pos_embedding", torch.zeros(5, 6), "expected [length, 8], found [5, 6]"),
        ("generator.bias", torch.zeros(4), "generator.bias: expected [17], found [4]"),
        ("transformer.encoder.layers.0.linear1.weight", None, "transformer.encoder.layers.0.linear1.weight"),
    ],
)
def test_what_cannot_be_used_is_named(name, value, message):
    state = dict(Shape().theirs().state_dict())
    state[name] = value
    if value is None:
        del state[name]
    with pytest.raises(ModelError) as caught:
        torch_nn.load(state, pad=PAD, nhead=2)
    assert message in str(caught.value)


def test_settings_that_cannot_be_are_refused():
    state = Shape().theirs().state_dict()
    with pytest.raises(ConfigError, match="divide"):
        torch_nn.load(state, pad=PAD, nhead=3)
    with pytest.raises(ConfigError, match="divide"):
        torch_nn.build(9, 9, pad=0, d_model=8, nhead=3)
    with pytest.raises(ConfigError, match="activation"):
        torch_nn.load(state, pad=PAD, nhead=2, activation="swish")


def test_any_function_may_be_the_activation():
    shape = Shape()
    theirs = shape.theirs()
    for layer in (*theirs.transformer.encoder.layers, *theirs.transformer.decoder.layers):
        layer.activation, layer.activation_relu_or_gelu = F.silu, 0
    ours = torch_nn.load(theirs.state_dict(), pad=PAD, nhead=2, activation=F.silu, dtype=torch.float64).eval()
    source, target = ids(2, 5), ids(2, 4)
    assert (ours(source, target) - theirs(source, target)).abs().max() <= 1e-10


def test_a_sequence_longer_than_the_table_is_refused():
    model = Shape().ours(Shape().theirs())
    long = torch.full((1, LONGEST + 1), 5)
    model(long[:, 1:], long[:, 1:])
    with pytest.raises(ModelError, match=f"at most {LONGEST} tokens"):
        model.encode(long)
