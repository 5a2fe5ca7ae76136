"""The page of all modules, in English and in a Chinese frame, out of small models that are run and watched.

`make docs` puts it into the guide; `modules_page.py en` prints it. For each class: its first sentence, its parameters
with their shapes, the shapes that go in and come out, where they come from and where they go, the paper's section, and
a few lines that run it. Like the page of the settings it is not kept in the repository: so it is never behind the code.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dragoman import ModelConfig, build_model
from dragoman.nn import AttentionPositions, MultiHeadAttention

TITLES = {"en": "The modules", "zh": "模块一览"}
INTRODUCTIONS = {
    "en": "Each class of `dragoman.nn`, told by small models that ran once: what it learns, the shapes that go in and "
    "come out, which class gave what goes in and which takes what comes out, where the paper has it, and lines that "
    "run it. What comes from a sum or a product of the layer itself has no class of its own. The sizes of these "
    "models: {sizes}; {heads} heads. The code is short: each name leads to a file of `src/dragoman/nn/`.",
    "zh": "`dragoman.nn` 的每个类，由运行过一次的小模型给出：它学什么，进去和出来的形状，"
    "进去的由哪个类给出，出来的交给哪个类，论文的哪一节讲它，还有几行运行它的代码。"
    "由层自己相加或相乘得到的，没有单独的类。这些模型的大小：{sizes}；{heads} 个头。"
    "代码很短：每个名字都对应 `src/dragoman/nn/` 里的一个文件。说明取自代码，为英文。",
}
NONE = {"en": "no class: ids, a sum, or the end", "zh": "没有单独的类：编号、求和，或已到末端"}
LABELS = {
    "en": ("in → out", "learned", "upstream", "downstream", "file", "nothing", NONE["en"], "used in", "in the paper"),
    "zh": ("进 → 出", "学到的", "上游", "下游", "文件", "无", NONE["zh"], "用在", "论文中"),
}
# A size for each name: whoever sees a size knows the name.
SIZES = {
    2: "batch", 6: "src", 7: "tgt", 24: "d_model", 40: "d_ff", 11: "source_vocab", 13: "target_vocab", 3: "heads",
    8: "d_k", 9: "mels", 22: "frames", 20: "channels", 10: "channels / 2", 72: "3 · d_model", 48: "2 · d_model",
    15: "2 · distance + 1",
}  # fmt: skip
HEADS = 3
COMMON = {
    "source_vocab": 11, "target_vocab": 13, "d_model": 24, "num_heads": HEADS, "d_ff": 40, "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}  # fmt: skip
# What makes each of the models: that of the paper with norms in front, and what differs from it.
MODELS: tuple[dict[str, Any], ...] = (
    {},
    {"norm": "post"},
    {"positions": "rotary"},
    {"positions": "relative", "relative_distance": 7},
    {"positions": "alibi"},
    {"family": "causal"},
    {"family": "masked"},
    {"mels": 9, "conv_channels": 20},
)
PAPER = {
    "MultiHeadAttention": "3.2.2", "Transformer": "3.1", "Encoder": "3.1", "EncoderLayer": "3.1", "Decoder": "3.1",
    "DecoderLayer": "3.1", "PostNorm": "3.1", "FeedForward": "3.3", "TokenEmbedding": "3.4", "Generator": "3.4",
    "InputEmbedding": "3.4, 3.5", "SinusoidalPositions": "3.5", "Dropout": "5.4",
}  # fmt: skip
ELSEWHERE = {
    "PreNorm": "tensor2tensor, The Annotated Transformer", "RotaryPositions": "Su et al. 2021, 3.2",
    "RelativePositions": "Shaw et al. 2018, 3.2", "AlibiPositions": "Press et al. 2022", "CausalLM": "GPT",
    "MaskedLM": "BERT", "Subsampling": "Wang et al. 2020 (S2T)",
    "FrameEmbedding": "Wang et al. 2020 (S2T)",
    "AttentionPositions": "–",
}  # fmt: skip
WATCHED = ("place", "bias")  # of what stands inside an attention, which is not called as a module
MOST = 8  # parameters that are listed one by one


class Whole(NamedTuple):
    """A model that is watched, and what made it: settings, or none where it is a single attention."""

    model: nn.Module
    settings: dict[str, Any] | None


class Call:
    """One call of a module: its model, its path in it, and the tensors that went in and came out."""

    def __init__(self, whole: Whole, path: str, module: nn.Module, given: Any, made: Any, method: str = "") -> None:
        self.whole, self.path, self.module, self.method = whole, path, module, method
        self.arguments = given
        self.given, self.made = list(_tensors(given)), list(_tensors(made))

    @property
    def kind(self) -> str:
        """The name of the class."""
        return type(self.module).__name__


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)


def watch() -> list[Call]:
    """Return every call of a module in one pass of each small model."""
    calls: list[Call] = []
    for settings in MODELS:
        torch.manual_seed(0)
        model = build_model(ModelConfig().replace({**COMMON, **settings})).eval()
        _listen(Whole(model, settings), calls)
        source, target = torch.randint(4, 11, (2, 6)), torch.randint(4, 13, (2, 7))
        with torch.no_grad():
            if "family" in settings:
                model(target if settings["family"] == "causal" else source)
            elif "mels" in settings:
                model(torch.randn(2, 22, 9), target, source_mask=torch.ones(2, 22, dtype=torch.bool))
            else:
                model(source, target)
    attend = MultiHeadAttention(24, HEADS, positions=AttentionPositions()).eval()
    _listen(Whole(attend, None), calls)
    attend(torch.randn(2, 6, 24))
    return calls


def _listen(whole: Whole, calls: list[Call]) -> None:
    """Note every call of the parts of a model, and those of what stands inside an attention."""
    for path, module in whole.model.named_modules():

        def note(module: nn.Module, args: Any, named: Any, made: Any, path: str = path) -> None:
            calls.append(Call(whole, path, module, (args, named), made))

        module.register_forward_hook(note, with_kwargs=True)
        # A kind of positions is told by what it does itself; what it leaves to the base does nothing.
        for name in (one for one in WATCHED if isinstance(module, AttentionPositions) and one in vars(type(module))):
            setattr(module, name, _noted(getattr(module, name), name, whole, path, module, calls))


def _noted(method: Any, name: str, whole: Whole, path: str, module: nn.Module, calls: list[Call]) -> Any:
    def noted(*args: Any) -> Any:
        made = method(*args)
        calls.append(Call(whole, path, module, (args, {}), made, name))
        return made

    return noted


def shape(tensor: Tensor) -> str:
    """Return the shape of a tensor in names."""
    return "[" + ", ".join(SIZES.get(size, str(size)) for size in tensor.shape) + "]"


def page(language: str) -> str:
    """Return the page in Markdown.

    Args:
        language: "en" or "zh".
    """
    calls = watch()
    sizes = ", ".join(f"{name} {size}" for size, name in SIZES.items() if name.isidentifier() and name != "heads")
    lines = [f"# {TITLES[language]}", "", INTRODUCTIONS[language].format(sizes=sizes, heads=HEADS), ""]
    seen: list[type[nn.Module]] = []
    for call in calls:
        if type(call.module) not in seen and type(call.module).__module__.startswith("dragoman.nn"):
            seen.append(type(call.module))
    for kind in sorted(seen, key=lambda kind: (inspect.getsourcefile(kind) or "", kind.__name__)):
        lines += [f"## {kind.__name__}", "", *_section(kind, calls, LABELS[language]), ""]
    return "\n".join(lines)


def _section(kind: type[nn.Module], calls: list[Call], labels: tuple[str, ...]) -> Iterator[str]:
    mine = [call for call in calls if type(call.module) is kind]
    flows, learned = labels[0], labels[1]
    yield " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    yield ""
    yield from (f"- {flows}: `{way}`" for way in dict.fromkeys(map(_way, mine)))
    yield f"- {learned}: {', '.join(_learned(mine[0].module)) or labels[5]}"
    first = [call for call in mine if call.whole is mine[0].whole]  # neighbours in one model, the first that has it
    before = _kinds(one for call in first for one in calls if _apart(one, call) and _share(one.made, call.given))
    after = _kinds(one for call in first for one in calls if _apart(one, call) and _share(call.made, one.given))
    yield f"- {labels[2]}: {', '.join(before) or labels[6]}"
    yield f"- {labels[3]}: {', '.join(after) or labels[6]}"
    holders = sorted({f"`{holder}`" for call in mine if (holder := _holder(call, calls))})
    if holders:
        yield f"- {labels[7]}: {', '.join(holders)}"
    yield f"- {labels[8]}: {PAPER.get(kind.__name__) or ELSEWHERE[kind.__name__]}"
    yield f"- {labels[4]}: `nn/{(inspect.getsourcefile(kind) or '').rpartition('/')[2]}`"
    yield ""
    yield f"```python\n{example(mine[0])}```"


def _holder(call: Call, calls: list[Call]) -> str | None:
    """The class of the nearest module around it that was called itself; lists of layers are not."""
    around = {one.path: one.kind for one in calls if one.whole is call.whole and not one.method}
    path = call.path
    while path:
        path = path.rpartition(".")[0]
        if path in around:
            return around[path]
    return None


def _way(call: Call) -> str:
    """What goes in and comes out, in names."""
    name = f"{call.method}: " if call.method else ""
    return f"{name}{', '.join(map(shape, call.given))} → {', '.join(map(shape, call.made)) or 'None'}"


def _learned(module: nn.Module) -> list[str]:
    """What a module learns: each of its parameters with its shape, or its parts where these are many."""
    every = list(module.named_parameters())
    if len(every) <= MOST:
        return [f"`{name} {shape(one)}`" for name, one in every]
    own = [f"`{name} {shape(one)}`" for name, one in module.named_parameters(recurse=False)]
    parts = [
        f"{type(part).__name__} `{name}` ({sum(one.numel() for one in part.parameters()):,})"
        for name, part in module.named_children()
    ]
    return [*own, *parts]


def example(call: Call) -> str:
    """Return lines of Python that build the model, call the module as it was called, and print the shape."""
    lines = ["import torch", ""]
    made = "part" if not call.method else f"part.{call.method}"
    settings = call.whole.settings
    if settings is None:
        lines += [f"from dragoman.nn import {call.kind}", "", f"part = {call.kind}()"]
    else:
        given = ", ".join(f"{name}={_told(value)}" for name, value in {**COMMON, **settings}.items())
        lines += ["from dragoman import ModelConfig, build_model", "", f"config = ModelConfig(\n    {given}\n)"]
        lines += ["model = build_model(config).eval()", f"part = model.get_submodule({_told(call.path)})"]
    args, named = call.arguments
    told = [_argument(one) for one in args] + [f"{name}={_argument(one)}" for name, one in named.items()]
    lines += [f"made = {made}({', '.join(told)})"]
    lines += ["for one in made if isinstance(made, tuple) else [made]:", "    print(list(one.shape))"]
    return "\n".join(lines) + "\n"


def _told(value: Any) -> str:
    """A value as Python, texts in double quotes as the guide has them."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _argument(value: Any) -> str:
    """What stands for an argument: a tensor of its kind and shape, or something to call."""
    if isinstance(value, Tensor):
        size = ", ".join(map(str, value.shape))
        if value.dtype == torch.bool:
            return f"torch.ones({size}, dtype=torch.bool)"
        return f"torch.randint(4, 11, ({size}))" if not value.is_floating_point() else f"torch.randn({size})"
    return "torch.nn.Identity()" if callable(value) else _told(value)


def _kinds(calls: Iterator[Call]) -> list[str]:
    return sorted({f"`{call.kind}`" for call in calls})


def _apart(one: Call, other: Call) -> bool:
    """Whether neither holds the other."""
    return not (f"{one.path}.".startswith(f"{other.path}.") or f"{other.path}.".startswith(f"{one.path}.")) and bool(
        one.path and other.path
    )


def _share(some: list[Tensor], others: list[Tensor]) -> bool:
    return any(one is other for one in some for other in others)


if __name__ == "__main__":
    print(page(sys.argv[1]))
