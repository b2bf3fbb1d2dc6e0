"""The gain of retrieval by cells: the best set found among candidates of several kinds, on trained arrays.

    python benchmarks/candidates.py --data ../shared/data

For held-out users of the two trained catalogues: as many items by score alone as Phase One returns, Phase One with the total
score, and Phase One with the best of every head added (``per_head``). Each candidate list is ranked by the same ranker; shares
are of the best value any list gave that user. Raw rows go to report/candidates.csv, which is not
committed: they are about real users.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

import setwise as sw

CATALOGUES = ("playlists_one_head", "playlists_four_heads")
FIELDS = ("catalogue", "k", "user", "method", "candidates", "value")


def opened(path: Path) -> tuple[sw.Catalog, list[sw.User], np.ndarray]:
    arrays = np.load(path)
    catalog = sw.Catalog(
        arrays["query"],
        arrays["key"],
        arrays["value"],
        sw.Logistic(float(arrays["scale"]), float(arrays["bias"])),
        base=arrays.get("base"),
        sink=sw.Sink(arrays["sink_key"], arrays["sink_value"]) if "sink_key" in arrays else None,
    )
    bases = arrays["user_base"] if "user_base" in arrays else [None] * len(arrays["user_heads"])
    users = [sw.User(heads, base) for heads, base in zip(arrays["user_heads"], bases, strict=True)]
    return catalog, users, arrays["history"]


def best_by_score(catalog: sw.Catalog, user: sw.User, history: np.ndarray, count: int) -> np.ndarray:
    score = np.einsum("nhd,hd->n", catalog.value, user.heads)
    if catalog.base is not None:
        score = score + catalog.base @ user.base
    score[history] = -np.inf
    return np.argsort(-score)[:count]


def measure(name: str, path: Path, people: int, cells: int, ranker: str) -> list[dict]:
    catalog, users, histories = opened(path)
    index = sw.Index.build(catalog, cells=cells)
    rows = []
    for k in (5, 10):
        for number in range(people):
            user, history = users[number], np.unique(histories[number])
            cell = index.candidates(user, per_cell=k, exclude=history)
            lists = {"score alone": best_by_score(catalog, user, history, len(cell)), "cells": cell}
            if catalog.heads > 1:
                wide = index.candidates(user, per_cell=k, exclude=history, per_head=2)
                lists |= {
                    "cells and heads": wide,
                    "score alone, as many": best_by_score(catalog, user, history, len(wide)),
                }
            for method, candidates in lists.items():
                value = sw.rank(sw.Instance.from_catalog(catalog, user, candidates), k, ranker).value
                rows.append(dict(zip(FIELDS, (name, k, number, method, len(candidates), value), strict=True)))
        print(f"  {name}, k = {k}: {people} users", flush=True)
    return rows


def table(rows: list[dict]) -> None:
    best: dict[tuple, float] = {}
    for row in rows:
        who = row["catalogue"], row["k"], row["user"]
        best[who] = max(best.get(who, -np.inf), row["value"])
    print(f"\n{'catalogue':>22} {'k':>3} {'candidates of':>22} {'how many':>9} {'value':>8} {'of the best':>12}")
    for name, k, method in dict.fromkeys((row["catalogue"], row["k"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["catalogue"], row["k"], row["method"]) == (name, k, method)]
        share = np.mean([row["value"] / best[name, k, row["user"]] for row in mine])
        count, value = (np.mean([row[field] for row in mine]) for field in ("candidates", "value"))
        print(f"{name:>22} {k:>3} {method:>22} {count:>9.0f} {value:>8.4f} {share:>12.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--cells", type=int, default=64)
    parser.add_argument("--ranker", default="greedy")
    parser.add_argument("--out", type=Path, default=Path("report/candidates.csv"))
    options = parser.parse_args()
    rows: list[dict] = []
    for name in CATALOGUES:
        rows += measure(name, options.data / "catalogs" / f"{name}.npz", options.users, options.cells, options.ranker)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    table(rows)


if __name__ == "__main__":
    main()
