"""Lists of a real ranker: for users of two data sets, the items of highest ALS score with their scores and factors.

    python benchmarks/score_lists.py DATA LISTS         writes LISTS/polimi.npz and LISTS/online_retail.npz

Playlists of the Polimi challenge and baskets of customers of Online Retail, items of five sessions or more, sessions of
ten items or more; 64 factors, items of the session itself left out. Arrays: scores (users, 500), vectors (users, 500,
64). Needs ``implicit`` and scipy.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from implicit.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix

FACTORS, LENGTH, USERS, FEWEST, SHORTEST = 64, 500, 60, 5, 10


def polimi(data: Path) -> list[list[str]]:
    with gzip.open(data / "playlists" / "polimi2018_playlists.jsonl.gz", "rt") as lines:
        return [[str(track) for track in json.loads(line)["tracks"]] for line in lines]


def online_retail(data: Path) -> list[list[str]]:
    baskets = defaultdict[str, list[str]](list)
    with gzip.open(data / "sequences" / "online_retail.csv.gz", "rt", errors="replace") as lines:
        for row in csv.DictReader(lines):
            if row["CustomerID"]:
                baskets[row["CustomerID"]].append(row["StockCode"])
    return list(baskets.values())


def lists_of(sessions: list[list[str]], seed: int = 0) -> dict[str, np.ndarray]:
    times = Counter(item for session in sessions for item in set(session))
    frequent = [[item for item in dict.fromkeys(session) if times[item] >= FEWEST] for session in sessions]
    kept = [session for session in frequent if len(session) >= SHORTEST]
    number = {item: at for at, item in enumerate(dict.fromkeys(item for session in kept for item in session))}
    rows = np.repeat(np.arange(len(kept)), [len(session) for session in kept])
    columns = [number[item] for session in kept for item in session]
    matrix = csr_matrix((np.ones(len(rows), np.float32), (rows, columns)))
    model = AlternatingLeastSquares(
        factors=FACTORS, regularization=0.01, alpha=10, iterations=15, random_state=seed, use_gpu=False, num_threads=1
    )
    model.fit(matrix, show_progress=False)
    users = np.random.default_rng(seed).choice(len(kept), USERS, replace=False)
    items, scores = model.recommend(users, matrix[users], N=LENGTH, filter_already_liked_items=True)
    return {"scores": scores, "vectors": np.asarray(model.item_factors)[items]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("lists", type=Path)
    given = parser.parse_args()
    given.lists.mkdir(parents=True, exist_ok=True)
    for read in (polimi, online_retail):
        np.savez(given.lists / f"{read.__name__}.npz", **lists_of(read(given.data)))


if __name__ == "__main__":
    main()
