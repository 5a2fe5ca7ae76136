"""What the machine allows: large products and memory, measured in the same run; the least time they leave a task."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

GEMM = (2048, 512, 2048)
WIDE = 16384
PROBES = 15
BYTES = {"float32": 4, "int8": 1}


class Peer:
    """Probes of the processor; best of several, for a limit is what nothing exceeds."""

    def __init__(self, options: dict[str, Any]) -> None:
        import torch

        torch.set_num_threads(options["threads"])
        self.clock = time.process_time if options["threads"] == 1 else time.perf_counter

    def versions(self) -> dict[str, str]:
        return {"torch": version("torch")}

    def operations_per_second(self) -> dict[str, float]:
        """Multiplications and additions (2 for each pair) of large products, in each precision: torch's, or ours."""
        import torch

        rows, inner, columns = GEMM
        x, weight = torch.randn(rows, inner), torch.randn(columns, inner)
        packed = torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(weight, 0.02, 0, torch.qint8), None)
        products = {
            "float32": lambda: torch.nn.functional.linear(x, weight),
            "int8": lambda: torch.ops.quantized.linear_dynamic(x, packed, True),
        }
        count = 2 * rows * inner * columns
        theirs = {name: count / self._best(product) for name, product in products.items()}
        return {name: max(speed, self._own(name)) for name, speed in theirs.items()}

    def _own(self, precision: str) -> float:
        """The same of an encoder's very wide layer, or nothing without the native engine."""
        import torch

        from dragoman.config import ModelConfig
        from dragoman.engines import NativeEngine
        from dragoman.engines.native import load_library
        from dragoman.models import build_model
        from dragoman.nn import Transformer
        from dragoman.sequences import SourceBatch

        if isinstance(load_library(), str):
            return 0.0
        _, width, vocab = GEMM
        sizes = ModelConfig(source_vocab=vocab, target_vocab=vocab, d_model=width, d_ff=WIDE, num_heads=8)
        model = build_model(sizes.replace({"num_encoder_layers": 1, "num_decoder_layers": 1}))
        assert isinstance(model, Transformer)
        engine, ids = NativeEngine(model, precision), torch.randint(4, vocab, (64, 8))
        count = 2 * ids.numel() * (6 * width * width + 2 * width * WIDE)
        return count / self._best(lambda: engine.start(SourceBatch.of_padded(ids, 0)))

    def bytes_per_second(self, size: int) -> float:
        """Reading so many bytes again and again: from the caches as far as they hold them, else from memory."""
        import torch

        rows = max(1, size // 4 // 512)
        matrix, vector = torch.randn(rows, 512), torch.randn(512)
        repeats = max(1, 2**25 // size)

        def multiply() -> None:
            for _ in range(repeats):
                torch.mv(matrix, vector)

        def add_up() -> None:
            for _ in range(repeats):
                matrix.sum()

        return repeats * matrix.numel() * 4 / min(self._best(multiply), self._best(add_up))

    def _best(self, call: Callable[[], object]) -> float:
        times = []
        for _ in range(PROBES):
            start = self.clock()
            call()
            times.append(self.clock() - start)
        return min(times)


@dataclass(frozen=True)
class Sizes:
    """Numbers of weights and of operations of an encoder-decoder of our shape."""

    d_model: int
    d_ff: int
    encoder_layers: int
    decoder_layers: int
    vocab: int

    @classmethod
    def of(cls, config: dict[str, Any]) -> Sizes:
        layers = config["num_encoder_layers"], config["num_decoder_layers"]
        return cls(config["d_model"], config["d_ff"], *layers, config["target_vocab"])

    @property
    def step_weights(self) -> int:
        """Weights that a decoding step reads: the decoder without the keys and values of the memory, the generator."""
        d = self.d_model
        return self.decoder_layers * (6 * d * d + 2 * d * self.d_ff) + d * self.vocab

    @property
    def weights(self) -> int:
        """All of the matrices, with one embedding that is the generator too."""
        d = self.d_model
        encoder = self.encoder_layers * (4 * d * d + 2 * d * self.d_ff)
        return encoder + self.decoder_layers * 2 * d * d + self.step_weights

    def encode(self, length: int) -> int:
        """Operations for a source: the encoder, and keys and values of the memory for each decoder layer."""
        d, n = self.d_model, length
        layers = self.encoder_layers * (4 * d * d * n + 2 * n * n * d + 2 * d * self.d_ff * n)
        return 2 * (layers + self.decoder_layers * 2 * d * d * n)

    def step(self, memory: int, length: int) -> int:
        """Operations of one hypothesis' step that attends to a memory and to `length` tokens before it."""
        return 2 * (self.step_weights + self.decoder_layers * 2 * self.d_model * (memory + length))

    def update(self, sources: Sequence[int], targets: Sequence[int], *, directions: int = 1) -> int:
        """Operations of a training step: forward, and twice that backward; a source is read once in any case."""
        forward = 0
        for source, target in zip(sources, targets, strict=True):
            attention = self.decoder_layers * 2 * self.d_model * target * (target / 2 + source)
            forward += self.encode(source) + 2 * directions * int(self.step_weights * target + attention)
        return 3 * forward


def decoding_limit(
    sizes: Sizes, batches: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]], beam_size: int, operations: float,
    bandwidth: float, precision: str,
) -> float:  # fmt: skip
    """Least seconds: each step takes the longer of its products and of reading its weights once.

    Args:
        sizes: of the model.
        batches: lengths of the sources.
        outputs: tokens of each output, which is as many steps; who has ended takes no part in more.
        beam_size: hypotheses of each source.
        operations: per second.
        bandwidth: bytes per second.
        precision: of the weights.
    """
    seconds = 0.0
    reading = sizes.step_weights * BYTES[precision] / bandwidth
    for lengths, steps in zip(batches, outputs, strict=True):
        seconds += sum(sizes.encode(length) for length in lengths) / operations
        for step in range(max(steps)):
            rows = 1 if step == 0 else beam_size
            going = (length for length, last in zip(lengths, steps, strict=True) if step < last)
            work = sum(rows * sizes.step(length, step) for length in going)
            seconds += max(reading, work / operations)
    return seconds
