"""Whom the guide and the docstrings name stands in the references, and in both languages alike."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFERENCES = (ROOT / "docs/en/references.md").read_text(encoding="utf-8")
NAME = r"[A-Z]\w+"
CITED = re.compile(rf"\b({NAME})(?: et al\.|,? and {NAME})?,? \(?((?:19|20)\d\d)\b(?!-)")
NO_AUTHORS = {
    "ACL", "CMUdict", "January", "May", "June", "July", "November", "PRONASYL", "SIGMORPHON", "WMT", "Xeon", "NeurIPS",
    "Flickr",
}  # fmt: skip


def cited(text: str) -> set[tuple[str, str]]:
    """The first author that is named right before a year, and the year."""
    return {(name, year) for name, year in CITED.findall(" ".join(text.split())) if name not in NO_AUTHORS}


def test_every_article_that_is_named_is_listed() -> None:
    pages = [*sorted((ROOT / "docs/en").glob("*.md")), *sorted((ROOT / "src").rglob("*.py")), ROOT / "README.md"]
    found = {one for page in pages for one in cited(page.read_text(encoding="utf-8"))}
    assert {("Khandelwal", "2021"), ("Kudo", "2018"), ("Titov", "2019"), ("Devlin", "2019")} <= found
    entries = re.split(r"[;|]", REFERENCES)
    missing = [(name, year) for name, year in sorted(found) if not any(name in one and year in one for one in entries)]
    assert missing == []


def test_the_file_for_citing_agrees_with_the_package() -> None:
    lines = [line.strip() for line in (ROOT / "CITATION.cff").read_text(encoding="utf-8").split("\n")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {f"version: {project['version']}", f"license: {project['license']}"} <= set(lines)
    assert [line for line in lines if line.startswith("- name: ")] == [
        f"- name: {one['name']}" for one in project["authors"]
    ]
