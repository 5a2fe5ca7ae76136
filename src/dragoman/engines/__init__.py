"""Ways to run a trained model as a next-token model.

The names are imported from their modules when they are first used: some of the modules need PyTorch, which takes a
second to import, and some do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.lazy import lazy_names

if TYPE_CHECKING:
    from dragoman.engines.choose import choose_device as choose_device
    from dragoman.engines.choose import choose_engine as choose_engine
    from dragoman.engines.module import ModuleEngine as ModuleEngine
    from dragoman.engines.native import NativeEngine as NativeEngine
    from dragoman.engines.native import NativeModel as NativeModel
    from dragoman.engines.packed import PackedEngine as PackedEngine
    from dragoman.engines.torch_free import open_torch_free as open_torch_free

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "choose": ("choose_device", "choose_engine"),
        "module": ("ModuleEngine",),
        "native": ("NativeEngine", "NativeModel"),
        "packed": ("PackedEngine",),
        "torch_free": ("open_torch_free",),
    },
)
