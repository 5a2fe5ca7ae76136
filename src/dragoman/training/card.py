"""The model card: a README beside the weights that says what the model is, from what it came and how good it is."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import torch

from dragoman.config import TrainConfig
from dragoman.data import Prepared
from dragoman.files import write_bytes
from dragoman.training.trainer import Progress
from dragoman.training.validate import Validation

PACKAGES = ("dragoman", "torch", "sentencepiece", "sacrebleu", "numpy")


def write_card(
    directory: Path,
    config: TrainConfig,
    data: Prepared,
    progress: Progress,
    result: Validation,
    kept: str,
    command: str,
) -> None:
    """Write `README.md` into a run directory.

    Args:
        directory: the run.
        config: completed settings.
        data: what it was trained on.
        progress: how far training went.
        result: the kept model on the dev set.
        kept: which weights were kept, in words.
        command: what was typed.
    """
    sections = [
        _head(directory, config, data, kept),
        _scores(data, result),
        _use(directory),
        _data(data),
        _training(config, data, progress, command),
    ]
    write_bytes(directory / "README.md", "\n".join(sections).encode())


def _head(directory: Path, config: TrainConfig, data: Prepared, kept: str) -> str:
    source, target = data.languages[0] or "source", data.languages[1] or "target"
    model = config.model
    layers = f"{model.num_encoder_layers}+{model.num_decoder_layers}"
    return f"""# {directory.resolve().name}: {source} → {target}

An encoder-decoder Transformer: {layers} layers, d_model {model.d_model}, {model.num_heads} heads, d_ff {model.d_ff},
{model.norm}-norm, dropout {model.dropout}, embeddings tied: {model.tie_embeddings}. Source vocabulary
{model.source_vocab:,} ({data.tokenizers.source.kind}), target vocabulary {model.target_vocab:,}
({data.tokenizers.target.kind}){", joint" if data.tokenizers.joint else ""}. The weights are {kept}.
"""


def _scores(data: Prepared, result: Validation) -> str:
    rows = [f"| {name} | {value:.2f} | `{result.signatures[name]}` |" for name, value in result.scores.items()]
    return "\n".join(
        [
            f"## On the held-out pairs ({len(data.dev):,})\n",
            "| metric | score | signature |",
            "|---|---|---|",
            *rows,
            f"| loss | {result.loss:.4f} | nats per target token |",
            f"| perplexity | {result.perplexity:.3f} | per target token |",
            f"| token accuracy | {100 * result.accuracy:.2f} | teacher-forced |",
            "\nThe held-out pairs also chose the weights, so these numbers flatter a little; judge on other text with",
            "`dragoman evaluate`.\n",
        ]
    )


def _use(directory: Path) -> str:
    name = directory.resolve().name
    return f"""## Use

```
echo "..." | dragoman translate {name}
```
```python
import dragoman
dragoman.Translator.from_pretrained("{name}").translate(["..."])[0].text
```
"""


def _data(data: Prepared) -> str:
    rows = [f"| `{Path(name).name}` | `{digest}` |" for name, digest in sorted(data.hashes.items())]
    counts = [f"- {part}: {count}" for part, count in data.counts.items()]
    return "\n".join(["## Data\n", *counts, "", "| file | SHA-256 of its content |", "|---|---|", *rows, ""])


def _training(config: TrainConfig, data: Prepared, progress: Progress, command: str) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    training = config.training
    threads = "one thread" if torch.get_num_threads() == 1 else f"{torch.get_num_threads()} threads"
    return f"""## Training

`{command}`

{progress.step:,} updates ({progress.epoch + 1} epochs, {progress.labels:,} target tokens) in {progress.seconds:,.0f}
seconds with {threads} on {platform.machine()} {platform.system()}, seed {training.seed};
best validation ({config.validation.metric}) at step {progress.best_step:,}. All settings: `config.toml`.

Python {platform.python_version()}, {versions}.
"""
