"""The sections of the tree: every setting with its type, its default and what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from dragoman.config.section import Before, Bounds, Section, setting

Positive = Annotated[int, Bounds(gt=0)]
NotNegative = Annotated[int, Bounds(ge=0)]
Hypotheses = Annotated[int, Bounds(gt=0, le=1024)]  # more than a search is willing to keep is a slip
Layers = Annotated[int, Bounds(ge=0, le=1000)]
Rate = Annotated[float, Bounds(ge=0.0, lt=1.0)]


def _text(value: object) -> object:
    """A `Path` is taken for its text."""
    return str(value) if isinstance(value, Path) else value


def _several(value: object) -> object:
    """One file may stand without a list."""
    return [value] if isinstance(value, (str, Path)) else value


PathText = Annotated[str, Before(_text)]
Files = Annotated[tuple[PathText, ...], Before(_several)]
Markov = Literal["zeroth-order", "first-order", "second-order", "skips", "masked-skips", "matrix-skips"]
Family = Literal["transformer", "causal", "masked", Markov]


class ModelConfig(Section):
    """The shape of a model: what `config.json` holds and `build_model` builds."""

    family: Family = setting(
        default="transformer", description="encoder-decoder, decoder only, encoder only, or a Markov model"
    )
    source_vocab: Positive | None = setting(
        default=None, description="rows of the source embedding; set by the tokenizer"
    )
    target_vocab: Positive | None = setting(
        default=None, description="rows of the target embedding; set by the tokenizer"
    )
    matches: NotNegative | None = setting(
        default=None, description="fuzzy matches that a source is read with; set by data.fuzzy_matches"
    )
    d_model: Positive | None = setting(default=None, description="width of every representation")
    num_heads: Positive | None = setting(default=None, description="attention heads")
    d_ff: Positive | None = setting(default=None, description="inner width of the feed-forward block")
    num_encoder_layers: Layers | None = None
    num_decoder_layers: Layers | None = None
    d_k: Positive | None = setting(
        default=None, description="width of queries and keys per head; d_model / num_heads if unset"
    )
    d_v: Positive | None = setting(default=None, description="width of values per head; d_model / num_heads if unset")
    dropout: Rate | None = setting(default=None, description="on embeddings and on each sub-layer's output (paper 5.4)")
    attention_dropout: Rate = setting(default=0.0, description="on attention weights")
    activation_dropout: Rate = setting(default=0.0, description="inside the feed-forward block")
    word_dropout: Rate = setting(default=0.0, description="of whole tokens, on the embeddings of both sides")
    norm: Literal["pre", "post"] = setting(
        default="pre", description="layer norm before each sub-layer, or after (the paper)"
    )
    norm_eps: Annotated[float, Bounds(gt=0)] = 1e-5
    init: Literal["xavier", "depth-scaled"] = setting(
        default="xavier",
        description="of the layers' matrices; depth-scaled: smaller the deeper, for many layers of post norm",
    )
    activation: Literal["relu", "gelu", "silu"] = "relu"
    tie_embeddings: Literal["none", "decoder", "all"] | None = setting(
        default=None, description="share target embedding and generator, or also the source embedding (paper 3.4)"
    )
    positions: Literal["interleaved", "concatenated", "rotary", "rotary-cross", "relative"] | None = setting(
        default=None,
        description="sinusoids added to the embedding, by the layout of their columns (paper 3.5: interleaved); "
        "or inside self-attention: rotary, relative; rotary-cross: in cross-attention too",
    )
    relative_distance: Positive = setting(
        default=16, description="relative positions: distances beyond are not told apart"
    )
    bias: bool = setting(default=True, description="biases in the attention projections")
    generator_bias: bool = setting(default=False, description="a bias on the logits")
    right_to_left: bool | None = setting(
        default=None,
        description="targets are learned from their end too, from </s> to <s>, and searches rank outputs by both "
        "readings; by the corpus if unset",
    )
    right_to_left_decoder: Literal["shared", "own"] | None = setting(
        default=None,
        description="what reads them from their end: the decoder, or another one of its shape; if unset, another one "
        "where the target is text",
    )

    @property
    def learns_pairs(self) -> bool:
        """Whether it is trained on pairs; every family but the encoder-decoder is trained on one text."""
        return self.family == "transformer"

    @property
    def has_two_decoders(self) -> bool:
        """Whether one reads targets from their beginning and another one from their end."""
        return bool(self.right_to_left) and self.right_to_left_decoder == "own"

    def as_built(self) -> ModelConfig:
        """The same of a model that exists: it does without what was unset, by a version that did not know of it."""
        ends = {
            "right_to_left": bool(self.right_to_left),
            "right_to_left_decoder": self.right_to_left_decoder or "shared",
        }
        return self.replace(ends)

    def with_paper_defaults(self) -> ModelConfig:
        """The same with everything still unset as in the paper's base model (table 3; positions: section 3.5)."""
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
        if self.right_to_left and not self.learns_pairs:
            raise ValueError(f"right_to_left is for pairs, which a {self.family} model does not learn")
        if self.right_to_left_decoder == "own" and self.right_to_left is False:
            raise ValueError('right_to_left_decoder = "own" is for models with right_to_left = true')
        if self.positions == "rotary-cross" and not self.learns_pairs:
            raise ValueError(f'a {self.family} model has no cross-attention: set positions = "rotary"')
        unequal = self.family == "transformer" and self.source_vocab != self.target_vocab
        if self.tie_embeddings == "all" and unequal:
            raise ValueError(
                'tie_embeddings = "all" needs one joint vocabulary '
                f"(source has {self.source_vocab} entries, target {self.target_vocab}): set tokenizer.joint = true"
            )


