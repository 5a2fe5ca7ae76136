"""Settings chosen from the corpus and the device, each with its reason.

Sizes go by T, the number of target tokens of the training set (`SIZES`); a model of one text has the tokens of the text
for T, and one stack of layers instead of two. A CPU alone goes no further than the third row. Where the target is a
sequence of symbols (it has a word vocabulary of 1,000 entries at most) there may be more layers and epochs, and dropout
is 0.1; whether sources are read with matches is decided when the corpus is prepared (`text.choices`). An update has
T/150 target tokens, within 1024 (2048 beyond the first row) and 4096 on a CPU, within 4096 and 16384 elsewhere. Models
of pairs have rotary positions, those of text a length penalty of 1.0, or when training ends another that 100 dev lines
or more prove to be better. In the first two rows targets that are text are learned in both directions, by a decoder
each.

The learning rate rises for a tenth of the run, for 300 updates at least (a quarter of a short run), and falls along a
cosine to nearly 0 at its end. Its peak is 0.768 / d_model for text and half of that for sequences of symbols, at most
6e-3. So Muon trains the models of pairs in runs of 1,000 updates or more, with a weight decay of 0.5 below a million
tokens, where the matrices of text go at twice the rate, and Adam all others. What is judged and kept is a moving
average of the weights over about the last eighth of the updates, a thousand at most. The peak of post norm is 1e-3:
nothing was tried with it.

`max_epochs` and `max_minutes` become a number of updates before these choices are made. A model that has learned
already (`init_from`) is trained gently: few epochs of Adam without decay, at a small rate that rises for a tenth of
them (`planning.gentle`).

The runs that this came from are in the guide (`docs/en/measured.md`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import torch

from dragoman.config import ModelConfig, TrainConfig
from dragoman.data import Prepared, plan_of
from dragoman.data.mixing import Mixing
from dragoman.distributed import world_size
from dragoman.errors import ConfigError
from dragoman.evaluation.fitting import fitting_metric, heard_metric
from dragoman.models import build_model
from dragoman.models.blueprint import count_numbers
from dragoman.models.draft import blueprint_of
from dragoman.optimizers.muon import matrices_of, orthogonal_operations
from dragoman.planning import gentle
from dragoman.planning.fine_tuning import LEAST_UPDATES, LONGEST_WARMUP, VALIDATIONS
from dragoman.search.reranking import right_to_left_share
from dragoman.text.choices import choose_matches, is_of_symbols
from dragoman.training.limits import fit_outputs
from dragoman.training.precision import choose_precision, operations_per_second
from dragoman.training.sizes import SIZES, Size, shape_for, size_for, target_tokens
from dragoman.training.tasks import dev_bleu, task_of

# Little of CMUdict is learned by heart: with more dropout, training pairs are hardly likelier than held-out ones.
SYMBOL_DROPOUT = 0.1
# What training reaches of the speed of a large product, on CPUs with these models.
SHARE_OF_PEAK = 0.7
# Of pre-norm layers under a cosine, for text: 3e-3 at d_model 256, 6e-3 at 128. Half of it for sequences of symbols.
RATE_TIMES_WIDTH, HIGHEST_RATE = 0.768, 6e-3
# Short runs learn less with a shorter warm-up.
LEAST_WARMUP = 300
# Muon begins worse than Adam, and is ahead well before this many updates.
LEAST_FOR_MUON = 1000
# Of Muon, where it was tried: pairs of fewer tokens.
DECAY, DECAY_BELOW = 0.5, 1e6
# Of the matrices' rate where text decays, so 6e-3 at d_model 256.
RATE_FACTOR = 2.0
# Text gains by more than the paper's 0.6, but how much more differs.
TEXT_LENGTH_PENALTY = 1.0
# Of the loss, where there are frames.
CTC_WEIGHT = 0.3
# Tried at the end on dev lines, where there are so many.
LENGTH_PENALTIES, FEWEST_LINES = (0.6, 1.0, 1.4, 1.8), 100
# Updates that the moving average of the weights reaches back, at most.
LONGEST_SPAN = 1000
# Validations of a run whose time is given, if they are quick.
TIMED_VALIDATIONS = 5
# Seconds an update takes however little it computes.
CALLS_PER_UPDATE = 0.01


@dataclass(frozen=True)
class Choice:
    """A setting that was left open, what was chosen, and why."""

    key: str
    value: object
    reason: str


class _Choices:
    """Fills open settings and remembers what it chose."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.made: list[Choice] = []

    def choose(self, section: str, reason: str, values: Mapping[str, object]) -> None:
        present = getattr(self.config, section)
        self.change(section, reason, {key: v for key, v in values.items() if getattr(present, key) in (None, "auto")})

    def change(self, section: str, reason: str, values: Mapping[str, object]) -> None:
        """Choose also what has a value where nothing is chosen."""
        self.made += [Choice(f"{section}.{key}", value, reason) for key, value in values.items()]
        self.config = self.config.replace({section: {**getattr(self.config, section).to_dict(), **values}})


