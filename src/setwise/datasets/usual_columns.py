"""Columns of tables by their usual names: the one list of guesses that ``read`` and all commands share.

A column that is not given is the first of these names that the table has, ignoring case and underscores: "OrderID" is
``order_id``. No other names are guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from setwise.errors import InvalidInput

WHOLE_SETS = ("set", "set_id", "variant", "variant_id", "bundle", "bundle_id")  # their outcome is one of all items
USUAL: Mapping[str, Sequence[str]] = {
    "session": ("session", "session_id", "playlist", "playlist_id", "pid", "basket", "basket_id", "order", "order_id",
                "receipt", "receipt_id", "invoice", "invoice_no", "transaction", "transaction_id", "visit", "visit_id",
                "user", "user_id", "customer", "customer_id", "visitor", "visitor_id"),
    "item": ("item", "item_id", "items", "track", "track_id", "track_uri", "tracks", "song", "song_id", "product",
             "product_id", "sku", "stock_code", "asin", "movie", "movie_id", "article", "article_id"),
    "time": ("time", "timestamp", "datetime", "date", "invoice_date", "event_time", "created_at"),
    "slate": ("slate", "slate_id", "impression", "impression_id", "request", "request_id", "list", "list_id"),
    "outcome": ("outcome", "clicked", "click", "is_click", "purchased", "bought", "converted", "reward", "label"),
    "position": ("position", "pos", "slot", "rank"),
    "explored": ("explored", "is_explored", "randomised", "randomized"),
    "propensity": ("propensity", "logging_propensity"),
    "ordered": ("ordered",),
    "quantity": ("quantity", "qty"),
    "set": (*WHOLE_SETS, "slate", "slate_id"),
    "case": ("case", "case_id", "instance", "instance_id", "problem", "problem_id", "session", "session_id"),
}  # fmt: skip


def usual_column(role: str, columns: Sequence[str]) -> str | None:
    """The first of the usual names of this role that is a column."""
    plain = {_plain(name): name for name in reversed(columns)}
    return next((plain[name] for usual in USUAL[role] if (name := _plain(usual)) in plain), None)


def whole_set(columns: Sequence[str]) -> str | None:
    """The column of whole sets, if one has such a name."""
    return next((name for name in columns if _plain(name) in map(_plain, WHOLE_SETS)), None)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def missing_column(
    parameter: str, path: Path, columns: Sequence[str], todo: str | None = None, role: str | None = None
) -> InvalidInput:
    """The error for a table in which no column has a usual name of this role, by default that of the parameter."""
    names = f"name the column: {parameter}=... in Python, --{parameter} on the command line"
    baskets = "or baskets=True, --baskets, if there is no header and every line is a basket"
    remedy, whole = todo or f"{names}; {baskets}", whole_set(columns)
    if parameter == "session" and whole is not None:
        remedy = (
            f"name the column with --session; or, where each '{whole}' has one outcome as a whole, with --set {whole}"
        )
    if len(columns) == 1:
        remedy = "the header is one column: pass delimiter (--delimiter); or baskets=True (--baskets) if it is a basket"
    must = f"given where no column has a usual name ({', '.join(USUAL[role or parameter])})"
    return InvalidInput(parameter, must, f"{path.name} with {', '.join(columns)}"[:300], remedy)
