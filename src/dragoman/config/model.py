"""The settings of `[model]`: the shape of a model."""

from __future__ import annotations

from typing import Annotated, Literal

from dragoman.config.kinds import COUNTED, TRAINED, Family, Layers, NotNegative, Positive, Rate
from dragoman.config.section import Section, setting
from dragoman.config.values import Bounds


class ModelConfig(Section, section="model", content=frozenset({"run"}), families=TRAINED):
    """The shape of a model: what `config.json` holds and `build_model` builds."""

    family: Family = setting(
        default="transformer",
        description="What kind of model: encoder-decoder, decoder only (causal), encoder only (masked), or Markov.",
        flag="--family",
        families=(*TRAINED, *COUNTED),
    )
    source_vocab: Positive | None = setting(
        default=None,
        description="Rows of the source embedding; set by the tokenizer.",
        unit="tokens",
        families=(*TRAINED, *COUNTED),
        chosen="by the tokenizer",
    )
    target_vocab: Positive | None = setting(
        default=None,
        description="Rows of the target embedding; set by the tokenizer.",
        unit="tokens",
        families=(*TRAINED, *COUNTED),
        chosen="by the tokenizer",
    )
    matches: NotNegative | None = setting(
        default=None,
        description="Fuzzy matches that a source is read with; set by data.fuzzy_matches.",
        unit="matches",
        content=frozenset(),  # the prepared data tell it
        before=0,
        chosen="by data.fuzzy_matches",
    )
    mels: Positive | None = setting(
        default=None,
        description="Of a model that listens: mel bins of each frame that the encoder reads; set by audio.n_mels.",
        unit="bins",
        content=frozenset(),  # the prepared data tell it
        since="0.2.0",
        before=None,
        chosen="by audio.n_mels",
        families=("transformer",),
    )
    conv_channels: Annotated[int, Bounds(ge=2)] | None = setting(
        default=None,
        description="Of a model that listens: outputs of the first of the two convolutions over its frames.",
        unit="channels",
        since="0.2.0",
        before=None,
        chosen="2 x d_model",
        families=("transformer",),
    )
    ctc: bool | None = setting(
        default=None,
        description="Of a model that listens: whether its encoder has a head that reads tokens off frames (CTC), which "
        "training.ctc_loss_weight trains.",
        since="0.2.0",
        before=False,
        chosen="for models that listen, unless training.ctc_loss_weight is 0",
    )
    d_model: Positive | None = setting(
        default=None,
        description="Width of embeddings and of every layer's output.",
        unit="columns",
        elsewhere="hidden_size encoder_embed_dim decoder_embed_dim dim_emb embedding_dim embed_dim emb_size "
        "word_vec_size rnn_size model_dim transformer_model_size n_embd",
        chosen="by the target tokens and the device: 128, 256 or 512",
    )
    num_heads: Positive | None = setting(
        default=None,
        description="Attention heads of each layer.",
        unit="heads",
        elsewhere="heads n_head n_heads nhead encoder_attention_heads decoder_attention_heads "
        "num_attention_heads attention_heads transformer_heads transformer_attention_heads",
        chosen="by the target tokens and the device: 4 or 8",
    )
    d_ff: Positive | None = setting(
        default=None,
        description="Inner width of the feed-forward block.",
        unit="columns",
        elsewhere="ff_size d_inner dff transformer_ff transformer_dim_ffn transformer_feed_forward_num_hidden "
        "encoder_ffn_embed_dim decoder_ffn_embed_dim encoder_ffn_dim decoder_ffn_dim ffn_dim "
        "dim_ffn dim_feedforward intermediate_size",
        chosen="by the target tokens and the device: 512, 1024 or 2048",
    )
    num_encoder_layers: Layers | None = setting(
        default=None,
        description="Layers of the encoder.",
        unit="layers",
        families=("transformer", "masked"),
        elsewhere="encoder_layers enc_layers enc_depth n_encoder_layers",
        chosen="by the target tokens, their kind and the device: 2 to 6",
    )
    num_decoder_layers: Layers | None = setting(
        default=None,
        description="Layers of the decoder.",
        unit="layers",
        families=("transformer", "causal"),
        elsewhere="decoder_layers dec_layers dec_depth n_decoder_layers",
        chosen="by the target tokens, their kind and the device: 2 to 6",
    )
    d_k: Positive | None = setting(
        default=None,
        description="Width of queries and keys in each head; d_model / num_heads if unset.",
        unit="columns",
        chosen="d_model / num_heads",
    )
    d_v: Positive | None = setting(
        default=None,
        description="Width of values in each head; d_model / num_heads if unset.",
        unit="columns",
        chosen="d_model / num_heads",
    )
    dropout: Rate | None = setting(
        default=None,
        description="Dropout of embeddings and of each sub-layer's output (section 5.4 of the paper).",
        elsewhere="transformer_dropout residual_dropout dropout_rate hidden_dropout hidden_dropout_prob "
        "transformer_dropout_prepost emb_dropout",
        chosen="by the target tokens and their kind: 0.1 to 0.3",
    )
    attention_dropout: Rate = setting(
        default=0.0,
        description="Dropout of attention weights.",
        elsewhere="attention_dropout_rate attn_dropout transformer_dropout_attention attention_probs_dropout_prob",
    )
    activation_dropout: Rate = setting(
        default=0.0,
        description="Dropout inside the feed-forward block.",
        elsewhere="relu_dropout transformer_dropout_ffn transformer_dropout_act ff_dropout ffn_dropout",
    )
    word_dropout: Rate = setting(
        default=0.0,
        description="Dropout of whole tokens: their embeddings are set to zero, on both sides.",
        before=0.0,
        elsewhere="dropout_src dropout_trg",
    )
    norm: Literal["pre", "post"] = setting(
        default="pre",
        description="Layer norm before each sub-layer (pre), or after it as in the paper (post).",
        elsewhere="layer_norm layer_norm_position",
    )
    norm_eps: Annotated[float, Bounds(gt=0)] = setting(
        default=1e-5,
        description="What layer norm adds to the variance before it divides by its root.",
        elsewhere="layer_norm_eps layer_norm_epsilon ln_eps",
    )
    init: Literal["xavier", "depth-scaled"] = setting(
        default="xavier",
        description="First values of the layers' matrices; depth-scaled: the smaller the deeper, for deep post norm.",
        before="xavier",
    )
    activation: Literal["relu", "gelu", "silu"] = setting(
        default="relu",
        description="Activation function of the feed-forward block.",
        elsewhere="activation_fn activation_function hidden_act pos_ffn_activation_fn transformer_ffn_activation",
    )
    tie_embeddings: Literal["none", "decoder", "all"] | None = setting(
        default=None,
        description="What shares one matrix: target embedding and generator (decoder), or the source embedding too.",
        chosen="all with a joint vocabulary, else decoder",
    )
    positions: (
        Literal["interleaved", "concatenated", "marian", "fairseq", "rotary", "rotary-cross", "relative", "alibi"]
        | None
    ) = setting(
        default=None,
        description="Positions: sinusoids by the layout of their columns (the paper: interleaved; marian and fairseq: "
        "of imported models), or inside self-attention: rotary, relative, alibi; rotary-cross in cross-attention too.",
        chosen="rotary for pairs, interleaved for one text or heads of an odd width",
    )
    relative_distance: Positive = setting(
        default=16,
        description="Of relative positions: distances beyond this are not told apart.",
        unit="tokens",
        needs=({"model.positions": ("relative", ...)},),
    )
    scale_embeddings: bool = setting(
        default=True,
        description="Whether embeddings are multiplied by the root of d_model (section 3.4 of the paper).",
        before=True,
        since="0.2.0",
        elsewhere="scale_embedding",
    )
    bias: bool = setting(default=True, description="Whether the attention projections have biases.")
    generator_bias: bool = setting(default=False, description="Whether the logits have a bias.")
    right_to_left: bool | None = setting(
        default=None,
        description="Whether targets are learned right to left too, and a beam's outputs ranked by both directions.",
        before=False,
        chosen="by the number and kind of the target tokens",
    )
    right_to_left_decoder: Literal["shared", "own"] | None = setting(
        default=None,
        description="What reads targets right to left: the shared decoder, or its own of the same shape; if unset, "
        "its own where the target is text.",
        before="shared",
        chosen="own for text, shared for symbols",
    )

    @property
    def learns_pairs(self) -> bool:
        """Whether it is trained on pairs; every family but the encoder-decoder is trained on one text."""
        return self.family == "transformer"

    @property
    def has_two_decoders(self) -> bool:
        """Whether one decoder reads targets left to right and another one right to left."""
        return bool(self.right_to_left) and self.right_to_left_decoder == "own"

    def as_built(self) -> ModelConfig:
        """Return the same of a model that exists: it does without what was unset, by a version that did not know it."""
        ends = {
            "ctc": bool(self.ctc),
            "right_to_left": bool(self.right_to_left),
            "right_to_left_decoder": self.right_to_left_decoder or "shared",
        }
        return self.replace(ends)

    def with_paper_defaults(self) -> ModelConfig:
        """Return the same, what is still unset as in the paper's base model (table 3; positions: section 3.5)."""
        base = {"d_model": 512, "num_heads": 8, "d_ff": 2048, "num_encoder_layers": 6, "num_decoder_layers": 6}
        base |= {"dropout": 0.1, "tie_embeddings": "none", "positions": "interleaved"}
        base |= {"right_to_left": False, "right_to_left_decoder": "shared"}
        return self.replace({key: value for key, value in base.items() if getattr(self, key) is None})

    def check(self) -> None:
        """See `Section.check`."""
        if self.d_model and self.num_heads and self.d_model % self.num_heads and not (self.d_k and self.d_v):
            raise ValueError(
                f"d_model {self.d_model} does not divide into num_heads {self.num_heads}: set d_k and d_v too"
            )
        d_k = self.d_k or (self.d_model or 0) // (self.num_heads or 1)
        if self.positions in ("rotary", "rotary-cross") and d_k % 2 and (self.d_k or self.num_heads):
            raise ValueError(f'positions = "{self.positions}" rotates pairs of columns: d_k must be even, not {d_k}')
        if self.positions in ("marian", "fairseq") and self.d_model and (self.d_model % 2 or self.d_model < 4):
            raise ValueError(f'positions = "{self.positions}" needs an even d_model of 4 or more, not {self.d_model}')
        if self.right_to_left and not self.learns_pairs:
            raise ValueError(f"right_to_left is for pairs, which a {self.family} model does not learn")
        if self.right_to_left_decoder == "own" and self.right_to_left is False:
            raise ValueError('right_to_left_decoder = "own" is for models with right_to_left = true')
        if self.positions == "rotary-cross" and not self.learns_pairs:
            raise ValueError(f'a {self.family} model has no cross-attention: set positions = "rotary"')
        if self.conv_channels is not None and self.conv_channels % 2:
            raise ValueError(f"conv_channels must be even, not {self.conv_channels}: a gated linear unit halves them")
        unequal = self.family == "transformer" and self.source_vocab != self.target_vocab
        if self.tie_embeddings == "all" and self.mels is not None:
            raise ValueError('tie_embeddings = "all" is for texts: sounds have no vocabulary to share')
        if self.tie_embeddings == "all" and unequal:
            raise ValueError(
                'tie_embeddings = "all" needs one joint vocabulary '
                f"(source has {self.source_vocab} entries, target {self.target_vocab}): set tokenizer.joint = true"
            )