class DataConfig(Section):
    """Where the pairs are, or the text, and what is left out of them."""

    source: Files = setting(default=(), description="source files, line-aligned with target; .gz is read as it is")
    target: Files = ()
    pairs: Files = setting(default=(), description="instead: .tsv (two columns) or .jsonl (source, target) files")
    dev_source: Files = setting(default=(), description="held-out pairs for validation; split off train if absent")
    dev_target: Files = ()
    dev_pairs: Files = ()
    text: Files = setting(default=(), description="for models of one text: files of lines, instead of pairs")
    dev_text: Files = setting(default=(), description="held-out text; split off if absent")
    test_text: Files = ()
    test_source: Files = setting(default=(), description="only to report their overlap with training, nothing else")
    test_target: Files = ()
    test_pairs: Files = ()
    prepared: PathText | None = setting(
        default=None, description="a directory made by `prepare`, instead of the files above"
    )
    source_language: str | None = setting(
        default=None, description="two-letter code; guessed from file suffix when it is one"
    )
    target_language: str | None = setting(default=None, description="two-letter code; chooses the tokenizer of BLEU")
    on_bad_text: Literal["stop", "replace", "skip"] = setting(
        default="stop", description="what a line that is not UTF-8 does"
    )
    max_source_tokens: Positive = setting(
        default=256, description="longer pairs are left out of training (and counted)"
    )
    max_target_tokens: Positive = 256
    long_lines: Literal["drop", "split"] = setting(
        default="split",
        description="what a line of text longer than max_target_tokens does: left out, or cut into parts",
    )
    max_length_ratio: Annotated[float, Bounds(gt=1)] | None = setting(
        default=None, description="leave out pairs whose token counts differ by more than this factor"
    )
    fuzzy_matches: NotNegative | None = setting(
        default=None,
        description="of so many training pairs most like it each source is read with the targets, and the model keeps "
        "all pairs; if unset 2 for 50,000 to 200,000 pairs of symbols of two sorts, else 0",
    )
    drop_duplicates: bool = setting(default=False, description="keep one of each exactly repeated pair")
    drop_overlap: bool = setting(default=False, description="leave out training pairs whose source or target is in dev")
    repeat: tuple[Positive, ...] = setting(
        default=(),
        description="how often an epoch has each training file: source files first, then pairs; once if unset",
    )

    def check(self) -> None:
        """See `Section.check`."""
        files = (*self.source, *self.pairs, *self.text)
        if self.repeat and len(self.repeat) != len(files):
            raise ValueError(f"repeat has {len(self.repeat)} numbers for {len(files)} training files")
        if self.repeat and len(set(files)) < len(files):
            raise ValueError("a training file is named twice; repeat alone says how often it is seen")

    @property
    def repeats(self) -> dict[str, int]:
        """How often each training file that `repeat` names is to be seen in an epoch."""
        return dict(zip((*self.source, *self.pairs, *self.text), self.repeat, strict=False))


