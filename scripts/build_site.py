"""Build the whole site: the guide in English and in Chinese, each with its own search, and the API reference.

    python scripts/build_site.py FOLDER [--without-reference] [--model runs/demo]

The pages of `docs/` stay plain Markdown. What a reader of the site has besides is added here: the same anchors in both
languages, a switch to the same page in the other one, formulas as MathML, and an index that finds Chinese words.
English is at the root, Chinese under `zh/`; `FOLDER/site` has both.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import api_reference
import figures_page
import glossary
import modules_page
import notebooks
import settings_page
import yaml
from latex2mathml.converter import convert
from markdown.extensions.toc import slugify

ROOT = Path(__file__).resolve().parents[1]
DOCS, THEME = ROOT / "docs", ROOT / "scripts" / "theme"
LANGUAGES = {"en": "English", "zh": "中文"}
# Pages that are written when the site is built.
WRITTEN = {"figures": figures_page, "modules": modules_page, "settings": settings_page}
REFERENCE = {"en": "API reference", "zh": "API 参考（英文）"}
DEMO = {"en": "A model from inside: 猫吃鱼", "zh": "从内部看模型：猫吃鱼"}
NOTEBOOK = {"en": "This chapter as a notebook", "zh": "本章的笔记本"}
PALETTE = {"en": ("Dark mode", "Light mode"), "zh": ("深色模式", "浅色模式")}
DESCRIPTION = {
    "en": "A walk through the Transformer, from one-hot vectors to a model that translates",
    "zh": "从独热向量到会翻译的模型：一步步走过 Transformer",
}
FENCE = re.compile(r"^(`{3,}|~{3,})(\w*)\n(.*?)^\1\n", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{1,6}) +(.+?) *$")
MARKUP = re.compile(r"`|\*\*|(?<!\w)[*_]|[*_](?!\w)|!?\[([^\]]*)\]\([^)]*\)")
HAN = "\u3400-\u9fff"
CHINESE = re.compile(rf"[{HAN}]+")
LONGEST_TERM = 8  # characters of a Chinese word that the search finds
TAGS = re.compile(r"<[^>]+>")
# The theme's own words that its translations lack, as its script has them.
SCRIPT = {'placeholder:"Search"': 'placeholder:"搜索"', '" ","results"]': '" 条结果"]'}
DOTTED = re.compile(r"<code>((?:[a-z_]+\.)+\w+)</code>")


def headings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of the line and the text of each heading outside of fences."""
    inside = ""
    for number, line in enumerate(text.split("\n")):
        fence = re.match(r"`{3,}|~{3,}", line)
        if fence and (not inside or line.strip() == inside):
            inside = "" if inside else fence[0]
        elif not inside and (found := HEADING.match(line)):
            yield number, found[2]


def anchors(text: str) -> list[str]:
    """Return the anchors of a page's headings, which are those of its English edition."""
    found: list[str] = []
    for _, title in headings(text):
        plain = slugify(MARKUP.sub(lambda match: match[1] or "", title), "-") or "section"
        count = sum(one == plain or re.fullmatch(rf"{re.escape(plain)}_\d+", one) is not None for one in found)
        found.append(f"{plain}_{count}" if count else plain)
    return found


def with_anchors(text: str, ids: list[str]) -> str:
    """Return a page whose headings have these anchors."""
    lines = text.split("\n")
    for (number, _), anchor in zip(headings(text), ids, strict=True):
        lines[number] = f"{lines[number].rstrip()} {{#{anchor}}}"
    return "\n".join(lines)


def with_formulas(text: str) -> str:
    """Return a page whose fences of `math` are MathML: every line of LaTeX is a formula of its own."""

    def typeset(fence: re.Match[str]) -> str:
        if fence[2] != "math":
            return fence[0]
        formulas = [convert(line, display="block") for line in fence[3].split("\n") if line.strip()]
        return f'<div class="formula">{"".join(formulas)}</div>\n'

    return FENCE.sub(typeset, text)


def address(page: str, language: str) -> str:
    """Return where the site has a page of the guide, from its root: `en/07-masks/`, or `` for the first page."""
    own = "" if page == "index" else f"{page}/"
    return f"zh/{own}" if language == "zh" else f"en/{own}" if own else ""


