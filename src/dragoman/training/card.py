"""The model card: a README beside the weights that says what the model is, from what it came and how good it is."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from dragoman.config import TrainConfig
from dragoman.data import Prepared
from dragoman.errors import ModelError
from dragoman.evaluation import doubt_size
from dragoman.files import json_text, opened, write_bytes
from dragoman.models.description import DATASTORE
from dragoman.runs.curves import CURVES
from dragoman.runs.hub import card_head
from dragoman.studies import Trial, Tuning
from dragoman.text.tokenizer_pair import MATCHES
from dragoman.training.progress import Progress
from dragoman.training.validate import MOST_TRAINING_PAIRS, Validation


@dataclass(frozen=True)
class Kind:
    """How a family of models is spoken of."""

    title: str
    stack: str
    labels: str
    per: str
    accuracy: str
    command: str
    python: str


KINDS = {
    "transformer": Kind(
        title="",
        stack="An encoder-decoder Transformer",
        labels="target tokens",
        per="per target token",
        accuracy="teacher-forced",
        command='echo "..." | dragoman translate {name}',
        python='import dragoman\ndragoman.Translator.from_pretrained({quoted}).translate(["..."])[0].text',
    ),
    "causal": Kind(
        title="a causal language model",
        stack="A decoder-only Transformer, which predicts each token from those before it",
        labels="tokens",
        per="per token, `</s>` counted",
        accuracy="in percent, teacher-forced",
        command='dragoman complete {name} "..."\ndragoman score {name} --text FILE',
        python='import dragoman\ndragoman.Completer.from_pretrained({quoted}).complete(["..."])[0][0].text',
    ),
    "masked": Kind(
        title="a masked language model",
        stack="An encoder-only Transformer, which predicts hidden tokens from all others",
        labels="hidden tokens",
        per="per hidden token, 15 % of a line being hidden at once",
        accuracy="in percent, of the hidden tokens",
        command='dragoman complete {name} "... <mask> ..."\ndragoman score {name} --text FILE',
        python=(
            'from dragoman.language import Filler\nFiller.from_pretrained({quoted}).fill(["... <mask> ..."])[0][0].text'
        ),
    ),
}
_REMEMBERED = f"""While it translates it looks up the states of its training pairs, in `{DATASTORE}`: who has that file
has their targets. Of the numbers above only those of a search that was tried were found with it.
"""
_PICTURE = f"""![Loss, score on held-out lines and learning rate while it was trained]({CURVES})
"""
_BOTH_DIRECTIONS = """ Targets were learned right to
left too{}, and what a beam finds is ranked by both directions."""
# How a card begins to tell of its search, and what comes after that.
_SEARCHES, _FLATTERS = "`translate` searches with", "\nThe held-out"
_MOST = 1 << 24  # bytes of a card
PACKAGES = ("dragoman", "torch", "sentencepiece", "sacrebleu", "numpy")


def write_card(
    directory: Path,
    config: TrainConfig,
    data: Prepared,
    progress: Progress,
    result: Validation,
    kept: str,
    command: str,
    tuned: Tuning | None = None,
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
        tuned: what the searches that were tried reached.
    """
    sections = [
        _hub_head(directory, config, data, result),
        _head(directory, config, data, kept),
        _scores(config, data, result, tuned),
        *([_PICTURE] if (directory / CURVES).exists() else []),
        _use(config, directory),
        data_section(data),
        *([_REMEMBERED] if config.training.datastore else []),
        _training(config, data, progress, command),
    ]
    write_bytes(directory / "README.md", "\n".join(sections).encode())


def _hub_head(directory: Path, config: TrainConfig, data: Prepared, result: Validation) -> str:
    scores = result.scores or {"loss": result.loss, "accuracy": 100 * result.accuracy}
    return card_head(
        directory.resolve().name, config.model.family, data.languages, scores, result.signatures,
        lines=len(data.dev), license_name=config.training.license,
    )  # fmt: skip