class TokenizerConfig(Section):
    """How strings become ids."""

    kind: Literal["auto", "bpe", "unigram", "word", "character"] = setting(
        default="auto", description="auto: word if the text is a small set of symbols separated by spaces, else bpe"
    )
    target_kind: Literal["auto", "bpe", "unigram", "word", "character"] | None = setting(
        default=None, description="of the target; as `kind` if unset"
    )
    vocab_size: Annotated[int, Bounds(ge=1, le=1_000_000)] | None = setting(
        default=None, description="entries per vocabulary; sized to the corpus if unset"
    )
    joint: bool | None = setting(
        default=None, description="one vocabulary for both sides; by measured overlap if unset"
    )
    min_count: Positive = setting(default=1, description="word and character: rarer ones become <unk>")
    character_coverage: Annotated[float, Bounds(gt=0, le=1)] = 0.9995
    symbols: tuple[str, ...] = setting(
        default=(), description="texts that are one entry each, such as the tags <bt> and <st> before made-up sources"
    )


class MarkovConfig(Section):
    """How counts become probabilities in a Markov model."""

    k: Annotated[float, Bounds(ge=0)] = setting(
        default=1e-4, description="how often each word counts as seen besides (Lidstone)"
    )
    backoff: Annotated[float, Bounds(ge=0)] = setting(default=3.0, description="how much of the rung below is mixed in")


class TrainingConfig(Section):
    """The loop: optimiser, schedule, batches, when to stop."""

    batch_tokens: Positive | None = setting(
        default=None, description="tokens of a micro-batch on either side, padding counted"
    )
    accumulate: Positive = setting(default=1, description="micro-batches per update")
    optimizer: Literal["adam", "adamw", "muon"] | None = setting(
        default=None, description="muon: orthogonal steps for the matrices inside the layers, adamw for all else"
    )
    learning_rate: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None, description="peak rate; for schedule = paper, the factor in front of the formula"
    )
    schedule: Literal["paper", "inverse_sqrt", "cosine", "constant"] | None = setting(
        default=None, description="cosine if unset; with max_minutes, whose last update is not known, inverse_sqrt"
    )
    warmup_steps: NotNegative | None = None
    adam_beta1: Rate = 0.9
    adam_beta2: Rate = 0.98
    adam_eps: Annotated[float, Bounds(gt=0)] = 1e-9
    muon_momentum: Rate = setting(default=0.95, description="of muon's matrices")
    muon_rate_factor: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None, description="what learning_rate is multiplied by for muon's matrices; by the corpus if unset"
    )
    weight_decay: Annotated[float, Bounds(ge=0)] | None = setting(
        default=None, description="of matrices, times the rate, apart from the gradient (with adam, as a part of it)"
    )
    clip_norm: Annotated[float, Bounds(ge=0)] = setting(
        default=1.0, description="largest gradient norm; 0 leaves it alone"
    )
    label_smoothing: Rate | None = setting(
        default=None, description="share of the label that is spread over all tokens"
    )
    bpe_dropout: Rate = setting(
        default=0.0,
        description="subword regularisation: merges of BPE left out, with this probability, anew in each epoch",
    )
    unigram_alpha: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None, description="the same for unigram: segmentations drawn by their probability to the power of this"
    )
    sampled_sides: Literal["both", "source", "target"] = setting(
        default="both", description="where subwords are drawn anew"
    )
    r_drop: Annotated[float, Bounds(ge=0)] = setting(
        default=0.0, description="weight of the agreement between two passes under different dropout (alpha of R-Drop)"
    )
    r_drop_after: NotNegative = setting(default=0, description="updates before r_drop begins: of one pass each")
    max_steps: Positive | None = None
    max_minutes: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None, description="stop after this much training time"
    )
    patience: NotNegative | None = setting(
        default=None, description="stop after so many validations without a better one"
    )
    ema_decay: Rate | None = setting(
        default=None,
        description="exponential moving average of the weights; by the number of updates if unset, 0 is off",
    )
    average_last: NotNegative = setting(default=0, description="average so many last checkpoints at the end; 0 is off")
    datastore: bool = setting(default=False, description="`dragoman remember` the training pairs at the end")
    init_from: PathText | None = setting(default=None, description="start from the weights and tokenizer of this run")
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        default="auto", description="of products; auto: the faster one"
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    threads: Positive | None = setting(default=None, description="CPU threads; PyTorch's own choice if unset")
    compile: bool = setting(default=False, description="torch.compile the model: slow to start, for long runs on a GPU")
    tensorboard: bool = False
    log_every: Positive = 50
    save_every: Positive | None = setting(
        default=None, description="steps between checkpoints; better validations are saved too"
    )
    keep_last: Annotated[int, Bounds(ge=2)] = setting(default=2, description="checkpoints kept besides the best")
    seed: NotNegative = 1