def site_page(text: str, page: str, language: str, english: str) -> str:
    """Return the source of a page as the site wants it.

    Args:
        text: the page as `docs/` has it.
        page: its name without the suffix.
        language: "en" or "zh".
        english: the English edition, which gives the anchors.
    """
    other = "en" if language == "zh" else "zh"
    twin = os.path.relpath("/" + address(page, other), "/" + address(page, language)) + "/"
    text = re.sub(r"^\[(?:中文|English)\]\([^)]*\)\n\n", "", text, count=1, flags=re.MULTILINE)
    if language == "zh":
        text = text.replace("(../images/", "(images/")
    if glossary.CHAPTER.match(page):
        text = glossary.with_links(text, glossary.terms(DOCS / language / "glossary.md"), "glossary.md")
        link = f'<a class="notebook" href="../notebooks/{language}/{page}.ipynb" download>{NOTEBOOK[language]}</a>'
        title, _, rest = text.partition("\n\n")
        text = f"{title}\n\n{link}\n\n{rest}"
    return f"---\ntwin: {twin}\n---\n\n{with_formulas(with_anchors(text, anchors(english)))}"


def write_language(folder: Path, language: str, settings: dict[str, Any]) -> None:
    """Write the sources of one language: `mkdocs.yml`, `docs/` and the theme."""
    docs = write_frame(folder, settings)
    shutil.copytree(DOCS / "images", docs / "images")
    pages = {path.stem: path for path in (DOCS / language).glob("*.md")} | {"index": _index(language)}
    for page, path in pages.items():
        english = _index("en") if page == "index" else DOCS / "en" / path.name
        target = docs / ("en" if language == "en" and page != "index" else "") / f"{page}.md"
        target.parent.mkdir(exist_ok=True)
        text = site_page(path.read_text(encoding="utf-8"), page, language, english.read_text(encoding="utf-8"))
        target.write_text(text, encoding="utf-8")
    for name, written in WRITTEN.items():
        target = docs / ("en" if language == "en" else "") / f"{name}.md"
        target.write_text(site_page(written.page(language), name, language, written.page("en")), encoding="utf-8")


def write_frame(folder: Path, settings: dict[str, Any]) -> Path:
    """Write what every part of the site has, `mkdocs.yml` and the theme, and return the folder for its pages."""
    docs = folder / "docs"
    docs.mkdir(parents=True)
    shutil.copytree(THEME, folder / "theme")
    for name in ("guide.css", "guide.js"):
        shutil.copy(THEME / name, docs)
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return docs


def _index(language: str) -> Path:
    return DOCS / "index.md" if language == "en" else DOCS / "zh" / "index.md"


