"""The same weights by other systems' conventions, side by side: part of the verb explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from dragoman.inspector import Inspection
    from dragoman.inspector.conventions import Convention, Difference

# Stages whose differences are told besides the first one, as far as a model has them.
MARKS = (
    "source_embedding.tokens", "source_embedding.positions", "encoder.layers.0.self_attention.scores", "memory",
    "decoder.layers.0.cross_attention.scores", "decoder.output", "generator",
)  # fmt: skip
_WORDS = {
    "en": {
        "own": "as it is", "writes": "writes", "same": "nothing differs by {least:g} or more",
        "first": "numbers part at {stage}, by {largest}", "shape": "another shape", "marks": "and then by at most",
        "post": "norms after the residual connections, none at the ends of the stacks",
        "pre": "norms before the sub-layers, and one at the end of each stack", "eps": "ε {eps:g}",
        "StdNorm": "norms divide by (the deviation of n − 1, + ε)",
        "DeviationNorm": "norms divide by (the deviation of n, + ε)",
        "unscaled": "embeddings not × √d_model",
        "nothing": "(nothing)", "interleaved": "interleaved", "concatenated": "concatenated",
        "layout": "sinusoids {layout}", "start": "positions from {first}", "colon": ": ", "semicolon": "; ",
        "note": "Nothing was trained for the change: what comes out may be nonsense, and shows where each convention "
        "matters.",
    },
    "zh": {
        "own": "模型自己的做法", "writes": "写出", "same": "所有的数相差都不到 {least:g}",
        "first": "数值自 {stage} 起不同，相差 {largest}", "shape": "形状不同", "marks": "此后各处至多相差",
        "post": "层归一化在残差相加之后，编码器与解码器末尾不再归一化",
        "pre": "层归一化在子层之前，编码器与解码器末尾各再归一化一次", "nothing": "（空）",
        "interleaved": "正弦与余弦交错", "concatenated": "先排全部正弦，再排全部余弦",
        "StdNorm": "归一化除以（n − 1 的标准差 + ε）", "DeviationNorm": "归一化除以（n 的标准差 + ε）",
        "eps": "ε {eps:g}", "unscaled": "词向量不乘 √d_model",
        "layout": "位置编码{layout}", "start": "位置从 {first} 数起", "colon": "：", "semicolon": "；",
        "note": "权重没有为此重新训练，译文可能毫无意义；这里只看每种约定影响到哪里。",
    },
}  # fmt: skip


def compared_with(model: Path, text: str, names: str, *, lang: str, device: str, as_json: bool) -> list[str]:
    """Return what to print: a text by the model's own ways and by those of other systems, and where they part.

    Args:
        model: a run or model directory.
        text: what to translate.
        names: of the systems, with commas.
        lang: "en" or "zh".
        device: where the model runs.
        as_json: one line of JSON instead.

    Raises:
        ConfigError: the model is none that is compared so.
        typer.BadParameter: there is no such system or language.
    """
    from dragoman.inspector import CONVENTIONS, differences, inspect
    from dragoman.inspector.inspecting import opened

    if lang not in _WORDS:
        raise typer.BadParameter(f"there is no language {lang!r}: en or zh", param_hint="--lang")
    systems = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in systems if name not in CONVENTIONS]
    if unknown or not systems:
        message = f"expected some of {', '.join(CONVENTIONS)}, not {', '.join(unknown) or names!r}"
        raise typer.BadParameter(message, param_hint="--as")
    ready = opened(model, device)  # once for all that is asked of it
    own = inspect(ready, text, views=False, beam_size=1, device=device)
    # Of the same decoder input, so that stages can be compared after the outputs have parted.
    written = own.record["output"]["text"]
    base = inspect(ready, text, written or None, views=False, beam_size=1, device=device)
    told = []
    for name in systems:
        other = inspect(ready, text, written or None, views=False, beam_size=1, convention=name, device=device)
        found = [one for one in differences(base, other) if not one.stage.endswith(".mask")]
        told.append((name, CONVENTIONS[name], other, found))
    if as_json:
        rows = [_row(name, other, found) for name, _, other, found in told]
        tree = {"format": 1, "text": text, "output": written, "systems": rows}
        return [json.dumps(tree, ensure_ascii=False)]
    words = _WORDS[lang]
    lines = [f"{words['own']}{words['colon']}{text} → {written}", words["note"]]
    for name, convention, other, found in told:
        lines += ["", f"{name}{words['colon']}{_ways(convention, words)}", *_lines(other, found, words)]
    return lines


def _row(name: str, other: Inspection, found: list[Difference]) -> dict[str, Any]:
    return {
        "system": name, "output": other.record["output"]["text"],
        "differences": [{"stage": one.stage, "largest": one.largest} for one in found],
    }  # fmt: skip


def _ways(convention: Convention, words: dict[str, str]) -> str:
    """What a system does otherwise than the paper's pre-norm descendants, in a line."""
    parts = [words["post" if convention.post else "pre"]]
    parts += [words[convention.norm.__name__]] if convention.norm else []
    parts += [words["eps"].format(eps=convention.eps)]
    parts += [] if convention.scaled else [words["unscaled"]]
    parts += [words["layout"].format(layout=words[convention.layout])]
    parts += [words["start"].format(first=convention.first)] if convention.first else []
    return words["semicolon"].join(parts)


def _lines(other: Inspection, found: list[Difference], words: dict[str, str]) -> list[str]:
    from dragoman.inspector.conventions import LEAST

    output = f"   {words['writes']}{words['colon']}{other.record['output']['text'] or words['nothing']}"
    if not found:
        return [f"   {words['same'].format(least=LEAST)}", output]
    first = found[0]
    lines = [f"   {words['first'].format(stage=first.stage, largest=_size(first.largest, words))}"]
    known = {one.stage: one.largest for one in found}
    marks = [(stage, known[stage]) for stage in MARKS if stage in known and stage != first.stage]
    if marks:
        width = max(len(stage) for stage, _ in marks)
        lines.append(f"   {words['marks']}{words['colon']}")
        lines += [f"      {stage:{width}}  {_size(largest, words):>10}" for stage, largest in marks]
    return [*lines, output]


def _size(largest: float | None, words: dict[str, str]) -> str:
    return words["shape"] if largest is None else f"{largest:.3g}"