def complete(config: TrainConfig, data: Prepared, device: torch.device) -> tuple[TrainConfig, list[Choice]]:
    """Choose a value for every open setting; return the configuration and the choices.

    Raises:
        ConfigError: what was given does not fit the corpus, or what was chosen does not fit what was given.
    """
    tokens, pairs = amount(data), config.model.learns_pairs
    sizes: dict[str, int | None] = {"source_vocab": None, "target_vocab": len(data.tokenizers.target)}
    if pairs:
        sound = data.tokenizers.sound
        sizes |= {"source_vocab": data.tokenizers.source_vocab, "matches": data.tokenizers.count_of_matches}
        sizes |= {"mels": None if sound is None else sound.n_mels}
    _check_sizes(config.model, sizes)
    languages = dict(zip(("source_language", "target_language"), data.languages, strict=True))
    known = {
        "model": {**config.model.to_dict(), **sizes},
        "data": {**config.data.to_dict(), **languages},
    }
    if data.tokenizers.sound is not None:
        known["audio"] = {**config.audio.to_dict(), **asdict(data.tokenizers.sound)}
    choices = _Choices(config.replace(known))
    task = task_of(choices.config)
    listens = data.tokenizers.sound is not None
    size, reason = size_for(tokens, device, "vectors of sound" if listens else "target tokens")
    _choose_ctc(choices, listens=listens)
    symbols = pairs and not listens and is_of_symbols(data.tokenizers.target)
    layers = dict.fromkeys(task.layers, size.symbol_layers if symbols else size.layers)
    if pairs and not symbols:
        layers["num_encoder_layers"] = size.encoder_layers
    if symbols:
        choices.choose("model", "on CMUdict little was learned by heart", {"dropout": SYMBOL_DROPOUT})
    choices.choose("model", reason, {**shape_for(config.model, size), **layers})
    if pairs:
        _choose_for_pairs(choices, data, size, symbols=symbols)
    else:
        _choose_for_text(choices)
    epochs = size.symbol_epochs if symbols else size.epochs
    if config.training.init_from is not None:
        epochs = _choose_gently(choices, len(data.train))
    _choose_training(choices, data, tokens, epochs, device)
    _choose_rates(choices, symbols=symbols)
    _choose_optimizer(choices, decays=pairs and tokens < DECAY_BELOW, symbols=symbols)
    if (metric := choices.config.validation.metric) not in task.metrics:
        family, hint = config.model.family, "leave validation.metric out"
        raise ConfigError(f"{metric} is not defined for a {family} model", expected=task.metrics[0], hint=hint)
    for reason, values in fit_outputs(config.decoding, data, config.training.init_from) if pairs else ():
        choices.change("decoding", reason, values)
    # A search that the model will not be able to do is told now, not by the first validation.
    right_to_left_share(choices.config.decoding, bool(choices.config.model.right_to_left))
    return choices.config, choices.made


def _check_sizes(model: ModelConfig, sizes: Mapping[str, int | None]) -> None:
    """Refuse vocabulary sizes that were given and are not those of the prepared data, which count."""
    for name in ("source_vocab", "target_vocab", "mels"):
        size = sizes.get(name)
        if (found := getattr(model, name)) is not None and name in model.given and found != size:
            other = "audio.n_mels" if name == "mels" else "tokenizer.vocab_size"
            hint = f"leave it out; {other} asks for another one"
            raise ConfigError(f"model.{name} follows from the data", expected=size, found=found, hint=hint)


