"""The settings of a foreign model, each read once and checked: what nobody reads is refused by its name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dragoman.errors import ModelError

# Of no influence on what a model computes.
IDLE = [
    "_name_or_path",
    "_num_labels",
    "architectures",
    "chunk_size_feed_forward",
    "dtype",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "label2id",
    "init_std",
    "max_length_source",
    "model_type",
    "num_hidden_layers",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "problem_type",
    "return_dict",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    "pruned_heads",
    "prefix",
    "classif_dropout",
    "classifier_dropout",
    "encoder_layerdrop",
    "decoder_layerdrop",
    "use_fast",
    "is_encoder_decoder",
    "adapters",
    "model_parallel",
]
MOST = 1 << 20  # of any size


class Facts:
    """A JSON object of settings.

    Args:
        tree: name -> value; a value of None stands for an absent one.
        file: where it stands, for messages.
    """

    def __init__(self, tree: Mapping[str, Any], file: Path) -> None:
        self._tree, self.file, self._read = dict(tree), file, set(IDLE)

    def __contains__(self, name: str) -> bool:
        return self._tree.get(name) is not None

    def get(self, name: str) -> Any:
        """Return a value as it stands; None if it is not there."""
        self._read.add(name)
        return self._tree.get(name)

    def number(self, name: str, default: int | None = None, *, least: int = 0, most: int = MOST) -> int:
        """Return a whole number.

        Raises:
            ModelError: it is none, out of bounds, or missing without a default.
        """
        value = self.get(name)
        value = default if value is None else value
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least} to {most}", value)
        return value

    def rate(self, name: str, default: float, *, least: float = 0.0, most: float = 1.0) -> float:
        """Return a number between bounds; errors as for `number`."""
        value = self.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not least <= value <= most:
            raise self.wrong(name, f"a number from {least:g} to {most:g}", value)
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """Return true or false; errors as for `number`."""
        value = self.get(name)
        value = default if value is None else value
        if type(value) is not bool:
            raise self.wrong(name, "true or false", value)
        return value

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return a text; errors as for `number`."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "a text", value)
        return default if value is None else value

    def choice(self, name: str, known: Mapping[str, str], default: str) -> str:
        """Return what one of the known names means; errors as for `number`."""
        value = self.get(name)
        value = default if value is None else value
        if not isinstance(value, str) or value not in known:
            raise self.wrong(name, " or ".join(known), value)
        return known[value]

    def only(self, name: str, *values: Any) -> None:
        """Refuse a setting that has another value than these, where it is there.

        Raises:
            ModelError: it has; it changes what the model computes in a way that is not known here.
        """
        value = self.get(name)
        if value is not None and not any(type(value) is type(one) and value == one for one in values):
            raise self.wrong(name, " or ".join(map(repr, values)) or "absent", value)

    def skip(self, names: Collection[str]) -> None:
        """Mark settings that change nothing here."""
        self._read.update(names)

    def finish(self) -> None:
        """Refuse settings that nobody has read.

        Raises:
            ModelError: names the first of them.
        """
        for name, value in sorted(self._tree.items()):
            if name not in self._read and value is not None:
                hint = "it may change what the model computes: remove it only if you know that it does not"
                raise ModelError("a setting is not known", file=self.file, found=f"{name} = {value!r}"[:200], hint=hint)

    def wrong(self, name: str, expected: str, found: object) -> ModelError:
        """Return what is said of a setting that cannot be taken."""
        return ModelError(f"cannot take {name}", file=self.file, expected=expected, found=repr(found)[:200])
