"""From the directory of another system to a run directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.directories import check_new
from dragoman.errors import ConfigError, ModelError
from dragoman.files import read_json
from dragoman.importing.taken import Taken, write_run
from dragoman.models.blueprint import count_numbers
from dragoman.models.description import CONFIG, read_config
from dragoman.models.draft import blueprint_of

# Systems that a profile computes, each with its options.
FOUNDING = ("annotated", "jadore", "lsdefine", "d2l", "torch_nn")


@dataclass(frozen=True)
class Imported:
    """A model that was taken over.

    Attributes:
        directory: the run directory.
        kind: what it was.
        parameters: how many numbers it has.
        notes: what its user should know, each a sentence.
    """

    directory: Path
    kind: str
    parameters: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"directory": str(self.directory), "kind": self.kind, "parameters": self.parameters,
                "notes": list(self.notes)}  # fmt: skip


def import_model(
    directory: str | Path,
    out: str | Path,
    *,
    kind: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    unpickle: bool = False,
    vocabulary: str | Path | None = None,
    target_vocabulary: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Imported:
    """Import a model of another system as a run directory, which every verb takes.

    Args:
        directory: of the other system.
        out: the directory to make.
        kind: of system, as in `KINDS`; found out by its files if None.
        source_language: of a model for several languages, as it names it.
        target_language: likewise.
        unpickle: whether weights that are pickled may be read: their tensors alone, in a process of their own.
        vocabulary: of a founding system (`FOUNDING`): tokens one a line, or JSON; found by its name if None.
        target_vocabulary: of its targets; `vocabulary` if None.
        options: of its profile's `load`, such as the number of heads.

    Raises:
        ConfigError: `out` is there already, there is no such kind, or an option is not for this kind.
        DataError: a vocabulary or a SentencePiece model cannot be taken.
        ModelError: settings or weights cannot be taken; says which and why.
    """
    folder, made = Path(directory), Path(out)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing"
        raise ModelError("a model to import is a directory", file=folder, expected="a directory", found=found)
    found = kind or kind_of(folder)
    if found == "paddle":
        hint = "dragoman.profiles.paddle loads it in Python; a Transformer of Paddle's d2l is --from d2l"
        raise ConfigError("a checkpoint of Paddle's article is an attention, and no model", found=found, hint=hint)
    if found not in KINDS and found not in FOUNDING:
        raise ConfigError("there is no such kind of model", expected=", ".join((*KINDS, *FOUNDING)), found=found)
    check_new(made)
    if found in FOUNDING:
        from dragoman.importing.founding import import_founding

        if source_language is not None or target_language is not None:
            raise ConfigError("a model of this system has no languages to choose", hint="leave the languages out")
        paths = tuple(None if one is None else Path(one) for one in (vocabulary, target_vocabulary))
        numbers, notes = import_founding(
            folder, made, found, vocabularies=(paths[0], paths[1]), options=options, unpickle=unpickle
        )
        return Imported(made, found, numbers, notes)
    if vocabulary is not None or target_vocabulary is not None or options:
        hint = f"they are for {', '.join(FOUNDING)}"
        raise ConfigError(f"a vocabulary and options are not for {found}, which has its own", hint=hint)
    taken = KINDS[found](folder, source_language, target_language, unpickle)
    write_run(taken, made)
    parameters = count_numbers(blueprint_of(read_config(made)[0]))
    return Imported(made, found, parameters, taken.notes)


def kind_of(directory: Path) -> str:
    """Return what kind of model a directory holds, by its files.

    Raises:
        ModelError: none that is known; says what is looked for.
    """
    from dragoman.importing.fsmt import is_fsmt
    from dragoman.importing.joeynmt import is_joey
    from dragoman.importing.many_languages import is_many
    from dragoman.importing.marian import is_native
    from dragoman.importing.opennmt import is_opennmt
    from dragoman.importing.sockeye import is_sockeye
    from dragoman.importing.transformers import is_marian

    known = {"marian-mt": is_marian, "m2m100": is_many, "fsmt": is_fsmt, "marian": is_native, "joeynmt": is_joey,
             "opennmt": is_opennmt, "sockeye": is_sockeye}  # fmt: skip
    for kind, has in known.items():
        if has(directory):
            return kind
    from dragoman.importing.founding import founding_kind

    if (founding := founding_kind(directory)) is not None:
        return founding
    expected = (
        "config.json, source.spm, target.spm and vocab.json (MarianMT); config.json and sentencepiece.bpe.model "
        "(M2M100, NLLB); config.json, vocab-src.json and vocab-tgt.json (FSMT); model.npz (Marian); "
        "config.yaml and src_vocab.txt (JoeyNMT); opennmt.json, or NAME_step_N.pt (OpenNMT-py); config and "
        "vocab.src.0.json (Sockeye); or the weights of a founding system, with --vocab"
    )
    hint = "see the page about importing; --from says what it is"
    if "format" in (read_json(directory / CONFIG) if (directory / CONFIG).is_file() else ()):
        hint = "this is a model of Dragoman already: every verb takes it as it is"
    raise ModelError("these files are not a model that can be imported", file=directory, expected=expected, hint=hint)


def _check_no_languages(what: str, source: str | None, target: str | None) -> None:
    if source is not None or target is not None:
        raise ConfigError(f"{what} model has its languages already", hint="leave the languages out")


def _marian_mt(directory: Path, source: str | None, target: str | None, unpickle: bool) -> Taken:
    from dragoman.importing.transformers import take_marian

    if source is not None:
        raise ConfigError("a MarianMT model has no source language to choose", found=f"source language {source}")
    return take_marian(directory, target_language=target, unpickle=unpickle)


def _many(directory: Path, source: str | None, target: str | None, unpickle: bool) -> Taken:
    from dragoman.importing.many_languages import take_many

    return take_many(directory, source, target, unpickle=unpickle)


def _fsmt(directory: Path, source: str | None, target: str | None, unpickle: bool) -> Taken:
    from dragoman.importing.fsmt import take_fsmt

    _check_no_languages("an FSMT", source, target)
    return take_fsmt(directory, unpickle=unpickle)


def _marian(directory: Path, source: str | None, target: str | None, unpickle: bool) -> Taken:
    from dragoman.importing.marian import take_native

    _check_no_languages("a Marian", source, target)
    return take_native(directory)


def _joey(directory: Path, source: str | None, target: str | None, unpickle: bool) -> Taken:
    from dragoman.importing.joeynmt import take_joey

    _check_no_languages("a JoeyNMT", source, target)
    return take_joey(directory, unpickle=unpickle)


def _opennmt(directory: Path, source: str | None, target: str | None, unpickle: bool) -> Taken:
    from dragoman.importing.opennmt import take_opennmt

    _check_no_languages("an OpenNMT-py", source, target)
    return take_opennmt(directory, unpickle=unpickle)


def _sockeye(directory: Path, source: str | None, target: str | None, unpickle: bool) -> Taken:
    from dragoman.importing.sockeye import take_sockeye

    _check_no_languages("a Sockeye", source, target)
    return take_sockeye(directory, unpickle=unpickle)


KINDS: dict[str, Callable[[Path, str | None, str | None, bool], Taken]] = {
    "marian-mt": _marian_mt,
    "m2m100": _many,
    "fsmt": _fsmt,
    "marian": _marian,
    "joeynmt": _joey,
    "opennmt": _opennmt,
    "sockeye": _sockeye,
}
