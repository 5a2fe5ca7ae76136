"""Draw the architecture of the demo's model for README and guide, in both languages: docs/images/architecture.LANG.svg.

The files are kept in the repository; a test compares them with what is drawn now.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dragoman.demo.show import demo_config
from dragoman.inspection import draw_architecture, explain_config

IMAGES = Path(__file__).parents[1] / "docs" / "images"
LANGUAGES = ("en", "zh")
# Of the demo's tokenizers; 猫吃鱼 </s> and <s> Cats eat fish.
VOCABULARIES = {"source_vocab": 215, "target_vocab": 1599}
LENGTHS = {"src": 4, "tgt": 4}


def draw(directory: Path) -> list[Path]:
    """Write the figures into a directory, and return their paths."""
    config = demo_config(Path("runs/demo"), Path("corpus")).model.replace(VOCABULARIES)
    plan = explain_config(config, **LENGTHS)
    return [
        draw_architecture(plan, directory / f"architecture.{language}.svg", lang=language).path
        for language in LANGUAGES
    ]


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES):
        print(path)
