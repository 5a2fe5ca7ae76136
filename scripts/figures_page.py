"""The page of all figures, to project in a lesson: those of the chapters in their order, each with what it shows.

`make docs` puts it into the guide; `figures_page.py en` prints it. It is not kept in the repository: the chapters say
which figures there are.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
TITLES = {"en": "All figures", "zh": "全部插图"}
INTRODUCTIONS = {
    "en": "The figures of the chapters in their order, to project in a lesson: each with what it shows, a link to the "
    "place where it is explained, and a file of its own, which any browser shows as large as the wall.",
    "zh": "各章的插图，按顺序排列，供上课投影：每幅都写明内容，附有讲解处的链接；"
    "每幅都是单独的文件，任何浏览器都能放大到整面墙。",
}
PICTURE = re.compile(r"^!\[([^\]]+)\]\(\.\./images/([\w.-]+)\)$", re.MULTILINE)


def page(language: str) -> str:
    """Return the page in Markdown.

    Args:
        language: "en" or "zh".
    """
    lines, seen = [f"# {TITLES[language]}", "", INTRODUCTIONS[language], ""], set()
    for chapter in sorted((DOCS / language).glob("[01][0-9]-*.md")):
        text = chapter.read_text(encoding="utf-8")
        figures = [(told, file) for told, file in PICTURE.findall(text) if file not in seen]
        seen.update(file for _, file in figures)
        if figures:
            lines += [f"## {text.partition(chr(10))[0].removeprefix('# ')}", ""]
        for told, file in figures:
            lines += [
                f"[![{told}](../images/{file})](../images/{file})",
                "",
                f"{told} ([{chapter.stem[:2]}]({chapter.name}))",
                "",
            ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(sys.argv[1]))
