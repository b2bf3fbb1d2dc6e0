"""One query has one answer: in Python, from the command line, over HTTP, from a table, from a cluster and a slate file.

Random queries mix every part of a request. Shops are so small that every set is tried: each answer must be the best
feasible set, proven, and a query without one is refused by all.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pytest
from random_queries import Reference, random_query, random_shop
from services import here

import setwise as sw
from doors import Answer, arguments, by_command, by_many, by_one, by_table, unless_refused
from in_process import cluster_of
from setwise.recommend.query import arguments_from_json
from setwise.verification.verify import verify

EACH = 20  # queries to a shop


def over_http(response: httpx.Response) -> Answer | None:
    if response.status_code == 200:
        return Answer.of_json(response.json())
    assert response.status_code == 422, response.text
    return None


def from_file(slate: sw.Slate, recommender: sw.Recommender, file: Path) -> Answer:
    """The slate that the query in a slate file gives; the file is verified."""
    slate.save(file)
    verify(file, recommender.index.catalog)
    query = arguments_from_json(json.loads(file.read_text())["query"])
    return Answer.of(recommender.recommend(**query))._replace(ignored=list(slate.ignored))


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
            kinds += judged(Reference(recommender, query), {"batch": Answer.of_json(one)})
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
