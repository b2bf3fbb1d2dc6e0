"""Held-out hits of ``setwise train`` beside other recommenders, on four public data sets.

    python experiments/peers.py --data ../shared/data --sets retail beauty --seeds 0 1 2

Playlists of the Million Playlist Dataset (``mpd``) and of the Polimi challenge (``polimi``), both with songs of 3
playlists or more and playlists of 25 songs or more; baskets of Online Retail (``retail``); sequences of Beauty
(``beauty``), where the next items are to be found. Of each held-out session the first 15 items, at most half, are
known; ten others are shown; a hit is one of the rest.

Every method is fitted on the same training sessions. The peers' settings are chosen on the same eighth of them, by the
same measure: item-kNN (asymmetric cosine), EASE, ALS of the library implicit, and SASRec (sasrec.py; only where it is
asked for, because it needs a GPU). ``setwise`` is the default of ``fit`` and never sees the peers. The peers are as
published: of item-kNN, EASE and ALS none weighs the latest items of a history more, which setwise does where it helps.
Rows are per user, so that differences are paired. A unit that is done is not done again.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from kept_rows import KeptRows, Row
from rich.console import Console
from rich.table import Table

from setwise.datasets import Sessions, random_split, read_table
from setwise.datasets.splits import HistorySplit
from setwise.training import SimpleTransformer
from setwise.training.base.als import fit_als
from setwise.training.base.ease import Ease
from setwise.training.base.item_knn import Similarity, common_sessions, knn_scores
from setwise.training.base.search import padded, weighted_histories
from setwise.training.base.session_matrix import session_matrix
from setwise.training.on_policy import on_policy_slates

K = 10
FIELDS = ("data", "seed", "method", "setting", "seconds", "user", "hits", "promised")
VALIDATION = 0.125
COSINES = tuple(Similarity(a, round(1 - a, 2), b) for a in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9) for b in (0.0, 0.5))
RIDGES = (30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
CONFIDENCES = (1.0, 3.0, 10.0, 30.0, 100.0)
QUICK = {"dim": 8, "heads": 1, "epochs": 1, "minutes": 0.01}
Scores = Callable[[HistorySplit], np.ndarray]


# --- data ---


def mpd(data: Path) -> Sessions:
    """Followed playlists of the Million Playlist Dataset."""
    file = data / "playlists" / "mpd_followed_playlists.jsonl.gz"
    return read_table(file, session=None, item="tracks", progress=False).distinct().trimmed(3, 25)


def polimi(data: Path) -> Sessions:
    """Playlists of the Polimi challenge; those whose order is lost are shuffled."""
    with gzip.open(data / "playlists" / "polimi2018_playlists.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    sessions = Sessions.of([row["tracks"] for row in rows])
    ordered = np.array([bool(row["ordered"]) for row in rows])
    return replace(sessions, ordered=ordered).shuffled_where_unordered(0).distinct().trimmed(3, 25)


def retail(data: Path) -> Sessions:
    """Invoices of Online Retail, without cancellations."""
    baskets: dict[str, list[str]] = {}
    with gzip.open(data / "sequences" / "online_retail.csv.gz", "rt", encoding="utf-8", errors="replace") as file:
        for row in csv.DictReader(file):
            if not row["InvoiceNo"].startswith("C") and float(row["Quantity"]) > 0:
                baskets.setdefault(row["InvoiceNo"], []).append(row["StockCode"])
    return Sessions.of(baskets.values()).distinct().trimmed(3, 2)


def beauty(data: Path) -> Sessions:
    """What each reviewer of beauty products bought, in order."""
    with gzip.open(data / "sequences" / "s3rec_Beauty.txt.gz", "rt") as file:
        return Sessions.of([line.split()[1:] for line in file]).distinct().trimmed(3, 2)


SETS = {"mpd": mpd, "polimi": polimi, "retail": retail, "beauty": beauty}
USERS = {"mpd": 500, "polimi": 500, "retail": 500, "beauty": 2000}  # held-out sessions


# --- peers ---


def item_knn(sessions: Sessions, setting: Similarity) -> Scores:
    """Item-kNN with all neighbours."""
    matrix = session_matrix(sessions.items, sessions.n_items)
    together, count = common_sessions(matrix, setting.session), np.asarray(matrix.sum(axis=0), np.float32).ravel()
    return lambda split: knn_scores(weighted_histories(split.history, sessions.n_items, 1.0), together, count, setting)


def ease(sessions: Sessions, setting: float) -> Scores:
    """EASE as published: one regularisation for all items."""
    model = Ease.fit(session_matrix(sessions.items, sessions.n_items), setting, 0.0)
    return lambda split: model.scores(weighted_histories(split.history, sessions.n_items, 1.0))


def als(sessions: Sessions, setting: float) -> Scores:
    """ALS of implicit, 128 factors."""
    model = fit_als(session_matrix(sessions.items, sessions.n_items), 128, 0.1, setting)
    return lambda split: model.vectors(*padded(split.history)).astype(np.float32) @ model.items.T


def popularity(sessions: Sessions, _: None) -> Scores:
    """The most frequent items."""
    return lambda split: np.tile(sessions.popularity.astype(np.float32), (len(split), 1))


PEERS: dict[str, tuple[Callable[[Sessions, Any], Scores], tuple[Any, ...]]] = {
    "popularity": (popularity, (None,)),
    "item-kNN": (item_knn, COSINES),
    "EASE": (ease, RIDGES),
    "ALS": (als, CONFIDENCES),
}


def found(scores: Scores, split: HistorySplit) -> np.ndarray:
    """Hits among the ten unseen items of highest score, per session."""
    result = []
    for start in range(0, len(split), 200):
        part = split.taken(np.arange(start, min(start + 200, len(split))))
        given = scores(part)
        for row, (seen, wanted) in enumerate(zip(part.history, part.targets, strict=True)):
            given[row, seen] = -np.inf
            result.append(np.isin(np.argpartition(-given[row], K)[:K], wanted).sum())
    return np.array(result, float)


def halves(training: Sessions, seed: int) -> tuple[Sessions, HistorySplit]:
    """The sessions that a peer's settings are fitted on, and those that they are compared on."""
    first, second = random_split(len(training), (1 - VALIDATION, VALIDATION), seed)
    return training.taken(first), HistorySplit.first(training.taken(second))


