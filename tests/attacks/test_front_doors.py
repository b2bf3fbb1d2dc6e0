"""One query has one answer: in Python, from the command line, over HTTP, from a table, from a cluster and a slate file.

Random queries mix every part of a request. Shops are so small that every set is tried: each answer must be the best
feasible set, proven, and a query without one is refused by all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pyarrow.parquet
import pytest
from random_queries import Reference, random_query, random_shop
from services import here

import setwise as sw
from in_process import cluster_of
from saved_songs import run
from setwise.errors import InvalidInput
from setwise.recommend.batch.run import recommend_table
from setwise.recommend.batch.users import Columns
from setwise.recommend.cluster.front import ClusterRecommender
from setwise.recommend.query import arguments_from_json
from setwise.verification.verify import verify

EACH = 20  # queries to a shop
Query = dict[str, Any]


class Answer(NamedTuple):
    items: list[Any]
    value: float
    proven: bool
    ignored: list[Any]


def of_slate(slate: sw.Slate) -> Answer:
    return Answer(slate.items.tolist(), slate.value, slate.proven, list(slate.ignored))


def of_json(body: dict[str, Any]) -> Answer:
    return Answer([one["id"] for one in body["items"]], body["value"], body["proven"], body["ignored"])


def unless_refused(ask: Callable[..., Answer | None], *given: Any) -> Answer | None:
    """The answer; None for a query that is refused."""
    try:
        return ask(*given)
    except InvalidInput:
        return None


# --- the ways to ask ---


def arguments(query: Query, catalog: sw.Catalog) -> dict[str, Any]:
    """The arguments of ``recommend``: keys of JSON are texts, ids may be numbers."""
    given = arguments_from_json(query)
    if "scores" in given and not isinstance(catalog.ids[0], str):
        given["scores"] = {int(one): score for one, score in given["scores"].items()}
    return given


def by_one(recommender: sw.Recommender | ClusterRecommender, given: dict[str, Any]) -> Answer:
    return of_slate(recommender.recommend(**given))


def by_many(recommender: sw.Recommender, given: dict[str, Any]) -> Answer:
    names = {"history": "histories", "user": "users", "scores": "scores"}
    lists = {plural: [given[name]] for name, plural in names.items() if name in given}
    rest = {name: one for name, one in given.items() if name not in names}
    return of_slate(recommender.recommend_many(**lists, **rest)[0])


def over_http(response: httpx.Response) -> Answer | None:
    if response.status_code == 200:
        return of_json(response.json())
    assert response.status_code == 422, response.text
    return None


def texts(name: str, condition: Any) -> list[str]:
    """A condition as the command line has it."""
    if isinstance(condition, dict):
        low, high = ("" if condition.get(end) is None else condition[end] for end in ("from", "to"))
        return [f"{name}={low}..{high}"]
    values = condition if isinstance(condition, list) else [condition]
    return [f"{name}={int(one) if isinstance(one, bool) else one}" for one in values]


def by_command(query: Query, shop: Path, folder: Path) -> Answer | None:
    for name in ("user", "scores"):
        (folder / f"{name}.json").write_text(json.dumps(query.get(name)))
    options: list[Any] = [f"--k={query['k']}"]
    options += [
        f"--{name}={','.join(map(str, query[name]))}" for name in ("history", "exclude", "include") if name in query
    ]
    options += ["--user-json", folder / "user.json"] if "user" in query else []
    options += ["--scores", folder / "scores.json"] if "scores" in query else []
    options += [f"--scores-floor={query['scores_floor']}"] if "scores_floor" in query else []
    options += ["--unknown", query["unknown"]] if "unknown" in query else []
    options += [] if query.get("filter_seen", True) else ["--no-filter-seen"]
    options += [f"--where={one}" for name, what in query.get("where", {}).items() for one in texts(name, what)]
    options += [f"--at-most={name}={n}" for name, n in query.get("at_most", {}).items()]
    options += [f"--exactly={name}={n}" for name, n in query.get("exactly", {}).items()]
    options += [
        f"--at-least={name}={text}:{n}" for name, by in query.get("at_least", {}).items() for text, n in by.items()
    ]
    result = run("recommend", shop, *options, "--json")
    if result.exit_code:
        assert isinstance(result.exception, InvalidInput), result.exception or result.output
        return None
    return of_json(json.loads(result.stdout))


def by_table(query: Query, shop: Path, folder: Path, number: int) -> Answer | None:
    """What differs between users stands in columns, limits are options. A row has no pins and no scores."""
    row: dict[str, Any] = {"user": "someone"}
    if "history" in query:
        row["history"] = query["history"]
    else:
        row["vector"] = [*chain(*query["user"]["heads"], query["user"].get("base", []))]
    row |= {"exclude": query["exclude"]} if "exclude" in query else {}
    where = {name: f"where {name}" for name in query.get("where", {})}
    for name, column in where.items():
        condition = query["where"][name]
        row[column] = texts("", condition)[0][1:] if isinstance(condition, dict) else condition
    table, out = folder / f"{number}.jsonl", folder / f"{number}.parquet"
    table.write_text(json.dumps(row) + "\n")
    columns = Columns(where=where, **{name: name for name in ("history", "vector", "exclude") if name in row})
    limits = {name: query[name] for name in ("k", "filter_seen", "at_most", "at_least", "exactly") if name in query}
    recommend_table(table, shop, out, columns, processes=1, progress=False, certify=True, **limits)
    (found,) = pyarrow.parquet.read_table(out).to_pylist()
    return None if found["error"] else Answer(*(found[name] for name in Answer._fields))


def from_file(slate: sw.Slate, recommender: sw.Recommender, file: Path) -> Answer:
    """The slate that the query in a slate file gives; the file is verified."""
    slate.save(file)
    verify(file, recommender.index.catalog)
    query = arguments_from_json(json.loads(file.read_text())["query"])
    return of_slate(recommender.recommend(**query))._replace(ignored=list(slate.ignored))


@pytest.mark.promise("front-doors")
def test_a_query_has_one_answer(tmp_path: Path, count, record_property) -> None:
    kinds = Counter[str]()
    for number in range(count(60, 60)):
        kinds += asked_everywhere(np.random.default_rng([7, number]), tmp_path / str(number), count(EACH, 2))
    record_property(
        "seen", f"{kinds.pop('queries')} queries: " + ", ".join(f"{n} {name}" for name, n in sorted(kinds.items()))
    )
    assert min(kinds[name] for name in ("refused", "table", "file", "batch")) > 0


def asked_everywhere(rng: np.random.Generator, folder: Path, many: int) -> Counter[str]:
    """Ask a shop in every way; how many answers of each kind were compared."""
    recommender = random_shop(rng)
    shop = folder / "shop"
    recommender.save(shop)
    cluster, _ = cluster_of(recommender, folder / "cluster", int(rng.integers(1, 4)))
    catalog, kinds = recommender.index.catalog, Counter[str]()
    queries = [random_query(rng, catalog) for _ in range(many)]
    with here(shop) as service:
        for number, query in enumerate(queries):
            given = arguments(query, catalog)
            answers = {
                "python": unless_refused(by_one, recommender, given),
                "many": unless_refused(by_many, recommender, given),
                "cluster": unless_refused(by_one, cluster, given),
                "http": over_http(service.client.post("/v1/recommend", json=query)),
                "command": by_command(query, shop, folder),
            }
            if answers["python"] is not None:
                slate = recommender.recommend(**given)
                answers["file"] = from_file(slate, recommender, folder / "slate.json")
            if not {"scores", "include", "unknown"} & set(query):
                answers["table"] = unless_refused(by_table, query, shop, folder, number)
            kinds += judged(Reference(recommender, query), answers)
        answered = [one for one in queries if Reference(recommender, one).best() is not None]
        body = service.client.post("/v1/recommend/batch", json={"requests": answered}).json()
        for query, one in zip(answered, body["answers"], strict=True):
            kinds += judged(Reference(recommender, query), {"batch": of_json(one)})
    return kinds + Counter(queries=many)


def judged(reference: Reference, answers: dict[str, Answer | None]) -> Counter[str]:
    """Compare every answer with the best of all feasible sets."""
    best = reference.best()
    for way, answer in answers.items():
        said = f"{way}: {answer}, best {best}, {json.dumps(reference.query)}"
        assert (answer is None) == (best is None), said
        if answer is not None:
            assert set(answer.items) <= set(reference.eligible), said
            assert reference.is_feasible(answer.items), said
            assert answer.value == pytest.approx(best, rel=1e-6, abs=1e-6), said
            assert answer.proven, said
            assert [*map(str, answer.ignored)] == [*map(str, reference.ignored)], said  # a table has them as texts
    return Counter(["refused"] if best is None else list(answers))
