"""The limits on how many items of a set have the same value of an attribute.

With n_v(S) the number of items of S whose attribute has the value v (a missing value is not counted):

at_most    {attribute: n}            n_v(S) ≤ n for every value v
at_least   {attribute: {value: n}}   n_v(S) ≥ n for the values named
exactly    {attribute: n}            n_v(S) = n for every value v that eligible items have; in ``rank``, that any
                                     candidate has, excluded or not

``LIMITS`` is the only list of them: arguments of ``rank``, queries, their JSON form, slate files, ``setwise verify``
and the search read the meaning of a limit from its entry.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._validation import did_you_mean, whole_number
from setwise.errors import InvalidInput
from setwise.model.attributes import Attributes, Categorical

_TRUTH = {"true": True, "false": False}
Limits = Mapping[str, Mapping[str, Any]]  # by limit, by attribute: a number, or a number by value


@dataclass(frozen=True)
class Limit:
    """A number n for the values of an attribute.

    name      the argument of ``rank`` and ``recommend``, and the key of the JSON form
    by_value  n is given for single values, {attribute: {value: n}}; otherwise for every value, {attribute: n}
    lower     a set has n items of the value or more
    upper     a set has n items of the value or fewer
    """

    name: str
    by_value: bool = False
    lower: bool = False
    upper: bool = False

    @property
    def form(self) -> str:
        """The form of its argument."""
        return "{attribute: {value: n}}" if self.by_value else "{attribute: n}"

    @property
    def example(self) -> str:
        """An argument in this form."""
        return f"{self.name}={{'genre': {{'jazz': 2}}}}" if self.by_value else f"{self.name}={{'artist': 2}}"


LIMITS: dict[str, Limit] = {
    limit.name: limit
    for limit in (
        Limit("at_most", upper=True),
        Limit("at_least", by_value=True, lower=True),
        Limit("exactly", lower=True, upper=True),
    )
}


def checked(given: Mapping[str, Any], attributes: Container[str], known: str) -> dict[str, dict[str, Any]]:
    """The limits with checked forms, attributes and numbers; a limit of None or of no attribute is left out.

    ``known`` lists the attributes in the error for one that is not among them.
    """
    result: dict[str, dict[str, Any]] = {}
    for name, stated in given.items():
        if name not in LIMITS:
            raise InvalidInput(
                "the arguments",
                f"known, as the limits {', '.join(LIMITS)} are",
                repr(name),
                did_you_mean(name, LIMITS) or "drop it",
            )
        limit = LIMITS[name]
        if stated is None:
            continue
        if not isinstance(stated, Mapping) or (
            limit.by_value and not all(isinstance(numbers, Mapping) for numbers in stated.values())
        ):
            raise InvalidInput(name, f"a mapping {limit.form}", repr(stated), f"write {limit.example}")
        for attribute in stated:
            if attribute not in attributes:
                must = f"about attributes the items have ({known or 'none'})"
                todo = did_you_mean(attribute, known.split(", ")) or "use one of those"
                raise InvalidInput(name, must, repr(attribute), todo)
        if stated:
            result[name] = {attribute: _numbers(limit, attribute, one) for attribute, one in stated.items()}
    return result


def _numbers(limit: Limit, attribute: str, stated: Any) -> Any:
    label = f"{limit.name}['{attribute}']"
    if not limit.by_value:
        return whole_number(label, stated)
    return {value: whole_number(f"{label}[{value!r}]", n) for value, n in stated.items()}


def catalog_limits(given: Mapping[str, Any], attributes: Attributes) -> dict[str, dict[str, Any]]:
    """Checked limits for these attributes; texts that name numbers, as the keys of JSON do, become numbers."""
    result = checked(given, attributes, ", ".join(sorted(attributes)))
    for name, stated in result.items():
        for attribute, numbers in stated.items():
            if LIMITS[name].by_value and not isinstance(attributes[attribute], Categorical):
                column, parameter = attributes[attribute], f"{name}['{attribute}']"
                stated[attribute] = {_value(parameter, column, value): n for value, n in numbers.items()}
    return result


def _value(parameter: str, column: Any, value: Any) -> Any:
    """The number that a text names, or the truth value; a whole number is not rounded to a float."""
    if not isinstance(value, str):
        return value
    if column.dtype.kind == "b" and value.lower() in _TRUTH:
        return _TRUTH[value.lower()]
    with suppress(ValueError):  # a float, or no number
        return int(_digits(value))
    try:
        number = float(_digits(value))
    except ValueError:
        must = "about numbers, which the attribute holds"
        raise InvalidInput(parameter, must, repr(value), "pass a number") from None
    return int(number) if number.is_integer() else number


def _digits(value: str) -> str:
    """The text, if it is written as JSON writes numbers; Python would also read "1_0", " 10" and other digits."""
    if "_" in value or not value.isascii() or value != value.strip():
        raise ValueError
    return value


def limits_to_json(limits: Limits) -> dict[str, dict[str, Any]]:
    """Every limit, in JSON's types: values are texts (1 for true), and a limit that is not stated is {}."""
    return {name: {attribute: _plain(one) for attribute, one in limits.get(name, {}).items()} for name in LIMITS}


def _plain(stated: Any) -> Any:
    return {_text(value): int(n) for value, n in stated.items()} if isinstance(stated, Mapping) else int(stated)


def _text(value: Any) -> str:
    """A value as the text that ``_value`` reads."""
    plain = value.item() if isinstance(value, np.generic) else value
    return str(int(plain) if isinstance(plain, bool) else plain)
