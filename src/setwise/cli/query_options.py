"""The options of a query as typed: ``--history a,b --where price=..200 --at-most artist=2``.

``recommend/query_texts.py`` has what the single texts mean.
"""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.limits import LIMITS, Limit
from setwise.model.sums import SUMS
from setwise.model.users import User
from setwise.ranking import DEFAULT, RANKERS
from setwise.recommend.arguments import ARGUMENTS, OPTIONS
from setwise.recommend.query_texts import condition, ids, number, split

SOME_IDS = 1000  # among which two are looked for as an example

FORMS = {  # how an option is written, where its meaning does not say it
    "where": "A condition: city=Rome or price=50..200. Conditions on one attribute are alternatives.",
    "at_most": "A limit: artist=2 allows at most two items of one artist.",
    "at_least": "A lower limit: genre=jazz:2 requires two items of jazz.",
    "exactly": "A number of each: site=1 requires one item of every site.",
    "sum_at_most": "A limit on a sum: price=100 allows items of at most 100 together.",
    "sum_at_least": "A lower limit on a sum: protein=30 requires items of 30 together.",
    "weights": "An attribute's name, such as margin: what a unit of each item's reward is worth.",
    "ranker": f"One of {', '.join(RANKERS)}; {DEFAULT.name} by default.",
}
Command = TypeVar("Command", bound=Callable[..., Any])
SlateSize = Annotated[int, typer.Option("--k", min=1, help=ARGUMENTS["k"].meaning)]


def with_arguments(*left_out: str, **defaults: Any) -> Callable[[Command], Command]:
    """Give a command of ``**texts`` an option for every argument of a request that it does not name itself.

    ``left_out`` are the arguments that it cannot have, and ``defaults`` those that are others here.
    """

    def optioned(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        static = [
            parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
        ]
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, ARGUMENTS[name].default if name in ("k", "filter_seen") else None),
                annotation=_option(name),
            )
            for name in OPTIONS
            if name not in signature.parameters and name not in left_out
        ]
        command.__signature__ = signature.replace(parameters=[*static, *added])  # type: ignore[attr-defined]
        return command

    return optioned


def _option(name: str) -> Any:
    """The option of an argument, as typer reads it: a number or a switch as it is, all else as texts."""
    if name == "k":
        return SlateSize
    if name == "weights":
        return Annotated[str | None, typer.Option(help=FORMS[name])]
    kind, text = ARGUMENTS[name].type, typer.Option(help=FORMS.get(name, ARGUMENTS[name].meaning))
    if kind in (bool, bool | None):
        flag = name.replace("_", "-")
        text = typer.Option(f"--{flag}/--no-{flag}", help=ARGUMENTS[name].meaning)
        return Annotated[kind, text]
    plain = next((type_ for type_ in (int, float, str) if kind in (type_, type_ | None)), None)
    return Annotated[list[str] | None, text] if plain is None else Annotated[plain | None, text]


def arguments(catalog: Callable[[], Catalog], texts: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a request from options as typed; those that were not typed are left out."""
    stated: dict[str, Any] = {}
    for name, typed in texts.items():
        if typed is None or typed == []:
            continue
        if name == "where":
            stated[name] = where(catalog(), typed)
        elif name in SUMS:
            stated[name] = sums(name, typed)
        elif name == "weights":
            stated[name] = typed
        elif name in LIMITS:
            stated |= limits(**{name: typed})
        elif isinstance(typed, list):
            stated[name] = ids(catalog(), split(typed), f"--{name.replace('_', '-')}")
        else:
            stated[name] = typed
    return stated


def lines(path: Path) -> list[str]:
    """The lines of a file that are not empty; the way to give ids that contain commas."""
    return [line for line in read_text(path, "--history-file").split("\n") if line.strip()]


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
    result: dict[str, float] = {}
    for text in split(texts):
        name, value = pair("--features", text, "size=3,depth=2")
        require_new("--features", name, result)
        result[name] = number(f"--features {name}", value, float)
    return result


def where(catalog: Catalog, texts: Iterable[str]) -> dict[str, Any]:
    """Conditions by attribute; several conditions on one attribute are alternatives."""
    conditions: dict[str, list[str]] = {}
    for text in texts:
        name, value = pair("--where", text, "city=Rome or price=..200")
        conditions.setdefault(name, []).append(value)
    return {name: condition(catalog, name, values, "--where") for name, values in conditions.items()}


def limits(**texts: list[str] | None) -> dict[str, Any]:
    """The limits as arguments of ``recommend``, from the texts of the options with the same names."""
    return {name: _limit(LIMITS[name], typed or ()) for name, typed in texts.items()}


def sums(name: str, texts: Iterable[str]) -> dict[str, float]:
    """A limit on a sum by attribute: ``price=100``."""
    option, result = f"--{name.replace('_', '-')}", dict[str, float]()
    for text in texts:
        attribute, stated = pair(option, text, "price=100")
        require_new(option, attribute, result)
        result[attribute] = number(f"{option} {attribute}", stated, float)
    return result


def _limit(limit: Limit, texts: Iterable[str]) -> dict[str, Any]:
    """Numbers by attribute, ``artist=2``, or by attribute and value, ``genre=jazz:2``."""
    option, result = f"--{limit.name.replace('_', '-')}", dict[str, Any]()
    for text in texts:
        name, stated = pair(option, text, "genre=jazz:2" if limit.by_value else "artist=2")
        if not limit.by_value:
            require_new(option, name, result)
            result[name] = number(f"{option} {name}", stated, int)
            continue
        value, colon, count = stated.rpartition(":")
        if not (colon and value.strip()):
            todo = "write an attribute, =, a value, : and a number"
            raise InvalidInput(option, "like genre=jazz:2", repr(text), todo)
        require_new(f"{option} {name}", value.strip(), result.setdefault(name, {}))
        result[name][value.strip()] = number(f"{option} {name}", count, int)
    return result


def require_new(option: str, name: str, before: dict[str, Any]) -> None:
    """Refuse a second value for the same: the first one would have no effect."""
    if name in before:
        raise InvalidInput(option, "given once for each name", f"{name} twice", "keep one of them")


def pair(option: str, text: str, example: str) -> tuple[str, str]:
    """``name=value`` as the two."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise InvalidInput(option, f"like {example}", repr(text), "write an attribute, =, and a value")
    return name.strip(), value.strip()


def example_history(catalog: Catalog) -> str:
    """An option with two ids of the catalogue, as a shell takes it; ``--history`` cannot name ids with commas."""
    few = map(str, catalog.ids[:SOME_IDS].tolist())
    named = [id_ for id_ in few if split([id_]) == [id_]][:2]
    return f"--history {shlex.quote(','.join(named))}" if named else "--history-file FILE"


def read_text(path: Path, option: str) -> str:
    """The text of a file in UTF-8 that this option names, without the byte order mark of a spreadsheet or editor."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InvalidInput(option, "a text file that can be read", f"{path} ({reason})", "check the path") from None
