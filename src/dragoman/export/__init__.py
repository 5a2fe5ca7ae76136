"""Models in the formats of other programs, each tried by that program when it is written.

`export_model` opens a model (`given`), writes a directory (`for_ctranslate2`, `for_marian`, `for_nllb`, `for_onnx`,
`for_argos`) and lets the other program translate (`checking`). What a format cannot hold is told before anything is
written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.export.checking import Check as Check
    from dragoman.export.exporting import Exported as Exported
    from dragoman.export.exporting import export_model as export_model

__all__, __getattr__, __dir__ = lazy_names(
    __name__, {"checking": ("Check",), "exporting": ("Exported", "export_model")}
)
