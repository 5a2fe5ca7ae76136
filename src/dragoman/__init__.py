"""Train, run, judge and see through the encoder-decoder Transformer of "Attention Is All You Need".

The public names live in their rooms and are imported when they are first used, so `import dragoman` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names, renamed_names

if TYPE_CHECKING:
    from dragoman.cleaning import clean as clean
    from dragoman.config import DecodingConfig as DecodingConfig
    from dragoman.config import ModelConfig as ModelConfig
    from dragoman.config import TrainConfig as TrainConfig
    from dragoman.config import settings as settings
    from dragoman.data import prepare as prepare
    from dragoman.errors import DragomanError as DragomanError
    from dragoman.evaluation import Metric as Metric
    from dragoman.events import StopTraining as StopTraining
    from dragoman.export import export_model as export_model
    from dragoman.importing import import_model as import_model
    from dragoman.inspection import Trace as Trace
    from dragoman.inspection import draw_trace as draw_trace
    from dragoman.inspection import explain as explain
    from dragoman.inspection import explain_config as explain_config
    from dragoman.inspector import inspect as inspect
    from dragoman.language import Completer as Completer
    from dragoman.language import Filler as Filler
    from dragoman.language import TextScorer as TextScorer
    from dragoman.models import build_model as build_model
    from dragoman.models import load_pretrained as load_pretrained
    from dragoman.models import save_pretrained as save_pretrained
    from dragoman.runs import bundle as bundle
    from dragoman.runs import pack as pack
    from dragoman.runs import plot as plot
    from dragoman.runs import push as push
    from dragoman.runs import quantize as quantize
    from dragoman.serving import serve as serve
    from dragoman.studies import compare as compare
    from dragoman.studies import complete as complete
    from dragoman.studies import evaluate as evaluate
    from dragoman.studies import evaluate_outputs as evaluate_outputs
    from dragoman.studies import fill as fill
    from dragoman.studies import measure as measure
    from dragoman.studies import score as score
    from dragoman.studies import synthesize as synthesize
    from dragoman.studies import transcribe as transcribe
    from dragoman.studies import translate as translate
    from dragoman.studies import tune as tune
    from dragoman.training import Run as Run
    from dragoman.training import average as average
    from dragoman.training import info as info
    from dragoman.training import merge as merge
    from dragoman.training import remember as remember
    from dragoman.training import train as train
    from dragoman.translation import Translation as Translation
    from dragoman.translation import Translator as Translator

    __version__: str

_ROOMS = ("events", "markov", "nn", "profiles", "serving")
__all__, _name, _ = lazy_names(
    __name__,
    {
        "cleaning": ("clean",),
        "config": ("DecodingConfig", "ModelConfig", "TrainConfig", "settings"),
        "data": ("prepare",),
        "errors": ("DragomanError",),
        "evaluation": ("Metric",),
        "events": ("StopTraining",),
        "export": ("export_model",),
        "language": ("Completer", "Filler", "TextScorer"),
        "importing": ("import_model",),
        "inspection": ("Trace", "draw_trace", "explain", "explain_config"),
        "inspector": ("inspect",),
        "models": ("build_model", "load_pretrained", "save_pretrained"),
        "runs": ("bundle", "pack", "plot", "push", "quantize"),
        "serving": ("serve",),
        "studies": (
            "compare", "complete", "evaluate", "evaluate_outputs", "fill", "measure", "score", "synthesize",
            "transcribe", "translate", "tune",
        ),
        "translation": ("Translation", "Translator"),
        "training": ("Run", "average", "info", "merge", "remember", "train"),
    },
)  # fmt: skip
_former_name = renamed_names(__name__, {"average_run": "average", "describe_model": "info"}, until="0.3")
__all__ += ["__version__"]


def __getattr__(name: str) -> object:
    """A public name, from its home."""
    if name == "__version__":
        return import_module("importlib.metadata").version("dragoman")
    if name in _ROOMS:
        return import_module(f"dragoman.{name}")
    return _name(name) if name in __all__ else _former_name(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
