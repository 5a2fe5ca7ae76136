"""The settings of `[training]` and `[markov]`: how a model is made of the data."""

from __future__ import annotations

from typing import Annotated, Literal

from dragoman.config.kinds import COUNTED, TRAINED, Minutes, NotNegative, PathText, Positive, Rate, Threads
from dragoman.config.section import Section, setting
from dragoman.config.values import Before, Bounds

# What validations are judged by that is the better the smaller it is.
LOWER_IS_BETTER = frozenset({"loss", "wer", "cer"})
_MUON = ({"training.optimizer": ("muon", ...)},)
_ADAPTERS = ({"training.lora_rank": Bounds(gt=0)},)


def _words(value: object) -> object:
    """Names may stand in one text, commas between them."""
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else value


_LISTED = Before(_words, "a name, or a list of names")


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
        elsewhere="max_tokens mini_batch_words tokens_per_batch batch_words",
        chosen="for some 150 updates an epoch, within bounds of the device",
    )
    accumulate: Positive = setting(
        default=1,
        description="Micro-batches of each update.",
        unit="micro-batches",
        elsewhere="batch_multiplier accum_count update_freq update_interval optimizer_delay "
        "gradient_accumulation_steps grad_accum grad_accumulation accumulate_grad_batches "
        "gradient_accumulation",
    )
    optimizer: Literal["adam", "adamw", "muon"] | None = setting(
        default=None,
        description="Optimiser; muon takes orthogonal steps for the matrices inside the layers, adamw for all else.",
        elsewhere="optim optimizer_type",
        chosen="muon for pairs in runs of 1,000 updates or more, else adam",
    )
    learning_rate: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None,
        description="Peak of the learning rate; with schedule = paper, the factor in front of the formula.",
        elsewhere="lr learn_rate initial_learning_rate peak_lr max_lr",
        chosen="by d_model and the kind of the target",
    )
    schedule: Literal["paper", "inverse_sqrt", "cosine", "constant"] | None = setting(
        default=None,
        description="How the learning rate goes; cosine if unset.",
        elsewhere="scheduling lr_scheduler lr_scheduler_type decay_method learning_rate_scheduler_type "
        "lr_schedule scheduler",
        chosen="cosine",
    )
    warmup_steps: NotNegative | None = setting(
        default=None,
        description="Updates in which the learning rate rises to its peak.",
        unit="updates",
        elsewhere="learning_rate_warmup learning_rate_warmup_steps warmup_updates lr_warmup num_warmup_steps warmup",
        chosen="a tenth of the run, 300 at least, a quarter at most",
    )
    adam_beta1: Rate = setting(
        default=0.9,
        description="Of adam: decay of the moving mean of gradients.",
        elsewhere="beta1 beta_1",
    )
    adam_beta2: Rate = setting(
        default=0.98,
        description="Of adam: decay of the moving mean of their squares.",
        elsewhere="beta2 beta_2",
    )
    adam_eps: Annotated[float, Bounds(gt=0)] = setting(
        default=1e-9,
        description="Of adam: what is added to the root that an update is divided by.",
        elsewhere="adam_epsilon optimizer_eps",
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
        chosen="2 for text of few pairs, else 1",
    )
    weight_decay: Annotated[float, Bounds(ge=0)] | None = setting(
        default=None,
        description="Weight decay of matrices, times the rate, apart from the gradient (with adam, as a part of it).",
        chosen="0.5 for few pairs with muon, else 0",
    )
    clip_norm: Annotated[float, Bounds(ge=0)] = setting(
        default=1.0,
        description="Gradients of a larger norm are scaled down to this one; 0 leaves them alone.",
        elsewhere="max_grad_norm grad_clip clip_grad_norm clip_grad clip_gradient gradient_clip "
        "gradient_clip_val gradient_clipping gradient_clipping_threshold",
    )
    label_smoothing: Rate | None = setting(
        default=None,
        description="Share of each label's probability that is spread over all tokens.",
        elsewhere="label_smoothing_factor label_smoothing_epsilon smoothing label_smooth",
        chosen="0.1 for pairs, 0 for one text",
    )
    ctc_loss_weight: Rate | None = setting(
        default=None,
        description="Of a model that listens: share of the loss that is of reading the text off frames (CTC).",
        since="0.2.0",
        before=0.0,
        elsewhere="ctc_alpha mtlalpha",
        chosen="0.3 for models that listen, else 0",
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
        elsewhere="updates train_steps training_steps max_train_steps max_update max_updates after_batches "
        "total_steps num_steps num_updates",
        chosen="a number of epochs by the size of the corpus, 1,000 updates at least",
    )
    max_epochs: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None,
        description="How often the training pairs are seen, at most; it becomes max_steps.",
        unit="epochs",
        changeable=True,
        since="0.2.0",
    )
    max_minutes: Minutes | None = setting(
        default=None,
        description="Time for the whole run, as 20, 20m, 1h30m or 90s: some updates are timed, then it becomes "
        "max_steps, and the schedule ends there; no limit if unset.",
        unit="minutes",
        flag="--time",
        changeable=True,
    )
    patience: NotNegative | None = setting(
        default=None,
        description="Training stops after so many validations in a row without a better one.",
        unit="validations",
        changeable=True,
        elsewhere="early_stopping early_stopping_patience early_stop max_num_checkpoint_not_improved",
        chosen="10",
    )
    ema_decay: Rate | None = setting(
        default=None,
        description="Decay of the moving average of weights that is judged and kept; by the length of the run if "
        "unset, 0 is off.",
        chosen="over an eighth of the run, 1,000 updates at most",
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
    extend_vocabulary: bool = setting(
        default=False,
        description="Whether words (or characters) that the vocabulary of init_from lacks are appended; their rows "
        "begin as the mean of the others.",
        since="0.2.0",
        before=False,
    )
    add_tokens: PathText | None = setting(
        default=None,
        description="File of tokens, one a line, appended to the vocabulary of init_from, each one piece wherever it "
        "stands; their rows begin as the mean of the pieces they were cut into.",
        flag="--add-tokens",
        content=frozenset(),
        since="0.2.0",
        before=None,
        elsewhere="added_tokens",
    )
    lora_rank: NotNegative = setting(
        default=0,
        description="Rank of adapters (LoRA) that are trained beside the matrices of init_from, which stay as they "
        "are; 0 trains the weights themselves.",
        before=0,
        since="0.2.0",
        elsewhere="lora_r lora_dim",
    )
    lora_alpha: Annotated[float, Bounds(gt=0)] | None = setting(
        default=None,
        description="What an adapter counts is lora_alpha / lora_rank; twice the rank if unset.",
        before=None,
        since="0.2.0",
        needs=_ADAPTERS,
        chosen="twice the rank",
    )
    lora_matrices: Annotated[tuple[Literal["query", "key", "value", "output", "inner", "outer"], ...], _LISTED] = (
        setting(
            default=("query", "key", "value", "output"),
            description="The matrices of each layer that get an adapter: of attention (query, key, value, output), of "
            "the feed-forward block (inner, outer).",
            before=("query", "key", "value", "output"),
            since="0.2.0",
            needs=_ADAPTERS,
            elsewhere="lora_target_modules target_modules lora_layers",
        )
    )
    freeze: Annotated[tuple[str, ...], _LISTED] = setting(
        default=(),
        description="Parts that stay as they are: encoder, decoder, embeddings, generator, or dotted names of weights, "
        "with * for any letters (encoder.layers.0, *.feed_forward).",
        before=(),
        since="0.2.0",
        elsewhere="freeze_layers freeze_modules fixed_param_names freeze_parameters",
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
        elsewhere="cpu_threads num_threads n_threads omp_num_threads",
        chosen="as PyTorch does",
    )
    rank_timeout: Annotated[float, Bounds(gt=0)] = setting(
        default=600.0,
        description="Of training in several processes: how long one waits for the others before it gives up.",
        unit="seconds",
        changeable=True,
        since="0.2.0",
        before=600.0,
    )
    sharding: Literal["none", "full"] = setting(
        default="none",
        description="Of training in several processes: none, each holds the whole model; full, each holds a part of "
        "every tensor (FSDP2), for what does not fit on one device.",
        changeable=True,
        elsewhere="fsdp fully_sharded_data_parallel",
        since="0.2.0",
        before="none",
    )
    compile: bool = setting(
        default=False,
        description="Whether the model is compiled (torch.compile): slow to start, for long runs on a GPU.",
        elsewhere="torch_compile use_compile",
    )
    tensorboard: bool = setting(
        default=False,
        description="Whether losses and scores are also written for TensorBoard.",
        changeable=True,
        families=(*TRAINED, *COUNTED),
    )
    license: str | None = setting(
        default=None,
        description="Licence of the model, for the head of its card: as the Hugging Face hub calls it, such as "
        "cc-by-4.0; none is named if unset.",
        changeable=True,
        since="0.2.0",
        families=(*TRAINED, *COUNTED),
    )
    log_every: Positive = setting(
        default=50,
        description="Updates between two lines of the log.",
        unit="updates",
        changeable=True,
        elsewhere="logging_freq report_every log_interval disp_freq display_freq logging_steps log_steps "
        "log_freq log_every_n_steps print_every",
    )
    save_every: Positive | None = setting(
        default=None,
        description="Updates between checkpoints; better validations are saved too. If unset, one at each validation.",
        unit="updates",
        changeable=True,
        elsewhere="save_checkpoint_steps save_steps save_interval_updates save_freq checkpoint_interval "
        "checkpoint_every",
        chosen="at each validation",
    )
    keep_last: Annotated[int, Bounds(ge=2)] = setting(
        default=2,
        description="Checkpoints that are kept besides the best.",
        unit="checkpoints",
        changeable=True,
        elsewhere="keep_checkpoint keep_best_ckpts keep_last_ckpts keep_last_params keep_interval_updates "
        "save_total_limit keep_last_checkpoints max_to_keep",
    )
    seed: NotNegative = setting(
        default=1,
        description="Seed of weights, order and dropout: the same one trains the same model.",
        flag="--seed",
        families=(*TRAINED, *COUNTED),
        elsewhere="random_seed manual_seed",
    )

    def check(self) -> None:
        """See `Section.check`."""
        if self.sharding == "none":
            return
        if self.lora_rank:
            raise ValueError('sharding = "full" shards what is trained, which is little for adapters: set it to "none"')
        if self.compile:
            raise ValueError(
                'sharding = "full" gathers weights layer by layer, which cannot be compiled: set compile = false'
            )
        if self.average_last > 1:
            raise ValueError('average_last needs whole weights, which sharding = "full" has not: leave it out, and '
                             "call `dragoman average` when training has ended")  # fmt: skip