def _choose_for_pairs(choices: _Choices, data: Prepared, size: Size, *, symbols: bool) -> None:
    # An imported base may have a tokenizer for each side and one table all the same.
    goes_on = choices.config.training.init_from is not None
    joint = (data.tokenizers.shares_ids if goes_on else data.tokenizers.joint) and data.tokenizers.sound is None
    if choices.config.model.tie_embeddings == "all" and not joint:
        hint = "set tokenizer.joint = true, or model.tie_embeddings = decoder"
        raise ConfigError("tie_embeddings = all needs one vocabulary for both sides", found="two", hint=hint)
    why = "the vocabulary is joint" if joint else "two vocabularies, so only target embedding and generator are shared"
    if data.tokenizers.sound is not None:
        why = "target embedding and generator are shared"
    choices.choose("model", why, {"tie_embeddings": "all" if joint else "decoder"})
    model = choices.config.model
    if (model.d_k or (model.d_model or 0) // (model.num_heads or 1)) % 2:
        choices.choose("model", "heads of an odd width have no pairs to rotate", {"positions": "interleaved"})
    else:
        choices.choose("model", "learns more than sinusoids on Tatoeba and Multi30k", {"positions": "rotary"})
    choices.choose("training", "as in the paper", {"label_smoothing": 0.1})
    _choose_directions(choices, data, size, symbols=symbols)
    metric, why = "exact", "the target is a sequence of symbols"
    if not symbols:
        judged = data.dev_target[: choices.config.validation.max_sentences]
        transcribes = data.tokenizers.sound is not None and data.languages[0] in (None, data.languages[1])
        fits = heard_metric if transcribes else fitting_metric
        fitting, why = fits([(line,) for line in judged], dev_bleu(choices.config))
        metric = fitting.name
    choices.choose("validation", why, {"metric": metric})
    decoding = choices.config.decoding
    if not symbols and decoding.leaves_penalty_open:
        why = "beams of text end too early with the paper's 0.6"
        choices.change("decoding", why, {"length_penalty": TEXT_LENGTH_PENALTY})
        lines = min(len(data.dev), choices.config.validation.max_sentences)
        if decoding.is_beam_search and lines >= FEWEST_LINES:
            why = f"tried on {lines:,} dev lines when training ends"
            choices.choose("validation", why, {"length_penalties": LENGTH_PENALTIES})


def _choose_directions(choices: _Choices, data: Prepared, size: Size, *, symbols: bool) -> None:
    if data.tokenizers.sound is not None:
        choices.choose("model", "was not tried with sounds", {"right_to_left": False})
    source, target = data.tokenizers.source, data.tokenizers.target
    tried = size.both_directions and choices.config.decoding.is_beam_search
    if choices.config.model.right_to_left is not None:
        pass
    elif choose_matches(source, target, len(data.train)):
        choices.choose("model", "learns more of CMUdict", {"right_to_left": True})
    elif not symbols and tried:
        choices.choose("model", "learns more of Tatoeba and Multi30k", {"right_to_left": True})
    model = choices.config.model
    if not model.right_to_left:
        choices.config = choices.config.replace({"model": model.as_built()})
    elif symbols:
        choices.choose("model", "another one gave nothing on CMUdict", {"right_to_left_decoder": "shared"})
    else:
        choices.choose("model", "neither direction gives way to the other", {"right_to_left_decoder": "own"})


def _choose_ctc(choices: _Choices, *, listens: bool) -> None:
    """Whether tokens are read off frames too; a model that reads has none."""
    head, share = choices.config.model.ctc, choices.config.training.ctc_loss_weight
    if (head or share) and not listens:
        hint = "leave model.ctc and training.ctc_loss_weight out"
        raise ConfigError("only a speech model can have a CTC head", found="a model of texts", hint=hint)
    if head is not None and share is not None and head != (share > 0):
        found = f"model.ctc = {str(head).lower()} and training.ctc_loss_weight = {share:g}"
        raise ConfigError("a head for CTC is there to be trained", found=found, hint="leave one of them out")
    if listens and head is None and share is None:
        choices.choose("training", "finds out sooner what is said where", {"ctc_loss_weight": CTC_WEIGHT})
    share = choices.config.training.ctc_loss_weight
    share = (CTC_WEIGHT if head else 0.0) if share is None else share
    values = {"model": {"ctc": share > 0}, "training": {"ctc_loss_weight": share}}
    choices.config = choices.config.replace(
        {key: {**getattr(choices.config, key).to_dict(), **one} for key, one in values.items()}
    )


def _choose_for_text(choices: _Choices) -> None:
    choices.choose("model", "embedding and generator are shared", {"tie_embeddings": "decoder"})
    choices.choose("model", "as in the paper", {"positions": "interleaved"})
    choices.choose("training", "probabilities are what counts", {"label_smoothing": 0.0})
    choices.choose("validation", "a text has no references", {"metric": "loss"})


def amount(data: Prepared) -> int:
    """Return what sizes go by: the target tokens, or of sounds the vectors that enter the encoder."""
    if data.tokenizers.sound is not None:
        return int(data.train.source_lengths.sum())
    return target_tokens(data)


def _longer(data: Prepared, tokens: int) -> float:
    """How many tokens of sources with their matches there are for one of the targets; 1 without matches."""
    if data.tokenizers.matching is None:
        return 1.0
    return max(1.0, (int(data.train.source_lengths.sum()) + len(data.train)) / tokens)


def _choose_training(choices: _Choices, data: Prepared, tokens: int, epochs: int, device: torch.device) -> None:
    longer = _longer(data, tokens)
    least, most = (1024 if tokens < SIZES[0].below else 2048, 4096) if device.type == "cpu" else (4096, 16384)
    batch = min(max(tokens // 150 // 256 * 256, least), most)
    precision, why = choose_precision(choices.config.model.d_model or 0, device)
    choices.choose("training", why, {"precision": precision})
    bounds = f"within {least:,} and {most:,} on {device.type}"
    batch, and_longer = round(batch * longer), f", {longer:.1f} times as many for the matches" if longer > 1 else ""
    choices.choose("training", f"for some 150 updates an epoch, {bounds}{and_longer}", {"batch_tokens": batch})
    training = choices.config.training
    updates = max(1, round(tokens * longer / ((training.batch_tokens or batch) * training.accumulate * world_size())))
    goes_on = training.init_from is not None
    least = LEAST_UPDATES if goes_on else 1000
    steps = max(least, epochs * updates)
    least_steps = f", {least:,} updates at least" if steps > epochs * updates else ""
    why = f"{steps / updates:.0f} epochs of {updates} updates{least_steps}"
    choices.choose("training", why, {"max_steps": steps})
    if training.max_epochs is not None:
        _limit_epochs(choices, data)
    choices.choose("training", "validations without a better one", {"patience": 10})
    if goes_on or training.max_minutes:
        parts = VALIDATIONS if goes_on else TIMED_VALIDATIONS
        every = max(1, (choices.config.training.max_steps or steps) // parts)
        choices.choose("validation", f"{parts} times in the run", {"every": every})
    every = min(max(updates, 100), 2000)
    choices.choose("validation", "about once an epoch, 100 to 2,000 updates", {"every": every})


def _choose_gently(choices: _Choices, pairs: int) -> int:
    """What keeps a model that has learned already from forgetting it; the epochs, which are few."""
    base, rank = choices.config.training.init_from, choices.config.training.lora_rank
    chosen = gentle(choices.config.model.d_model or 1, pairs, adapters=rank > 0)
    if rank:
        choices.choose("training", "twice the rank", {"lora_alpha": 2.0 * rank})
    why = f"gently, for {base} has learned already"
    choices.choose("training", why, {"optimizer": "adam", "weight_decay": 0.0})
    if choices.config.training.schedule != "paper":
        why = f"gently, by d_model and {pairs:,} {'pairs' if choices.config.model.learns_pairs else 'lines'}"
        choices.choose("training", f"{why}, higher for adapters" if rank else why, {"learning_rate": chosen.rate})
    return chosen.epochs


def _limit_epochs(choices: _Choices, data: Prepared) -> None:
    """The updates of `max_epochs`, where they are fewer than otherwise or nothing else is said."""
    training = choices.config.training
    assert training.max_epochs is not None
    assert training.batch_tokens is not None
    each, seed, budget = training.accumulate * world_size(), training.seed, training.batch_tokens
    steps, counts = Mixing(choices.config.data, data.sizes, seed).updates(
        training.max_epochs,  # shares of corpora change how long pairs are
        lambda rows: len(plan_of(data.train, batch_tokens=budget, seed=seed, epoch=0, accumulate=each, rows=rows)),
    )
    lengths = ", then ".join(f"{count:,}" for count in counts)
    made = [choice for choice in choices.made if choice.key == "training.max_steps"]
    if made or steps < (training.max_steps or steps):
        choices.made = [choice for choice in choices.made if choice not in made]
        choices.change("training", f"{training.max_epochs:g} epochs of {lengths} updates", {"max_steps": steps})


def _choose_rates(choices: _Choices, *, symbols: bool) -> None:
    """Schedule, its peak, and the moving average, once the number of updates is known."""
    training, model = choices.config.training, choices.config.model
    steps = training.max_steps or 1
    choices.choose("training", "ends near 0 at the last update", {"schedule": "cosine"})
    warmup = min(4000, max(LEAST_WARMUP, steps // 10), steps // 4)
    why = f"a tenth of the run, {LEAST_WARMUP} at least, but no more than a quarter"
    if training.init_from is not None:
        warmup, why = min(LONGEST_WARMUP, steps // 10), f"a tenth of the run, {LONGEST_WARMUP} at most"
    choices.choose("training", why, {"warmup_steps": warmup})
    rate, why = 1e-3, "holds at these sizes"
    if choices.config.training.schedule == "paper":
        rate, why = 2.0, "a factor in front of the formula"
    elif choices.config.training.schedule == "cosine" and model.norm == "pre":
        times_width, what = (RATE_TIMES_WIDTH / 2, "symbols") if symbols else (RATE_TIMES_WIDTH, "text")
        rate = float(f"{min(HIGHEST_RATE, times_width / (model.d_model or 1)):.2g}")
        why = f"by d_model, for {what}"
    choices.choose("training", why, {"learning_rate": rate})
    span = min(LONGEST_SPAN, max(1, steps // 8))
    choices.choose("training", f"over about {span} updates", {"ema_decay": round(1 - 1 / span, 4)})


def _choose_optimizer(choices: _Choices, *, decays: bool, symbols: bool) -> None:
    model, training = choices.config.model, choices.config.training
    tried = model.learns_pairs and model.norm == "pre" and training.schedule == "cosine"
    if tried and (training.max_steps or 0) >= LEAST_FOR_MUON:
        choices.choose("training", "learns more than Adam from as many updates", {"optimizer": "muon"})
    else:
        choices.choose("training", "as in the paper", {"optimizer": "adam"})
    if decays and choices.config.training.optimizer == "muon":
        choices.choose("training", "learns more of few pairs", {"weight_decay": DECAY})
    else:
        choices.choose("training", "none, as in the paper", {"weight_decay": 0.0})
    training = choices.config.training
    if training.optimizer == "muon":
        if decays and training.weight_decay and not symbols:
            factor, why = RATE_FACTOR, "learns more of few pairs of text while weights decay"
        else:
            factor, why = 1.0, "matrices at the rate of all else"
        choices.choose("training", why, {"muon_rate_factor": factor})


def estimate_seconds(config: TrainConfig, data: Prepared, device: torch.device) -> float:
    """Estimate how long the updates will take, roughly: products counted, this device's speed probed for a moment."""
    training = config.training
    assert training.max_steps is not None
    assert training.batch_tokens is not None
    per_update = min(training.batch_tokens * training.accumulate, amount(data))
    # Forward and backward: 6 operations a weight and token. Lookups and norms are left out, attention is small.
    weights = _weights_per_token(config.model)
    dtype = torch.bfloat16 if training.precision == "bfloat16" else torch.float32
    passes = training.max_steps + (max(0, training.max_steps - training.r_drop_after) if training.r_drop else 0)
    operations = 6.0 * passes * weights * per_update + _fixed_operations(config) * training.max_steps
    rate = SHARE_OF_PEAK * operations_per_second(device, dtype)
    seconds = operations / rate + CALLS_PER_UPDATE * training.max_steps
    return min(seconds, 60 * training.max_minutes) if training.max_minutes else seconds


def _fixed_operations(config: TrainConfig) -> float:
    """Operations of an update that do not depend on its tokens."""
    if config.training.optimizer != "muon":
        return 0.0
    with torch.device("meta"):
        matrices = matrices_of(build_model(config.model))
    return sum(orthogonal_operations(rows, matrix.shape[1]) for matrix, parts in matrices for rows in parts)


def _weights_per_token(config: ModelConfig) -> int:
    blueprint = blueprint_of(config)
    encoder, decoder = (count_numbers(blueprint, part) for part in ("encoder", "decoder"))
    directions = 2 if config.right_to_left else 1
    return encoder + directions * (decoder + math.prod(blueprint.generator.weight.shape))


def describe(choices: list[Choice]) -> list[str]:
    """Return the choices as lines for people."""
    return [f"  {choice.key} = {choice.value}  ({choice.reason})" for choice in choices]
