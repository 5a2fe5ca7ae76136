"""Cleaning a corpus with known noise in it: what each rule finds, and that the same is found again."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dragoman.cleaning import RULES, CleanReport, clean
from dragoman.cleaning import cleaning as work
from dragoman.cleaning.noise import KINDS, Noisy, add_noise
from dragoman.cleaning.scoring import worst
from dragoman.cli import main
from dragoman.config.cleaning import CleaningConfig
from dragoman.demo.grammar import generate, load_grammar
from dragoman.errors import ConfigError, DataError
from dragoman.text import Pair, ParallelCorpus
from dragoman.text.keys import skeleton


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    """Of the demo's grammar; none repeats another but for punctuation."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for pair in generate(load_grammar()).train:
        found.setdefault((skeleton(pair[0]), skeleton(pair[1])), pair)
    return list(found.values())[:4000]


def put(folder: Path, rows: Sequence[tuple[str, str]]) -> ParallelCorpus:
    paths = [folder / "in.source", folder / "in.target"]
    for path, side in zip(paths, zip(*rows, strict=True), strict=True):
        path.write_text("".join(f"{text}\n" for text in side), encoding="utf-8")
    return ParallelCorpus.from_files(paths[:1], paths[1:])


def faults(out: Path) -> dict[int, str]:
    rows = map(json.loads, (out / "dropped.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["line"]: row["rule"] for row in rows}


@pytest.fixture(scope="module")
def noisy(pairs: list[tuple[str, str]]) -> list[Noisy]:
    return add_noise(pairs, 0.3)


@pytest.fixture(scope="module")
def cleaned(noisy: list[Noisy], tmp_path_factory: pytest.TempPathFactory) -> tuple[CleanReport, Path]:
    folder = tmp_path_factory.mktemp("cleaned")
    corpus = put(folder, [(one.source, one.target) for one in noisy])
    return clean(corpus, folder / "out", keep_dropped=True), folder


# The rules that are right for each kind of noise; a stranger is a translation of something else, which no rule knows.
FOUND_BY = {
    "copy": {"copy"}, "encoding": {"encoding"}, "cut": {"ratio"}, "numbers": {"numbers", "letters"},
    "banner": {"boilerplate", "ratio"}, "address": {"boilerplate", "ratio"}, "signs": {"letters"}, "script": {"script"},
    "exchanged": {"ratio", "script", "exchanged"}, "slip": {"shifted"},
}  # fmt: skip


@pytest.mark.parametrize("kind", FOUND_BY)
def test_a_kind_of_noise_is_found(kind: str, noisy: list[Noisy], cleaned: tuple[CleanReport, Path]) -> None:
    found = faults(cleaned[1] / "out")
    numbers = [number for number, one in enumerate(noisy, 1) if one.kind == kind]
    right = [number for number in numbers if found.get(number) in FOUND_BY[kind] | {"shifted"}]
    assert len(numbers) > 100
    assert len(right) >= 0.97 * len(numbers)


def test_of_repeated_pairs_one_is_kept(noisy: list[Noisy], cleaned: tuple[CleanReport, Path]) -> None:
    found = faults(cleaned[1] / "out")
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, one in enumerate(noisy, 1):
        if one.kind in (None, "duplicate", "near duplicate"):
            groups[skeleton(one.source), skeleton(one.target)].append(number)
    assert sum(len(group) > 1 for group in groups.values()) > 200
    for group in groups.values():
        if not any(found.get(number) == "shifted" for number in group):
            assert sum(number not in found for number in group) == 1


def test_hardly_a_clean_pair_is_lost(noisy: list[Noisy], cleaned: tuple[CleanReport, Path]) -> None:
    found = faults(cleaned[1] / "out")
    lost = Counter(found[number] for number, one in enumerate(noisy, 1) if one.kind is None and number in found)
    for rule in ("duplicate", "near duplicate"):  # their repetition came first
        del lost[rule]
    assert lost.total() <= 0.005 * len(noisy)


def test_the_report_adds_up(noisy: list[Noisy], cleaned: tuple[CleanReport, Path]) -> None:
    report, folder = cleaned
    kept = (folder / "out" / "target.txt").read_text(encoding="utf-8").splitlines()
    assert report.read == len(noisy) == report.kept + sum(rule.count for rule in report.rules.values())
    assert report.kept == len(kept) == len((folder / "out" / "source.txt").read_text(encoding="utf-8").splitlines())
    stored = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(report.to_dict()))
    assert list(stored["rules"]) == [name for name in RULES if name not in ("score", "language")]
    counted = Counter(faults(folder / "out").values())
    for name, rule in stored["rules"].items():
        assert rule["dropped"] == counted[name]
        assert len(rule["samples"]) == min(5, rule["dropped"].bit_length())
    first, _, last = stored["slips"][0].partition("lines ")[2].replace(",", "").partition(" to ")
    slipped = [number for number, one in enumerate(noisy, 1) if one.kind == "slip"]
    assert abs(int(first) - slipped[0]) <= 10
    assert abs(int(last) - slipped[-1]) <= 10
    text = (folder / "out" / "report.txt").read_text(encoding="utf-8")
    assert "lines slipped" in text
    assert f"{report.kept:,} of {report.read:,} pairs kept" in text


def test_the_same_corpus_gives_the_same_bytes(noisy: list[Noisy], tmp_path: Path) -> None:
    corpus = put(tmp_path, [(one.source, one.target) for one in noisy[:1500]])
    for name in "ab":
        clean(corpus, tmp_path / name, keep_dropped=True)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("kind", ["numbers", "script", "signs", "duplicate"])
def test_a_rule_can_be_left_out(kind: str, pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    rule = {"signs": "letters"}.get(kind, kind)
    rows = add_noise(pairs[:500], 0.2, kinds=[kind])
    corpus = put(tmp_path, [(one.source, one.target) for one in rows])
    usual = clean(corpus, tmp_path / "with")
    others = ["near duplicate"] if rule == "duplicate" else []
    less = clean(corpus, tmp_path / "without", without=[rule, *others])
    assert usual.rules[rule].count > 0
    assert rule not in less.rules
    assert less.kept > usual.kept


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_lost_line_is_found_wherever_it_was(seed: int, pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    at = int(random.integers(300, len(pairs) - 300))
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    del targets[at]
    report = clean(put(tmp_path, list(zip(sources, targets, strict=False))), tmp_path / "out", without=["ratio"])
    [slip] = report.slips
    assert abs(int(slip.partition("lines ")[2].partition(" ")[0].replace(",", "")) - at) <= 15
    assert report.kept >= at - 20
    assert report.rules["shifted"].count >= len(pairs) - at - 20


def test_a_slip_over_several_windows_is_one(
    pairs: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.cleaning.facts.WINDOW", 700)
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    del targets[1000]
    targets.insert(3000, "An extra line.")
    report = clean(put(tmp_path, list(zip(sources, targets, strict=True))), tmp_path / "out", without=["ratio"])
    [slip] = report.slips
    first, last = (int(one.replace(",", "")) for one in slip.partition("lines ")[2].split(" to "))
    assert abs(first - 1001) <= 15
    assert abs(last - 3000) <= 15


def test_lines_that_are_no_text_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_bytes(b"eins hier\n\xff\xfe\ndrei da\n")
    (tmp_path / "a.en").write_bytes(b"one here\ntwo\nthree there\n")
    corpus = ParallelCorpus.from_files([tmp_path / "a.de"], [tmp_path / "a.en"])
    report = clean(corpus, tmp_path / "out", without=["language"])
    assert (report.read, report.kept, report.rules["unreadable"].count) == (3, 2, 1)


def test_the_language_is_asked_where_it_is_known(tmp_path: Path) -> None:
    good = ("Zwei Männer gehen mit ihren Hunden an den Strand", "Two men walk their dogs along the beach")
    bad = ("Ein Mädchen liest in der Bibliothek ein Buch", "Une jeune fille lit un livre dans la bibliothèque")
    corpus = put(tmp_path, [good, bad])
    told = list[str]()
    assert clean(corpus, tmp_path / "a", languages=("de", "en"), report=told.append).rules["language"].count == 1
    assert clean(corpus, tmp_path / "b", languages=("xx", "yy"), report=told.append).kept == 2
    assert any("language: not asked" in line for line in told)


def test_scores_drop_the_worst_share(
    pairs: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scorer:
        def scores(self, some: Sequence[Pair]) -> np.ndarray:
            return np.array([float(pair.line) for pair in some])

    monkeypatch.setattr(work.PairScorer, "open", lambda runs, device: Scorer())
    corpus = put(tmp_path, [*pairs[:99], ("", "")])
    settings = CleaningConfig(drop_share=0.2)
    report = clean(corpus, tmp_path / "out", scores=("a", "b"), settings=settings, keep_dropped=True)
    assert faults(tmp_path / "out") == {100: "empty", **dict.fromkeys(range(81, 100), "score")}
    assert report.rules["score"].count == 19
    assert np.unpackbits(worst(np.array([1.0, np.inf, 3.0, 2.0]), 0.5))[:4].tolist() == [0, 1, 1, 0]


def test_what_cannot_be_done_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = put(tmp_path, [("猫", "cat")])
    with pytest.raises(ConfigError, match="no such rule"):
        clean(corpus, tmp_path / "out", without=["grammar"])
    with pytest.raises(ConfigError, match="nothing to clean"):
        clean(ParallelCorpus(), tmp_path / "out")
    with pytest.raises(DataError, match="something in it"):
        clean(corpus, tmp_path)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    for here in (".", tmp_path / "empty", "../empty"):
        with pytest.raises(DataError, match="a directory of its own"):
            clean(corpus, here)
    assert not (tmp_path / "out").exists()


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, [("猫吃鱼。", "The cat eats fish."), ("猫", "猫"), ("两只狗。", "Two dogs here.")])
    base = [
        "dragoman",
        "clean",
        "--source",
        str(tmp_path / "in.source"),
        "--target",
        str(tmp_path / "in.target"),
        "--out",
    ]

    def run(*more: str) -> int:
        monkeypatch.setattr(sys, "argv", [*base, *more])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    assert run(str(tmp_path / "a"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["rules"]["copy"]["dropped"] == 1
    assert run(str(tmp_path / "b"), "--json", "--set", "max_characters=5") == 0
    assert json.loads(capsys.readouterr().out)["rules"]["long"]["dropped"] == 2
    for wrong, told in (
        ("max_ratio=0.5", "cleaning.max_ratio: expected a number above 1"),
        ("maximal=0.5", "cleaning.maximal: there is no such name"),
        ("max_ratio", "key=value"),
    ):
        assert run(str(tmp_path / "c"), "--set", wrong) == 2
        assert told in capsys.readouterr().err


def test_noise_is_as_much_as_was_asked_for(pairs: list[tuple[str, str]], noisy: list[Noisy]) -> None:
    kinds = Counter(one.kind for one in noisy)
    assert kinds.pop(None) == len(pairs)
    assert set(kinds) == set(KINDS) - {"language"}
    assert abs(kinds.total() / len(noisy) - 0.3) < 0.01
    assert add_noise(pairs, 0.3) == noisy
