"""Recipes are scripts: what runs them is found in their folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "recipes"))
