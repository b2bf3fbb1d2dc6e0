"""Texts of a query: ids, conditions and numbers that were typed on the command line or stand in a table of users.

The catalogue decides what a text means: ids are whole numbers where its ids are; a condition is a range or a number
where the column holds numbers, and a text otherwise. ``parameter`` is what errors name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from setwise.errors import InvalidInput
from setwise.model.attributes import Categorical, Strings
from setwise.model.catalog import Catalog
from setwise.model.truth import truth_of


def split(texts: Iterable[str], separator: str = ",") -> list[str]:
    """``a,b`` and ``c`` as a, b, c."""
    return [part.strip() for text in texts for part in text.split(separator) if part.strip()]


def ids(catalog: Catalog, texts: Iterable[str], parameter: str) -> list[Any]:
    """The texts as ids of the catalogue."""
    if isinstance(catalog.ids.values, Strings):
        return list(texts)
    like = f", as the ids of this catalogue are (such as {catalog.ids[0]})"
    return [number(f"an id of {parameter}", text, int, like) for text in texts]


def condition(catalog: Catalog, name: str, texts: Sequence[str], parameter: str) -> Any:
    """Alternatives for one attribute as ``where`` takes them: a text, a number, or a range such as 50..200."""
    try:
        column = catalog.attributes[name]
    except InvalidInput as error:
        raise error.about(f"an attribute of {parameter}") from None
    if isinstance(column, Categorical):
        return list(texts) if len(texts) > 1 else texts[0]
    about = f"{parameter} {name}"
    if column.dtype.kind == "b":
        return [_truth(about, text) for text in texts]
    if len(texts) > 1 and any(".." in text for text in texts):
        raise InvalidInput(about, "one range, or numbers", " and ".join(map(repr, texts)), "give a single range")
    if len(texts) == 1 and ".." in texts[0]:
        ends = texts[0].split("..", 1)
        low, high = (number(about, end, float) if end.strip() else None for end in ends)
        if low is not None and high is not None and low > high:
            raise InvalidInput(about, "a range from low to high", repr(texts[0]), "exchange its ends")
        return low, high
    return [number(about, text, float) for text in texts]


def _truth(parameter: str, text: str) -> bool:
    """The truth value that a text names."""
    truth = truth_of(text)
    if truth is None:
        raise InvalidInput(parameter, "yes or no, as the attribute holds truth values", repr(text), "name one of them")
    return truth


def number(parameter: str, text: str, kind: type[int] | type[float], more: str = "") -> Any:
    """The text as a number of this kind."""
    try:
        return kind(text)
    except ValueError:
        must = "a whole number" if kind is int else "a number, or a range such as 50..200"
        raise InvalidInput(parameter, must + more, repr(text), "check its spelling") from None
