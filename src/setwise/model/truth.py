"""Truth values in conditions: a column of truth values takes yes and no, one of yes and no takes truth values.

The words come in pairs, in any case. A column of texts is one of truth values if all of its values are of one pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

PAIRS = (("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"), ("off", "on"), ("0", "1"))
_WORDS = {word: bool(number) for pair in PAIRS for number, word in enumerate(pair)}


def truth_of(word: Any) -> bool | None:
    """The truth value that a word names; None for other texts and values."""
    return _WORDS.get(word.strip().lower()) if isinstance(word, str) else None


def is_truth(value: Any) -> bool:
    """Whether a value is a truth value."""
    return isinstance(value, (bool, np.bool_))


def texts_of_truth(values: Iterable[str], wanted: Iterable[Any]) -> list[str] | None:
    """The texts of a column that mean the wanted truth values; None unless all its texts are of one pair."""
    texts, asked = list(values), {bool(value) for value in wanted}
    for pair in PAIRS:
        if texts and {text.strip().lower() for text in texts} <= set(pair):
            return [text for text in texts if truth_of(text) in asked]
    return None
