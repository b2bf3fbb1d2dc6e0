"""Real playlists, held-out users: hits among ten shown songs, and the expected number of hits.

    python experiments/held_out_hits.py --data ../shared/data

Followed playlists of the Million Playlist Dataset: songs of at least 3 playlists, playlists of at least 25 of them. A
model is fitted on all but ``--users`` playlists with the defaults of ``SimpleTransformer.fit``. Of each held-out
playlist the first 15 songs are known; ten songs are shown; a hit is a song in the rest of the playlist. Shown are
the optimised slate, the top ten by score and the greedy slate of the same model, word2vec's neighbours of the history,
and the most popular songs. A seed that is done is not done again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from kept_rows import KeptRows, Row
from rich.console import Console
from rich.table import Table

from setwise.datasets import Sessions, random_split, read_table
from setwise.datasets.splits import HistorySplit
from setwise.model.ragged import Ragged
from setwise.training import SimpleTransformer
from setwise.training.embeddings import unit, word2vec
from setwise.training.on_policy import on_policy_slates

K = 10
FIELDS = ("seed", "fit_seconds", "method", "user", "hits", "promised")
QUICK = {"dim": 8, "heads": 1, "epochs": 1}  # of the model, on the first playlists alone
FEW = 120


def playlists(data: Path) -> Sessions:
    """Followed playlists, rare songs and short playlists left out."""
    sessions = read_table(
        data / "playlists" / "mpd_followed_playlists.jsonl.gz", session=None, item="tracks", progress=False
    )
    return sessions.distinct().trimmed(least_sessions=3, least_items=25)


def ranked(score: Callable[[HistorySplit], np.ndarray], cuts: HistorySplit) -> Ragged:
    """The ten songs of highest score (B, n) that are not known."""
    scores = score(cuts)
    for row, known in enumerate(cuts.history):
        scores[row, known] = -np.inf
    return Ragged.of(np.argsort(-scores, axis=1, kind="stable")[:, :K])


def hits(cuts: HistorySplit, shown: Ragged) -> np.ndarray:
    """Hits of every slate."""
    return np.bincount(shown.owner, weights=cuts.outcomes(shown), minlength=len(shown))


METHODS = {"setwise": "swap", "top-k": "top-k", "vector search by score": "knn", "greedy": "greedy"}


def evaluate(model: SimpleTransformer, cuts: HistorySplit, learned: Sessions, seed: int) -> list[Row]:
    """Promised and true hits of every method, per user."""
    rows = []
    for name, ranker in METHODS.items():
        slates = on_policy_slates(model, cuts, K, ranker)
        promised = np.bincount(slates.shown.owner, weights=model.predict(slates), minlength=len(slates))
        rows += _rows(name, hits(cuts, slates.shown), promised)
    vectors = unit(word2vec(learned, 64, seed=seed))
    mean = lambda cuts: np.stack([vectors[known].mean(axis=0) for known in cuts.history])  # noqa: E731
    rows += _rows("word2vec neighbours", hits(cuts, ranked(lambda cuts: mean(cuts) @ vectors.T, cuts)))
    popular = learned.popularity.astype(float)
    rows += _rows("popularity", hits(cuts, ranked(lambda cuts: np.tile(popular, (len(cuts.history), 1)), cuts)))
    return rows


def _rows(name: str, found: np.ndarray, promised: np.ndarray | None = None) -> list[Row]:
    return [
        {
            "method": name,
            "user": user,
            "hits": float(one),
            "promised": None if promised is None else float(promised[user]),
        }
        for user, one in enumerate(found)
    ]


def run(sessions: Sessions, users: int, seed: int, **options: Any) -> list[Row]:
    """Fit and evaluate once."""
    share = users / len(sessions)
    kept, held = (sessions.taken(part) for part in random_split(len(sessions), (1 - share, share), seed))
    began = time.perf_counter()
    model = SimpleTransformer.fit(kept, k=K, seed=seed, **options)
    seconds = time.perf_counter() - began
    for stage, report in model.summary["stages"].items():
        losses = {name: [round(loss, 4) for loss in report[name]] for name in ("training", "validation")}
        print(stage, losses, "kept", report["kept"])
    print("hits of held-out slates", model.summary["hits"], "kept", model.summary["kept"])
    rows = evaluate(model, HistorySplit.first(held), kept, seed)
    return [{"seed": seed, "fit_seconds": round(seconds, 1), **row} for row in rows]


def shown(rows: list[Row]) -> Table:
    """Means over users, with the spread over seeds."""
    table = Table(title=f"Hits of {K}, held-out playlists")
    for heading in ("method", "hits", "± (users)", "promised", "promised / hits"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for name in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == name]
        found = np.array([row["hits"] for row in mine])
        promised = [row["promised"] for row in mine if row["promised"] is not None]
        mean = float(np.mean(promised)) if promised else None
        table.add_row(
            name,
            f"{found.mean():.3f}",
            f"{found.std() / np.sqrt(len(found)):.3f}",
            "" if mean is None else f"{mean:.3f}",
            "" if mean is None else f"{mean / max(found.mean(), 1e-9):.3f}",
        )
    return table


def main() -> None:
    """Read, fit, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--quick", action="store_true", help="only show that it runs: the figures mean nothing")
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    arguments = parser.parse_args()
    sessions, options = playlists(arguments.data), QUICK if arguments.quick else {}
    if arguments.quick:
        sessions = sessions.taken(np.arange(FEW)).trimmed(least_sessions=2, least_items=25)
    console = Console()
    console.print(f"{len(sessions):,} playlists, {sessions.n_items:,} songs, {len(sessions.items.values):,} entries")
    kept = KeptRows(arguments.out, FIELDS, {"users": arguments.users, **options})
    for seed in kept.missing(map(str, arguments.seeds), "held-out playlists"):
        kept.add(seed, run(sessions, arguments.users, int(seed), **options))
    console.print(f"fitted in {kept.rows[0]['fit_seconds']} s")
    console.print(shown(kept.rows))


if __name__ == "__main__":
    main()
