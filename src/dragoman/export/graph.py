"""Graphs of ONNX, node by node: the few operations that a Transformer is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

OPSET = 17
_NOTHING: Mapping[str, Any] = {}


class Graph:
    """A graph that grows by one operation at a time; what a method returns is the name of a tensor.

    Args:
        name: of the graph.
        outer: the graph whose branch it is: weights, and the numbers in names, are those of one file.
    """

    def __init__(self, name: str, outer: Graph | None = None) -> None:
        from onnx import helper

        self._helper, self._name = helper, name
        self.weights: dict[str, np.ndarray] = {} if outer is None else outer.weights
        self._constants: dict[tuple[Any, ...], str] = {} if outer is None else outer._constants
        self._numbers: Iterator[int] = count(1) if outer is None else outer._numbers
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, dtype: str, dims: Sequence[int | str]) -> str:
        """Add an input: its name, its type (`int64`, `float32`, `bool`) and its dimensions, by name where they vary."""
        self._inputs.append(self._helper.make_tensor_value_info(name, self._type(dtype), list(dims)))
        return name

    def output(self, name: str, value: str, dims: Sequence[int | str]) -> None:
        """Let a tensor be an output, of float32."""
        self._nodes.append(self._helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._helper.make_tensor_value_info(name, self._type("float32"), list(dims)))

    def weight(self, name: str, value: np.ndarray) -> str:
        """Return a weight that is stored with the graph."""
        self.weights.setdefault(name, np.ascontiguousarray(value))
        return name

    def ints(self, *values: int) -> str:
        """Return a row of whole numbers."""
        return self._constant(np.array(values, dtype=np.int64))

    def scalar(self, value: float | int) -> str:
        """Return one number: int64, or float32."""
        return self._constant(np.array(value, dtype=np.int64 if isinstance(value, int) else np.float32))

    def _constant(self, value: np.ndarray) -> str:
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = f"constant_{len(self._constants)}"
            self.weights[self._constants[key]] = value
        return self._constants[key]

    def op(self, kind: str, *inputs: str, given: Mapping[str, Any] = _NOTHING) -> str:
        """Return the one result of an operation of ONNX; `given` are its attributes."""
        name = f"{kind.lower()}_{next(self._numbers)}"
        self._nodes.append(self._helper.make_node(kind, list(inputs), [name], name=f"/{name}", **given))
        return name

    def ops(self, kind: str, results: int, *inputs: str, given: Mapping[str, Any] = _NOTHING) -> list[str]:
        """Return several results of one operation; `given` are its attributes."""
        number = next(self._numbers)
        names = [f"{kind.lower()}_{number}_{i}" for i in range(results)]
        self._nodes.append(self._helper.make_node(kind, list(inputs), names, name=f"/{names[0]}", **given))
        return names

    def size(self, value: str, axis: int) -> str:
        """Return how large a dimension is, as a row of one number."""
        return self.op("Gather", self.op("Shape", value), self.ints(axis))

    def either(self, condition: str, then: Graph, otherwise: Graph) -> str:
        """Return the one output of one of two graphs, which may use what was made in this one."""
        name = f"if_{next(self._numbers)}"
        branches = {"then_branch": then.made(), "else_branch": otherwise.made()}
        self._nodes.append(self._helper.make_node("If", [condition], [name], name=f"/{name}", **branches))
        return name

    def branch(self, name: str) -> Graph:
        """Return a graph for `either`; its weights are stored with this one, and its names are its own."""
        return Graph(name, self)

    def give(self, value: str, dims: Sequence[int | str]) -> Graph:
        """Let a tensor be the one output of a graph for `either`; return the graph."""
        self.output(f"{self._name}_out", value, dims)
        return self

    def made(self) -> Any:
        """Return the graph without its weights."""
        return self._helper.make_graph(self._nodes, self._name, self._inputs, self._outputs)

    def serialized(self) -> bytes:
        """Return the file of a model, checked by ONNX."""
        import onnx
        from onnx import numpy_helper

        graph = self.made()
        graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in self.weights.items())
        opset = self._helper.make_opsetid("", OPSET)
        model = self._helper.make_model(graph, opset_imports=[opset], producer_name="dragoman", ir_version=8)
        onnx.checker.check_model(model)
        return model.SerializeToString()

    def _type(self, name: str) -> int:
        from onnx import TensorProto

        return {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT, "bool": TensorProto.BOOL}[name]
