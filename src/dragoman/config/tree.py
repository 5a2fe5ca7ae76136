"""The tree of all sections, what belongs to it as a whole, and questions about all settings."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.config.audio import AudioConfig
from dragoman.config.data import DataConfig, TokenizerConfig
from dragoman.config.decoding import DecodingConfig
from dragoman.config.kinds import PathText
from dragoman.config.model import ModelConfig
from dragoman.config.section import Section, Setting, setting
from dragoman.config.training import MarkovConfig, TrainingConfig
from dragoman.config.validation import ValidationConfig


class TrainConfig(Section):
    """Everything `train` needs: the tree that is written to `config.toml`."""

    out: PathText = setting(description="The run directory.", flag="--out", changeable=True)
    data: DataConfig = setting(default=DataConfig(), description="What is learned from.")
    audio: AudioConfig = setting(default=AudioConfig(), description="How recordings become frames.")
    tokenizer: TokenizerConfig = setting(default=TokenizerConfig(), description="How strings become ids.")
    model: ModelConfig = setting(default=ModelConfig(), description="The shape of the model.")
    markov: MarkovConfig = setting(default=MarkovConfig(), description="How counts become probabilities.")
    training: TrainingConfig = setting(default=TrainingConfig(), description="How the model is trained.")
    validation: ValidationConfig = setting(default=ValidationConfig(), description="What is measured meanwhile.")
    decoding: DecodingConfig = setting(default=DecodingConfig(), description="How the model searches.")

    def check(self) -> None:
        """See `Section.check`."""
        model = self.model
        rates = (model.dropout != 0, model.attention_dropout, model.activation_dropout, model.word_dropout)
        if self.training.r_drop and not any(rates):
            raise ValueError("r_drop compares two passes under different dropout, but all dropout is 0")
        if self.training.datastore and not model.learns_pairs:
            raise ValueError(f"a datastore is of pairs, which a {model.family} model does not learn")
        if self.training.extend_vocabulary and self.training.init_from is None:
            raise ValueError("extend_vocabulary appends to the vocabulary of a model to start from, but none is named")
        if self.training.lora_rank and self.training.init_from is None:
            raise ValueError("lora_rank trains adapters of a model to start from, but none is named (init_from)")
        if self.training.add_tokens and self.training.init_from is None:
            raise ValueError("add_tokens appends to the vocabulary of a model to start from, but none is named")
        if self.training.add_tokens and (self.training.lora_rank or self.training.extend_vocabulary):
            other = (
                "extend_vocabulary, which does it too"
                if self.training.extend_vocabulary
                else "adapters (lora_rank), which leave embeddings alone"
            )
            raise ValueError(f"add_tokens trains new rows of embeddings; it does not go with {other}")
        if self.training.lora_rank and self.training.extend_vocabulary:
            raise ValueError("extend_vocabulary trains new rows of embeddings, which adapters (lora_rank) leave alone")
        if self.training.r_drop_after and not self.training.r_drop:
            raise ValueError("r_drop_after says when r_drop begins, but r_drop is 0")


SETTINGS_FILE = "config.toml"  # in a run directory: all settings, with what was chosen for the user
SECTIONS: dict[str, type[Section]] = {
    "data": DataConfig,
    "audio": AudioConfig,
    "tokenizer": TokenizerConfig,
    "model": ModelConfig,
    "markov": MarkovConfig,
    "training": TrainingConfig,
    "validation": ValidationConfig,
    "decoding": DecodingConfig,
}


def all_settings() -> Iterator[Setting]:
    """Yield all that is known of every setting: the run directory, then section by section in the order of the file."""
    yield TrainConfig.settings["out"]
    for section in SECTIONS.values():
        yield from section.settings.values()


def file_keys(*sorts: str) -> tuple[str, ...]:
    """Return the settings of `data` that name files.

    Args:
        sorts: of what: some of "pairs", "text" and "prepared"; of all if none is named.
    """
    known = DataConfig.settings.items()
    return tuple(name for name, one in known if one.files is not None and (not sorts or one.files in sorts))
