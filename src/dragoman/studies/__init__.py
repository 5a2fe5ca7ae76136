"""Translation used on whole corpora: evaluating a model, tuning its search, synthesising pairs.

The names are imported from their modules when they are first used: some of the modules need PyTorch or NumPy, which
take long to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.studies.judge import Evaluation as Evaluation
    from dragoman.studies.judge import evaluate as evaluate
    from dragoman.studies.judge import evaluate_outputs as evaluate_outputs
    from dragoman.studies.judge import training_words as training_words
    from dragoman.studies.listening import transcribe as transcribe
    from dragoman.studies.running import compare as compare
    from dragoman.studies.running import complete as complete
    from dragoman.studies.running import fill as fill
    from dragoman.studies.running import measure as measure
    from dragoman.studies.running import score as score
    from dragoman.studies.running import translate as translate
    from dragoman.studies.synthesis import synthesize as synthesize
    from dragoman.studies.tuning import Trial as Trial
    from dragoman.studies.tuning import Tuning as Tuning
    from dragoman.studies.tuning import save_decoding as save_decoding
    from dragoman.studies.tuning import tune as tune

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "judge": (
            "Evaluation",
            "evaluate",
            "evaluate_outputs",
            "training_words",
        ),
        "listening": ("transcribe",),
        "running": (
            "compare",
            "complete",
            "fill",
            "measure",
            "score",
            "translate",
        ),
        "synthesis": ("synthesize",),
        "tuning": (
            "Trial",
            "Tuning",
            "save_decoding",
            "tune",
        ),
    },
)
