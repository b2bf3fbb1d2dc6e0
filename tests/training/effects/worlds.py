"""The worlds of experiments/effect_worlds.py, for tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "experiments"))

from effect_worlds import FORMS, Log, World, four_of_category, nothing, same_category

__all__ = ["FORMS", "Log", "World", "four_of_category", "nothing", "same_category"]
