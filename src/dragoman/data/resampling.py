"""Each epoch sees the training pairs anew: in other pieces (Kudo 2018; Provilkov et al. 2020), beside other matches.

The texts come back from the stored ids, exactly, so any prepared data will do. What an epoch sees is a pure function
of the data, the settings, the seed and the epoch's number, and in another process the same where SentencePiece draws by
the seed alone (`doubt_draws`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from dragoman.config import AudioConfig, TrainingConfig
from dragoman.data.preparing import Prepared
from dragoman.data.sounds import SoundStore
from dragoman.data.store import SIDES, TokenStore
from dragoman.errors import ConfigError
from dragoman.text.piece_tokenizer import PieceTokenizer
from dragoman.text.sentencepiece_tokenizer import SentencePieceTokenizer

CHUNK = 4096
# From this version on SentencePiece mixes something of the process into the seed that it is given.
_NOT_BY_SEED_ALONE = (0, 2, 2)


@dataclass(frozen=True)
class _Sampler:
    """A side that is cut anew: its tokenizer, and the probability or the alpha that goes with it."""

    side: int
    tokenizer: SentencePieceTokenizer | PieceTokenizer
    amount: float


class EpochStores:
    """The training pairs as each epoch sees them.

    Args:
        data: the prepared corpus.
        settings: `bpe_dropout`, `unigram_alpha`, `sampled_sides` and the seed.
        audio: what is done to sounds.

    Raises:
        ConfigError: none of the sides has a tokenizer that a setting is for.
    """

    def __init__(self, data: Prepared, settings: TrainingConfig, audio: AudioConfig | None = None) -> None:
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
            self._newest = (epoch, self._sampled(epoch))
        return self._newest[1]

    def _sampled(self, epoch: int) -> TokenStore:
        changed = {SIDES[one.side]: list(self._rows(one, epoch)) for one in self._samplers}
        if self._match_candidates is not None:
            changed["source"] = list(self._match_candidates.drawn(self._plain, self._seed, epoch))
        store = self._plain.with_rows(changed)
        return store.in_epoch(self._audio, self._seed, epoch) if isinstance(store, SoundStore) else store

    def _rows(self, sampler: _Sampler, epoch: int) -> Iterator[list[int]]:
        view = (self._plain.source, self._plain.target)[sampler.side]
        for start in range(0, len(self._plain), CHUNK):
            rows = [view(i).tolist() for i in range(start, min(start + CHUNK, len(self._plain)))]
            seed = np.random.SeedSequence([self._seed, epoch, sampler.side, start // CHUNK]).generate_state(1)[0]
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
