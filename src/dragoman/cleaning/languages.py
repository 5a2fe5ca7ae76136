"""Which language a text is in, by py3langid, whose model comes with it."""

from __future__ import annotations

from functools import cache
from typing import Any

from dragoman.config.cleaning import CleaningConfig

_LONGEST = 500  # characters that are looked at


@cache
def _identifier() -> Any:
    """That of py3langid, whose model takes a moment to open."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class LanguageRule:
    """Tells whether a side is in another language than it should be.

    Args:
        languages: two-letter codes of source and target; None: that side is not asked.
        settings: the thresholds.
        identifier: of py3langid.
    """

    def __init__(self, languages: tuple[str | None, str | None], settings: CleaningConfig, identifier: Any) -> None:
        self._languages, self._settings, self._identifier = languages, settings, identifier

    @classmethod
    def open(cls, languages: tuple[str | None, ...], settings: CleaningConfig) -> tuple[LanguageRule | None, str]:
        """Return the rule, or None and why it cannot be asked: no language is known, or the package is missing."""
        try:
            identifier = _identifier()
        except ImportError:
            return None, "the package py3langid is missing (it is in the extra `corpora`)"
        if not any(languages):
            return None, "nobody has said which languages the sides are (--source-language, --target-language)"
        known = set(map(str, identifier.nb_classes))
        source, target = (None if one is None else one.lower().partition("-")[0] for one in languages)
        wanted = (source if source in known else None, target if target in known else None)
        if not any(wanted):
            return None, f"py3langid does not know {' and '.join(one for one in (source, target) if one)}"
        return cls(wanted, settings, identifier), ""

    def is_other(self, source: str, target: str) -> bool:
        """Return whether a side, if it is long enough to tell, is hardly in its language."""
        return any(self._differs(*one) for one in zip((source, target), self._languages, strict=True))

    def _differs(self, text: str, language: str | None) -> bool:
        if language is None or sum(map(str.isalpha, text)) < self._settings.language_letters:
            return False
        ranked = self._identifier.rank(text[:_LONGEST])
        return next((float(share) for code, share in ranked if code == language), 0.0) < self._settings.min_language
