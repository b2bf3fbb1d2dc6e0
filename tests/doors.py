"""The ways to ask for a slate: every door takes a query in its JSON form, and has an answer or refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet

import setwise as sw
from saved_songs import run
from setwise.errors import InvalidInput
from setwise.recommend.batch.run import recommend_table
from setwise.recommend.batch.users import Columns
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.recommend.query import arguments_from_json

Query = dict[str, Any]
NOT_IN_TABLES = {"include", "scores", "scores_floor"}
MANY = {"history": "histories", "user": "users", "features": "features", "scores": "scores"}


class Answer(NamedTuple):
    """What a door says of a query."""

    items: list[Any]
    value: float
    upper_bound: float | None
    proven: bool
    ignored: list[Any]

    @classmethod
    def of(cls, slate: sw.Slate) -> Answer:
        bound = slate.upper_bound if np.isfinite(slate.upper_bound) else None
        return cls(slate.items.tolist(), slate.value, bound, slate.proven, list(slate.ignored))

    @classmethod
    def of_json(cls, body: dict[str, Any]) -> Answer:
        return cls([item["id"] for item in body["items"]], *(body[name] for name in cls._fields[1:]))


def unless_refused(ask: Callable[..., Answer | None], *asked: Any) -> Answer | None:
    """The answer; None for a query that is refused."""
    try:
        return ask(*asked)
    except InvalidInput:
        return None


def arguments(query: Query, catalog: sw.Catalog) -> dict[str, Any]:
    """The arguments of ``recommend``: keys of JSON are texts, ids may be numbers."""
    stated = arguments_from_json(query)
    if "scores" in stated and not isinstance(catalog.ids[0], str):
        stated["scores"] = {int(id_): score for id_, score in stated["scores"].items()}
    return stated


def by_one(recommender: sw.Recommender | ClusterRecommender, stated: dict[str, Any]) -> Answer:
    return Answer.of(recommender.recommend(**stated))


def by_many(recommender: sw.Recommender, stated: dict[str, Any]) -> Answer:
    """The query three times: the answers are the same."""
    lists = {MANY[name]: [stated[name]] * 3 for name in MANY if name in stated}
    options = {name: value for name, value in stated.items() if name not in MANY}
    first, _, last = recommender.recommend_many(**lists, **options, threads=1)
    assert Answer.of(first)[:2] == Answer.of(last)[:2]
    return Answer.of(first)


def texts(name: str, condition: Any) -> list[str]:
    """A condition as the command line has it."""
    if isinstance(condition, dict):
        low, high = ("" if condition.get(end) is None else condition[end] for end in ("from", "to"))
        return [f"{name}={low}..{high}"]
    values = condition if isinstance(condition, list) else [condition]
    return [f"{name}={int(value) if isinstance(value, bool) else value}" for value in values]


def by_command(query: Query, saved: Path, folder: Path) -> Answer | None:
    """``setwise recommend``; files that it reads are written to ``folder``."""
    for name in ("user", "scores"):
        (folder / f"{name}.json").write_text(json.dumps(query.get(name)))
    options: list[Any] = [f"--user-json={folder / 'user.json'}"] if "user" in query else []
    options += [f"--scores={folder / 'scores.json'}"] if "scores" in query else []
    options += [
        f"--{name}={','.join(map(str, query[name]))}"
        for name in ("history", "exclude", "include", "after")
        if name in query
    ]
    options += [f"--features={name}={value}" for name, value in query.get("features", {}).items()]
    plain = ("k", "scores_floor", "unknown", "weights", "value_unit", "budget_ms", "ranker")
    options += [f"--{name.replace('_', '-')}={query[name]}" for name in plain if name in query]
    options += [f"--no-{name.replace('_', '-')}" for name in ("filter_seen", "certify") if not query.get(name, True)]
    options += ["--after-counts"] if query.get("after_counts") else []
    for name in ("sum_at_most", "sum_at_least"):
        options += [f"--{name.replace('_', '-')}={attribute}={n}" for attribute, n in query.get(name, {}).items()]
    options += [f"--where={text}" for name, what in query.get("where", {}).items() for text in texts(name, what)]
    options += [f"--at-most={name}={n}" for name, n in query.get("at_most", {}).items()]
    options += [f"--exactly={name}={n}" for name, n in query.get("exactly", {}).items()]
    options += [
        f"--at-least={name}={text}:{n}" for name, by in query.get("at_least", {}).items() for text, n in by.items()
    ]
    result = run("recommend", saved, *options, "--json")
    if result.exit_code:
        assert isinstance(result.exception, InvalidInput), result.exception or result.output
        return None
    return Answer.of_json(json.loads(result.stdout))


def by_table(query: Query, saved: Path, folder: Path, number: int) -> Answer | None:
    """What differs between users stands in columns, the rest are options. A row has no pins and no scores."""
    row: dict[str, Any] = {"user": "someone", **query.get("features", {})}
    row |= {name: query[name] for name in ("history", "exclude") if name in query}
    if "user" in query:
        row["vector"] = [*chain(*query["user"]["heads"], query["user"].get("base", []))]
    where = {name: f"where {name}" for name in query.get("where", {})}
    for name, column in where.items():
        condition = query["where"][name]
        row[column] = texts("", condition)[0][1:] if isinstance(condition, dict) else condition
    table, out = folder / f"{number}.jsonl", folder / f"{number}.parquet"
    table.write_text(json.dumps(row) + "\n")
    named = {name: name for name in ("history", "vector", "exclude") if name in row}
    columns = Columns(where=where, features=tuple(query.get("features", ())), **named)
    in_columns = {"user", "history", "features", "exclude", "where"}
    options = {"certify": True, **{name: value for name, value in query.items() if name not in in_columns}}
    recommend_table(table, saved, out, columns, processes=1, progress=False, **options)
    (found,) = pyarrow.parquet.read_table(out).to_pylist()
    return None if found["error"] else Answer(*(found[name] for name in Answer._fields))