def tuned(name: str, training: Sessions, seed: int) -> Any:
    """The setting of most hits on the validation part."""
    fit, settings = PEERS[name]
    if len(settings) == 1:
        return settings[0]
    first, split = halves(training, seed)
    return max(settings, key=lambda setting: found(fit(first, setting), split).mean())


# --- runs ---


def run(name: str, method: str, sessions: Sessions, users: int, seed: int, options: dict[str, Any]) -> list[Row]:
    """One method on one split."""
    share = users / len(sessions)
    training, held_out = (sessions.taken(part) for part in random_split(len(sessions), (1 - share, share), seed))
    split, began = HistorySplit.first(held_out), time.perf_counter()
    promised: list[float | None] = [None] * len(split)
    if method == "setwise":
        setting, hits, promised = setwise(training, split, seed, options)
    elif method == "SASRec":
        setting, hits = sasrec(training, split, seed, options)
    else:
        setting = tuned(method, training, seed)
        hits = found(PEERS[method][0](training, setting), split)
    about = {"data": name, "seed": seed, "method": method, "setting": str(setting)}
    about["seconds"] = round(time.perf_counter() - began, 1)
    pairs = zip(hits, promised, strict=True)
    return [{**about, "user": user, "hits": one, "promised": own} for user, (one, own) in enumerate(pairs)]


