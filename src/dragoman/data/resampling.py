"""Each epoch sees the training pairs anew: in other pieces (Kudo 2018; Provilkov et al. 2020), beside other matches.

The texts come back from the stored ids, exactly, so any prepared data will do. What an epoch sees is a pure function
of the data, the settings, the seed and the epoch's number, and in another process the same where SentencePiece draws by
the seed alone (`doubt_draws`). Of several processes therefore the first one draws, and the others get what it drew: in
messages, or as shards on disk where the corpus is too large for memory.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from dragoman.config import AudioConfig, TrainingConfig
from dragoman.data.preparing import Prepared
from dragoman.data.shards import ShardedStore, finish, open_store, shard_path
from dragoman.data.sounds import SoundStore
from dragoman.data.store import DESCRIPTION, SIDES, TokenStore
from dragoman.errors import ConfigError
from dragoman.pace import silent
from dragoman.text.piece_tokenizer import PieceTokenizer
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer

T = TypeVar("T")

EPOCHS = "epochs"  # where a run directory has the pairs of an epoch of a corpus in shards
CHUNK = 4096
# From this version on SentencePiece mixes something of the process into the seed that it is given.
_NOT_BY_SEED_ALONE = (0, 2, 2)


@dataclass(frozen=True)
class _Sampler:
    """A side that is cut anew: its tokenizer, and the probability or the alpha that goes with it."""

    side: int
    tokenizer: SentencePieceTokenizer | PieceTokenizer
    amount: float


@runtime_checkable
class Processes(Protocol):
    """The processes of a training, as `distributed.World` has them."""

    @property
    def is_first(self) -> bool:
        """Whether this process draws."""
        ...

    def share(self, value: T, *, patiently: bool = False) -> T:
        """Return the first process's value, in all of them."""
        ...


class _Alone:
    """The only process of a training."""

    is_first = True

    def share(self, value: T, *, patiently: bool = False) -> T:
        del patiently
        return value


