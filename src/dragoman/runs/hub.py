"""The head of a model card: what a hub of models reads of it, in YAML between two lines of dashes.

Field names and values are those of the Hugging Face hub (its "Model cards" and "model-index" pages).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dragoman.files import json_text

_TASKS = {"transformer": "translation", "masked": "fill-mask"}
_NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "exact": "Exact match", "loss": "Loss", "accuracy": "Accuracy"}
_NAMES |= {"wer": "WER", "cer": "CER"}
_TYPES = {"exact": "exact_match"}  # what the hub calls a metric, where it differs


def card_head(
    name: str,
    family: str,
    languages: Sequence[str | None],
    scores: Mapping[str, float],
    signatures: Mapping[str, str],
    *,
    lines: int,
    license_name: str | None = None,
) -> str:
    """Return the head of a card.

    Args:
        name: of the model.
        family: what kind of model: "transformer", "causal", "masked" or a Markov model.
        languages: codes of the source and the target, where known.
        scores: metric -> its value on held-out lines.
        signatures: metric -> how it was measured.
        lines: how many held-out lines there were.
        license_name: of the model, as the hub calls it.
    """
    task = _TASKS.get(family, "text-generation")
    known = list(dict.fromkeys(one for one in languages if one))
    return "\n".join(
        [
            "---",
            *_listed("language", known),
            *([] if license_name is None else [f"license: {_text(license_name)}"]),
            "library_name: dragoman",
            f"pipeline_tag: {task}",
            *_listed("tags", ["dragoman", "transformer" if family in ("transformer", "causal", "masked") else "markov",
                              task]),
            *_listed("metrics", [_TYPES.get(one, one) for one in scores]),
            *_index(name, task, scores, signatures, lines),
            "---",
            "",
        ]
    )  # fmt: skip


def _index(
    name: str, task: str, scores: Mapping[str, float], signatures: Mapping[str, str], lines: int
) -> Iterator[str]:
    if not scores:
        return
    yield "model-index:"
    yield f"- name: {_text(name)}"
    yield "  results:"
    yield "  - task:"
    yield f"      type: {task}"
    yield "    dataset:"
    yield f"      name: {_text(f'held-out lines ({lines:,}), which also chose the weights')}"
    yield "      type: held-out"
    yield "    metrics:"
    for metric, value in scores.items():
        yield f"    - type: {_TYPES.get(metric, metric)}"
        yield f"      name: {_NAMES.get(metric, metric)}"
        yield f"      value: {value:.4f}"
        if metric in signatures:
            yield f"      args: {_text(signatures[metric])}"


def _listed(name: str, values: Sequence[str]) -> list[str]:
    return [f"{name}:", *(f"- {_text(one)}" for one in values)] if values else []


def _text(value: str) -> str:
    """Text as YAML takes it, whatever is in it: as in JSON."""
    return json_text(value)