def language_settings(language: str, reference: bool, demo: bool = False) -> dict[str, Any]:
    """Return the settings of one language's site out of `mkdocs.yml`."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    (part,) = (part for part in settings["nav"] if next(iter(part)) == {"en": "The guide", "zh": "指南"}[language])
    (pages,) = part.values()
    code = pages[-1][next(iter(pages[-1]))]
    code += [{written.TITLES[language]: f"{language}/{name}.md"} for name, written in WRITTEN.items()]
    nav = _each(pages, lambda path: path.removeprefix("zh/"))
    other = "en" if language == "zh" else "zh"
    root = "../" if language == "zh" else ""
    links = [(REFERENCE, "api/index.html")] * reference + [(DEMO, "demo.html")] * demo
    extra = {
        "alternate": [{"name": name, "link": "/", "lang": one} for one, name in LANGUAGES.items()],
        "other": {"language": other, "name": LANGUAGES[other]},
        "everywhere": [{"name": names[language], "to": root + to} for names, to in links],
    }
    dark, light = PALETTE[language]
    palette = [
        {
            "media": "(prefers-color-scheme: light)",
            "scheme": "default",
            "toggle": {"icon": "lucide/moon", "name": dark},
        },
        {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "toggle": {"icon": "lucide/sun", "name": light}},
    ]
    theme = {**settings["theme"], "language": language, "palette": palette, "custom_dir": "theme"}
    return {
        **settings,
        "site_description": DESCRIPTION[language],
        "theme": theme,
        "markdown_extensions": ["attr_list", "meta", *settings["markdown_extensions"]],
        "extra": extra,
        "extra_css": ["guide.css"],
        "extra_javascript": [{"path": "guide.js", "type": "module"}],
        "nav": nav,
        "plugins": ["search"],
    }


def _each(tree: Any, change: Any) -> Any:
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, list):
        return [_each(one, change) for one in tree]
    return {name: _each(one, change) for name, one in tree.items()}


def searchable(text: str) -> str:
    """Return what the search reads of a section: its words, and every beginning of a Chinese word.

    The search finds terms by how they begin, and nothing in Chinese says where a word does. So each character begins a
    term, which goes on for some characters more.
    """
    plain = " ".join(html.unescape(TAGS.sub(" ", text)).split())

    def beginnings(run: re.Match[str]) -> str:
        return " " + " ".join(run[0][start : start + LONGEST_TERM] for start in range(len(run[0]))) + " "

    return CHINESE.sub(beginnings, plain)


def finish(site: Path, part: str) -> None:
    """Let the search find Chinese words, the interface be Chinese, and long dotted names break at their dots."""
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    explained = {}
    for term in glossary.terms(DOCS / part / "glossary.md") if part in LANGUAGES else []:
        where = address(term.page, part).removeprefix("zh/") + "#" + term.section
        explained[where] = f"{explained.get(where, '')} {term.word} {term.other}"
    for item in index["items"]:
        # What stands first counts most, after titles: the words that a section explains.
        item["text"] = searchable(f"{explained.get(item['location'], '')} {item['title']} {item['text']}")
    (site / "search.json").write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")
    if part == "zh":
        (script,) = site.glob("assets/javascripts/bundle.*.js")
        text = script.read_text(encoding="utf-8")
        for known, chinese in SCRIPT.items():
            if known not in text:
                raise SystemExit(
                    f"the theme's script no longer has {known}: look for its words that are not translated"
                )
            text = text.replace(known, chinese)
        script.write_text(text, encoding="utf-8")
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        changed = DOTTED.sub(lambda name: f"<code>{name[1].replace('.', '.<wbr>')}</code>", text)
        if changed != text:
            path.write_text(changed, encoding="utf-8")


def build(folder: Path, reference: bool = True, model: Path | None = None) -> Path:
    """Build the site and return its folder.

    Args:
        folder: where to work; what an earlier call left there is replaced.
        reference: whether the API reference is built too, which takes the most time.
        model: a trained demo, for a page on which it translates 猫吃鱼.
    """
    parts = [*LANGUAGES, *(["api"] if reference else [])]
    for part in parts:
        shutil.rmtree(folder / part, ignore_errors=True)
        if part == "api":
            write_reference(folder / part)
        else:
            write_language(folder / part, part, language_settings(part, reference, model is not None))
        run_zensical(folder / part)
        finish(folder / part / "site", part)
    site = folder / "site"
    shutil.rmtree(site, ignore_errors=True)
    for part in parts:
        (folder / part / "site").rename(site / ("" if part == "en" else part))
    notebooks.write_notebooks(site / "notebooks")
    if model is not None:
        write_demo(model, site / "demo.html")
    return site


def write_demo(model: Path, path: Path) -> None:
    """Write the inspector's page of 猫吃鱼, which needs nothing else."""
    import dragoman
    from dragoman.inspector import offline_page

    path.write_text(offline_page(dragoman.inspect(model, "猫吃鱼"), parameters=False), encoding="utf-8")


def write_reference(folder: Path) -> None:
    """Write the sources of the API reference."""
    settings = api_reference.reference_settings(language_settings("en", reference=False), folder)
    settings["extra"]["everywhere"] = [{"name": "The guide", "to": "../index.html"}]
    api_reference.write_reference(write_frame(folder, settings))


def run_zensical(folder: Path) -> None:
    """Build the sources in a folder, and pass on what there is to complain of."""
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file"]
    done = subprocess.run([*command, folder / "mkdocs.yml"], capture_output=True, text=True, check=False)
    told = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(told)
    if folder.name == "api":
        print(told, file=sys.stderr)


if __name__ == "__main__":
    given = argparse.ArgumentParser()
    given.add_argument("folder", type=Path)
    given.add_argument("--without-reference", action="store_true")
    given.add_argument("--model", type=Path)
    chosen = given.parse_args()
    print(build(chosen.folder.resolve(), not chosen.without_reference, chosen.model))
