"""The whole path in three minutes: generate a corpus, train on it, translate what training never saw."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dragoman.canvas import fitting_format
from dragoman.config import SETTINGS_FILE, TrainConfig, make_config
from dragoman.demo.grammar import generate, load_grammar, write_corpus
from dragoman.demo.search_story import search_story
from dragoman.errors import ConfigError
from dragoman.inspection import draw_translation
from dragoman.studies import Evaluation, evaluate
from dragoman.training import train

SHOWN = 12
DIRECTIONS = ("zh-en", "en-zh")


@dataclass(frozen=True)
class Demo:
    """What the demo made.

    Attributes:
        directory: the run directory, and so the model.
        evaluation: the held-out test sentences, translated and scored.
        seconds: training time.
        exit_status: 0, or 128 + the signal that interrupted training.
    """

    directory: Path
    evaluation: Evaluation | None
    seconds: float
    exit_status: int = 0


def demo_config(out: Path, corpus: Path, direction: str = "zh-en") -> TrainConfig:
    """Return the settings of the demo: a small model, about two minutes on two cores."""
    source, target = direction.split("-")
    files = {
        f"{part}{side}": [str(corpus / f"{name}.{language}")]
        for part, name in (("", "train"), ("dev_", "dev"))
        for side, language in (("source", source), ("target", target))
    }
    # Chinese by its characters, so that a learner sees each one; English by pieces.
    of = {"zh": "character", "en": "bpe"}
    kinds = {"kind": of[source], "target_kind": of[target]}
    return make_config(
        {
            "out": str(out),
            "data": files,
            "tokenizer": {**kinds, "joint": False},
            "model": {
                "d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2,
                "dropout": 0.1, "tie_embeddings": "decoder", "positions": "interleaved", "right_to_left": False,
            },
            "training": {
                "batch_tokens": 1024, "optimizer": "muon", "schedule": "cosine", "learning_rate": 2e-3,
                "warmup_steps": 100, "max_steps": 700, "label_smoothing": 0.05, "weight_decay": 0.0, "ema_decay": 0.99,
                "log_every": 250,
            },
            "validation": {"every": 350, "metric": "exact"},
        }
    )  # fmt: skip


def run_demo(out: str | Path = "runs/demo", *, direction: str = "zh-en", report: Callable[[str], None] = print) -> Demo:
    """Generate the corpus, train (or go on, if interrupted before), translate held-out sentences, score, and tell.

    Args:
        out: the run directory; the corpus goes into `corpus/` inside it.
        direction: "zh-en" or "en-zh".
        report: takes the lines of the story.

    Raises:
        ConfigError: the directory has a run that is none of the demo.
        DataError: its `corpus/` holds files that are not the demo's.
    """
    out = Path(out)
    source, target = direction.split("-")
    corpus_directory = out / "corpus"
    if (out / SETTINGS_FILE).exists() and not (corpus_directory / f"train.{source}").exists():
        raise ConfigError("another run is there already", file=out, hint="give another directory (--out)")
    corpus = generate(load_grammar())
    write_corpus(corpus_directory, corpus, "zh", "en")
    report(f"corpus: {len(corpus.train):,} training pairs from a grammar of ours, and {len(corpus.test)} held out")
    run = train(demo_config(out, corpus_directory, direction), resume=True)
    if run.exit_status:
        report("called again, the demo goes on from there")
        return Demo(out, None, run.progress.seconds, run.exit_status)
    translator = run.translator()
    result = evaluate(
        translator,
        corpus_directory / f"test.{source}",
        corpus_directory / f"test.{target}",
        metrics=("exact", "bleu", "chrf"),
    )
    report("\nSentences that training never saw (nor any sentence that combines the same things):\n")
    rows = list(zip(result.sources, result.hypotheses, result.references, strict=True))
    for text, hypothesis, references in rows[:SHOWN]:
        remark = "" if hypothesis == references[0] else f"   (expected: {references[0]})"
        report(f"  {text} → {hypothesis}{remark}")
    report(f"\nAll {len(rows)} held-out test sentences, 95 % intervals:\n")
    for score in result.scores:
        report(f"  {score}")
    held_out = [(text, right[0]) for text, _, right in rows]
    for line in search_story(translator, held_out, from_chinese=source == "zh"):
        report(line)
    report(f"\ntraining took {run.progress.seconds:.0f} seconds")
    for line in _places(out, corpus_directory):
        report(line)
    if find_spec("matplotlib"):
        shown = result.sources[0] + result.hypotheses[0]
        kind, note = fitting_format(shown)
        picture = draw_translation(translator, result.sources[0], out / f"attention.{kind}")
        report(f"  {picture.path}   where the model looked for each word of its translation")
        if note:
            report(f"  ({note})")
    report("\nGo on with your own words:\n")
    report(f'  echo "{result.sources[0]}" | {_program()} translate {out}')
    return Demo(out, result, run.progress.seconds)


def _program() -> str:
    """How the command line is called from here."""
    local = Path(sys.executable).with_name("dragoman")
    try:
        return str(local.relative_to(Path.cwd()))
    except ValueError:
        return "dragoman"


def _places(out: Path, corpus: Path) -> list[str]:
    return [
        "everything lies here:",
        f"  {out}   the model: translate, evaluate, score, info take it",
        f"  {out / 'README.md'}   the model card",
        f"  {out / 'config.toml'}   every setting",
        f"  {out / 'metrics.jsonl'}   what was measured, line by line",
        f"  {corpus}   the generated pairs",
    ]
