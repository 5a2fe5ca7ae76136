"""The page of all settings, in English and in a Chinese frame, out of what the code knows of each.

`make docs` puts it into the guide; `settings_page.py en` prints it. It is not kept in the repository: so it is never
behind the code, of which `dragoman settings` tells the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from dragoman.config import SECTIONS, Setting, all_settings
from dragoman.config.elsewhere import answers

TITLES = {"en": "All settings", "zh": "全部设置"}
INTRODUCTIONS = {
    "en": "What a file of settings (`--config F.toml`) and `--set key=value` take. What is *chosen* is chosen by "
    "`train`, which says so and why. `dragoman settings WORD` finds them on the command line, also by the "
    "names that other "
    "toolkits use, and `dragoman.settings(word)` in Python.",
    "zh": "设置文件（`--config F.toml`）和 `--set 键=值` 接受的全部设置。"
    "标明 *chosen* 的由 `train` 自动选择，并说明选了什么、为什么。"
    "在命令行上用 `dragoman settings 词` 查找（其他工具的叫法也能查），在 Python 里用 `dragoman.settings(word)`。"
    "每项的说明与程序里的相同，为英文。",
}
COLUMNS = {
    "en": ("setting", "default", "meaning", "may be"),
    "zh": ("设置", "默认值", "含义", "取值"),
}
RESUMES = {"en": "may change on resume", "zh": "续训时可以改"}
FLAGS = {"en": "flag", "zh": "选项"}
ELSEWHERE = {"en": "What other toolkits call them", "zh": "其他工具的叫法"}
ELSEWHERE_COLUMNS = {"en": ("there", "here"), "zh": ("别处", "这里")}


def page(language: str) -> str:
    """Return the page in Markdown.

    Args:
        language: "en" or "zh".
    """
    known = list(all_settings())
    lines = [f"# {TITLES[language]}", "", INTRODUCTIONS[language], ""]
    for name, section in SECTIONS.items():
        lines += [f"## {name}", "", (section.__doc__ or "").split("\n")[0], ""]
        lines += [*_table(COLUMNS[language], [_row(one, language) for one in known if one.section == name]), ""]
    renamed = [(name, f"`{one.dotted}`") for one in known for name in one.elsewhere]
    others = [(f"`{name}`", told) for name, told in sorted([*renamed, *answers().items()])]
    lines += [f"## {ELSEWHERE[language]}", "", *_table(ELSEWHERE_COLUMNS[language], others), ""]
    return "\n".join(lines)


def _row(one: Setting, language: str) -> tuple[str, ...]:
    kind = one.expected + (f", {one.unit}" if one.unit else "")
    more = [f"{FLAGS[language]} `{one.flag}`"] if one.flag else []
    more += [RESUMES[language]] if one.changeable else []
    shown = f"*chosen*: {one.chosen}" if one.chosen else f"`{one.shown_default}`"
    return f"`{one.name}`", shown, one.description, "; ".join([kind, *more])


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + " --- |" * len(columns)
    for row in rows:
        # `</s>` and `|` are text here, not marks; what stands as code already is left alone.
        yield "| " + " | ".join(_plain(cell) for cell in row) + " |"


def _plain(cell: str) -> str:
    parts = cell.split("`")
    marks = str.maketrans({"<": "&lt;", "|": "\\|", "_": "\\_", "[": "\\["})
    parts[::2] = [part.translate(marks).replace("**", "\\*\\*") for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    print(page(sys.argv[1]))
