"""The tree of all sections, and what belongs to it as a whole."""

from __future__ import annotations

from dragoman.config.section import Section, setting
from dragoman.config.sections import (
    DataConfig,
    DecodingConfig,
    MarkovConfig,
    ModelConfig,
    PathText,
    TokenizerConfig,
    TrainingConfig,
    ValidationConfig,
)


class TrainConfig(Section):
    """Everything `train` needs: the tree that is written to `config.toml`."""

    out: PathText = setting(description="the run directory")
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    markov: MarkovConfig = MarkovConfig()
    training: TrainingConfig = TrainingConfig()
    validation: ValidationConfig = ValidationConfig()
    decoding: DecodingConfig = DecodingConfig()

    def check(self) -> None:
        """See `Section.check`."""
        model = self.model
        rates = (model.dropout != 0, model.attention_dropout, model.activation_dropout, model.word_dropout)
        if self.training.r_drop and not any(rates):
            raise ValueError("r_drop compares two passes under different dropout, but all dropout is 0")
        if self.training.datastore and not model.learns_pairs:
            raise ValueError(f"a datastore is of pairs, which a {model.family} model does not learn")
        if self.training.r_drop_after and not self.training.r_drop:
            raise ValueError("r_drop_after says when r_drop begins, but r_drop is 0")


# The settings of `data` that say where the files are.
PAIR_FILES = tuple(f"{part}{side}" for part in ("", "dev_", "test_") for side in ("source", "target", "pairs"))
TEXT_FILES = ("text", "dev_text", "test_text")
FILE_KEYS = (*PAIR_FILES, *TEXT_FILES, "prepared")

SETTINGS_FILE = "config.toml"  # in a run directory: all settings, with what was chosen for the user
SECTIONS: dict[str, type[Section]] = {
    "data": DataConfig,
    "tokenizer": TokenizerConfig,
    "model": ModelConfig,
    "markov": MarkovConfig,
    "training": TrainingConfig,
    "validation": ValidationConfig,
    "decoding": DecodingConfig,
}
