"""Train lsdefine's own architecture, built by its profile, on its data with its word vocabularies.

    python recipes/lsdefine_profile.py --data DIR [--out runs/lsdefine-profile]

Settings are those of `lsdefine-profile.toml`. Embeddings begin √d_model times as long as theirs, which are not scaled
and shorter than the positions: the source stays unread for long (see LOG.md). An interrupted run goes on where it
stopped. The row it prints, the token accuracy on the valid set (each position predicted from the right words before it,
padding left out), also lands in the run directory as `result.json`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
from run import plainly

from dragoman.config import TrainConfig, make_config, merge, parse_assignments, read_toml
from dragoman.data import Prepared, prepare
from dragoman.files import make_directory
from dragoman.models import count_parameters
from dragoman.models.tensors import read_tensors
from dragoman.profiles import lsdefine
from dragoman.runs.checkpoint import newest_checkpoint
from dragoman.runs.lock import RunLock
from dragoman.training.defaults import complete
from dragoman.training.log import RunLog
from dragoman.training.run import config_hash
from dragoman.training.seeding import seed_all
from dragoman.training.signals import StopSignals
from dragoman.training.trainer import Trainer

RECIPE = Path(__file__).parent / "lsdefine-profile.toml"


def make_trainer(config: TrainConfig, data: Prepared, out: Path, log: RunLog) -> Trainer:
    """A trainer of the profile's model, where it stopped if it has begun.

    Raises:
        ConfigError: it has begun with other settings or data.
    """
    seed_all(config.training.seed, -1)
    limit = config.data.max_source_tokens + config.decoding.max_length_offset + 2
    shape = config.model
    assert shape.d_model is not None
    assert shape.d_ff is not None
    assert shape.dropout is not None
    sizes = len(data.tokenizers.source), len(data.tokenizers.target), limit, shape.d_model, shape.d_ff
    model = lsdefine.build(*sizes, n_head=shape.num_heads, layers=shape.num_encoder_layers or 2, dropout=shape.dropout)
    with torch.no_grad():
        for embedding in (model.source_embedding, model.target_embedding):
            embedding.tokens.weight *= shape.d_model**0.5
    log.line(f"{count_parameters(model):,} parameters")
    # Where a run ends is no setting that resuming must share, but here it shapes the whole cosine.
    shared = config_hash(config, f"{data.key} {config.training.max_steps}")
    trainer = Trainer(model, data, config, out, log, shared)
    if newest := newest_checkpoint(trainer.checkpoints, log.line):
        trainer.restore(newest)
        log.line(f"resumed at step {trainer.progress.step:,}")
    return trainer


def main() -> None:
    """Train, measure, print the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="the folder of the corpora")
    parser.add_argument("--out", default=Path("runs/lsdefine-profile"), type=Path, help="the run directory")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting; repeatable")
    options = parser.parse_args()

    os.environ["DATA"], out = str(options.data), options.out
    changes = parse_assignments(options.set)
    config = make_config(merge(read_toml(RECIPE), changes, {"out": str(out)}))
    make_directory(out)
    if config.training.threads is not None:
        torch.set_num_threads(config.training.threads)
    with RunLock(out), RunLog(out) as log, StopSignals() as stop:
        data = prepare(config, out / "data", report=log.line)
        config, _ = complete(config, data, torch.device("cpu"))
        trainer = make_trainer(config, data, out, log)
        if not trainer.progress.finished:
            trainer.run(stop)
        if not trainer.progress.finished:
            raise SystemExit(stop.exit_status)
        trainer.model.load_state_dict(read_tensors(out / "model.safetensors"))
        accuracy = trainer.judge.measure().accuracy
    row = {
        "recipe": "lsdefine-profile",
        "minutes": round(trainer.progress.seconds / 60, 1),
        "updates": trainer.progress.step,
        "token_accuracy": round(100 * accuracy, 2),
    }
    (out / "result.json").write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(row))


if __name__ == "__main__":
    plainly(main)
