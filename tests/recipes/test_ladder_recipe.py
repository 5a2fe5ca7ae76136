"""The ladder's table, on a toy text: a run that is there is measured again only with the words it was trained on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ladder
import pytest

from dragoman.errors import ModelError
from end_to_end import small


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    corpus = tmp_path / "tatoeba-en-zh"
    corpus.mkdir()
    for number, part in enumerate(("train", "dev", "test")):
        lines = [f"{line} rare{row // 5}" for row, line in enumerate(small.sentences(60, number, 4))]
        (corpus / f"{part}.en").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def call(*options: str) -> list[dict[str, Any]]:
        arguments = ["ladder.py", "--data", str(tmp_path), "--out", str(tmp_path / "runs"), "--min-count", "6"]
        monkeypatch.setattr(sys, "argv", [*arguments, *options])
        capsys.readouterr()
        ladder.main()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]

    return call


def test_a_run_is_measured_again_with_its_own_vocabulary_alone(rows, tmp_path: Path):
    first = rows("--rungs", "first-order")
    assert rows("--rungs", "first-order") == first
    stored = tmp_path / "runs/first-order/result.json"
    before = stored.read_bytes()
    for count, size in (("1", 28), ("60", 4)):
        with pytest.raises(ModelError, match=f"expected: word vocabulary of {size} entries") as refused:
            rows("--rungs", "zeroth-order,first-order", "--min-count", count)
        assert refused.value.found == "word vocabulary of 16 entries"
    assert not (tmp_path / "runs/zeroth-order").exists(), "nothing is trained before the refusal"
    assert stored.read_bytes() == before
    corpus = tmp_path / "tatoeba-en-zh/train.en"
    corpus.write_text(corpus.read_text(encoding="utf-8").replace("ba", "bo"), encoding="utf-8")
    with pytest.raises(ModelError, match="other words"):
        rows("--rungs", "first-order")
