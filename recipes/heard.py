"""What a model that listens makes of a list of recordings, as the row that a recipe prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman import Translator
from dragoman.evaluation import score


def judge(translator: Translator, corpus: Path, name: str, metrics: Sequence[str]) -> dict:
    """Return each metric with its 95 % interval.

    Args:
        translator: the model.
        corpus: the folder with `NAME.txt`, what is to be written, and `NAME/00000.wav` and so on.
        name: of the list.
        metrics: by name.
    """
    wanted = (corpus / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    written = translator.translate([corpus / name / f"{number:05}.wav" for number in range(len(wanted))])
    row: dict = {"lines": len(wanted)}
    for one in score([each.text for each in written], wanted, metrics=metrics):
        row[one.name] = round(one.value, 2)
        row[f"{one.name}_interval"] = [round(one.low or 0, 2), round(one.high or 0, 2)]
        row |= {f"{one.name}_edits": one.edits._asdict()} if one.edits else {}
    return row
