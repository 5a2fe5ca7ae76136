"""The settings of `[training]`, `[validation]` and `[markov]`: how a model is made of the data."""

from __future__ import annotations

from typing import Annotated, Literal

from dragoman.config.kinds import COUNTED, TRAINED, NotNegative, PathText, Positive, Rate, Threads
from dragoman.config.section import Section, setting
from dragoman.config.values import Bounds

_MUON = ({"training.optimizer": ("muon", ...)},)


class MarkovConfig(Section, section="markov", content=frozenset({"run"}), families=COUNTED):
    """How counts become probabilities in a Markov model."""

    k: Annotated[float, Bounds(ge=0)] = setting(
        default=1e-4,
        description="How often each word counts as seen besides what was counted (Lidstone).",
        unit="times",
    )
    backoff: Annotated[float, Bounds(ge=0)] = setting(
        default=3.0, description="How much of the model below on the ladder is mixed in.", unit="counts"
    )


class TrainingConfig(Section, section="training", content=frozenset({"run"}), families=TRAINED):
    """The loop: optimiser, schedule, batches, when to stop."""

    batch_tokens: Positive | None = setting(
        default=None,
        description="Tokens of a micro-batch on either side, padding included.",
        unit="tokens",
        elsewhere=("max_tokens", "batch_size", "mini_batch_words"),
    )
    accumulate: Positive = setting(
        default=1,
        description="Micro-batches of each update.",
        unit="micro-batches",
        elsewhere=("batch_multiplier", "accum_count", "update_freq", "update_interval", "optimizer_delay"),
    )
    optimizer: Literal["adam", "adamw", "muon"] | None = setting(
        default=None,
        description="Optimiser; muon takes orthogonal steps for the matrices inside the layers, adamw for all else.",
    )
    learning_rate: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None,
        description="Peak of the learning rate; with schedule = paper, the factor in front of the formula.",
        elsewhere=("lr",),
    )
    schedule: Literal["paper", "inverse_sqrt", "cosine", "constant"] | None = setting(
        default=None,
        description="How the learning rate goes; if unset cosine, or inverse_sqrt where max_minutes ends the run.",
        elsewhere=("scheduling", "lr_scheduler", "decay_method"),
    )
    warmup_steps: NotNegative | None = setting(
        default=None,
        description="Updates in which the learning rate rises to its peak.",
        unit="updates",
        elsewhere=("learning_rate_warmup", "warmup_updates", "lr_warmup"),
    )
    adam_beta1: Rate = setting(default=0.9, description="Of adam: decay of the moving mean of gradients.")
    adam_beta2: Rate = setting(default=0.98, description="Of adam: decay of the moving mean of their squares.")
    adam_eps: Annotated[float, Bounds(gt=0)] = setting(
        default=1e-9, description="Of adam: what is added to the root that an update is divided by."
    )
    muon_momentum: Rate = setting(
        default=0.95,
        description="Of muon: momentum of the matrices.",
        needs=_MUON,
    )
    muon_rate_factor: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None,
        description="Of muon: what learning_rate is multiplied by for the matrices; by the corpus if unset.",
        needs=_MUON,
    )
    weight_decay: Annotated[float, Bounds(ge=0)] | None = setting(
        default=None,
        description="Weight decay of matrices, times the rate, apart from the gradient (with adam, as a part of it).",
    )
    clip_norm: Annotated[float, Bounds(ge=0)] = setting(
        default=1.0,
        description="Gradients of a larger norm are scaled down to this one; 0 leaves them alone.",
        elsewhere=("max_grad_norm",),
    )
    label_smoothing: Rate | None = setting(
        default=None, description="Share of each label's probability that is spread over all tokens."
    )
    bpe_dropout: Rate = setting(
        default=0.0,
        description="Subword regularisation of bpe: probability that a merge is left out, drawn anew each epoch.",
        before=0.0,
    )
    unigram_alpha: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None,
        description="Subword regularisation of unigram: segmentations are drawn by their probability to this power; "
        "off if unset.",
        before=None,
    )
    sampled_sides: Literal["both", "source", "target"] = setting(
        default="both",
        description="The sides whose subwords are drawn anew in each epoch.",
        before="both",
        needs=({"training.bpe_dropout": Bounds(gt=0)}, {"training.unigram_alpha": Bounds(gt=0)}),
    )
    r_drop: Annotated[float, Bounds(ge=0)] = setting(
        default=0.0,
        description="Weight of the agreement between two passes under different dropout (alpha of R-Drop); 0 is off.",
        before=0.0,
    )
    r_drop_after: NotNegative = setting(
        default=0, description="Updates of one pass each before r_drop begins.", unit="updates", before=0
    )
    max_steps: Positive | None = setting(
        default=None,
        description="Updates of the whole run, at most.",
        unit="updates",
        changeable=True,
        elsewhere=("updates", "train_steps", "max_update", "max_updates"),
    )
    max_minutes: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None,
        description="Training stops after this much time; no limit if unset.",
        unit="minutes",
        changeable=True,
    )
    patience: NotNegative | None = setting(
        default=None,
        description="Training stops after so many validations in a row without a better one.",
        unit="validations",
        changeable=True,
    )
    ema_decay: Rate | None = setting(
        default=None,
        description="Decay of the moving average of weights that is judged and kept; by the length of the run if "
        "unset, 0 is off.",
    )
    average_last: NotNegative = setting(
        default=0,
        description="So many last checkpoints are averaged when training ends; 0 is off.",
        unit="checkpoints",
        changeable=True,
    )
    datastore: bool = setting(
        default=False,
        description="Whether the training pairs become a datastore when training ends, as by `dragoman remember`.",
        changeable=True,
    )
    init_from: PathText | None = setting(
        default=None,
        description="Start from the weights and tokenizer of this run.",
        flag="--init-from",
        changeable=True,
        families=(*TRAINED, *COUNTED),
    )
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        default="auto", description="Precision of matrix products; auto: the faster one on this device."
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = setting(
        default="auto",
        description="Where training runs; auto: on a GPU if there is one.",
        flag="--device",
        changeable=True,
        families=(*TRAINED, *COUNTED),
    )
    threads: Threads | None = setting(
        default=None,
        description="CPU threads; as many as PyTorch takes by itself if unset.",
        unit="threads",
        changeable=True,
        families=(*TRAINED, *COUNTED),
    )
    compile: bool = setting(
        default=False,
        description="Whether the model is compiled (torch.compile): slow to start, for long runs on a GPU.",
    )
    tensorboard: bool = setting(
        default=False,
        description="Whether losses and scores are also written for TensorBoard.",
        changeable=True,
        families=(*TRAINED, *COUNTED),
    )
    log_every: Positive = setting(
        default=50, description="Updates between two lines of the log.", unit="updates", changeable=True
    )
    save_every: Positive | None = setting(
        default=None,
        description="Updates between checkpoints; better validations are saved too. If unset, one at each validation.",
        unit="updates",
        changeable=True,
    )
    keep_last: Annotated[int, Bounds(ge=2)] = setting(
        default=2, description="Checkpoints that are kept besides the best.", unit="checkpoints", changeable=True
    )
    seed: NotNegative = setting(
        default=1,
        description="Seed of weights, order and dropout: the same one trains the same model.",
        flag="--seed",
        families=(*TRAINED, *COUNTED),
    )


