"""What became of a corpus that was cleaned: how many pairs each rule dropped, and some of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from dragoman.cleaning.rules import RULES, Usual
from dragoman.config.cleaning import CleaningConfig

FORMAT = 1
# Pairs that are shown of each rule: the first ones, and later ones ever more rarely, so that the whole file is seen.
SAMPLES = 5
_SHOWN = 100  # characters of a text in a line for people


@dataclass(frozen=True)
class Dropped:
    """A pair that was dropped, and where it stands."""

    file: str
    line: int
    source: str
    target: str

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return asdict(self)


@dataclass
class RuleCount:
    """How many pairs a rule dropped, and samples of them."""

    count: int = 0
    samples: list[Dropped] = field(default_factory=list)

    def add(self, pair: Dropped) -> None:
        """Count a pair; the first is a sample, and of those that follow the latest of number 2, 4, 8, ..."""
        self.count += 1
        if self.count & (self.count - 1) == 0:
            self.samples.append(pair)
            if len(self.samples) > SAMPLES:
                del self.samples[1]


@dataclass(frozen=True)
class CleanReport:
    """What `clean` did.

    Attributes:
        read: pairs read.
        kept: of these, written.
        rules: what each rule dropped, in the order in which they are asked; those left out are not among them.
        slips: stretches of files in which lines slipped: file, first and last line.
        usual: what is usual in the corpus.
        settings: the thresholds.
        files: what was read.
    """

    read: int
    kept: int
    rules: dict[str, RuleCount]
    slips: list[str]
    usual: Usual
    settings: CleaningConfig
    files: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values for JSON."""
        return {
            "format": FORMAT,
            "read": self.read,
            "kept": self.kept,
            "rules": {
                name: {"dropped": rule.count, "samples": [one.to_dict() for one in rule.samples]}
                for name, rule in self.rules.items()
            },
            "slips": self.slips,
            "usual": {
                "log_ratio": round(self.usual.log_ratio, 6),
                "scripts": [sorted(side) for side in self.usual.scripts],
            },
            "settings": self.settings.to_dict(),
            "files": list(self.files),
        }

    def to_json(self) -> str:
        """Return the report as JSON, every character as itself."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def lines(self) -> list[str]:
        """Return the report as readable lines."""
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        share = f" ({100 * self.kept / self.read:.1f} %)" if self.read else ""
        yield f"{self.kept:,} of {self.read:,} pairs kept{share}"
        for slip in self.slips:
            yield f"lines slipped: {slip}; look for one that is missing or too many on one side, just before the first"
        for name, rule in self.rules.items():
            if not rule.count:
                continue
            yield f"{name}: {rule.count:,} ({RULES[name]})"
            for one in rule.samples:
                yield f"    {one.file}, line {one.line:,}: {_cut(one.source)} | {_cut(one.target)}"
        quiet = [name for name, rule in self.rules.items() if not rule.count]
        if quiet:
            yield f"nothing found by: {', '.join(quiet)}"


def _cut(text: str) -> str:
    plain = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return plain if len(plain) <= _SHOWN else f"{plain[: _SHOWN - 1]}…"
