"""`remember`: a datastore of pairs for a trained model, which learns nothing and knows them from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from dragoman.config import SETTINGS_FILE, DataConfig, make_config, read_toml
from dragoman.data import Prepared
from dragoman.data.filtering import Counts, drop_texts, encode_pairs
from dragoman.data.store import TokenStore
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.memory.datastore import Autocast, Datastore, Pair, make_datastore, searching_library
from dragoman.memory.knn import fit
from dragoman.models import Pretrained
from dragoman.models.description import load_tokenizers
from dragoman.nn import Transformer
from dragoman.pace import silent
from dragoman.sequences import SPECIALS, Specials
from dragoman.text import PairFormat, ParallelCorpus, ReadCounts, TokenizerPair
from dragoman.text.lines import BadText
from dragoman.training.precision import choose_precision
from dragoman.translation.torch_backend import load_models


def remember(
    directory: str | Path,
    *,
    source: Sequence[str | Path] = (),
    target: Sequence[str | Path] = (),
    pairs: Sequence[str | Path] = (),
    dev_source: Sequence[str | Path] = (),
    dev_target: Sequence[str | Path] = (),
    add: bool = False,
    device: str = "auto",
    on_bad_text: BadText = "stop",
    columns: str | Mapping[str, object] | None = None,
    report: Callable[[str], None] = silent,
) -> Datastore:
    """Make the datastore of a model directory, in place of the one that is there, or beside what it holds.

    Whatever opens the directory uses it from then on (`decoding.knn_weight`). Pairs that the model was not trained on
    may be given: corrections, or a field of its own.

    Args:
        directory: a run or model directory.
        source: files of sources; those that the run was trained on if no files are given.
        target: files of targets, aligned.
        pairs: .tsv, .csv, .jsonl or .tmx files of pairs.
        dev_source: files of held-out sources like those to be translated, which tell how much the datastore is to
            count. If none are given, the held-out pairs of the run do for its own training pairs and for pairs that
            are added to them, without those what is added to keeps its weights, and others get what suited captions.
        dev_target: their targets, aligned.
        add: keep what the datastore holds already.
        device: where the model runs.
        on_bad_text: what a line of a file that is not UTF-8 does: "stop", "replace" or "skip" (its pair is left out).
        columns: which of `pairs` are meant, as in `data.columns`; where files name languages, the model's if left out.
        report: takes a line of plain text now and then.

    Raises:
        ModelError: there is no encoder-decoder, or no datastore to add to.
        ConfigError: no files are given and there are no prepared data of the run; or faiss is not installed.
        DataError: no pair is left of files that were given.
    """
    searching_library()  # before the work, not after it
    loaded = load_models([directory := Path(directory)], device)[0]
    model = loaded.model
    assert isinstance(model, Transformer)
    before = _before(directory) if add else None
    form = PairFormat.of(columns, loaded.languages.source, loaded.languages.target)
    read = partial(_read, tokenizers := load_tokenizers(directory, loaded.config), report, on_bad_text, form)
    known = read(source, target, pairs) if source or target or pairs else None
    held_out = read(dev_source, dev_target, ()) if dev_source or dev_target else []
    if known is None or (add and not held_out):
        prepared = _prepared(directory, tokenizers)
        if prepared is not None:
            known = stored_pairs(prepared.train) if known is None else known
            held_out = held_out or stored_pairs(prepared.dev)
        elif known is None:
            hint = "give the pairs: --source and --target, or --pairs"
            raise ConfigError("there are no prepared data of the run in its words", file=directory, hint=hint)
    specials = tokenizers.source.specials
    return save_datastore(model.eval(), known, held_out, directory, like=before, specials=specials,
                          autocast=_cast(loaded), report=report)  # fmt: skip


def _before(directory: Path) -> Datastore:
    """The datastore to add to."""
    found = Datastore.load(directory)
    if found is None:
        raise ModelError("there is no datastore to add to", file=directory, hint="leave --add out")
    return found


def _cast(loaded: Pretrained) -> Autocast:
    """The faster precision of products for a model where it is."""
    where, width = next(loaded.model.parameters()).device, loaded.config.with_paper_defaults().d_model or 0
    if choose_precision(width, where)[0] != "bfloat16":
        return nullcontext
    return partial(torch.autocast, where.type, dtype=torch.bfloat16)


def save_datastore(
    model: Transformer,
    pairs: Sequence[Pair],
    held_out: Sequence[Pair],
    directory: Path,
    *,
    like: Datastore | None = None,
    specials: Specials = SPECIALS,
    autocast: Autocast = nullcontext,
    report: Callable[[str], None] = silent,
) -> Datastore:
    """Make a datastore, fit it to pairs that the model was not trained on, if there are any, and write it.

    Arguments are those of `make_datastore`; `held_out` are pairs of the same kind.
    """
    store = make_datastore(model, pairs, directory, like=like, specials=specials, autocast=autocast, report=report)
    if held_out:
        found = fit(model, store, held_out, autocast, specials)
        report(
            f"datastore: with a mean weight of {found.weight:.2f} the loss of {found.tokens:,} held-out tokens is "
            f"{found.together:.3f} in place of {found.alone:.3f}"
        )
    store.save(directory)
    return store


def stored_pairs(store: TokenStore) -> list[Pair]:
    """Return the pairs of a token store, as a datastore is made of them."""
    return [(store.source(row).tolist(), store.target(row).tolist()) for row in range(len(store))]


def _prepared(directory: Path, tokenizers: TokenizerPair) -> Prepared | None:
    """The data that a run was trained on, if they are still there, and were not made anew from other words."""
    settings, own = directory / SETTINGS_FILE, directory / "data"
    elsewhere = make_config(read_toml(settings)).data.prepared if settings.exists() else None
    where = own if elsewhere is None else Path(elsewhere)
    prepared = Prepared.open(where) if where.is_dir() else None
    return prepared if prepared is not None and prepared.tokenizers.is_like(tokenizers) else None


def _read(
    tokenizers: TokenizerPair,
    report: Callable[[str], None],
    on_bad_text: BadText,
    form: PairFormat,
    source: Sequence[str | Path],
    target: Sequence[str | Path],
    pairs: Sequence[str | Path],
) -> list[Pair]:
    counts, reading, matching, known = Counts(unit="pairs"), ReadCounts(), tokenizers.matching, []
    for corpus in (
        ParallelCorpus.from_files(source, target, on_bad_text=on_bad_text),
        ParallelCorpus.from_pairs(pairs, on_bad_text=on_bad_text, form=form),
    ):
        filled = drop_texts(corpus.read(reading), counts)
        plain = tokenizers.without_matches()
        for _, ids, labels in encode_pairs(filled, plain, DataConfig(), counts, limit_ratio=False):
            own = list(ids)
            known.append((own if matching is None else matching.source_of(own, but_equal=True).joined, labels))
    counts.take_in(reading)
    report(f"pairs: {counts}")
    if not known:
        raise DataError("no pair is left", file=[*source, *pairs][0])
    return known
