"""Every setting, in one frozen, typed tree.

`TrainConfig` has one section per room of the house. A value of `None` means "chosen for you": training derives it
from the corpus and the device, says what it chose and why, and writes the completed tree beside the weights. Unknown
keys are refused with a suggestion, and the names other toolkits use are answered with ours.

The names are imported from their modules when they are first used: to translate needs two sections, and no TOML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.config.reading import FOREIGN_NAMES as FOREIGN_NAMES
    from dragoman.config.reading import find_setting as find_setting
    from dragoman.config.reading import make_config as make_config
    from dragoman.config.reading import merge as merge
    from dragoman.config.reading import parse_assignments as parse_assignments
    from dragoman.config.reading import read_toml as read_toml
    from dragoman.config.reading import write_toml as write_toml
    from dragoman.config.section import Section as Section
    from dragoman.config.sections import DataConfig as DataConfig
    from dragoman.config.sections import DecodingConfig as DecodingConfig
    from dragoman.config.sections import Family as Family
    from dragoman.config.sections import Markov as Markov
    from dragoman.config.sections import MarkovConfig as MarkovConfig
    from dragoman.config.sections import ModelConfig as ModelConfig
    from dragoman.config.sections import TokenizerConfig as TokenizerConfig
    from dragoman.config.sections import TrainingConfig as TrainingConfig
    from dragoman.config.sections import ValidationConfig as ValidationConfig
    from dragoman.config.tree import FILE_KEYS as FILE_KEYS
    from dragoman.config.tree import PAIR_FILES as PAIR_FILES
    from dragoman.config.tree import SECTIONS as SECTIONS
    from dragoman.config.tree import SETTINGS_FILE as SETTINGS_FILE
    from dragoman.config.tree import TEXT_FILES as TEXT_FILES
    from dragoman.config.tree import TrainConfig as TrainConfig

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "reading": (
            "FOREIGN_NAMES",
            "find_setting",
            "make_config",
            "merge",
            "parse_assignments",
            "read_toml",
            "write_toml",
        ),
        "section": ("Section",),
        "sections": (
            "DataConfig",
            "DecodingConfig",
            "Family",
            "Markov",
            "MarkovConfig",
            "ModelConfig",
            "TokenizerConfig",
            "TrainingConfig",
            "ValidationConfig",
        ),
        "tree": ("FILE_KEYS", "PAIR_FILES", "SECTIONS", "SETTINGS_FILE", "TEXT_FILES", "TrainConfig"),
    },
)