def setwise(training: Sessions, split: HistorySplit, seed: int, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The default of ``fit``: what it chose, and the hits and the promised hits of every user."""
    model = SimpleTransformer.fit(training, k=K, seed=seed, **options)
    slates = on_policy_slates(model, split, K)
    hits, promised = (
        np.bincount(slates.shown.owner, weights=weights, minlength=len(split))
        for weights in (slates.outcome, model.predict(slates))
    )
    chosen = [(one["model"], one["setting"], one["decay"], round(one["weight"], 4)) for one in model.summary["base"]]
    return (model.summary["kept"], chosen), hits, promised


def sasrec(training: Sessions, split: HistorySplit, seed: int, options: dict[str, Any]) -> tuple[Any, np.ndarray]:
    """SASRec with the dropout and the epochs of most hits on the validation part."""
    module = importlib.import_module("sasrec")
    first, validation = halves(training, seed)
    most = {"epochs": 2} if options else {}
    setting = module.tuned(first, lambda scores: found(scores, validation).mean(), seed=seed, **most)
    return setting, found(module.fit(training, setting, seed).scores, split)


def shown(rows: list[Row]) -> Table:
    """Hits of every method, and of setwise relative to the best peer."""
    table = Table(title=f"Hits of {K}, held-out sessions")
    for heading in ("data", "method", "hits", "± (users)", "promised", "setwise less this", "± (paired)", "seconds"):
        table.add_column(heading, justify="left" if heading in ("data", "method") else "right")
    for name in dict.fromkeys(row["data"] for row in rows):
        own = _hits(rows, name, "setwise")
        for method in dict.fromkeys(row["method"] for row in rows if row["data"] == name):
            hits, mine = _hits(rows, name, method), [r for r in rows if (r["data"], r["method"]) == (name, method)]
            promised = [float(row["promised"]) for row in mine if row["promised"] not in (None, "")]
            more = own - hits if len(own) == len(hits) else np.full(1, np.nan)  # setwise may not be among the methods
            seconds = np.mean(list({row["seed"]: float(row["seconds"]) for row in mine}.values()))
            table.add_row(
                name,
                method,
                f"{hits.mean():.3f}",
                f"{hits.std() / np.sqrt(len(hits)):.3f}",
                f"{np.mean(promised):.3f}" if promised else "",
                f"{more.mean():+.3f}",
                f"{more.std() / np.sqrt(len(more)):.3f}",
                f"{seconds:.0f}",
            )
    return table


def _hits(rows: list[Row], name: str, method: str) -> np.ndarray:
    """Hits by seed and user, in one order for all methods."""
    mine = [row for row in rows if (row["data"], row["method"]) == (name, method)]
    return np.array([float(row["hits"]) for row in sorted(mine, key=lambda row: (int(row["seed"]), int(row["user"])))])


def main() -> None:
    """Read, fit, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--users", type=int, help="held-out sessions; 500, and 2,000 of beauty, where hits are rare")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    methods = [*PEERS, "SASRec", "setwise"]
    parser.add_argument("--methods", nargs="+", choices=methods, default=[one for one in methods if one != "SASRec"])
    parser.add_argument("--quick", action="store_true", help="only show that it runs: the figures mean nothing")
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    arguments = parser.parse_args()
    options = QUICK if arguments.quick else {}
    users = USERS if arguments.users is None else dict.fromkeys(SETS, arguments.users)
    kept = KeptRows(arguments.out, FIELDS, {"users": users, **options})
    units = [
        (name, seed, method) for name in arguments.sets for seed in arguments.seeds for method in arguments.methods
    ]
    for unit in kept.missing((f"{name} {seed} {method}" for name, seed, method in units), "peers"):
        name, seed, method = unit.split(maxsplit=2)
        sessions = SETS[name](arguments.data)
        if arguments.quick:
            sessions = sessions.taken(np.arange(400)).trimmed(2, 2)
        held_out = min(users[name], len(sessions) // 5)
        kept.add(unit, run(name, method, sessions, held_out, int(seed), options))
    Console().print(shown(kept.rows))


if __name__ == "__main__":
    main()
