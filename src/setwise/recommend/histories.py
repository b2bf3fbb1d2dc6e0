"""Lists of ids as they come in production: with items that were delisted, or that this catalogue never had.

In histories, exclusions and scores such ids are left out by default and reported in ``Slate.ignored``, because a ranker
is always ahead of the index; with ``unknown="error"`` they are refused. In a history, an item that was removed from the
index is unknown from then on, not only once the index is compacted. Ids of another type than the catalogue's are
refused in any case, and so are unknown ids that a slate must contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from setwise._types import Rows
from setwise.errors import InvalidInput, UnknownId
from setwise.model.catalog import Catalog
from setwise.model.ids import IdChoice
from setwise.recommend.arguments import ERROR, IGNORE

_NONE: Rows = np.zeros(0, np.intp)


class Seen(NamedTuple):
    """A user, the rows of the items that the user has seen, and the ids of the history that are unknown."""

    user: Any
    rows: Rows = _NONE
    ignored: tuple[Any, ...] = ()


def refuses_unknown(unknown: str) -> bool:
    """Whether unknown ids are refused, rather than left out and reported."""
    if unknown not in (IGNORE, ERROR):
        raise InvalidInput("unknown", f"'{IGNORE}' or '{ERROR}'", repr(unknown), "choose one of the two")
    return unknown == ERROR


def known_items(
    catalog: Catalog, parameter: str, ids: IdChoice, unknown: str, removed: Rows = _NONE
) -> tuple[Rows, tuple[Any, ...]]:
    """The rows of these ids, and those that the catalogue does not have; it has no ``removed`` rows any more.

    Errors name the parameter that has the ids.
    """
    refused = refuses_unknown(unknown)
    with _about(parameter):
        rows, others = catalog.ids.known_rows(ids, removed)
        if others and refused:
            catalog.rows_of(others)  # raises, unless all of them were removed
            raise UnknownId("id", "one of the known ids", repr(others[0]), "it was removed from the index")
    return rows, tuple(others)


def reported(parameter: str, strange: Iterable[Any], unknown: str) -> tuple[Any, ...]:
    """Ids that no shard of a cluster has, to be reported; or refuse the first of them."""
    ignored = tuple(strange)
    if ignored and refuses_unknown(unknown):
        raise UnknownId(f"an id of {parameter}", "one of the catalogue", repr(ignored[0]), "check it")
    return ignored


def rows_named(catalog: Catalog, parameter: str, ids: IdChoice) -> Rows:
    """The rows of these ids; an error names the parameter that has them."""
    with _about(parameter):
        return catalog.rows_of(ids)


@contextmanager
def _about(parameter: str) -> Iterator[None]:
    try:
        yield
    except UnknownId as error:
        raise error.about(f"an id of {parameter}") from None
    except InvalidInput as error:
        raise error.about(parameter) from None
