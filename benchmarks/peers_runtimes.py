"""ONNX Runtime and OpenVINO as two of those measured: the same weights as graphs, a search as a loop in Python.

That is how models of other libraries are run by them: the graphs know no search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from peers_export import export

PAD, BOS, EOS = 0, 2, 3
HIDDEN = -1e9
Batches = list[list[list[int]]]
Graph = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


class Peer:
    def __init__(self, options: dict[str, Any]) -> None:
        self.threads, self.precision, self.kind = options["threads"], options["precision"], options["kind"]
        self.run: Any

    def versions(self) -> dict[str, str]:
        return {self.kind: version(self.kind)}

    def load(self, directory: str) -> str:
        folder = Path(directory) / "onnx"
        export(Path(directory), folder)
        files = [folder / "encoder.onnx", folder / "step.onnx"]
        if self.precision == "int8":
            files = [quantised(file) for file in files]
        opened = _onnxruntime if self.kind == "onnxruntime" else _openvino
        self.encoder, self.step = (opened(file, self.threads) for file in files)
        return f"{self.kind}, {self.precision}, a loop in Python"

    def prepare_decoding(self, batches: Batches, steps: int, beam_size: int) -> None:
        self.run = lambda: self.outputs(batches, steps, beam_size) and None

    def outputs(self, batches: Batches, steps: int, beam_size: int) -> list[list[int]]:
        return [row for batch in batches for row in self._search(batch, steps, beam_size)]

    def scores(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each token of an output, without its end."""
        state, tokens = self._start(sources), np.full(len(sources), BOS)
        columns = []
        for step in range(max(map(len, targets))):
            log_probs = self._next(state, tokens, step)
            tokens = np.array([ids[step] if step < len(ids) else EOS for ids in targets])
            columns.append(log_probs[np.arange(len(tokens)), tokens])
        return [np.stack(columns, 1)[row, : len(ids)].tolist() for row, ids in enumerate(targets)]

    def _start(self, sources: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        longest = max(map(len, sources)) + 1
        ids = np.array([[*row, EOS, *[PAD] * (longest - len(row) - 1)] for row in sources])
        bias = np.where(ids == PAD, HIDDEN, 0.0).astype(np.float32)[:, None, None]
        memory = self.encoder({"ids": ids, "bias": bias})
        state = {"bias": bias, **{f"cross_{i}": one for i, one in enumerate(memory)}}
        rows, heads, _, d_k = memory[0].shape
        return state | {f"past_{i}": np.zeros((rows, heads, 0, d_k), np.float32) for i in range(len(memory))}

    def _next(self, state: dict[str, np.ndarray], tokens: np.ndarray, step: int) -> np.ndarray:
        logits, *grown = self.step({"tokens": tokens, "position": np.array([step]), **state})
        state |= {f"past_{i}": one for i, one in enumerate(grown)}
        logits = logits - logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def _search(self, sources: Sequence[Sequence[int]], steps: int, beam_size: int) -> list[list[int]]:
        """The best output of so many tokens of each source; nothing ends before."""
        state, count = self._start(sources), len(sources)
        tokens, totals = np.full(count, BOS), np.zeros((count, 1), np.float32)
        found = np.zeros((count, 1, 0), int)
        for step in range(steps):
            log_probs = self._next(state, tokens, step)
            sums = (totals[..., None] + log_probs.reshape(count, totals.shape[1], -1)).reshape(count, -1)
            if beam_size == 1:
                best = sums.argmax(1)[:, None]
            else:
                best = np.argpartition(sums, -beam_size, 1)[:, -beam_size:]
                best = np.take_along_axis(best, np.take_along_axis(sums, best, 1).argsort(1)[:, ::-1], 1)
            totals, vocab = np.take_along_axis(sums, best, 1), log_probs.shape[1]
            parents, newest = best // vocab, best % vocab
            found = np.concatenate([np.take_along_axis(found, parents[..., None], 1), newest[..., None]], 2)
            tokens = newest.ravel()
            if beam_size > 1:
                width = 1 if step == 0 else beam_size
                rows = (np.arange(count)[:, None] * width + parents).ravel()
                # What is beside a source stays where it is once every row has it.
                moved = [name for name in state if step == 0 or name.startswith("past")]
                state |= {name: state[name][rows] for name in moved}
        return found[:, 0].tolist()


def quantised(file: Path) -> Path:
    """Weights in 8 bits for each column, activations in 8 as they come; 7 where four products need not fit else."""
    from onnxruntime.quantization import QuantType, quantize_dynamic  # pyrefly: ignore[missing-import]

    target = file.with_suffix(".int8.onnx")
    if not target.exists():
        reduced = "vnni" not in Path("/proc/cpuinfo").read_text(encoding="utf-8")
        quantize_dynamic(
            file, target, per_channel=True, reduce_range=reduced, weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul"],
        )  # fmt: skip
    return target


def _onnxruntime(file: Path, threads: int) -> Graph:
    import onnxruntime  # pyrefly: ignore[missing-import]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    wanted = {one.name for one in session.get_inputs()}
    run: Any = session.run
    return lambda given: run(None, {name: value for name, value in given.items() if name in wanted})


def _openvino(file: Path, threads: int) -> Graph:
    import openvino  # pyrefly: ignore[missing-import]

    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.compile_model(str(file), "CPU", settings)
    request, wanted = compiled.create_infer_request(), {name for port in compiled.inputs for name in port.names}

    def run(given: dict[str, np.ndarray]) -> list[np.ndarray]:
        request.infer({name: value for name, value in given.items() if name in wanted}, share_inputs=True)
        return [request.get_output_tensor(i).data.copy() for i in range(len(compiled.outputs))]

    return run
