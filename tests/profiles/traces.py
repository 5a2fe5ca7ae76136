"""What a loaded model computes on the way to its logits, and what it computes step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.engines import ModuleEngine
from dragoman.nn import MultiHeadAttention, Transformer
from dragoman.search import SearchRequest, beam_search, greedy_search
from dragoman.sequences import Frame, Source, Specials


def trace(model: Transformer, source: Tensor, target: Tensor) -> dict[str, np.ndarray]:
    """`logits`, `memory`, and by dotted name what each layer gives and each attention weighs."""
    seen: dict[str, np.ndarray] = {}
    stops = []
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            stops.append(module.observe(lambda record, name=name: seen.update({name: record.weights.numpy()})))
        elif name.split(".")[-1].isdigit():
            hook = module.register_forward_hook(lambda _, __, out, name=name: seen.update({name: out.numpy()}))
            stops.append(hook.remove)
    with torch.no_grad():
        seen["logits"] = model(source, target).numpy()
        seen["memory"] = model.encode(source)[0].numpy()
    for stop in stops:
        stop()
    return seen


def tolerances(width: int) -> list[tuple[torch.dtype, float]]:
    """What vectors of a width are compared in, and how closely.

    Narrow vectors may have next to no variance, and a norm then multiplies the rounding errors of both systems.
    """
    single = [(torch.float32, 1e-5)] if width >= 20 else []
    return [*single, (torch.float64, 1e-10)]


def largest_difference(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    assert found.keys() == expected.keys()
    return max(float(np.abs(found[name] - expected[name]).max()) for name in expected)


def steps(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """Logits at each position of the target, given one token at a time."""
    with torch.no_grad():
        state = model.start(source)
        return torch.stack([model.step(state, target[:, i]) for i in range(target.shape[1])], dim=1)


@torch.no_grad()
def check_searches(
    model: Transformer, sources: Sequence[Tensor], *, bos: int, eos: int, pad: int, hides_padding: bool = True
) -> None:
    """Greedy and beam 4 through the cache give what one finds by running the whole prefix again at every step."""
    longest = 6
    source = torch.nn.utils.rnn.pad_sequence(list(sources), batch_first=True, padding_value=pad)
    options = DecodingConfig(beam_size=4, n_best=4, max_length=longest)
    never, specials = (pad, bos), Specials(pad, unk=-1, bos=bos, eos=eos)
    requests = [
        SearchRequest(Source(tuple(row.tolist()), (), specials, end=()), options, frame=Frame(bos, eos), never=never)
        for row in sources
    ]
    engine = ModuleEngine(model)
    for row, found in enumerate(beam_search(engine, requests)):
        assert len({hypothesis.tokens for hypothesis in found}) == 4
        for hypothesis in found:
            # A forced end costs what the model says, like any other token.
            target = torch.tensor([[bos, *hypothesis.tokens]])
            given = source[row : row + 1, : len(sources[row]) if hides_padding else None]
            logs = model(given, target)[0].log_softmax(-1)
            labels = torch.tensor([*hypothesis.tokens, eos])
            expected = float(logs.gather(1, labels[:, None]).sum())
            assert abs(hypothesis.log_probability - expected) <= 1e-9
    for row, (best,) in enumerate(greedy_search(engine, requests)):
        tokens = [bos]
        given = source[row : row + 1, : len(sources[row]) if hides_padding else None]
        while len(tokens) <= longest:
            logits = model(given, torch.tensor([tokens]))[0, -1]
            logits[list(never)] = float("-inf")
            tokens.append(int(logits.argmax()))
            if tokens[-1] == eos:
                break
        assert best.tokens == tuple(token for token in tokens[1:] if token != eos)
