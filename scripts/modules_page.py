"""The page of all modules, in English and in a Chinese frame, out of a small model that is run and watched.

`make docs` puts it into the guide; `modules_page.py en` prints it. For each class: its first sentence, its parameters,
the shapes that go in and come out, where they come from and where they go. It is not kept in the repository, like the
page of the settings: so it is never behind the code.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dragoman import ModelConfig, build_model

TITLES = {"en": "The modules", "zh": "模块一览"}
INTRODUCTIONS = {
    "en": "Each class of `dragoman.nn` in the paper's model (pre-norm), told by a small model that ran once: what it "
    "learns, the shapes that go in and come out, which class gave what goes in and which takes what comes "
    "out. What comes from a sum or a product of the layer itself has no class of its own. The code is short: each "
    "name leads to a file of `src/dragoman/nn/`.",
    "zh": "论文的模型（前置归一化）里 `dragoman.nn` 的每个类，由一个运行过一次的小模型给出："
    "它学什么，进去和出来的形状，"
    "进去的由哪个类给出，出来的交给哪个类。由层自己相加或相乘得到的，没有单独的类。"
    "代码很短：每个名字都对应 `src/dragoman/nn/` 里的一个文件。说明取自代码，为英文。",
}
NONE = {"en": "no class: ids, a sum, or the end", "zh": "没有单独的类：编号、求和，或已到末端"}
LABELS = {
    "en": ("in → out", "learned", "upstream", "downstream", "file", "nothing", NONE["en"], "used in"),
    "zh": ("进 → 出", "学到的", "上游", "下游", "文件", "无", NONE["zh"], "用在"),
}
# A size for each name: whoever sees a size knows the name.
SIZES = {2: "batch", 5: "src", 7: "tgt", 24: "d_model", 40: "d_ff", 11: "source_vocab", 13: "target_vocab"}
HEADS = 3


class Call:
    """One call of a module: its path, and the tensors that went in and came out."""

    def __init__(self, path: str, module: nn.Module, given: Any, made: Any) -> None:
        self.path, self.module = path, module
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
    """Return every call of a module in one pass of a small model."""
    torch.manual_seed(0)
    sizes = {"d_model": 24, "num_heads": HEADS, "d_ff": 40, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = build_model(ModelConfig(source_vocab=11, target_vocab=13, **sizes)).eval()
    calls: list[Call] = []
    for path, module in model.named_modules():

        def note(module: nn.Module, args: Any, named: Any, made: Any, path: str = path) -> None:
            calls.append(Call(path, module, (args, named), made))

        module.register_forward_hook(note, with_kwargs=True)
    with torch.no_grad():
        model(torch.randint(4, 11, (2, 5)), torch.randint(4, 13, (2, 7)))
    return calls


def shape(tensor: Tensor) -> str:
    """Return the shape of a tensor in names."""
    return "[" + ", ".join(SIZES.get(size, str(size)) for size in tensor.shape) + "]"


def page(language: str) -> str:
    """Return the page in Markdown.

    Args:
        language: "en" or "zh".
    """
    calls = watch()
    lines = [f"# {TITLES[language]}", "", INTRODUCTIONS[language], ""]
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
    ways = {f"{', '.join(map(shape, call.given))} → {', '.join(map(shape, call.made))}": None for call in mine}
    yield from (f"- {flows}: `{way}`" for way in ways)
    own = [f"`{name} {shape(one)}`" for name, one in mine[0].module.named_parameters(recurse=False)]
    inner = [f"{type(part).__name__} `{name}`" for name, part in mine[0].module.named_children()]
    yield f"- {learned}: {', '.join([*own, *inner]) or labels[5]}"
    before = _kinds(other for call in mine for other in calls if _apart(other, call) and _share(other.made, call.given))
    after = _kinds(other for call in mine for other in calls if _apart(other, call) and _share(call.made, other.given))
    yield f"- {labels[2]}: {', '.join(before) or labels[6]}"
    yield f"- {labels[3]}: {', '.join(after) or labels[6]}"
    inside = [call for call in mine if call.path]
    holders = _kinds(other for call in inside for other in calls if other.path == call.path.rpartition(".")[0])
    if holders:
        yield f"- {labels[7]}: {', '.join(holders)}"
    yield f"- {labels[4]}: `nn/{(inspect.getsourcefile(kind) or '').rpartition('/')[2]}`"


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
