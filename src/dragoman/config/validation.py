"""The settings of `[validation]`: what is measured while a model is trained."""

from __future__ import annotations

from typing import Annotated, Literal

from dragoman.config.kinds import TRAINED, Positive
from dragoman.config.section import Section, setting
from dragoman.config.values import Bounds


class ValidationConfig(Section, section="validation", content=frozenset({"run"}), families=TRAINED):
    """What is measured on the held-out pairs, and how often."""

    every: Positive | None = setting(
        default=None,
        description="Updates between validations.",
        unit="updates",
        changeable=True,
        elsewhere="validation_freq valid_steps validate_interval_updates valid_freq eval_steps eval_every "
        "eval_interval eval_freq val_check_interval validate_every valid_every valid_interval",
        chosen="about an epoch: 100 to 2,000 updates",
    )
    metric: Literal["loss", "bleu", "chrf", "exact", "wer", "cer"] | None = setting(
        default=None,
        description="What the best checkpoint is judged by; the others are reported too.",
        elsewhere="early_stopping_metric best_checkpoint_metric metric_for_best_model optimized_metric "
        "valid_metrics eval_metric eval_metrics early_stopping_criteria",
        chosen="exact for symbols, wer for what is heard, bleu for text, loss for models of one text",
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
        chosen="by the target language",
    )
    length_penalties: tuple[Annotated[float, Bounds(ge=0)], ...] | None = setting(
        default=None,
        description="Tried on held-out pairs when training ends, the best becomes decoding.length_penalty; if unset, "
        "some for text whose penalty was left open, [] tries none.",
        changeable=True,
        chosen="0.6, 1, 1.4 and 1.8 for text whose penalty was left open",
    )
