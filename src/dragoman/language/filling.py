r"""Filling the gaps of a text with a masked model.

In a text to be filled, and nowhere else, `<mask>` is a gap: one piece of the vocabulary, with the blank before it. To
say the six characters themselves, put a backslash before them: `\<mask>` is text. Of the backslashes right before
`<mask>`, each two stand for one; all others are ordinary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.given import as_texts, each_text
from dragoman.language.loading import LanguageModel, load_language_model
from dragoman.models.opened import Reopened
from dragoman.nn import MaskedLM
from dragoman.search.hypothesis import check_numbers
from dragoman.sequences import MASKED_SPECIALS, length_mask, pad_rows
from dragoman.text.lines import chunks
from dragoman.text.tokenizer import MASK_TOKEN, Tokenizer
from dragoman.text.vocabulary import Vocabulary

ROWS = 64
MAX_TOKENS = 4095
_GAP = re.compile(r"(\\*)<mask>")
# Characters for private use: one that is nowhere in a text marks its gaps while it is cut into pieces.
_MARKS = range(0xF0000, 0xF0100)


@dataclass(frozen=True)
class Filling:
    """One way to fill all gaps of a text.

    Attributes:
        text: with its gaps filled.
        probability: of all pieces together, each given those that were filled in before it.
        pieces: what was filled in, in the order of the gaps.
        piece_probabilities: one for each.
    """

    text: str
    probability: float
    pieces: tuple[str, ...]
    piece_probabilities: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def split_at_gaps(text: str) -> list[str]:
    r"""Return the parts of a text between its gaps, `\<mask>` made plain: one part more than there are gaps.

    >>> split_at_gaps("the <mask> sat")
    ['the ', ' sat']
    >>> split_at_gaps(r"write \<mask>")
    ['write <mask>']
    """
    parts, end = [""], 0
    for found in _GAP.finditer(text):
        slashes = len(found[1])
        parts[-1] += text[end : found.start()] + "\\" * (slashes // 2)
        if slashes % 2:
            parts[-1] += MASK_TOKEN
        else:
            parts.append("")
        end = found.end()
    parts[-1] += text[end:]
    return parts


def escape_gaps(text: str) -> str:
    r"""Return the text to give for a text without gaps, whatever it says: `split_at_gaps` gives it back as one part.

    Examples:
        >>> print(escape_gaps("write <mask>"))
        write \<mask>
    """
    return _GAP.sub(lambda found: 2 * found[1] + "\\" + MASK_TOKEN, text)


@dataclass(frozen=True)
class _Partial:
    """A text some of whose gaps are filled: ids, and for each position that was a gap its log-probability."""

    ids: tuple[int, ...]
    filled: tuple[tuple[int, float], ...] = ()

    @property
    def log_probability(self) -> float:
        return sum((value for _, value in self.filled), 0.0)

    @property
    def open(self) -> bool:
        return MASKED_SPECIALS.mask in self.ids


class Filler(Reopened):
    """Fills gaps with a masked model (Devlin et al. 2019).

    Args:
        model: the masked model, in evaluation mode.
        tokenizer: its vocabulary, which has a `<mask>`.
    """

    def __init__(self, model: MaskedLM, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer

    def _details(self) -> Iterator[str]:
        yield f"{self.tokenizer.kind} vocabulary of {len(self.tokenizer):,}"

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, device: str = "auto", engine: str = "auto", precision: str = "auto"
    ) -> Filler:
        """Load a run or model directory; a masked model has one engine and one precision.

        Raises:
            ModelError: it holds no masked model, or is damaged.
        """
        return cls.of(load_language_model(path, device=device, engine=engine, precision=precision), path)

    @classmethod
    def of(cls, loaded: LanguageModel, path: str | Path) -> Filler:
        """Make a filler of a model that is loaded already, from `path`.

        Raises:
            ModelError: it is no masked model.
        """
        if not isinstance(loaded.model, MaskedLM):
            hint = f"`dragoman {'translate' if loaded.family == 'transformer' else 'complete'}` runs this one"
            raise ModelError("only a masked model fills gaps", file=path, found=loaded.family, hint=hint)
        filler = cls(loaded.model, loaded.tokenizer)
        filler.opened = loaded.opened
        return filler

    def n_best(self, changes: Mapping[str, Any]) -> int:
        """Return how many fillings are asked for, among decoding settings that were given; 1 if it is not said.

        Raises:
            ConfigError: another setting is among them.
        """
        if others := sorted(changes.keys() - {"n_best"}):
            hint = "n_best (--nbest) says how many fillings there are; there is nothing else to set"
            raise ConfigError("a masked model fills without a search", found=", ".join(others), hint=hint)
        return changes.get("n_best", 1)

    def fill(self, texts: Iterable[str], *, n_best: int = 1, first: int = 0) -> list[list[Filling]]:
        r"""Return the likeliest fillings of each text, best first.

        Each pass of the model fills one gap: the one that it is surest of, given what is filled already (Ghazvininejad
        et al. 2019 fill so, in larger steps); so one gap takes one pass, and its fillings are the likeliest pieces.
        With `n_best` above 1, that many partly filled texts are kept at each pass. Special tokens never fill a gap.

        Args:
            texts: each with at least one `<mask>`; `\<mask>` is text.
            n_best: fillings per text; fewer where the vocabulary has no more.
            first: number of the first text in a longer series, for messages.

        Raises:
            ConfigError: `n_best` is below 1.
            DataError: a text has no gap, is too long, or is no string.
        """
        texts = as_texts(texts, first=first)
        if n_best < 1:
            raise ConfigError("at least one filling is needed", expected="n_best >= 1", found=n_best)
        parts = [split_at_gaps(text) for text in texts]
        starts = [self._start(text, parts[row], first + row + 1) for row, text in enumerate(texts)]
        step = max(1, ROWS // n_best)
        return [
            [self._filling(parts[row], starts[row], one) for one in found]
            for begin in range(0, len(texts), step)
            for row, found in enumerate(self._some(starts[begin : begin + step], n_best), begin)
        ]

    def fill_lines(self, lines: Iterable[str], *, n_best: int = 1, chunk: int = 2048) -> Iterator[list[Filling]]:
        """Yield what `fill` returns for a stream of texts, `chunk` at a time, in order.

        Of a text that is too long, or has no gap, it is nothing.
        """
        for some in chunks(each_text(lines, "lines"), chunk):
            fillable = [self._is_fillable(text) for text in some]
            texts = [text if fits else MASK_TOKEN for text, fits in zip(some, fillable, strict=True)]
            for fits, found in zip(fillable, self.fill(texts, n_best=n_best), strict=True):
                yield found if fits else []

    def _is_fillable(self, text: str) -> bool:
        parts = split_at_gaps(text)
        return len(parts) > 1 and len(with_gaps(self.tokenizer, parts)) <= MAX_TOKENS

    def _start(self, text: str, parts: list[str], number: int) -> _Partial:
        if len(parts) == 1:
            hint = f"write {MASK_TOKEN} where a piece is wanted (\\{MASK_TOKEN} is plain text)"
            raise DataError(f"there is no {MASK_TOKEN} to fill", line=number, found=text[:80], hint=hint)
        ids = with_gaps(self.tokenizer, parts)
        if len(ids) > MAX_TOKENS:
            limit = f"at most {MAX_TOKENS} tokens"
            raise DataError("a text is too long to be filled", line=number, expected=limit, found=len(ids))
        return _Partial(tuple(ids))

    def _some(self, starts: Sequence[_Partial], n_best: int) -> list[list[_Partial]]:
        """All gaps of some texts filled; the most `n_best` for each."""
        kept = [[start] for start in starts]
        while waiting := [one for row in kept for one in row if one.open]:
            grown = iter(self._grow(waiting, n_best))
            kept = [
                _best([more for one in row for more in (next(grown) if one.open else [one])], n_best) for row in kept
            ]
        return kept

    @torch.no_grad()
    def _grow(self, partials: Sequence[_Partial], n_best: int) -> list[list[_Partial]]:
        """Each text with its surest gap filled by each of the likeliest pieces."""
        device = next(self.model.parameters()).device
        rows = [[*one.ids, self.tokenizer.eos] for one in partials]
        mask = length_mask([len(row) for row in rows], device=device)
        hidden = self.model.hidden(pad_rows(rows, device), mask)
        grown = []
        for one, states in zip(partials, hidden, strict=True):
            gaps = [place for place, token in enumerate(one.ids) if token == self.tokenizer.mask]
            log_probs = self._allowed(states[gaps])
            values, tokens = log_probs.topk(min(n_best, log_probs.shape[1]))
            surest = int(values[:, 0].argmax())
            check_numbers(values[surest].tolist())
            choices = zip(tokens[surest].tolist(), values[surest].tolist(), strict=True)
            grown.append([_filled(one, gaps[surest], token, value) for token, value in choices if value > -math.inf])
        return grown

    def _allowed(self, states: Float[Tensor, "gaps d_model"]) -> Float[Tensor, "gaps vocab"]:
        logits = self.model.generator(states)
        log_probs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        return log_probs.index_fill(1, torch.arange(len(MASKED_SPECIALS.ids), device=log_probs.device), -math.inf)

    def _filling(self, parts: list[str], start: _Partial, found: _Partial) -> Filling:
        chosen = [(found.ids[place], value) for place, value in sorted(found.filled)]
        pieces = self.tokenizer.pieces([token for token, _ in chosen])
        text = self.tokenizer.decode(found.ids)
        if self.tokenizer.kind in ("word", "character"):
            # From the text as it was written: an unknown word of it stays what it is.
            texts = [self.tokenizer.decode([token]) for token, _ in chosen]
            text = _joined(parts, texts, blanks=self.tokenizer.kind == "word")
        probabilities = tuple(math.exp(value) for _, value in chosen)
        return Filling(text, math.exp(found.log_probability), tuple(pieces), probabilities)


def _filled(one: _Partial, place: int, token: int, value: float) -> _Partial:
    return _Partial((*one.ids[:place], token, *one.ids[place + 1 :]), (*one.filled, (place, value)))


def _best(partials: list[_Partial], n_best: int) -> list[_Partial]:
    """The likeliest, each filling once, though different orders may lead to it."""
    ranked = sorted(partials, key=lambda one: -one.log_probability)
    distinct: dict[tuple[int, ...], _Partial] = {}
    for one in ranked:
        distinct.setdefault(one.ids, one)
    return list(distinct.values())[:n_best]


def with_gaps(tokenizer: Tokenizer, parts: Sequence[str]) -> list[int]:
    """Return the ids of a text, `<mask>` between its parts (see `split_at_gaps`)."""
    mask = tokenizer.mask
    assert mask is not None
    mark = next(chr(code) for code in _MARKS if not any(chr(code) in part for part in parts))
    if isinstance(tokenizer, Vocabulary):
        text = (f" {mark} " if tokenizer.kind == "word" else mark).join(parts)
        return [mask if own == mark else i for own, i in zip(tokenizer.cut(text), tokenizer.encode(text), strict=True)]
    # Subwords depend on what stands around them: the whole text is cut at once, a strange character in each gap. It is
    # spelled in bytes, and a blank that it keeps from its word belongs to the gap.
    spelled, blank = _spelling(tokenizer, mark)
    ids, found = tokenizer.encode(mark.join(parts)), []
    place = 0
    while place < len(ids):
        if ids[place : place + len(spelled)] == spelled:
            if found and found[-1] == blank:
                found.pop()
            found.append(mask)
            place += len(spelled)
        else:
            found.append(ids[place])
            place += 1
    return found


def _spelling(tokenizer: Tokenizer, mark: str) -> tuple[list[int], int]:
    """The ids of a character in the middle of a text, and the id of a blank alone."""
    twice = tokenizer.encode(mark + mark)
    size = len(twice) // 2
    return twice[-size:], twice[0]


def _joined(parts: Sequence[str], pieces: Sequence[str], *, blanks: bool) -> str:
    text = parts[0]
    for piece, part in zip(pieces, parts[1:], strict=True):
        before = " " if blanks and text and not text[-1].isspace() else ""
        after = " " if blanks and part and not part[0].isspace() else ""
        text += before + piece + after + part
    return text
