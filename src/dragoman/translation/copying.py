"""Unknown words of outputs, replaced by the source words that they looked at."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.sequences.source import Source
from dragoman.text.tokenizer import UNKNOWN_TEXT
from dragoman.text.tokenizer_pair import TokenizerPair


def with_copies(
    tokenizers: TokenizerPair, text: str, source: Source, tokens: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> str:
    """Return an output as text, the source word for each `<unk>`; what looked at no word of the text stays unknown.

    Args:
        tokenizers: of both sides.
        text: of the source.
        source: its ids, as the model read them.
        tokens: ids of the output.
        pairs: (source, output) positions, as from an alignment.
    """
    target = tokenizers.target
    parts = target.decode(tokens).split(UNKNOWN_TEXT)
    unknown = [place for place, token in enumerate(tokens) if token == target.unk]
    if len(parts) != len(unknown) + 1:  # a word of the vocabulary reads like an unknown one
        return target.decode(tokens)
    looked_at = {output: read for read, output in pairs}
    words = _words(tokenizers, text, source)
    found = [parts[0]]
    for place, part in zip(unknown, parts[1:], strict=True):
        read = looked_at.get(place, len(words))
        found += [words[read] if read < len(words) else UNKNOWN_TEXT, part]
    return "".join(found)


def _words(tokenizers: TokenizerPair, text: str, source: Source) -> list[str]:
    """The word of the text that each token of a source belongs to, as it was written where the vocabulary is closed."""
    kind = tokenizers.source.kind
    if kind in ("word", "character"):
        begin = [""] if source.ids[:1] == (source.specials.bos,) else []
        return [*begin, *(text.split() if kind == "word" else text)][: len(source)]
    from dragoman.translation.alignment import words_of  # not above: it needs PyTorch

    words = words_of(tokenizers.source.pieces(source.ids))
    ids = zip(words, source.ids, strict=True)
    spelled: dict[int | None, list[int]] = {}
    for word, token in ids:
        spelled.setdefault(word, []).append(token)
    texts = {word: tokenizers.source.decode(some).strip() for word, some in spelled.items()}
    return [texts[word] for word in words]
