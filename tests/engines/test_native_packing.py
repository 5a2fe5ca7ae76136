"""Models that the compiled library is to pack, where something does not fit together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.engines.native import load_library, model
from dragoman.engines.native.library import BAD_ARGUMENT, Library
from dragoman.engines.native.model import LAYOUTS
from dragoman.models import NotPlain, read_blueprint
from engines.native_models import VOCAB, small_model

FOUND = load_library()
pytestmark = pytest.mark.skipif(isinstance(FOUND, str), reason=str(FOUND))


def packing(change: Callable[[Any], None], **changes: object) -> int:
    """The code for a model whose description is changed before the library sees it."""
    assert isinstance(FOUND, Library)
    codes = []

    class Spoiling(Library):
        def __init__(self) -> None:
            self.model = self.spoil

        def spoil(self, spec: Any, handle: Any) -> int:
            change(spec._obj)
            codes.append(FOUND.model(spec, handle))
            return codes[-1]

        def check(self, code: int) -> None:
            raise RuntimeError(f"code {code}")

    with pytest.raises(RuntimeError, match="code"):
        model._packed(read_blueprint(small_model(**changes)), Spoiling(), "float32", 0)
    return codes[0]


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("kernels", (-1, 99)), ("precision", (-1, 3)), ("activation", (-1, 4)), ("d_model", (0, -16, 17, 2**31 - 1)),
        ("d_ff", (0, -1, 25, 2**31 - 1)), ("heads", (0, 3, 2**30)), ("d_k", (0, 9)), ("d_v", (-1, 2**31 - 1)),
        ("encoder_layers", (-1, 2, 2**31 - 1)), ("decoder_layers", (-1, 1, 2**31 - 1)), ("cross", (0,)),
        ("matrix_count", (0, 1)), ("norm_count", (0, 1)), ("mels", (-1, 1, 2**31 - 1)), ("blank", (-2, 0, 2**31 - 1)),
    ],
)  # fmt: skip
def test_a_model_whose_sizes_do_not_fit_together_is_refused(field: str, values: tuple[int, ...]) -> None:
    for value in values:
        assert packing(lambda spec, value=value: setattr(spec, field, value)) == BAD_ARGUMENT, value


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: setattr(spec, "matrices", None),
        lambda spec: setattr(spec, "norms", None),
        lambda spec: setattr(spec.matrices[3], "weight", None),
        lambda spec: setattr(spec.matrices[3], "out", 7),
        lambda spec: setattr(spec.norms[1], "eps", math.nan),
        lambda spec: setattr(spec.target, "rows", None),
        lambda spec: setattr(spec.source, "rows", None),
        lambda spec: setattr(spec.source, "count", 0),
        lambda spec: setattr(spec.target, "count", 2**40),
        lambda spec: setattr(spec.target, "count", VOCAB - 1),
        lambda spec: setattr(spec.target, "scale", math.inf),
        lambda spec: setattr(spec.source, "layout", len(LAYOUTS)),
        lambda spec: setattr(spec.target, "layout", 0),  # a table of positions that is not there
    ],
)
def test_a_model_with_parts_missing_is_refused(change: Callable[[Any], None]) -> None:
    assert packing(change) == BAD_ARGUMENT


def test_rotary_positions_need_pairs() -> None:
    def rotary(spec: Any) -> None:
        spec.target.layout = spec.source.layout = LAYOUTS[None, "rotary", None]

    assert packing(rotary, d_k=7) == BAD_ARGUMENT


def test_sizes_beyond_what_is_counted_are_left_to_the_modules() -> None:
    recipe = read_blueprint(small_model())
    for field, precision in (("d_ff", "float32"), ("d_model", "float32"), ("heads", "int8")):
        large = dataclasses.replace(recipe, shape=recipe.shape._replace(**{field: 2**31}))
        with pytest.raises(NotPlain, match="larger than the native engine counts"):
            model.NativeModel(large, precision)
    wide = dataclasses.replace(recipe, shape=recipe.shape._replace(d_ff=2**17 + 1))
    with pytest.raises(NotPlain, match="not exact in int8"):
        model.NativeModel(wide, "int8")

    class Endless:
        shape = (2**31, 16)

        def __getitem__(self, rows: slice) -> Endless:
            return self

        def contiguous(self) -> Endless:
            return self

        def data_ptr(self) -> int:
            return 0

    endless: Any = dataclasses.replace(recipe.target, rows=Endless())
    with pytest.raises(NotPlain, match="larger than"):
        model.NativeModel(dataclasses.replace(recipe, target=endless))
