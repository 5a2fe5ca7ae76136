"""From sounds to words in four minutes: commands are spoken, a model learns to write them down, new ones are heard."""

from __future__ import annotations

import os
import wave
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from dragoman.config import SETTINGS_FILE, TrainConfig, make_config
from dragoman.demo.commands import CommandCorpus, Spoken, draw_commands, load_commands
from dragoman.errors import ConfigError
from dragoman.evaluation import Score, score
from dragoman.training import train

if TYPE_CHECKING:
    from dragoman.audio import Waveform

RATE, SHOWN = 16_000, 8
# With time given: sentences to train on for each minute, the demo's own and at most.
A_MINUTE, MOST = 300, 12_000
# How the test sets are called: by voices that training heard, and by others.
TESTS = {"test": "voices that training heard", "test_unseen": "voices that it never heard"}


@dataclass(frozen=True)
class SoundDemo:
    """What the demo made.

    Attributes:
        directory: the run directory, and so the model.
        scores: word error of held-out sentences, by name of the test set.
        seconds: training time.
        exit_status: 0, or 128 + the signal that interrupted training.
    """

    directory: Path
    scores: dict[str, Score]
    seconds: float
    exit_status: int = 0


def sound_config(out: Path, corpus: Path, updates: int = 1000, time: str | float | None = None) -> TrainConfig:
    """Return the settings of the demo: a small model, about three minutes on two cores.

    Args:
        out: the run directory.
        corpus: of `write_spoken_commands`.
        updates: how long to train.
        time: instead: 30m, 1h or minutes. A deeper encoder hears each sound a little different each time.
    """
    short = make_config(
        {
            "out": str(out),
            "data": {
                "source_audio": [str(corpus / "train.tsv")], "target": [str(corpus / "train.txt")],
                "dev_source_audio": [str(corpus / "dev.tsv")], "dev_target": [str(corpus / "dev.txt")],
            },
            "audio": {"n_mels": 40, "spec_augment": "sm"},
            "tokenizer": {"target_kind": "word", "joint": False},
            "model": {
                "d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 3, "num_decoder_layers": 1,
                "dropout": 0.1, "conv_channels": 128, "tie_embeddings": "decoder",
            },
            "training": {
                "batch_tokens": 2048, "optimizer": "muon", "schedule": "cosine", "learning_rate": 2e-3,
                "warmup_steps": 100, "max_steps": updates, "label_smoothing": 0.05, "weight_decay": 0.0,
                "ema_decay": 0.99, "log_every": 100,
            },
            "validation": {"every": max(1, updates // 2), "metric": "exact"},
        }
    )  # fmt: skip
    if time is None:
        return short
    longer = {
        "audio": {"perturb": "speed"},
        "model": {"num_encoder_layers": 4},
        "training": {"max_minutes": time, "max_steps": None, "ema_decay": 0.995},
        "validation": {"every": None, "metric": "wer"},
    }
    return short.replace({name: {**getattr(short, name).to_dict(), **values} for name, values in longer.items()})


def run_sound_demo(
    out: str | Path = "runs/demo-sound", *, language: str = "en", updates: int = 1000, time: str | float | None = None,
    report: Callable[[str], None] = print,
) -> SoundDemo:  # fmt: skip
    """Have commands spoken, train on them (or go on), transcribe held-out ones, and tell how many words are wrong.

    Args:
        out: the run directory; the sounds go into `corpus/` inside it.
        language: of the voices, "en" or "zh"; what is written is English, so "zh" is translated.
        updates: how long to train.
        time: instead: 30m, 1h or minutes; the longer, the more sentences are spoken before.
        report: takes the lines of the story.

    Raises:
        ConfigError: the directory has a run that is none of the demo, the synthesiser is not installed, or no time is
            meant.
    """
    out = Path(out)
    corpus = out / "corpus"
    if (out / SETTINGS_FILE).exists() and not (corpus / "train.tsv").exists():
        raise ConfigError("another run is there already", file=out, hint="give another directory (--out)")
    if language not in ("en", "zh"):
        raise ConfigError("the demo has no such voices", expected="en or zh", found=language)
    config, grammar = sound_config(out, corpus, updates, time), load_commands()
    if minutes := config.training.max_minutes:
        sentences = max(grammar.sizes["train"], min(MOST, round(A_MINUTE * minutes)))
        grammar = replace(grammar, sizes={**grammar.sizes, "train": sentences})
    commands = draw_commands(grammar, language)
    began = monotonic()
    seconds = write_spoken_commands(corpus, commands, language)
    voices = len({str(one.voice) for one in commands.train})
    report(
        f"corpus: {len(commands.train):,} spoken commands to train on and {len(commands.test)} held out; "
        f"{seconds / 60:.0f} minutes of sound by {voices} voices ({monotonic() - began:.0f} s)"
    )
    run = train(config, resume=True)
    if run.exit_status:
        report("called again, the demo goes on from there")
        return SoundDemo(out, {}, run.progress.seconds, run.exit_status)
    translator = run.translator()
    scores: dict[str, Score] = {}
    for name, who in TESTS.items():
        said = [one.command.en for one in getattr(commands, name)]
        heard = [one.text for one in translator.translate(_recordings(corpus, name, len(said)))]
        (scores[name],) = score(heard, said, metrics=["wer"])
        report(f"\nHeld-out sentences by {who}: {scores[name]}\n")
        for right, text in zip(said[:SHOWN], heard, strict=False):
            report(f"  {text}" + ("" if text == right else f"   (said: {right})"))
    report(f"\ntraining took {run.progress.seconds:.0f} seconds; the model lies in {out}, the sounds in {corpus}")
    report(f"\nGo on with a sound of your own:\n\n  dragoman transcribe {out} {corpus / 'test' / '00000.wav'}")
    return SoundDemo(out, scores, run.progress.seconds)


def write_spoken_commands(directory: Path, commands: CommandCorpus, language: str) -> float:
    """Write for each split a list of recordings, what is said in English, and the recordings; return seconds of sound.

    What is there already is not spoken again.

    Args:
        directory: where to; made if absent.
        commands: who says what.
        language: of the voices: which side of a command is spoken.
    """
    total = 0.0
    for name in ("train", "dev", "test", "test_unseen"):
        spoken: list[Spoken] = getattr(commands, name)
        lines = "".join(f"{name}/{number:05}.wav\n" for number in range(len(spoken)))
        listing, said = directory / f"{name}.tsv", "".join(f"{one.command.en}\n" for one in spoken)
        texts = directory / f"{name}.txt"
        if not (listing.exists() and listing.read_text() == lines and texts.exists() and texts.read_text() == said):
            _record(directory / name, spoken, language)
            texts.write_text(said)
            # Last: who finds it finds everything.
            listing.write_text(lines)
        sizes = (path.stat().st_size for path in (directory / name).glob("*.wav"))
        total += sum((size - 44) / 2 / RATE for size in sizes)
    return total


def _record(directory: Path, spoken: list[Spoken], language: str) -> None:
    """Have commands spoken, in rooms and with noise and silence around them, as `as_recorded` draws it for each."""
    import numpy as np

    from dragoman.audio import Waveform, say_all
    from dragoman.audio.perturbing import as_recorded

    directory.mkdir(parents=True, exist_ok=True)
    texts = [(getattr(one.command, language), one.voice) for one in spoken]
    for number, sound in enumerate(say_all(texts, sample_rate=RATE, workers=os.cpu_count() or 1)):
        draw = np.random.default_rng([*directory.name.encode(), number])
        samples = as_recorded(sound.samples, RATE, draw).clamp(-1, 1)
        write_wav(directory / f"{number:05}.wav", Waveform(samples, RATE))


def write_wav(path: Path, sound: Waveform) -> None:
    """Write a sound as a WAV file of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sound.sample_rate)
        file.writeframes((sound.samples * 32767).round().short().numpy().astype("<i2").tobytes())


def _recordings(corpus: Path, name: str, count: int) -> list[Path]:
    return [corpus / name / f"{number:05}.wav" for number in range(count)]
