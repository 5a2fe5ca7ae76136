"""Every setting, in one frozen, typed tree.

`TrainConfig` has one section per room of the house. A value of `None` means "chosen for you": training derives it
from the corpus and the device, says what it chose and why, and writes the completed tree beside the weights. Unknown
names are refused with a suggestion, and the names other toolkits use are answered with ours.

What is known of a setting (type, default, meaning, unit, whether it may change when a run is resumed, and more) stands
in its section, in one `setting(...)`; `all_settings` yields all of it.

The names are imported from their modules when they are first used: to translate needs two sections, and no TOML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.config.audio import AudioConfig as AudioConfig
    from dragoman.config.data import DataConfig as DataConfig
    from dragoman.config.data import TokenizerConfig as TokenizerConfig
    from dragoman.config.decoding import DecodingConfig as DecodingConfig
    from dragoman.config.elsewhere import foreign_names as foreign_names
    from dragoman.config.kinds import COUNTED as COUNTED
    from dragoman.config.kinds import Family as Family
    from dragoman.config.kinds import Markov as Markov
    from dragoman.config.lookup import SettingList as SettingList
    from dragoman.config.lookup import settings as settings
    from dragoman.config.model import ModelConfig as ModelConfig
    from dragoman.config.placement import Placement as Placement
    from dragoman.config.reading import find_setting as find_setting
    from dragoman.config.reading import make_config as make_config
    from dragoman.config.reading import merge as merge
    from dragoman.config.reading import parse_assignments as parse_assignments
    from dragoman.config.reading import read_toml as read_toml
    from dragoman.config.reading import settings_tree as settings_tree
    from dragoman.config.reading import write_toml as write_toml
    from dragoman.config.section import Section as Section
    from dragoman.config.section import Setting as Setting
    from dragoman.config.training import MarkovConfig as MarkovConfig
    from dragoman.config.training import TrainingConfig as TrainingConfig
    from dragoman.config.tree import SECTIONS as SECTIONS
    from dragoman.config.tree import SETTINGS_FILE as SETTINGS_FILE
    from dragoman.config.tree import TrainConfig as TrainConfig
    from dragoman.config.tree import all_settings as all_settings
    from dragoman.config.tree import file_keys as file_keys
    from dragoman.config.validation import ValidationConfig as ValidationConfig

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "audio": ("AudioConfig",),
        "data": ("DataConfig", "TokenizerConfig"),
        "decoding": ("DecodingConfig",),
        "elsewhere": ("foreign_names",),
        "kinds": ("COUNTED", "Family", "Markov"),
        "lookup": ("SettingList", "settings"),
        "model": ("ModelConfig",),
        "placement": ("Placement",),
        "reading": (
            "find_setting",
            "make_config",
            "merge",
            "parse_assignments",
            "read_toml",
            "settings_tree",
            "write_toml",
        ),
        "section": ("Section", "Setting"),
        "training": ("MarkovConfig", "TrainingConfig"),
        "validation": ("ValidationConfig",),
        "tree": ("SECTIONS", "SETTINGS_FILE", "TrainConfig", "all_settings", "file_keys"),
    },
)
