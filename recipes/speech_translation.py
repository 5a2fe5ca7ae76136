"""Speech translation: spoken Chinese commands in, English words out, by the verb that transcribes.

    python recipes/speech_translation.py [--out runs/speech-translation] [--updates 3000] [--sentences 4500]

espeak-ng says the Chinese side of the demo's commands with twenty voices; the text of its English side is learned with
`dragoman train --source-audio`, nothing Chinese is ever written. Prints a JSON row for held-out sentences by the voices
of training, and one for the same sentences by six others: word error, BLEU, chrF and sentences that are right, with
their 95 % intervals. Interrupted runs go on where they stopped. Needs the extra `audio`, no corpus.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from heard import judge

import dragoman
from dragoman.demo import draw_commands, load_commands
from dragoman.demo.commands import CommandCorpus
from dragoman.demo.sound import TESTS, sound_config, write_spoken_commands

LANGUAGE, METRICS, TESTED = "zh", ("wer", "bleu", "chrf", "exact"), 300


def commands(sentences: int) -> CommandCorpus:
    """Who says what: so many sentences to train on."""
    grammar = load_commands()
    return draw_commands(replace(grammar, sizes={"train": sentences, "dev": 100, "test": TESTED}), LANGUAGE)


def main() -> None:
    """Have the commands spoken, train, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/speech-translation"))
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--sentences", type=int, default=4500)
    given = parser.parse_args()
    corpus, drawn = given.out / "corpus", commands(given.sentences)
    write_spoken_commands(corpus, drawn, LANGUAGE)
    config = sound_config(given.out / "run", corpus, given.updates)
    # Words of another language come in another order than what CTC reads off the frames.
    changed = {"audio": {"perturb": "speed"}, "decoding": {"ctc_weight": 0.0}}
    config = config.replace({name: {**getattr(config, name).to_dict(), **values} for name, values in changed.items()})
    run = dragoman.train(config, resume=True)
    if run.exit_status:
        raise SystemExit(run.exit_status)
    translator = run.translator()
    for name in TESTS:
        row = {"part": name, "voices": TESTS[name], "training_minutes": round(run.progress.seconds / 60, 1)}
        print(json.dumps(row | judge(translator, corpus, name, METRICS)), flush=True)


if __name__ == "__main__":
    main()