class ValidationConfig(Section, section="validation", content=frozenset({"run"}), families=TRAINED):
    """What is measured on the held-out pairs, and how often."""

    every: Positive | None = setting(
        default=None, description="Updates between validations.", unit="updates", changeable=True
    )
    metric: Literal["loss", "bleu", "chrf", "exact"] | None = setting(
        default=None, description="What the best checkpoint is judged by; the others are reported too."
    )
    search: Literal["greedy", "beam"] = setting(
        default="greedy",
        description="How held-out sources are translated: greedily, or by the model's own beam.",
        needs=({"decoding.sampling": (False,), "decoding.beam_size": Bounds(ge=2)},),
    )
    max_sentences: Positive = setting(
        default=1000,
        description="Held-out sources translated at each validation; of a text, 100 lines at most are continued.",
        unit="lines",
        changeable=True,
    )
    tokenize: str | None = setting(
        default=None,
        description="Tokenizer of BLEU (sacreBLEU's names; none: lines are tokens already); by the language if unset.",
        before=None,
    )
    length_penalties: tuple[Annotated[float, Bounds(ge=0)], ...] | None = setting(
        default=None,
        description="Tried on held-out pairs when training ends, the best becomes decoding.length_penalty; if unset, "
        "some for text whose penalty was left open, [] tries none.",
        changeable=True,
    )
