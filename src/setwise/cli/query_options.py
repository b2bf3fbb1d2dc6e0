"""The options of a query as typed: ``--history a,b --where price=..200 --at-most artist=2``.

The catalogue decides what a text means: ids are whole numbers where its ids are; a condition is a range or a number
where the column holds numbers, and a text otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from setwise.errors import InvalidInput
from setwise.model.attributes import Categorical, Strings
from setwise.model.catalog import Catalog
from setwise.model.limits import LIMITS, Limit
from setwise.model.users import User
from setwise.ranking import DEFAULT, RANKERS

Features = Annotated[
    list[str] | None, typer.Option(help="Features of the user, of a model trained with them: size=3,depth=2.")
]
BudgetMs = Annotated[
    float | None, typer.Option(help="Time limit of the request in milliseconds; about 100 by default.")
]
Unknown = Annotated[
    str | None,
    typer.Option(help="History: error, to refuse ids that the catalogue lacks; by default ignore, which reports them."),
]
RankerName = Annotated[
    str | None, typer.Option("--ranker", help=f"One of {', '.join(RANKERS)}; {DEFAULT.name} by default.")
]


def split(texts: Iterable[str]) -> list[str]:
    """``a,b`` and ``c`` as a, b, c."""
    return [one.strip() for text in texts for one in text.split(",") if one.strip()]


def ids(catalog: Catalog, texts: Iterable[str], option: str) -> list[Any]:
    """The texts of this option as ids of the catalogue."""
    if isinstance(catalog.ids.values, Strings):
        return list(texts)
    like = f", as the ids of this catalogue are (such as {catalog.ids[0]})"
    return [_number(f"an id of {option}", one, int, like) for one in texts]


def lines(path: Path) -> list[str]:
    """The lines of a file that are not empty; the way to give ids that contain commas."""
    return [line for line in read_text(path, "--history-file").splitlines() if line.strip()]


def user(path: Path) -> User:
    """A user from a JSON file: {"heads": [[…]], "base": […]}, or only the vector or matrix of heads."""
    text = read_text(path, "--user-json")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        todo = 'write the user as {"heads": [[…]], "base": […]}'
        raise InvalidInput("--user-json", "a file of JSON", path.name, todo) from None
    parts = content if isinstance(content, dict) else {"heads": content}
    if "heads" not in parts or not parts.keys() <= {"heads", "base"}:
        raise InvalidInput(
            "--user-json", "an object with heads, and base if the catalogue has one", list(parts), "rename the keys"
        )
    return User(parts["heads"], parts.get("base"))


def features(texts: Iterable[str]) -> dict[str, float]:
    """Features by name; those that are not named are missing."""
    pairs = (_pair("--features", text, "size=3,depth=2") for text in split(texts))
    return {name: _number(f"--features {name}", value, float) for name, value in pairs}


def where(catalog: Catalog, texts: Iterable[str]) -> dict[str, Any]:
    """Conditions by attribute; several conditions on one attribute are alternatives."""
    given: dict[str, list[str]] = {}
    for text in texts:
        name, value = _pair("--where", text, "city=Rome or price=..200")
        given.setdefault(name, []).append(value)
    return {name: _condition(catalog, name, values) for name, values in given.items()}


def limits(**texts: list[str] | None) -> dict[str, Any]:
    """The limits as arguments of ``recommend``, from the texts of the options with the same names."""
    return {name: _limit(LIMITS[name], given or ()) for name, given in texts.items()}


def _limit(limit: Limit, texts: Iterable[str]) -> dict[str, Any]:
    """Numbers by attribute, ``artist=2``, or by attribute and value, ``genre=jazz:2``."""
    option, result = f"--{limit.name.replace('_', '-')}", dict[str, Any]()
    for text in texts:
        name, stated = _pair(option, text, "genre=jazz:2" if limit.by_value else "artist=2")
        if not limit.by_value:
            result[name] = _number(f"{option} {name}", stated, int)
            continue
        value, colon, number = stated.rpartition(":")
        if not (colon and value.strip()):
            todo = "write an attribute, =, a value, : and a number"
            raise InvalidInput(option, "like genre=jazz:2", repr(text), todo)
        result.setdefault(name, {})[value.strip()] = _number(f"{option} {name}", number, int)
    return result


def _condition(catalog: Catalog, name: str, values: list[str]) -> Any:
    try:
        column = catalog.attributes[name]
    except InvalidInput as error:
        raise error.about("an attribute of --where") from None
    if isinstance(column, Categorical):
        return values if len(values) > 1 else values[0]
    if len(values) == 1 and ".." in values[0]:
        ends = values[0].split("..", 1)
        low, high = (_number(f"--where {name}", end, float) if end.strip() else None for end in ends)
        if low is not None and high is not None and low > high:
            raise InvalidInput(f"--where {name}", "a range from low to high", repr(values[0]), "exchange its ends")
        return low, high
    return [_number(f"--where {name}", value, float) for value in values]


def _pair(option: str, text: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise InvalidInput(option, f"like {example}", repr(text), "write an attribute, =, and a value")
    return name.strip(), value.strip()


def _number(name: str, text: str, kind: type[int] | type[float], more: str = "") -> Any:
    try:
        return kind(text)
    except ValueError:
        must = "a whole number" if kind is int else "a number, or a range such as 50..200"
        raise InvalidInput(name, must + more, repr(text), "check its spelling") from None


def read_text(path: Path, option: str) -> str:
    """The text of a file in UTF-8 that this option names."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InvalidInput(option, "a text file that can be read", f"{path} ({reason})", "check the path") from None
