"""Sounds to what is written: spoken numbers to digits, spoken words to their spelling.

    python recipes/spoken_forms.py [--task numbers|spelling] [--data DIR] [--language en|zh] [--out runs/spoken-forms]
                                   [--minutes 5] [--size 4000]

espeak-ng says numbers up to 999,999 ("three hundred and four", 三百零四) and the characters 304 are learned; or, of
`spelling`, it says words of CMUdict (`DIR/cmudict-g2p/`), and their letters are. Held out are numbers and words that
training never hears; spelling to sound is the recipe cmudict-g2p. Prints a JSON row for held-out ones by the voices of
training, and one by others: those that are right, and character error, with their 95 % intervals. Interrupted runs go
on where they stopped. Needs the extra `audio`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from random import Random

from heard import judge

import dragoman
from dragoman.audio import Voice
from dragoman.demo import load_commands
from dragoman.demo.commands import Command, CommandCorpus, Spoken
from dragoman.demo.sound import TESTS, sound_config, write_spoken_commands

LEARNED, DEV, TESTED, METRICS = range(100), 100, 300, ("exact", "cer")
SPEEDS, PITCHES = (130, 215), (25, 75)


def numbers(count: int, seed: int = 1) -> list[str]:
    """So many different numbers: those of two digits first, then as many of three to six."""
    random, drawn = Random(seed), {str(number): None for number in LEARNED}
    while len(drawn) < count:
        digits = random.randint(3, 6)
        drawn[str(random.randrange(10 ** (digits - 1), 10**digits))] = None
    return list(drawn)


def words(folder: Path, count: int, seed: int = 1) -> list[str]:
    """So many different words of CMUdict's training set, in small letters."""
    lines = (folder / "cmudict-g2p" / "train.graphemes").read_text(encoding="utf-8").splitlines()
    spelt = sorted({line.replace(" ", "").lower() for line in lines})
    return Random(seed).sample([word for word in spelt if word.isalpha() and len(word) > 1], count)


def spoken(texts: list[str], language: str, seed: int = 1) -> CommandCorpus:
    """Who says what: the last texts are held out."""
    random, voices = Random(seed), load_commands().voices[language]

    def by(texts: list[str], names: list[str]) -> list[Spoken]:
        said = []
        for number, text in enumerate(texts):
            code, _, variant = names[number % len(names)].partition("+")
            voice = Voice(code, variant, random.randint(*SPEEDS), random.randint(*PITCHES))
            said.append(Spoken(Command(text, text), voice))
        return said

    train, dev, test = texts[: -DEV - TESTED], texts[-DEV - TESTED : -TESTED], texts[-TESTED:]
    return CommandCorpus(
        by(train, voices["seen"]), by(dev, voices["seen"]), by(test, voices["seen"]), by(test, voices["unseen"])
    )


def main() -> None:
    """Have the texts spoken, train, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=("numbers", "spelling"), default="numbers")
    parser.add_argument("--data", type=Path, help="of spelling: the folder of the corpora")
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    parser.add_argument("--out", type=Path, default=Path("runs/spoken-forms"))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--size", type=int, default=4000)
    given = parser.parse_args()
    if given.task == "spelling" and (given.data is None or given.language != "en"):
        parser.error("spelling is of English words, and needs --data")
    texts = numbers(given.size) if given.task == "numbers" else words(given.data, given.size)
    out = given.out / f"{given.task}-{given.language}"
    corpus, drawn = out / "corpus", spoken(texts, given.language)
    write_spoken_commands(corpus, drawn, given.language)
    config = sound_config(out / "run", corpus, time=given.minutes)
    letters = {**config.tokenizer.to_dict(), "target_kind": "character"}
    run = dragoman.train(config.replace({"tokenizer": letters}), resume=True)
    if run.exit_status:
        raise SystemExit(run.exit_status)
    translator = run.translator()
    for name in TESTS:
        row = {"task": given.task, "language": given.language, "part": name, "voices": TESTS[name]}
        row |= {"training_minutes": round(run.progress.seconds / 60, 1), **judge(translator, corpus, name, METRICS)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