def _head(directory: Path, config: TrainConfig, data: Prepared, kept: str) -> str:
    model, tokenizers, name = config.model, data.tokenizers, directory.resolve().name
    if model.learns_pairs:
        title = f"{name}: {data.languages[0] or 'source'} → {data.languages[1] or 'target'}"
        layers = f"{model.num_encoder_layers}+{model.num_decoder_layers}"
        own = ", by a decoder of its own" if model.has_two_decoders else ""
        vocabulary = f"Sources are {tokenizers.sound}.\nTarget vocabulary"
        if tokenizers.sound is None:
            vocabulary = f"Source vocabulary\n{model.source_vocab:,} ({tokenizers.source.kind}), target vocabulary"
        joint = ", joint" if tokenizers.joint else ""
    else:
        title = f"{name}: {KINDS[model.family].title}" + (f" of {data.languages[1]}" if data.languages[1] else "")
        layers = f"{model.num_decoder_layers if model.family == 'causal' else model.num_encoder_layers}"
        vocabulary, joint, own = "Vocabulary", "", ""
    return f"""# {title}

{KINDS[model.family].stack}: {layers} layers, d_model {model.d_model}, {model.num_heads} heads, d_ff {model.d_ff},
{model.norm}-norm, dropout {model.dropout}, embeddings tied: {model.tie_embeddings}. {vocabulary} {model.target_vocab:,}
({tokenizers.target.kind}){joint}. The weights are {kept}.{_BOTH_DIRECTIONS.format(own) if model.right_to_left else ""}
"""


def _scores(config: TrainConfig, data: Prepared, result: Validation, tuned: Tuning | None) -> str:
    kind, unit = KINDS[config.model.family], data.counts["dev"].unit
    rows = [f"| {name} | {value:.2f} | `{result.signatures[name]}` |" for name, value in result.scores.items()]
    verb = "score" if data.is_text else "evaluate"
    some = rows and len(result.hypotheses) < len(data.dev)
    told = f"\nOutputs were scored for the first {len(result.hypotheses):,}; loss, perplexity and accuracy are of all."
    return "\n".join(
        [
            f"## On the held-out {unit} ({len(data.dev):,})\n",
            f"| metric | score | {'signature' if rows else 'meaning'} |",
            "|---|---|---|",
            *rows,
            f"| loss | {result.loss:.4f} | nats {kind.per} |",
            f"| {result.perplexity_name.replace('_', '-')} | {result.perplexity:.3f} | {kind.per} |",
            f"| token accuracy | {100 * result.accuracy:.2f} | {kind.accuracy} |",
            f"| loss on training {unit} | {result.training_loss:.4f} | the same, of {MOST_TRAINING_PAIRS:,} at most |",
            *([told] if some else []),
            *(f"\nOf {name}: {note}." for name, note in result.notes.items()),
            *([f"\nMind that {size}."] if rows and (size := doubt_size(len(result.hypotheses))) else []),
            *([_cut(config, result)] if result.cut else []),
            *([] if tuned is None else [_search(config, tuned)]),
            f"{_FLATTERS} {unit} also chose the weights, so these numbers flatter a little; judge on other text",
            f"with `dragoman {verb}`.\n",
        ]
    )


def _cut(config: TrainConfig, result: Validation) -> str:
    cut = f"{result.cut:,} of {len(result.hypotheses):,}"
    return f"\nOutputs that the model did not end, cut at the limit ({config.decoding.limit_in_words}): {cut}."


def _search(config: TrainConfig, tuned: Tuning) -> str:
    penalty = config.decoding.length_penalty
    chosen = next(one for one in tuned.trials if one.decoding.length_penalty == penalty)
    tried = ", ".join(f"{one:g}" for one in sorted(trial.decoding.length_penalty for trial in tuned.trials))
    return f"\n{_searched(chosen, f'tried: {tried}', 'of them')}"


