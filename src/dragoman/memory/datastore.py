"""What a decoder's output was at each token of known pairs, to be found again where a token is to be written.

The datastore of k-nearest-neighbour machine translation (Khandelwal et al. 2021): the keys are the vectors from which
the generator makes its logits, the values are the tokens that followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float16, Int, UInt8
from torch import Tensor

from dragoman.errors import ConfigError, ModelError
from dragoman.models.description import DATASTORE, WEIGHTS, read_config
from dragoman.models.tensors import read_tensors, write_tensors
from dragoman.nn import Transformer
from dragoman.pace import Pace, silent
from dragoman.search.batches import length_batches
from dragoman.sequences import SPECIALS, Source, SourceBatch, Specials, TargetBatch
from dragoman.text.lines import file_hash

DIMENSIONS = 64  # of a key: the directions in which the vectors vary most
# Keys are sorted into cells around centres, of which only the nearest ones are searched.
PER_CELL, MOST_CELLS = 400, 8192
SEARCHED_CELLS = 24
_PER_CENTRE = 45  # keys from which it is found
_SAMPLE = 50_000  # keys from which directions are found
_ROWS = 256  # of a batch
# Without held-out pairs: a little less weight than was found for captions; the temperature of some keys' mean distance.
_WEIGHT, _FALLOFF, _TEMPERATURE = 0.4, 0.8, 0.3
_KEYS, _NEIGHBOURS = 1000, 32
_SEED = 1
_PARTS = ("states", "tokens", "mean", "directions", "centres", "weight", "falloff", "temperature", "weights")
Pair = tuple[Sequence[int], Sequence[int]]
Autocast = Callable[[], AbstractContextManager[object]]


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count:,} pairs"


class Datastore:
    """Keys and values, and how keys are searched.

    Args:
        states: the keys: the decoder's outputs along `directions`, float16.
        tokens: the token that followed each, the `</s>` of each target too, pair after pair.
        mean: of the outputs.
        directions: orthonormal, those in which they vary most.
        centres: of the cells; none where all keys are searched.
        weight: of the keys' tokens in a mixture with the model's own probabilities, [1]; where the nearest key is at a
            squared distance of `temperature`.
        falloff: the power of that distance with which the odds of the weight fall, [1].
        temperature: of the softmax over squared distances that weighs the keys, [1].
        weights: SHA-256 of the file of the weights that made the keys, 32 bytes.
    """

    def __init__(
        self,
        states: Float16[Tensor, "keys dimensions"],
        tokens: Int[Tensor, " keys"],
        mean: Float[Tensor, " d_model"],
        directions: Float[Tensor, "d_model dimensions"],
        centres: Float[Tensor, "cells dimensions"],
        weight: Float[Tensor, "1"],
        falloff: Float[Tensor, "1"],
        temperature: Float[Tensor, "1"],
        weights: UInt8[Tensor, "32"],
    ) -> None:
        self.states, self.tokens, self.mean, self.directions = states, tokens, mean, directions
        self.centres, self.weights = centres, weights
        self.weight, self.falloff, self.temperature = weight, falloff, temperature

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def pairs(self) -> int:
        """Of how many pairs the tokens are."""
        return int((self.tokens == SPECIALS.eos).sum())

    def __str__(self) -> str:
        return f"{len(self):,} tokens of {_pairs(self.pairs)}"

    def keys(self, outputs: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows dimensions"]:
        """Return the decoder's outputs as keys: projected to the datastore's directions."""
        return (outputs.to(self.mean) - self.mean) @ self.directions

    def nearest(
        self, outputs: Float[Tensor, "rows d_model"], count: int
    ) -> tuple[Float[Tensor, "rows found"], Int[Tensor, "rows found"]]:
        """Return the keys nearest to each output of the decoder.

        Args:
            outputs: of the decoder.
            count: how many keys, or all there are.

        Returns:
            Squared distances, nearest first, and the places of the keys; where the cells that are searched hold fewer,
            an infinite distance and place 0.
        """
        distances, places = self._index.search(self.keys(outputs).cpu().numpy(), min(count, len(self)))
        found = torch.from_numpy(places)
        far = torch.from_numpy(distances).masked_fill_(found < 0, float("inf"))
        return far.to(outputs.device), found.clamp_(min=0).to(outputs.device)

    def followers(self, places: Int[Tensor, "rows found"]) -> Int[Tensor, "rows found"]:
        """Return the tokens that followed the keys with these numbers."""
        return self.tokens[places.cpu()].to(places.device, torch.long)

    def target(self, place: int) -> list[int]:
        """Return the whole target, unframed, to which the token of a key belongs."""
        ends = (self.tokens == SPECIALS.eos).nonzero()[:, 0]
        number = int(torch.searchsorted(ends, place))
        return self.tokens[int(ends[number - 1]) + 1 if number else 0 : int(ends[number])].tolist()

    @cached_property
    def _index(self) -> Any:
        return _index_of(self.states, self.centres)

    def save(self, directory: Path) -> None:
        """Write `datastore.safetensors`."""
        write_tensors(directory / DATASTORE, {name: getattr(self, name) for name in _PARTS})

    @classmethod
    def load(cls, directory: Path) -> Datastore | None:
        """Load the datastore of a model directory; None if it has none.

        Raises:
            ModelError: it is damaged, or was made with other weights.
        """
        path = directory / DATASTORE
        if not path.exists():
            return None
        tensors = {"falloff": torch.zeros(1), **read_tensors(path)}  # without it a weight is the same everywhere
        if set(tensors) != set(_PARTS):
            expected, found = ", ".join(sorted(_PARTS)), ", ".join([*sorted(tensors)[:3], "…"])
            raise ModelError("not a datastore", file=path, expected=expected, found=found)
        config = read_config(directory)[0].with_paper_defaults()
        if not _hold_together(tensors, config.d_model or 0, config.target_vocab or 0):
            raise ModelError("the parts of the datastore do not fit each other or the model", file=path)
        store = cls(**tensors)
        if bytes(store.weights.tolist()) != _fingerprint(directory):
            hint = f"`dragoman remember {directory}` makes it anew"
            raise ModelError("the datastore was made with other weights", file=path, hint=hint)
        return store


def _hold_together(parts: Mapping[str, Tensor], d_model: int, vocab: int) -> bool:
    """Whether what a file holds can be searched, and gives tokens of the model."""
    keys, size = len(parts["tokens"].reshape(-1)), parts["directions"].shape[-1:].numel()
    shapes = {
        "states": (keys, size), "tokens": (keys,), "mean": (d_model,), "directions": (d_model, size),
        "centres": (len(parts["centres"]) if parts["centres"].dim() else 0, size), "weight": (1,), "falloff": (1,),
        "temperature": (1,), "weights": (32,),
    }  # fmt: skip
    kinds = {"states": torch.float16, "tokens": torch.int32, "weights": torch.uint8}
    return (
        keys > 0
        and all(tuple(parts[name].shape) == shape for name, shape in shapes.items())
        and all(part.dtype == kinds.get(name, torch.float32) for name, part in parts.items())
        and all(bool(part.isfinite().all()) for part in parts.values())
        and int(parts["tokens"][-1]) == SPECIALS.eos  # which ends the last target
        and 0 <= int(parts["tokens"].min()) <= int(parts["tokens"].max()) < vocab
        and 0 <= float(parts["weight"]) < 1
        and 0 <= float(parts["falloff"]) < float("inf")
        and float(parts["temperature"]) > 0
    )


def make_datastore(
    model: Transformer,
    pairs: Sequence[Pair],
    directory: Path,
    *,
    like: Datastore | None = None,
    specials: Specials = SPECIALS,
    autocast: Autocast = nullcontext,
    report: Callable[[str], None] = silent,
) -> Datastore:
    """Make a datastore of pairs (Khandelwal et al. 2021): the decoder's state at each token, and the token.

    Args:
        model: in evaluation mode.
        pairs: source and target ids, unframed, fuzzy matches with the sources.
        directory: of the model, whose weights are written already.
        like: a datastore of the same weights whose keys come first; what was fitted of it stays.
        specials: of the source's vocabulary.
        autocast: makes the context that chooses the precision of products.
        report: takes a line of plain text now and then.
    """
    report(f"datastore: the decoder's states at each token of {_pairs(len(pairs))}")
    random = np.random.default_rng(_SEED)
    if like is None:
        some = decoder_outputs(model, some_pairs(pairs, random), autocast, specials)
        sample = torch.cat([outputs for _, outputs in some])
        mean, directions = principal_directions(sample, DIMENSIONS)
    else:
        mean, directions = like.mean, like.directions
    outputs = decoder_outputs(model, pairs, autocast, specials)
    states, tokens = _keys_and_values(outputs, pairs, mean, directions, report)
    if like is not None:
        states, tokens = torch.cat([like.states, states]), torch.cat([like.tokens, tokens])
    weights = torch.tensor(list(_fingerprint(directory)), dtype=torch.uint8)
    centres = centres_of(states)
    own = (torch.tensor([_WEIGHT]), torch.tensor([_FALLOFF]), torch.ones(1))
    if like is not None:
        own = (like.weight, like.falloff, like.temperature)
    store = Datastore(states, tokens, mean, directions, centres, *own, weights)
    if like is None:
        store.temperature = _TEMPERATURE * _mean_distance(store, random)
    report(f"datastore: {store}, {states.nbytes / 1e6:,.0f} MB")
    return store


def some_pairs(pairs: Sequence[Pair], random: np.random.Generator, tokens: int = _SAMPLE) -> list[Pair]:
    """Draw pairs until their targets have so many tokens, or all."""
    order = random.permutation(len(pairs))
    lengths = np.array([len(pairs[row][1]) + 1 for row in order])
    return [pairs[row] for row in order[: 1 + int(np.searchsorted(lengths.cumsum(), tokens))]]


def _keys_and_values(
    outputs: Iterable[tuple[int, Float[Tensor, "labels d_model"]]],
    pairs: Sequence[Pair],
    mean: Float[Tensor, " d_model"],
    directions: Float[Tensor, "d_model dimensions"],
    report: Callable[[str], None],
) -> tuple[Float16[Tensor, "keys dimensions"], Int[Tensor, " keys"]]:
    tokens = torch.tensor([token for _, target in pairs for token in (*target, SPECIALS.eos)], dtype=torch.int32)
    states = torch.empty(len(tokens), directions.shape[1], dtype=torch.float16)
    ends = np.cumsum([len(target) + 1 for _, target in pairs])
    done, pace = 0, Pace(report, "datastore: tokens", len(tokens))
    for row, found in outputs:
        states[ends[row] - len(found) : ends[row]] = (found - mean) @ directions
        done += len(found)
        pace.at(done)
    return states, tokens


def principal_directions(
    rows: Float[Tensor, "rows d_model"], count: int
) -> tuple[Float[Tensor, " d_model"], Float[Tensor, "d_model dimensions"]]:
    """Return the mean of some vectors and the directions of most variance, the largest first; all if fewer."""
    mean = rows.mean(0)
    covariance = torch.cov((rows - mean).double().T, correction=0).reshape(len(mean), len(mean))
    _, vectors = torch.linalg.eigh(covariance)  # ascending
    return mean, vectors.flip(1)[:, :count].to(rows.dtype).contiguous()


def decoder_outputs(
    model: Transformer, pairs: Sequence[Pair], autocast: Autocast = nullcontext, specials: Specials = SPECIALS
) -> Iterator[tuple[int, Float[Tensor, "labels d_model"]]]:
    """Yield the number of each pair and the decoder's outputs at its tokens, as float32 on the CPU; long ones first.

    Args:
        model: in evaluation mode.
        pairs: source and target ids, unframed.
        autocast: makes the context that chooses the precision of products.
        specials: of the source's vocabulary.
    """
    device = next(model.parameters()).device
    for rows in length_batches([max(len(source), len(target)) + 1 for source, target in pairs], max_rows=_ROWS):
        sources = SourceBatch.of([Source.from_joined(pairs[row][0], specials) for row in rows], device)
        target = TargetBatch.of([pairs[row][1] for row in rows], device=device)
        with torch.no_grad(), autocast():
            hidden = model.hidden(sources.ids, target.inputs, sources.mask, target.input_mask).float().cpu()
        for row, outputs in zip(rows, hidden, strict=True):
            yield row, outputs[: len(pairs[row][1]) + 1]


def centres_of(states: Float16[Tensor, "keys dimensions"]) -> Float[Tensor, "cells dimensions"]:
    """Return the centres of the cells of keys (k-means); none where keys are so few that all are searched."""
    cells = min(len(states) // PER_CELL, MOST_CELLS)
    if cells <= SEARCHED_CELLS:
        return torch.empty(0, states.shape[1])
    faiss, random = searching_library(), np.random.default_rng(_SEED)
    means = faiss.Kmeans(states.shape[1], cells, niter=10, seed=_SEED)
    some = random.choice(len(states), min(len(states), _PER_CENTRE * cells), replace=False)
    means.train(states[some].float().numpy())
    return torch.from_numpy(means.centroids.copy())


def _mean_distance(store: Datastore, random: np.random.Generator) -> Float[Tensor, "1"]:
    """The mean squared distance of some keys to the nearest ones of other pairs."""
    owners = (store.tokens == SPECIALS.eos).long().cumsum(0).roll(1)
    owners[0] = 0
    some = torch.from_numpy(random.choice(len(store), min(len(store), _KEYS), replace=False))
    found = store._index.search(store.states[some].float().numpy(), min(4 * _NEIGHBOURS, len(store)))
    distances, places = map(torch.from_numpy, found)
    others = (places >= 0) & (owners[places.clamp(min=0)] != owners[some, None])
    others &= others.cumsum(1) <= _NEIGHBOURS
    mean = distances[others].mean().reshape(1).float() if others.any() else torch.ones(1)
    return mean if bool(mean > 0) else torch.ones(1)


def _index_of(states: Float16[Tensor, "keys dimensions"], centres: Float[Tensor, "cells dimensions"]) -> Any:
    faiss = searching_library()
    size, kind = states.shape[1], faiss.ScalarQuantizer.QT_fp16
    if len(centres):
        cells = faiss.IndexFlatL2(size)
        cells.add(centres.numpy())
        index = faiss.IndexIVFScalarQuantizer(cells, size, len(centres), kind, faiss.METRIC_L2, False)
        index.nprobe = SEARCHED_CELLS
    else:
        index = faiss.IndexScalarQuantizer(size, kind)
    index.train(states[:1].float().numpy())
    for some in states.split(_SAMPLE):
        index.add(some.float().numpy())
    return index


def searching_library() -> Any:
    """Import faiss, the library that searches datastores.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        hint = f"pip install 'dragoman[knn]'; a model whose {DATASTORE} is taken away does without"
        raise ConfigError("searching a datastore needs the package faiss, which is not installed", hint=hint) from error
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def _fingerprint(directory: Path) -> bytes:
    return bytes.fromhex(file_hash(directory / WEIGHTS))
