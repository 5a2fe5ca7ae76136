"""From a `ModelConfig` to the blueprint of what it describes. PyTorch is not needed."""

from __future__ import annotations

import math

from dragoman.config import ModelConfig
from dragoman.errors import ConfigError
from dragoman.models.blueprint import (
    SCHEMES,
    Array,
    Attention,
    Blueprint,
    Convolution,
    Embedding,
    Hearing,
    Layer,
    Matrix,
    Norm,
    Place,
    Shape,
    Stack,
)

# Frames that a convolution looks at (`nn.subsampling`).
KERNEL = 5


class Draft:
    """Makes the sections of a blueprint without weights, by the dotted names of their parts."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.d_model = ("d_model", shape.d_model)
        self.d_ff = ("d_ff", shape.d_ff)
        self.packed = ("heads·(2·d_k+d_v)", shape.heads * (2 * shape.d_k + shape.d_v))
        self.mixed = ("heads·d_v", shape.heads * shape.d_v)

    def matrix(self, name: str, rows: tuple[str, int], columns: tuple[str, int], *, bias: bool) -> Matrix[Place]:
        """Return a linear map from so many columns to so many rows, each with the name of the dimension."""
        weight = Place(f"{name}.weight", (rows[0], columns[0]), (rows[1], columns[1]))
        return Matrix(weight, Place(f"{name}.bias", rows[:1], rows[1:]) if bias else None)

    def norm(self, name: str, eps: float, *, weight: bool = True, bias: bool = True) -> Norm[Place]:
        """Return a layer norm."""
        one, other = (
            Place(f"{name}.{part}", self.d_model[:1], self.d_model[1:]) if there else None
            for part, there in (("weight", weight), ("bias", bias))
        )
        return Norm(one, other, eps)

    def embedding(
        self, name: str, vocab: int, scale: float, positions: str | None, table: Array | None = None
    ) -> Embedding[Place]:
        """Return an embedding of so many entries."""
        rows = Place(f"{name}.tokens.weight", ("vocab", "d_model"), (vocab, self.shape.d_model))
        return Embedding(rows, scale, positions, table)

    def hearing(self, name: str, mels: int, channels: int, scale: float, positions: str | None) -> Hearing[Place]:
        """Return what hears frames of so many mel bins, its first convolution with so many outputs."""
        sides = (
            (("channels", channels), ("mels", mels)),
            (("2·d_model", 2 * self.d_model[1]), ("channels/2", channels // 2)),
        )
        found = []
        for number, (rows, columns) in enumerate(sides):
            place = f"{name}.subsampling.convolutions.{number}"
            weight = Place(f"{place}.weight", (rows[0], columns[0], "kernel"), (rows[1], columns[1], KERNEL))
            found.append(Convolution(weight, Place(f"{place}.bias", rows[:1], rows[1:])))
        return Hearing(tuple(found), scale, positions)

    def attention(self, name: str, *, biases: tuple[bool, bool], distance: int | None = None) -> Attention[Place]:
        """Return an attention; `biases` of what goes in and of what comes out; `distance` of relative positions."""
        projection = self.matrix(f"{name}.projection", self.packed, self.d_model, bias=biases[0])
        output = self.matrix(f"{name}.output", self.d_model, self.mixed, bias=biases[1])
        if distance is None:
            return Attention(projection, output, None)
        dims = ("2·relative_distance+1", "d_k")
        return Attention(projection, output, Place(f"{name}.positions.key", dims, (2 * distance + 1, self.shape.d_k)))

    def feed_forward(self, name: str) -> tuple[Matrix[Place], Matrix[Place]]:
        """Return both maps of a feed-forward block."""
        inner = self.matrix(f"{name}.inner", self.d_ff, self.d_model, bias=True)
        return inner, self.matrix(f"{name}.outer", self.d_model, self.d_ff, bias=True)


def blueprint_of(config: ModelConfig) -> Blueprint[Place]:
    """Return the blueprint of what a configuration describes; sizes left unset are the paper's base model.

    Raises:
        ConfigError: a vocabulary size is missing, or the family is one that is counted, not built.
    """
    if config.family not in ("transformer", "causal", "masked"):
        hint = "`dragoman complete` and `dragoman score` run Markov models"
        raise ConfigError("a Markov model has no layers to build", found=config.family, hint=hint)
    config = config.with_paper_defaults()
    reads = config.family == "transformer" and config.mels is None
    needed = ("source_vocab", "target_vocab") if reads else ("target_vocab",)
    if missing := [name for name in needed if getattr(config, name) is None]:
        raise ConfigError(
            f"a model needs {' and '.join(missing)}", hint="the sizes of the vocabularies, specials included"
        )
    if config.ctc and config.mels is None:
        raise ConfigError("only a speech model can have a CTC head", found="model.ctc = true",
                          hint="leave model.ctc and training.ctc_loss_weight out")  # fmt: skip
    added, own, cross = SCHEMES[config.positions or "interleaved"]
    d_model, heads = config.d_model or 0, config.num_heads or 1
    d_k, d_v = (size or d_model // heads for size in (config.d_k, config.d_v))
    shape = Shape(
        d_model, config.d_ff or 0, heads, d_k, d_v, config.norm == "pre", config.activation, own,
        cross if config.family == "transformer" else None,
    )  # fmt: skip
    return _Planned(config, shape, added).blueprint()


class _Planned(Draft):
    """The sections of a configuration."""

    def __init__(self, config: ModelConfig, shape: Shape, added: str | None) -> None:
        super().__init__(shape)
        self.config, self.added = config, added

    def blueprint(self) -> Blueprint[Place]:
        """The whole model."""
        config, pairs = self.config, self.config.family == "transformer"
        name, vocab = "target_embedding" if pairs else "embedding", config.target_vocab or 0
        target = f"{name}.tokens.weight"
        first = "source_embedding.tokens.weight" if pairs and config.tie_embeddings == "all" else target
        tied = {} if config.tie_embeddings == "none" else {"generator.weight": first}
        return Blueprint(
            self.shape,
            self.side("source_embedding", config.source_vocab or 0) if pairs and config.mels is None else None,
            self.listening("source_embedding") if pairs and config.mels is not None else None,
            self.side(name, vocab),
            None if config.family == "causal" else self.stack("encoder", config.num_encoder_layers, cross=False),
            None if config.family == "masked" else self.stack("decoder", config.num_decoder_layers, cross=pairs),
            self.matrix("generator", ("vocab", vocab), self.d_model, bias=config.generator_bias),
            self.matrix("ctc", ("vocab", vocab), self.d_model, bias=True) if pairs and config.ctc else None,
            self.stack("right_to_left_decoder", config.num_decoder_layers, cross=True)
            if pairs and config.has_two_decoders
            else None,
            tied if first == target else {target: first, **tied},
        )

    def listening(self, name: str) -> Hearing[Place]:
        """What hears frames of the configured mel bins."""
        d_model = self.shape.d_model
        channels = self.config.conv_channels or 2 * d_model
        return self.hearing(name, self.config.mels or 0, channels, math.sqrt(d_model), self.added)

    def side(self, name: str, vocab: int) -> Embedding[Place]:
        scale = math.sqrt(self.shape.d_model) if self.config.scale_embeddings else 1.0
        return self.embedding(name, vocab, scale, self.added)

    def stack(self, name: str, count: int | None, *, cross: bool) -> Stack[Place]:
        layers = tuple(self.layer(f"{name}.layers.{i}", cross=cross) for i in range(count or 0))
        return Stack(layers, self.norm(f"{name}.norm", self.config.norm_eps) if self.shape.pre_norm else None)

    def layer(self, name: str, *, cross: bool) -> Layer[Place]:
        """A layer; with `cross` it looks at a source too."""
        biases, eps = (self.config.bias, self.config.bias), self.config.norm_eps
        distance = self.config.relative_distance if self.shape.self_positions == "relative" else None
        return Layer(
            self.attention(f"{name}.self_attention", biases=biases, distance=distance),
            *self.feed_forward(f"{name}.feed_forward"),
            self.norm(f"{name}.self_attention_residual.norm", eps),
            self.norm(f"{name}.feed_forward_residual.norm", eps),
            self.attention(f"{name}.cross_attention", biases=biases) if cross else None,
            self.norm(f"{name}.cross_attention_residual.norm", eps) if cross else None,
        )
