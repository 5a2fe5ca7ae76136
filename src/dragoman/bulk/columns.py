"""Columns of a batch of rows, and what Ray Data maps over them: a model that is opened once in each actor.

Nothing here needs Ray: a batch is a table of PyArrow or pandas, or a dictionary of arrays, and comes out as it came in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.bulk.lines import each_result
from dragoman.errors import ConfigError, DataError

if TYPE_CHECKING:
    from dragoman.bulk.parts import Problem
    from dragoman.translation import Translation


class Translate:
    """Translates a column of each batch of rows, for `ray.data.Dataset.map_batches`.

    The model is opened once in each actor. As many rows come out as go in, in their order and with all their other
    columns. A row that cannot be translated has an empty translation, and the reason stands in a column.

    Args:
        model: a run or model directory that every machine sees under this path; several as an ensemble.
        source: column of texts: strings, or bytes in UTF-8.
        target: new column of translations.
        problem: new column that says why a row has none; empty where it has one.
        score: new column of scores, if a name is given.
        settings: of decoding by name.
        prefix: what every output must begin with.
        source_language: of a model for many languages, another than that of its import.
        target_language: likewise.
        device: auto, cpu, cuda or mps.
        engine: auto, native, packed or module.
        precision: auto, float32, int8 or bfloat16.
        threads: of this actor; its `num_cpus`.

    Raises:
        ConfigError: two columns have one name, or settings contradict each other.
        ModelError: there is no such model.
    """

    def __init__(
        self,
        model: str | Path | Sequence[str | Path],
        *,
        source: str = "text",
        target: str = "translation",
        problem: str = "problem",
        score: str | None = None,
        settings: Mapping[str, Any] | None = None,
        prefix: str = "",
        source_language: str | None = None,
        target_language: str | None = None,
        device: str = "auto",
        engine: str = "auto",
        precision: str = "auto",
        threads: int = 1,
    ) -> None:
        self.source, self.target, self.problem, self.score = source, target, problem, score
        self.prefix = prefix
        names = [source, *self.made()]
        if len(set(names)) < len(names):
            raise ConfigError("two columns have one name", found=", ".join(names), hint="give each its own")
        os.environ["OMP_NUM_THREADS"] = str(threads)
        from dragoman.translation import Translator

        self.translator = Translator.from_pretrained(
            model, device=device, engine=engine, precision=precision, source_language=source_language,
            target_language=target_language,
        )  # fmt: skip
        self.translator.tokenizers.check_reads()
        self.options = self.translator.options(dict(settings or {}))

    def made(self) -> list[str]:
        """Return the names of the columns that it adds."""
        return [self.target, *([self.score] if self.score else []), self.problem]

    def __call__(self, batch: Any) -> Any:
        """Return a batch, of the kind that is given, with the new columns.

        Raises:
            DataError: it has no column of texts, or has one of the new columns already.
        """
        return with_columns(batch, self.columns(column_of(batch, self.source, self.made())))

    def columns(self, lines: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the new columns for some texts."""
        results, problems = each_result(self._translations, lines, 0, None)
        made: dict[str, list[Any]] = {self.target: ["" if one is None else one.text for one in results]}
        if self.score:
            made[self.score] = [0.0 if one is None else float(one.score) for one in results]
        made[self.problem] = reasons(problems, len(results))
        return made

    def _translations(self, texts: list[str], first: int) -> list[Translation | None]:
        return list(self.translator.translate_lines(texts, self.options, prefix=self.prefix))


class Synthesize(Translate):
    """Makes training pairs of a column of each batch of rows, for `ray.data.Dataset.map_batches`.

    All rows come out, those too that make no pair: the reason stands in their column of problems.

    Args:
        model: a run or model directory that every machine sees under this path; several as an ensemble.
        text: column of lines, in the language that the model reads.
        source: new column of the pair's sources.
        target: new column of its targets.
        problem: new column that says why a row makes no pair; empty where it does.
        kind: back-translation, self-training or distillation, as for `dragoman.synthesize`.
        tag: put before each source with a blank; "" for none; the usual one of the kind if None.
        max_ratio: leave out pairs whose token counts differ by more than this factor.
        keep_copies: keep outputs that repeat their line.
        settings: of decoding by name.
        device: auto, cpu, cuda or mps.
        engine: auto, native, packed or module.
        precision: auto, float32, int8 or bfloat16.
        threads: of this actor; its `num_cpus`.

    Raises:
        ConfigError: there is no such kind, or as for `Translate`.
    """

    def __init__(
        self,
        model: str | Path | Sequence[str | Path],
        *,
        text: str = "text",
        source: str = "source",
        target: str = "target",
        problem: str = "problem",
        kind: str = "back-translation",
        tag: str | None = None,
        max_ratio: float = 3.0,
        keep_copies: bool = False,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        engine: str = "auto",
        precision: str = "auto",
        threads: int = 1,
    ) -> None:
        from dragoman.studies.synthesis import Maker

        self._pair_source = source
        self.maker = Maker.of(kind, tag, max_ratio, keep_copies)
        super().__init__(
            model, source=text, target=target, problem=problem, settings={**(settings or {}), "n_best": 1},
            device=device, engine=engine, precision=precision, threads=threads,
        )  # fmt: skip

    def made(self) -> list[str]:
        """Return the names of the columns that it adds."""
        return [self._pair_source, self.target, self.problem]

    def columns(self, lines: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the new columns for some lines."""
        results, problems = each_result(self._translations, lines, 0, None)
        told, own = reasons(problems, len(results)), self.translator.tokenizers.source
        sources, targets = [""] * len(results), [""] * len(results)
        for row, result in enumerate(results):
            if result is not None and not told[row]:
                told[row] = self.maker.fault(result, own) or ""
                if not told[row]:
                    sources[row], targets[row] = self.maker.pair(result)
        return {self._pair_source: sources, self.target: targets, self.problem: told}


def reasons(problems: Sequence[Problem], rows: int) -> list[str]:
    """Return why each row has no result, "" where it has one.

    Args:
        problems: of rows, which are numbered from 0.
        rows: how many there are.
    """
    told = [""] * rows
    for one in problems:
        told[one.line] = told[one.line] or one.reason
    return told


def column_of(batch: Any, name: str, made: Sequence[str]) -> list[Any]:
    """Return a column of a batch as a list.

    Raises:
        DataError: there is no such column, or there is one of those that are to be made.
    """
    names = list(getattr(batch, "column_names", batch))  # of a pandas table and of a dictionary by going through it
    if name not in names:
        raise DataError("there is no such column", expected=name, found=", ".join(map(str, names)))
    if there := [one for one in made if one in names]:
        hint = "give the new column another name"
        raise DataError("there is a column of this name already", found=", ".join(there), hint=hint)
    column = batch[name]
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def with_columns(batch: Any, made: Mapping[str, list[Any]]) -> Any:
    """Return a batch with more columns, of the same kind."""
    if hasattr(batch, "append_column"):
        import pyarrow

        for name, values in made.items():
            kind = pyarrow.string() if all(isinstance(one, str) for one in values) else pyarrow.float64()
            batch = batch.append_column(name, pyarrow.array(values, kind))
        return batch
    if hasattr(batch, "assign"):
        return batch.assign(**made)
    import numpy

    kinds = {name: object if any(isinstance(one, str) for one in values) else float for name, values in made.items()}
    return {**batch, **{name: numpy.array(values, dtype=kinds[name]) for name, values in made.items()}}