class ValidationConfig(Section):
    """What is measured on the held-out pairs, and how often."""

    every: Positive | None = setting(default=None, description="steps between validations")
    metric: Literal["loss", "bleu", "chrf", "exact"] | None = setting(
        default=None, description="what best means; the others are reported too"
    )
    search: Literal["greedy", "beam"] = setting(default="greedy", description="how the dev set is translated")
    max_sentences: Positive = setting(
        default=1000,
        description="dev sentences translated at each validation; of a text, 100 at most are completed or filled",
    )
    tokenize: str | None = setting(
        default=None,
        description="sacreBLEU's tokenizer for BLEU: none where lines are tokens already; by the language if unset",
    )
    length_penalties: tuple[Annotated[float, Bounds(ge=0)], ...] | None = setting(
        default=None,
        description="tried on the dev set when training ends: the best becomes decoding.length_penalty. "
        "If unset, some are tried for text whose penalty was left open; [] tries none",
    )


class DecodingConfig(Section):
    """What `translate` does unless told otherwise; stored with the model."""

    beam_size: Hypotheses = 4
    n_best: Hypotheses = 1
    length_penalty: Annotated[float, Bounds(ge=0, le=50)] = setting(
        default=0.6, description="alpha; `train` chooses that of a model of text on its dev set"
    )
    length_penalty_formula: Literal["gnmt", "power", "reward"] = setting(
        default="gnmt",
        description="log-probability / ((5 + length) / 6) ** alpha (gnmt, the paper), / length ** alpha (power) "
        "or + alpha * length (reward)",
    )
    min_length: NotNegative = 0
    max_length: Positive | None = setting(
        default=None, description="tokens before </s>; source tokens x max_length_factor + max_length_offset if unset"
    )
    max_length_factor: Annotated[float, Bounds(ge=0, le=1000)] = 1.0
    max_length_offset: NotNegative = setting(default=50, description="the paper's: input length + 50")
    max_source_length: Positive = setting(
        default=1024, description="tokens of a source; longer ones are cut there, with a warning"
    )
    no_repeat_ngram: NotNegative = setting(
        default=0, description="no n-gram of this size twice in one output; 0 is off"
    )
    loop_guard: NotNegative = setting(
        default=3,
        description="a translation that goes in circles up to max_length is searched for once more, "
        "with no n-gram of this size twice; 0 is off",
    )
    knn_weight: Rate | None = setting(
        default=None,
        description="of the nearest states of a datastore; if unset, the nearer they are the larger, as found on "
        "held-out pairs",
    )
    knn_neighbours: Hypotheses = setting(default=64, description="how many of them")
    right_to_left_weight: Rate | None = setting(
        default=None,
        description="share of the reading from right to left in the ranking of a beam's outputs; "
        "0.5 with a model that learned both (model.right_to_left), 0 with others",
    )
    sampling: bool = setting(default=False, description="draw tokens instead of searching for the likeliest output")
    temperature: Annotated[float, Bounds(gt=0)] = 1.0
    top_k: NotNegative = setting(default=0, description="sample among the k likeliest tokens; 0 is all")
    top_p: Annotated[float, Bounds(gt=0, le=1)] = 1.0
    sampling_seed: NotNegative = 1

    @property
    def is_beam_search(self) -> bool:
        """Whether a search goes on with several hypotheses, so that a length penalty matters."""
        return self.beam_size > 1 and not self.sampling

    def check(self) -> None:
        """See `Section.check`."""
        if not self.sampling and self.n_best > self.beam_size:
            raise ValueError(f"n_best {self.n_best} is more than beam_size {self.beam_size}")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is more than max_length {self.max_length}")


# Codes of countries that are often meant for a language, and are the codes of none.
LANGUAGE_OF_COUNTRY = {"cn": "zh", "jp": "ja"}
