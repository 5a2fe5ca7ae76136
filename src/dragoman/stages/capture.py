"""What the modules of a model take in and give out during one pass: forward hooks, and the observers of attention.

Nothing is computed a second time and nothing is changed: these are the numbers of the model itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from jaxtyping import Shaped
from torch import Tensor, nn

from dragoman.nn import AttentionRecord, MultiHeadAttention


@dataclass(frozen=True)
class Call:
    """One call of one module.

    Attributes:
        path: the module's dotted path in the model; of a shared module, the path it was called by.
        module: the module itself.
        given: its first tensor.
        gave: the tensor it gave.
        record: of attention, what its observers are told.
    """

    path: str
    module: nn.Module
    given: Shaped[Tensor, "..."] | None
    gave: Shaped[Tensor, "..."]
    record: AttentionRecord | None = None


@contextmanager
def captured(model: nn.Module) -> Iterator[list[Call]]:
    """Capture the calls of all modules inside the `with` block, in the order in which they end: parts first."""
    catcher = _Catcher(model)
    with ExitStack() as undo:
        for module in model.modules():
            if module is not model:
                undo.callback(module.register_forward_pre_hook(catcher.enter, with_kwargs=True).remove)
                undo.callback(module.register_forward_hook(catcher.leave).remove)
            if isinstance(module, MultiHeadAttention):
                undo.callback(module.observe(catcher.observe))
        yield catcher.calls


class _Catcher:
    def __init__(self, model: nn.Module) -> None:
        self.calls: list[Call] = []
        self._open: list[tuple[str, nn.Module, Tensor | None]] = [("", model, None)]
        self._record: AttentionRecord | None = None
        self._thread = threading.get_ident()  # another thread may be running the same model

    def enter(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if threading.get_ident() == self._thread:
            tensors = (value for value in (*given, *named.values()) if isinstance(value, Tensor))
            self._open.append((self._path(module), module, next(tensors, None)))

    def leave(self, module: nn.Module, _: tuple[Any, ...], gave: object) -> None:
        if threading.get_ident() != self._thread:
            return
        # A module that raised has entered but never left.
        while self._open[-1][1] is not module:
            self._open.pop()
        path, _module, given = self._open.pop()
        if isinstance(gave, tuple) and gave:  # what it computed comes first
            gave = gave[0]
        if isinstance(gave, Tensor):
            record = self._record if isinstance(module, MultiHeadAttention) else None
            self.calls.append(Call(path, module, given, gave, record))

    def observe(self, record: AttentionRecord) -> None:
        if threading.get_ident() == self._thread:
            self._record = record

    def _path(self, module: nn.Module) -> str:
        # By the nearest open module that has it as a part: a sub-layer is called inside its residual connection, and
        # a shared module stands at several places of the model.
        for path, owner, _ in reversed(self._open):
            for name, part in owner.named_modules(remove_duplicate=False):
                if part is module and part is not owner:
                    return f"{path}.{name}" if path else name
        raise AssertionError("a hooked module is a part of the model")
