"""The page of all settings has each of them once, in both languages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.config import all_settings

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import settings_page


@pytest.mark.parametrize("language", settings_page.TITLES)
def test_every_setting_is_a_row_of_its_section(language: str) -> None:
    text = settings_page.page(language)
    for one in all_settings():
        if one.section:
            _, _, section = text.partition(f"\n## {one.section}\n")
            section = section.partition("\n## ")[0]
            rows = [line for line in section.split("\n") if line.startswith(f"| `{one.name}` |")]
            assert len(rows) == 1, one.dotted
            assert rows[0].replace("\\|", "").count("|") == 5
    assert "| `fp16` | there is no half precision" in text
    assert "| `lr` | `training.learning_rate` |" in text
