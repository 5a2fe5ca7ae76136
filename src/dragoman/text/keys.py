"""Short hashes of texts, for counting repetitions among millions of lines in little memory."""

from __future__ import annotations

import hashlib
import unicodedata


class _Skeleton(dict[int, "int | None"]):
    """Table for `str.translate`, filled as characters come: drops punctuation, separators and control characters."""

    def __missing__(self, point: int) -> int | None:
        self[point] = None if unicodedata.category(chr(point))[0] in "PZC" else point
        return self[point]


_SKELETON = _Skeleton()


def skeleton(text: str) -> str:
    """Return the text without case, punctuation, blanks and width variants: equal for two ways of writing one sentence.

    A text of nothing but punctuation stands for itself.
    """
    return unicodedata.normalize("NFKC", text).casefold().translate(_SKELETON) or text


def text_hash(*texts: str) -> int:
    """Return a 64-bit hash of one or several texts, the same on every machine and in every run."""
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return int.from_bytes(digest.digest(), "little")
