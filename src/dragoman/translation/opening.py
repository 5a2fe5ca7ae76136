"""From model directories to what runs them: without PyTorch where that is certain to be right, and with it later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dragoman.archive import as_directory
from dragoman.config import DecodingConfig, Placement
from dragoman.engines.torch_free import open_torch_free
from dragoman.files import check_filled
from dragoman.models.description import DATASTORE, WEIGHTS, Languages, load_tokenizers, read_config
from dragoman.models.opened import LATER, OpenedFiles
from dragoman.text.tokenizer_pair import TokenizerPair
from dragoman.translation.backend import Backend
from dragoman.translation.checks import check_family

if TYPE_CHECKING:
    from dragoman.memory.datastore import Datastore
    from dragoman.nn import Transformer
    from dragoman.translation.torch_backend import TorchBackend


class OpenedModel(NamedTuple):
    """What a translator is made of, and the files that it came from."""

    backend: Backend
    tokenizers: TokenizerPair
    decoding: DecodingConfig
    languages: Languages
    files: OpenedFiles


def open_model(paths: Sequence[Path], placement: Placement) -> OpenedModel:
    """Open a run or model directory, or several as an ensemble.

    Raises:
        ModelError: a directory holds no encoder-decoder, is damaged, or has other tokenizers than the first.
    """
    paths = [as_directory(path) for path in paths]
    config, decoding, languages = read_config(paths[0])
    check_family(paths[0], config.family)
    how = {"device": placement.device, "engine": placement.engine, "precision": placement.precision}
    files = OpenedFiles(paths, how)
    check_filled(paths[0] / WEIGHTS)
    tokenizers = load_tokenizers(paths[0], config)  # before the weights, which are larger
    alone = len(paths) == 1 and not (paths[0] / DATASTORE).exists()
    opened = open_torch_free(paths[0], config, placement) if alone else None
    if opened is None:
        return OpenedModel(_through_torch(paths, tokenizers, placement), tokenizers, decoding, languages, files)
    opened.await_check()
    backend = Backend(
        partial(_load, files, placement), whole=opened.searcher, reason=opened.reason,
        learned_right_to_left=bool(config.right_to_left),
    )  # fmt: skip
    return OpenedModel(backend, tokenizers, decoding, languages, files)


def backend_of(
    models: Sequence[Transformer],
    placement: Placement,
    datastores: Sequence[Datastore | None] = (),
    *,
    right_to_left: bool = False,
) -> Backend:
    """Return what runs models in memory; `right_to_left`: all of them learned that direction too."""
    from dragoman.translation.torch_backend import TorchBackend

    made = TorchBackend(models, placement, datastores)
    return Backend(partial(_same, made), learned_right_to_left=right_to_left)


def _through_torch(paths: Sequence[Path], first: TokenizerPair, placement: Placement) -> Backend:
    from dragoman.memory.datastore import Datastore
    from dragoman.translation.torch_backend import check_together, load_models, transformers_of

    loaded = load_models(paths, placement.device)
    others = zip(paths[1:], loaded[1:], strict=True)
    pairs = [first, *(load_tokenizers(one, pretrained.config) for one, pretrained in others)]
    check_together(paths, pairs, [pretrained.languages for pretrained in loaded])
    models, stores = list(transformers_of(loaded)), [Datastore.load(one) for one in paths]
    backward = all(pretrained.config.right_to_left for pretrained in loaded)
    return backend_of(models, placement, stores, right_to_left=backward)


def _load(files: OpenedFiles, placement: Placement) -> TorchBackend:
    """The same models again, for what the packed weights cannot do by themselves."""
    from dragoman.translation.torch_backend import TorchBackend, load_models, transformers_of

    files.check(LATER)
    loaded = load_models(files.directories, placement.device)
    files.check(LATER)  # nor were they replaced while they were read
    return TorchBackend(list(transformers_of(loaded)), placement)


def _same(made: TorchBackend) -> TorchBackend:
    return made
