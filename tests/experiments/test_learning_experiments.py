"""What the closed loop and the held-out hits report is what the world and the data say. (test_reproduce.py runs them.)"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from setwise.datasets import Sessions, World
from setwise.datasets.splits import HistorySplit
from setwise.model.ragged import Ragged

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]


def test_a_learner_that_has_the_truth_loses_nothing() -> None:
    loop = import_module("closed_loop")
    world = World.make(300, n_users=5, seed=3)
    users = [world.user(known) for known in world.histories]
    shown = loop.optimised(world.catalog, users, world.histories, seed=0)
    assert not any(np.isin(slate, known).any() for slate, known in zip(shown, world.histories, strict=True))
    top = np.stack([np.setdiff1d(np.arange(300), known)[: loop.K] for known in world.histories])
    assert (world.expected(world.histories, shown).sum(1) > world.expected(world.histories, top).sum(1)).all()


def genres(n_sessions: int, rng: np.random.Generator) -> Sessions:
    """Sessions of one genre each, 12 of its 40 songs."""
    rows = [rng.permutation(40)[:12] + 40 * (number % 5) for number in range(n_sessions)]
    return Sessions(Ragged.of(rows), [f"song-{row}" for row in range(200)])


def test_held_out_hits_in_miniature() -> None:
    experiment = import_module("held_out_hits")
    sessions = genres(300, np.random.default_rng(0))
    rows = experiment.run(sessions, 20, seed=0, dim=8, heads=1, epochs=4, batch=256)
    assert {row["method"] for row in rows} == {
        "setwise", "top-k", "vector search by score", "greedy", "word2vec neighbours", "popularity",
    }  # fmt: skip
    hits = {name: np.mean([row["hits"] for row in rows if row["method"] == name]) for name in ("setwise", "popularity")}
    assert hits["setwise"] > hits["popularity"]  # genres are what there is to learn
    assert experiment.shown(rows).row_count == 6


def test_hits_are_counted_in_the_rest_alone() -> None:
    experiment = import_module("held_out_hits")
    cuts = HistorySplit.first(Sessions(Ragged.of([[0, 1, 2, 3]]), list("abcdef")), history=2)
    assert experiment.hits(cuts, Ragged.of([[2, 5, 0]])).tolist() == [1.0]  # song 0 is known, 5 is not in the playlist


def test_the_playlists_of_the_experiment(shared_data: Path) -> None:
    experiment = import_module("held_out_hits")
    sessions = experiment.playlists(shared_data)
    assert sessions.items.lengths.min() >= 25
    assert len(sessions) > 3000


def test_peers_in_miniature(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = import_module("peers")
    monkeypatch.setattr(
        experiment, "PEERS", {name: (fit, settings[:2]) for name, (fit, settings) in experiment.PEERS.items()}
    )
    sessions, methods = genres(150, np.random.default_rng(0)), (*experiment.PEERS, "SASRec", "setwise")
    rows = [row for method in methods for row in experiment.run("genres", method, sessions, 20, 0, experiment.QUICK)]
    mean = {method: np.mean([row["hits"] for row in rows if row["method"] == method]) for method in methods}
    assert all(len([row for row in rows if row["method"] == method]) == 20 for method in mean)
    assert min(mean["item-kNN"], mean["EASE"], mean["setwise"]) > mean["popularity"] + 0.5
    table = experiment.shown([{**row, "unit": f"genres 0 {row['method']}"} for row in rows])
    assert table.row_count == 6