def _searched(trial: Trial, how: str, lines: str) -> str:
    options, score = trial.decoding, trial.score
    formula = "" if options.length_penalty_formula == "gnmt" else f" (`{options.length_penalty_formula}`)"
    shares = {"of its datastore": options.knn_weight, "of the right-to-left direction": options.right_to_left_weight}
    shares |= {"of what is read off frames": options.ctc_weight}
    parts = [f"a beam of {options.beam_size}"]
    if options.beam_size > 1:
        parts.append(f"a length penalty of {options.length_penalty:g}{formula}")
    parts += [f"a weight of {weight:g} {what}" for what, weight in shares.items() if weight is not None]
    return (
        f"{_SEARCHES} {' and '.join(parts)} ({how}):\n{score.label} {score.value:.2f} "
        f"[{score.low:.2f}, {score.high:.2f}] on {score.lines:,} {lines}, `{score.signature}`."
    )


def retell_search(directory: Path, chosen: Trial) -> None:
    """Have the card of a run, if there is one that tells scores, tell of another search than before.

    Args:
        directory: the run or model directory.
        chosen: the search that `translate` uses from now on, and what it reached.
    """
    path = directory / "README.md"
    card = ""
    with suppress(ModelError), opened(path) as file:  # none there, or no file of ours
        card = file.read(_MOST).decode("utf-8", errors="surrogateescape")
    told = _searched(chosen, "found by `tune`", "held-out lines")
    before = re.search(re.escape(_SEARCHES) + r".*?`\.(?=\n)", card, re.DOTALL)
    if before is not None:
        card = card[: before.start()] + told + card[before.end() :]
    elif _FLATTERS in card:
        card = card.replace(_FLATTERS, f"\n{told}\n{_FLATTERS}", 1)
    else:
        return
    write_bytes(path, card.encode("utf-8", errors="surrogateescape"))


def _use(config: TrainConfig, directory: Path) -> str:
    kind, name = KINDS[config.model.family], directory.resolve().name
    return f"""## Use

```
{kind.command.format(name=shlex.quote(name))}
```
```python
{kind.python.format(quoted=json_text(name))}
```
"""


def data_section(data: Prepared) -> str:
    """Return what was read, and what of it was kept."""
    rows = [f"| `{Path(name).name}` | `{digest}` |" for name, digest in sorted(data.hashes.items())]
    counts = [f"- {part}: {count}" for part, count in data.counts.items()]
    if (matching := data.tokenizers.matching) is not None:
        counts += ["", f"Beside each source it reads {matching}. They are kept with it, in `{MATCHES}`:",
                   "who has the model has them."]  # fmt: skip
    return "\n".join(["## Data\n", *counts, "", "| file | SHA-256 of its content |", "|---|---|", *rows, ""])


def _training(config: TrainConfig, data: Prepared, progress: Progress, command: str) -> str:
    training = config.training
    labels = KINDS[config.model.family].labels
    threads = "one thread" if torch.get_num_threads() == 1 else f"{torch.get_num_threads()} threads"
    return f"""## Training

`{command}`

{progress.step:,} updates ({progress.epoch + 1} epochs, {progress.labels:,} {labels}) in {progress.seconds:,.0f}
seconds with {threads} on {platform.machine()} {platform.system()}, seed {training.seed};
best validation ({config.validation.metric}) at step {progress.best_step:,}. All settings: `config.toml`.

{versions(*PACKAGES)}
"""


def typed_command() -> str:
    """Return what was typed to start this program, as a shell takes it; of another program, what it called."""
    program = Path(sys.argv[0])
    is_ours = program.name == "dragoman" or program.parts[-2:] == ("dragoman", "__main__.py")  # python -m dragoman
    return shlex.join(["dragoman", *sys.argv[1:]]) if is_ours else "dragoman.train(...)"


def versions(*packages: str) -> str:
    """Return the versions of Python and of some packages, as a sentence."""
    named = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"Python {platform.python_version()}, {named}."