class EpochStores:
    """The training pairs as each epoch sees them.

    Args:
        data: the prepared corpus.
        settings: `bpe_dropout`, `unigram_alpha`, `sampled_sides` and the seed.
        audio: what is done to sounds.
        folder: where the pairs of an epoch are written if the corpus is in shards; all processes must see it.
        processes: of the training; all of them ask for an epoch's pairs at the same point.
        report: takes a line of plain text when writing begins.

    Raises:
        ConfigError: none of the sides has a tokenizer that a setting is for.
    """

    def __init__(
        self,
        data: Prepared,
        settings: TrainingConfig,
        audio: AudioConfig | None = None,
        folder: Path = Path(EPOCHS),
        processes: Processes | None = None,
        report: Callable[[str], None] = silent,
    ) -> None:
        self._folder, self._processes, self._report = folder, processes or _Alone(), report
        self._tokenizers = data.tokenizers
        self._plain, self._match_candidates, self._seed = data.train, data.match_candidates, settings.seed
        self._samplers = list(_samplers(data, settings))
        self._audio = audio or AudioConfig()
        self._newest: tuple[int, TokenStore] | None = None

    def of(self, epoch: int) -> TokenStore:
        """Return the pairs of an epoch, counted from 0; the same ones in all epochs if nothing is sampled or drawn."""
        heard = isinstance(self._plain, SoundStore)
        if not self._samplers and self._match_candidates is None and not heard:
            return self._plain
        if self._newest is None or self._newest[0] != epoch:
            in_shards = isinstance(self._plain, ShardedStore)
            self._newest = (epoch, self._written(epoch) if in_shards else self._sampled(epoch))
        return self._newest[1]

    def discard(self) -> None:
        """Delete what was written, which only a training that goes on needs."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._folder)

    def _sampled(self, epoch: int) -> TokenStore:
        changed = {}
        if self._processes.is_first:
            changed = {SIDES[one.side]: list(self._rows(one, epoch, self._plain, 0)) for one in self._samplers}
        if self._samplers:
            changed = self._processes.share(changed, patiently=True)
        if self._match_candidates is not None:
            changed["source"] = list(self._match_candidates.drawn(self._plain, self._seed, epoch))
        store = self._plain.with_rows(changed)
        return store.in_epoch(self._audio, self._seed, epoch) if isinstance(store, SoundStore) else store

    def _written(self, epoch: int) -> TokenStore:
        """The pairs of an epoch of a corpus in shards; those that a process wrote before it was killed are taken."""
        path = self._folder / f"{epoch:06d}"
        if self._processes.is_first and not (path / DESCRIPTION).exists():
            self._clean(path)
            self._report(f"epoch {epoch + 1}: {len(self._plain):,} pairs are segmented anew, into {path}")
            first, sizes = 0, (len(self._tokenizers.source), len(self._tokenizers.target))
            for number, part in enumerate(self._plain.parts()):
                if not shard_path(path, number).exists():
                    sides = [self._side(side, epoch, part, first) for side in range(len(SIDES))]
                    TokenStore.write(shard_path(path, number), zip(*sides, strict=True),
                                     vocabulary_size=max(sizes))  # fmt: skip
                first += -(-len(part) // CHUNK)
            finish(path)
        return open_store(self._processes.share(path, patiently=True))

    def _clean(self, path: Path) -> None:
        """Remove what other epochs wrote, but for the newest store: other processes still read it."""
        kept = {path} if self._newest is None else {path, self._newest[1].directory}
        for other in self._folder.iterdir() if self._folder.exists() else ():
            if other not in kept:
                shutil.rmtree(other)

    def _side(self, side: int, epoch: int, part: TokenStore, first: int) -> Iterator[list[int]]:
        for sampler in self._samplers:
            if sampler.side == side:
                return self._rows(sampler, epoch, part, first)
        view = (part.source, part.target)[side]
        return (view(i).tolist() for i in range(len(part)))

    def _rows(self, sampler: _Sampler, epoch: int, part: TokenStore, first: int) -> Iterator[list[int]]:
        """One side of a part of the pairs, cut anew; `first` is the number of its first chunk among all."""
        view = (part.source, part.target)[sampler.side]
        for number, start in enumerate(range(0, len(part), CHUNK), first):
            rows = [view(i).tolist() for i in range(start, min(start + CHUNK, len(part)))]
            seed = np.random.SeedSequence([self._seed, epoch, sampler.side, number]).generate_state(1)[0]
            yield from sampler.tokenizer.resampled(rows, amount=sampler.amount, seed=int(seed))


def doubt_draws(settings: TrainingConfig) -> str | None:
    """Return why a run that draws pieces is not repeated and resumed bit for bit; None if it is."""
    if not (settings.bpe_dropout or settings.unigram_alpha):
        return None
    found = version("sentencepiece")
    if tuple(int(number) for number in re.findall(r"\d+", found)[:3]) < _NOT_BY_SEED_ALONE:
        return None
    return (
        f"sentencepiece {found} draws other pieces in each process, whatever the seed: a run resumed is as good, but "
        "not the same bit for bit (pip install 'sentencepiece<0.2.2' makes it so)"
    )


def _samplers(data: Prepared, settings: TrainingConfig) -> Iterator[_Sampler]:
    tokenizers = (data.tokenizers.source, data.tokenizers.target)
    chosen = [side for side, name in enumerate(SIDES) if settings.sampled_sides in (name, "both")]
    if data.is_text or data.tokenizers.sound is not None:
        chosen = [1]
    for key, kind in (("bpe_dropout", "bpe"), ("unigram_alpha", "unigram")):
        amount = getattr(settings, key)
        if not amount:
            continue
        found = [side for side in chosen if tokenizers[side].kind == kind]
        if not found:
            kinds = " and ".join(dict.fromkeys(tokenizers[side].kind for side in chosen))
            hint = f"leave training.{key} out, or set tokenizer.kind = {kind}"
            raise ConfigError(f"{key} is for {kind} tokenizers", found=kinds, hint=hint)
        if 0 in found and data.tokenizers.matching is not None:
            hint = "set training.sampled_sides = target"
            raise ConfigError("sources with fuzzy matches are not segmented anew in each epoch", found=key, hint=hint)
        for side in found:
            tokenizer = tokenizers[side]
            if not isinstance(tokenizer, (SentencePieceTokenizer, PieceTokenizer)):
                hint = f"leave training.{key} out"
                raise ConfigError(f"{key} is not for the tokenizer of this model", found=tokenizer.stem, hint=hint)
            yield _Sampler(side, tokenizer, amount)
