"""Which language a text is in: py3langid, among the languages that can be translated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

LONGEST = 2_000  # characters that are looked at
CANDIDATES = 5


@dataclass(frozen=True)
class Detected:
    """A language and how sure it is, from 0 to 1."""

    language: str
    confidence: float


class Detector:
    """Tells languages. The library's model is read at the first text.

    Args:
        languages: codes of those that can be translated; others are never told.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = [one for one in dict.fromkeys(languages) if one != "und"]
        self._lock = Lock()
        self._found: Any = None

    def detect(self, text: str) -> list[Detected]:
        """Return the likeliest languages of a text, the likeliest first."""
        if len(self.languages) < 2:
            return [Detected(one, 1.0) for one in self.languages]
        with self._lock:  # the library's scratch space is shared
            ranked = self._identifier().rank(text[:LONGEST])
        by_base: dict[str, float] = {str(code): float(share) for code, share in ranked}
        found = [Detected(one, by_base.get(one.lower().partition("-")[0], 0.0)) for one in self.languages]
        return sorted(found, key=lambda one: -one.confidence)[:CANDIDATES]

    def _identifier(self) -> Any:
        if self._found is None:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier

            self._found = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            known = set(map(str, self._found.nb_classes))
            bases = {one.lower().partition("-")[0] for one in self.languages}
            if wanted := sorted(bases & known):
                self._found.set_languages(wanted)
        return self._found
