"""Models of one text, from their directories: decoder-only, masked, and the Markov models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman.archive import as_directory
from dragoman.config import DecodingConfig, Placement
from dragoman.engines import ModuleEngine, choose_device, choose_engine
from dragoman.errors import ConfigError, ModelError
from dragoman.markov import MarkovModel, is_markov, load
from dragoman.models import Languages, load_pretrained
from dragoman.models.description import CONFIG, file_sums, read_config
from dragoman.models.opened import OpenedFiles
from dragoman.nn import MaskedLM
from dragoman.text import TokenizerPair
from dragoman.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class LanguageModel:
    """What a model directory holds, ready to run.

    Attributes:
        family: "causal", "masked", a kind of Markov model, or "transformer" (which needs a source besides).
        model: a next-token model, or the masked model itself.
        tokenizer: of what the model writes.
        decoding: the options it was stored with.
        languages: two-letter codes, where known.
        opened: the files that it was read from.
    """

    family: str
    model: ModuleEngine | MarkovModel | MaskedLM
    tokenizer: Tokenizer
    decoding: DecodingConfig
    languages: Languages
    opened: OpenedFiles | None = None


def family_of(path: Path) -> str:
    """Return the family of the model in a directory: as its config says, or "Markov".

    Raises:
        ModelError: there is no model, or its config is damaged.
    """
    return "Markov" if is_markov(path) else read_config(path)[0].family


def load_language_model(
    path: str | Path, *, device: str = "auto", engine: str = "auto", precision: str = "auto"
) -> LanguageModel:
    """Load a run or model directory of any family.

    Args:
        path: the directory, or a packed model.
        device: where weights go; counts stay on the CPU.
        engine: which engine runs a decoder; "auto" chooses.
        precision: in which precision it multiplies, as for `Translator`.

    Raises:
        ConfigError: there is no such device, engine or precision for it.
        ModelError: there is no model, it is damaged, or the vocabulary beside it is another one's.
    """
    placement = Placement(device, engine, precision)
    folder, where = as_directory(Path(path)), choose_device(device)
    files = OpenedFiles([folder], {"device": device, "engine": engine, "precision": precision})
    if is_markov(folder):
        _check_plain("a Markov model", engine, precision)
        counted = load(folder)
        plain = DecodingConfig(), Languages()
        decoding, languages = read_config(folder)[1:] if (folder / CONFIG).exists() else plain
        return LanguageModel(counted.kind, counted, _tokenizer(folder, counted.vocab), decoding, languages, files)
    loaded = load_pretrained(folder, where)
    tokenizer = _tokenizer(folder, loaded.config.target_vocab)
    if isinstance(loaded.model, MaskedLM):
        _check_plain("a masked model", engine, precision)
        if tokenizer.mask is None:
            raise ModelError("the vocabulary of a masked model needs a <mask>", file=folder, found="none")
        return LanguageModel(loaded.config.family, loaded.model, tokenizer, loaded.decoding, loaded.languages, files)
    chosen, _ = choose_engine(loaded.model, placement)
    return LanguageModel(loaded.config.family, chosen, tokenizer, loaded.decoding, loaded.languages, files)


def _check_plain(kind: str, engine: str, precision: str) -> None:
    """Refuse an engine or a precision for a model that can only be run as it is."""
    if engine not in ("auto", "module") or precision not in ("auto", "float32"):
        hint = "leave engine and precision out (--engine, --precision)"
        raise ConfigError(
            f"{kind} runs with one engine and one precision only", found=f"{engine}, {precision}", hint=hint
        )


def _tokenizer(folder: Path, rows: int | None) -> Tokenizer:
    tokenizer = TokenizerPair.load(folder, file_sums(folder)).target
    if len(tokenizer) != rows:
        raise ModelError("the vocabulary does not fit the model", file=folder, expected=rows, found=len(tokenizer))
    return tokenizer
