"""The search of a trained model: its length penalty, chosen on the dev set."""

from __future__ import annotations

from pathlib import Path

from dragoman.config import TrainConfig
from dragoman.data import Prepared
from dragoman.evaluation import Metric, fitting_metric
from dragoman.models.description import DATASTORE
from dragoman.studies import Tuning, save_decoding
from dragoman.studies.tuning import try_searches
from dragoman.training.log import RunLog
from dragoman.training.tasks import dev_bleu
from dragoman.translation import Translator

# The largest p-value, by approximate randomisation, of a penalty that is better than the run's own.
SURE = 0.05


def searches_beams(config: TrainConfig) -> bool:
    """Return whether a model of these settings has searches to which a length penalty matters."""
    return config.model.learns_pairs and config.decoding.is_beam_search


def tune_search(
    directory: Path, config: TrainConfig, data: Prepared, log: RunLog, step: int
) -> tuple[TrainConfig, Tuning | None]:
    """Try `validation.length_penalties` with the kept model, if it searches with beams, and make the best its own.

    Each search is run in full, over at most `validation.max_sentences` dev lines, and judged by the metric of the
    validations (where that is the loss, by what fits the references). A penalty takes the place of the run's own only
    where it is better with p <= 0.05. Chosen by the score alone on 100 dev lines it cost 0.5 BLEU on the other lines of
    Multi30k en-fr, where large penalties make a few long loops; this way it cost nothing, there and on two other
    corpora.

    Args:
        directory: the run, with the kept weights.
        config: completed.
        data: the prepared corpus.
        log: where the results are told.
        step: the last update.

    Returns:
        The settings with the best penalty, and what each reached, if any was tried.
    """
    penalties, most = config.validation.length_penalties, config.validation.max_sentences
    if not penalties or not searches_beams(config):
        return config, None
    name, bleu = config.validation.metric or "loss", dev_bleu(config)
    fitting = fitting_metric([(line,) for line in data.dev_target[:most]], bleu)[0]
    metric = fitting if name == "loss" else bleu if name == bleu.name else Metric(name, bleu.language)
    own = config.decoding.replace({"n_best": 1})
    if own.knn_weight and not (directory / DATASTORE).exists():
        log.line(f"decoding.knn_weight waits for a datastore, which `dragoman remember {directory}` makes")
        own = own.replace({"knn_weight": None})
    others = [own.replace({"length_penalty": alpha}) for alpha in penalties if alpha != own.length_penalty]
    log.line(f"trying {1 + len(others)} length penalties on {min(most, len(data.dev)):,} dev lines:")
    tuned = try_searches(
        Translator.from_pretrained(directory, device=config.training.device),
        data.dev_inputs(most),
        data.dev_target[:most],
        [own, *others],
        metric=metric,
    )
    sure = [one for one in tuned.trials if one.against is None or one.against.p_randomisation <= SURE]
    chosen = max(sure, key=lambda one: one.score.value)
    penalty = chosen.decoding.length_penalty
    config = config.replace({"decoding": config.decoding.replace({"length_penalty": penalty})})
    save_decoding(directory, config.decoding)
    for line in tuned.lines():
        log.line(line)
    kept = f"kept, as none is better with p <= {SURE}" if chosen is tuned.trials[0] else "taken"
    log.line(f"length penalty {penalty:g} {kept}")
    values = {f"{one.decoding.length_penalty:g}": one.score.value for one in tuned.trials}
    found = {"metric": chosen.score.name, "signature": chosen.score.signature, "length_penalties": values}
    log.event("search", step, {"beam_size": own.beam_size, **found, "chosen": penalty})
    return config, tuned
