"""Every setting, in one frozen, typed tree.

`TrainConfig` has one section per room of the house. A value of `None` means "chosen for you": training derives it
from the corpus and the device, says what it chose and why, and writes the completed tree beside the weights. Unknown
keys are refused with a suggestion, and the names other toolkits use are answered with ours.
"""

from dragoman.config.reading import (
    FOREIGN_NAMES,
    find_setting,
    make_config,
    merge,
    parse_assignments,
    read_toml,
    write_toml,
)
from dragoman.config.sections import (
    FILE_KEYS,
    PAIR_FILES,
    SECTIONS,
    TEXT_FILES,
    DataConfig,
    DecodingConfig,
    Family,
    Markov,
    MarkovConfig,
    ModelConfig,
    Section,
    TokenizerConfig,
    TrainConfig,
    TrainingConfig,
    ValidationConfig,
    validated,
)

__all__ = [
    "FILE_KEYS",
    "FOREIGN_NAMES",
    "PAIR_FILES",
    "SECTIONS",
    "TEXT_FILES",
    "DataConfig",
    "DecodingConfig",
    "Family",
    "Markov",
    "MarkovConfig",
    "ModelConfig",
    "Section",
    "TokenizerConfig",
    "TrainConfig",
    "TrainingConfig",
    "ValidationConfig",
    "find_setting",
    "make_config",
    "merge",
    "parse_assignments",
    "read_toml",
    "validated",
    "write_toml",
]
