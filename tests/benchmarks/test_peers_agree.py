"""Only systems that compute the same are compared: what is refused, what fails, and what a page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import peers_agree
import peers_dragoman
import peers_formats
import peers_marian
import peers_page
import peers_rows
import peers_run
import peers_trained
import peers_training
import peers_work
import pytest
from peers_pool import Contestant, UnequalError

import dragoman
from dragoman.config import make_config

SMALL = peers_work.sizes(32, 4, 64, 2, 60)
CONFIG = {"family": "transformer", **SMALL}
FLOAT32 = {"precision": "float32"}


class Fake:
    """A worker that answers from a peer in this process."""

    def __init__(self, name: str, peer: Any, options: dict[str, Any] = FLOAT32) -> None:
        self.contestant, self.peer = Contestant(name, "any", "python", options), peer

    def result(self, method: str, *arguments: Any) -> Any:
        return getattr(self.peer, method)(*arguments)


def fakes(*workers: Fake) -> Any:
    return {worker.contestant.name: worker for worker in workers}


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "rotary-cross"},
        {"positions": "relative"},
        {"positions": "alibi"},
        {"family": "causal"},
        {"d_k": 16},
        {"d_k": 4, "d_v": 4},
        {"matches": 2},
    ],
    ids=str,
)
def test_what_a_format_cannot_say_is_refused_in_words(changes: dict[str, Any]) -> None:
    assert peers_formats.refusal({**CONFIG, **changes})


@pytest.mark.parametrize("positions", ["interleaved", "concatenated", "rotary"])
def test_what_a_format_can_say_is_not_refused(positions: str) -> None:
    assert peers_formats.refusal({**CONFIG, "positions": positions, "right_to_left": True}) is None


def test_two_systems_with_the_same_weights_agree_and_with_others_do_not(tmp_path: Path) -> None:
    ours, theirs, other = (
        peers_dragoman.Peer({"threads": 1, **FLOAT32}), peers_marian.Peer({"threads": 1}),
        peers_dragoman.Peer({"threads": 1, **FLOAT32}),
    )  # fmt: skip
    ours.make_model(str(tmp_path / "one"), SMALL, True)
    ours.make_model(str(tmp_path / "two"), {**SMALL, "positions": "interleaved"}, True)
    for peer, name in ((ours, "one"), (theirs, "one"), (other, "two")):
        peer.load(str(tmp_path / name))
    work = peers_work.decoding(3, 1, 60, calls=1)
    targets = [[7, 8, 9, 10], [11], [12, 13]]
    scores = ours.scores(work.batches[0], targets)
    assert [len(row) for row in scores] == [4, 1, 2]
    given = ("scores", work.batches[0], targets)
    peers_agree.check_scores("it", fakes(Fake("ours", ours), Fake("theirs", theirs)), *given)
    with pytest.raises(UnequalError, match=r"it: other is .* from ours"):
        peers_agree.check_scores("it", fakes(Fake("ours", ours), Fake("other", other)), *given)
    with pytest.raises(UnequalError, match="nothing can be compared"):
        peers_agree.check_scores("it", fakes(Fake("ours", ours), Fake("int8", other, {"precision": "int8"})), *given)


def test_numbers_that_are_none_or_elsewhere_are_far() -> None:
    assert peers_agree.distance([[1.0, 2.0]], [[1.0, 2.5]]) == 0.5
    assert peers_agree.distance([[1.0]], [[1.0, 2.0]]) == float("inf")
    nan = Fake("nan", type("Nan", (), {"scores": lambda *_: [[float("nan")]]})())
    one = Fake("one", type("One", (), {"scores": lambda *_: [[0.0]]})())
    with pytest.raises(UnequalError):
        peers_agree.check_scores("it", fakes(one, nan), "scores", [[5]], [[6]])


def test_a_table_whose_outputs_differ_fails_and_says_so(tmp_path: Path) -> None:
    plan = peers_rows.Plan(tmp_path, 1, 0.0, 1, [], [], [], Contestant("probe", "probe", "python"))
    outputs = {"ours": ["a"] * 10, "near": ["a"] * 9 + ["b"], "far": ["a"] * 8 + ["b"] * 2}
    with plan.attempt("it"):
        peers_agree.check_outputs("it", {name: outputs[name] for name in ("ours", "near")}, "ours")
    assert plan.rows == []
    with plan.attempt("it"):
        peers_agree.check_outputs("it", outputs, "ours")
    assert plan.rows[0]["benchmark"] == "peers unequal"
    assert "80% of the outputs of far" in plan.rows[0]["reason"]
    assert "**Failed**" in peers_page.tables(plan.rows)


def models(tmp_path: Path, *, both: bool) -> peers_trained.Models:
    (tmp_path / "config.json").write_text(f'{{"model": {{"right_to_left": {str(both).lower()}}}}}', encoding="utf-8")
    return peers_trained.Models(tmp_path, tmp_path)


def plan_with_peers(tmp_path: Path) -> peers_rows.Plan:
    ours = [peers_run.ours(name) for name in peers_run.OURS]
    theirs = [Contestant(f"ctranslate2 {kind}", "ctranslate2", "python", {"compute_type": kind})
              for kind in ("float32", "int8")]  # fmt: skip
    return peers_rows.Plan(tmp_path, 1, 0.0, 1, ours, theirs, [], Contestant("probe", "probe", "python"))


def test_the_default_run_stands_beside_one_reading_and_sinusoids(tmp_path: Path) -> None:
    plan, theirs = plan_with_peers(tmp_path), ["ctranslate2 float32", "ctranslate2 int8"]
    sinusoids = [f"{name}, sinusoids" for name in theirs]
    entries = peers_trained.entries_of(plan, models(tmp_path, both=True), 4)
    names = [entry.name for entry in entries]
    ours = ["dragoman", "dragoman, one reading", "dragoman auto float32, one reading"]
    assert names == [*ours, *theirs, *sinusoids]
    assert peers_trained.yardsticks_of(entries, names) == theirs
    assert peers_trained.yardsticks_of(entries, sinusoids) == sinusoids
    exact = [entry.name for entry in peers_trained.comparable(entries, names)]
    assert exact == ["dragoman auto float32, one reading", "ctranslate2 float32"]
    # Where nothing is read twice, nothing else is left out either.
    for entries in (
        peers_trained.entries_of(plan, models(tmp_path, both=True), 1),
        peers_trained.entries_of(plan, models(tmp_path, both=False), 4),
    ):
        assert [entry.name for entry in entries][:2] == ["dragoman", "dragoman auto float32"]
        exact = [entry.name for entry in peers_trained.comparable(entries, [entry.name for entry in entries])]
        assert exact == ["dragoman auto float32", "ctranslate2 float32"]


def test_a_target_that_is_learned_in_both_directions_counts_once(tmp_path: Path) -> None:
    lines = "".join(f"{'ba ce di fo gu'[: 3 * (1 + row % 5) - 1]}\n" for row in range(60))
    for side in ("source", "target"):
        (tmp_path / f"{side}.txt").write_text(lines, encoding="utf-8")
    own = {key: SMALL[key] for key in ("d_model", "num_heads", "d_ff", "num_encoder_layers", "num_decoder_layers")}
    files = {side: [str(tmp_path / f"{side}.txt")] for side in ("source", "target")}
    training = {"batch_tokens": 80, "max_steps": 9, "log_every": 3, "threads": 1, "device": "cpu"}
    sections = {"data": files, "tokenizer": {"kind": "word"}, "training": training, "validation": {"metric": "loss"}}
    rates = []
    for both in (False, True):
        out = tmp_path / f"run-{both}"
        dragoman.train(make_config({"out": str(out), **sections, "model": {**own, "right_to_left": both}}), quiet=True)
        events = peers_training._train_events(out / "metrics.jsonl")
        told = sum(event["target_tokens"] for event in events[1:])
        _, targets = peers_training.seen_lengths(out, events[0]["step"], events[-1]["step"])
        assert told == sum(targets) * (2 if both else 1)
        took = sum(event["target_tokens"] / event["target_tokens_per_second"] for event in events[1:])
        rates.append(peers_training.seen_rate(out, peers_training.Sizes.of(SMALL)))
        assert rates[-1][0] == pytest.approx(sum(targets) / took)
    shape = peers_training.Sizes.of(SMALL)
    once, twice = (shape.update([5], [7], directions=count) for count in (1, 2))
    assert once < twice < 2 * once


def test_a_page_has_a_line_for_each_work_and_the_fastest_way_of_each(tmp_path: Path) -> None:
    plan = plan_with_peers(tmp_path)
    plan.emit("peers versions", {"versions": {}, "arithmetic": {"dragoman": "int8 of 7 bits"}})
    facts = {"lines": 10, "beam_size": 4, "goal": 1.2}
    times = {
        "dragoman": [2.0] * 3, "dragoman, one reading": [1.0] * 3, "ctranslate2 int8": [4.0] * 3,
        "ctranslate2 int8, 2 workers of 1": [2.0] * 3, "ctranslate2 int8, sinusoids": [1.5] * 3,
    }  # fmt: skip
    plan.report(
        "peers file", facts, times, ["ctranslate2 int8", "ctranslate2 int8, 2 workers of 1"], {}, {"sentences": 10}
    )
    for language, words in (
        ("en", ("one reading", "1.20 missed", "int8 of 7 bits")),
        ("zh", ("只读一遍", "1.20 未达到", "7 位")),
    ):
        page = tmp_path / language / "speed.md"
        page.parent.mkdir()
        page.write_text(f"before\n{peers_page.BEGIN}\nold\n{peers_page.END}\nafter\n", encoding="utf-8")
        peers_page.fill(page, plan.rows)
        text = page.read_text(encoding="utf-8")
        assert text.startswith("before\n")
        assert text.endswith(f"{peers_page.END}\nafter\n")
        assert "old" not in text
        assert all(word in text for word in words)
        assert "| 10 | 4 | 5.00 | 10 | 5.00 | 6.67 | 1.00 (1.00–1.00) | 2.00 (2.00–2.00) |" in text
    with pytest.raises(ValueError, match="no place for the tables"):
        peers_page.fill(Path(__file__), [])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_pages_of_the_guide_have_a_place_for_the_tables(language: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / language / "speed.md").read_text(encoding="utf-8")
    assert text.count(peers_page.BEGIN) == text.count(peers_page.END) == 1
