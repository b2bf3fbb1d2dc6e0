"""The closed loop: learn from the log of a simulated world, recommend, and measure the true value of the slates.

    python experiments/closed_loop.py --out rows.csv        (about a quarter of an hour a world and seed on one core)

In each world a logging policy shows slates of ten to new users; a learner sees histories, slates and outcomes, no
features of items. It is trained on nine tenths of the slates; then its own slates are shown, it is trained again on all
of them, and it is calibrated on the last of its own slates. Then it recommends to new users, and the true model gives
the expected number of hits of every slate:

* best: a search with the true model;
* setwise: the simple transformer, with index, swap search and calibration (and the same trained on the log only);
* best, greedily: the same candidates with the true model, greedily: what the truth allows to gain over greedy;
* greedy: the same model and candidates as setwise, greedily;
* k-NN + greedy: the same model, its best 100 items by score, greedily;
* pure embedding: the same network without attention, its ten best items.

One world has variety and complementarity, one has neither. A world and seed that is done is not done again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from baselines import PointwiseNetwork
from kept_rows import KeptRows, Row
from rich.console import Console
from rich.table import Table

import setwise as sw
from setwise.datasets import Sessions, Slates, World, random_split
from setwise.model.ragged import Ragged
from setwise.training import SimpleTransformer
from setwise.training.embeddings import spectral, unit
from setwise.training.on_policy import optimised_slates
from setwise.training.trainer import Schedule, train

K = 10
WORLDS = {"set effects": {}, "no set effects": {"variety": 0.0, "complementarity": 0.0}}
DIM = 24
# Of eight heads enough find the effects, of four not always. No attribute of a song is known to the learner.
LEARNER: dict[str, Any] = {"dim": DIM, "heads": 8, "embeddings": "spectral", "features": ()}
OWN = 0.06  # of all slates are the learner's own, shown after it has learned from the rest: then it learns again
CALIBRATIONS, CALIBRATING = 2, 0.01  # times that calibration shows slates, and the share of all slates each time
SHOWN = ("best", "best, greedily", "setwise", "setwise, log alone", "greedy", "k-NN + greedy", "pure embedding")
FIELDS = ("world", "seed", *SHOWN, "promised", "promised, log alone", "validation_loss", "seconds")


def pure_embedding(log: Slates, history: np.ndarray, schedule: Schedule) -> np.ndarray:
    """The ten best items of a model without attention, for each history."""
    vectors = spectral(Sessions(log.history, log.ids), DIM)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(schedule.seed)
        network = PointwiseNetwork(log.n_items, DIM, unit(vectors))
    kept, held = random_split(len(log), (0.95, 0.05))
    train(network, log.taken(kept), log.taken(held), "item", schedule)
    rows, seen = torch.from_numpy(history), torch.ones(history.shape, dtype=torch.bool)
    shown = torch.arange(log.n_items).expand(len(history), -1)
    with torch.no_grad():
        score = network(rows, seen, shown, torch.ones_like(shown, dtype=torch.bool)).scatter(1, rows, -torch.inf)
    return score.topk(K).indices.numpy()


def greedy_of_nearest(model: SimpleTransformer, users: list[sw.User], history: np.ndarray) -> np.ndarray:
    """The 100 best items by score, then greedily: what is usually done."""
    catalog, result = model.catalog(), []
    for user, known in zip(users, history, strict=True):
        every = sw.Instance.from_catalog(catalog, user, np.setdiff1d(np.arange(len(catalog)), known))
        nearest = every.candidates[sw.rank(every, 100, "knn").indices]
        instance = sw.Instance.from_catalog(catalog, user, nearest)
        result.append(instance.candidates[sw.rank(instance, K, "greedy").indices])
    return np.stack(result)


def optimised(
    catalog: sw.Catalog, users: list[sw.User], history: np.ndarray, seed: int, ranker: str = "swap"
) -> np.ndarray:
    """Index, Phase One, swap search or another ranker."""
    recommender = sw.Recommender(sw.Index.build(catalog, cells=32, seed=seed), ranker=ranker, certify=False)
    return np.stack(
        [
            recommender.recommend(user, K, exclude=catalog.ids[known]).indices
            for user, known in zip(users, history, strict=True)
        ]
    )


def shown_by(model: SimpleTransformer, world: World, users: int, rng: np.random.Generator) -> Slates:
    """The model's own slates for new users, with outcomes from the world."""
    history = world.new_histories(users, rng)
    lists = Ragged.of(history)
    shown = np.stack(optimised_slates(model.catalog(), model.users(lists), list(lists), K))
    outcome = (rng.random(shown.shape) < world.expected(history, shown)).astype(np.float32)
    return Slates(lists, Ragged.of(shown), outcome.ravel(), list(world.catalog.ids[:]))


def run(seed: int, kind: str, slates: int, items: int, users: int, epochs: int) -> Row:
    """One world, one learner."""
    began = time.perf_counter()
    world = World.make(items, n_users=users, seed=seed, **WORLDS[kind])
    rng = np.random.default_rng([seed, 5])
    own, calibrating = round(OWN * slates), round(CALIBRATING * slates)
    log = world.log(slates - own - CALIBRATIONS * calibrating, K, seed=seed + 1000)
    options = {**LEARNER, "seed": seed, "epochs": epochs}
    offline = SimpleTransformer.fit(log, **options)
    model = SimpleTransformer.fit(log.joined(shown_by(offline, world, own, rng)), **options)
    for _ in range(CALIBRATIONS):
        model = model.calibrated(shown_by(model, world, calibrating, rng))
    history = world.histories
    seen, before = model.users(Ragged.of(history)), offline.users(Ragged.of(history))
    informed = [world.user(known) for known in history]
    answers = {
        "best": optimised(world.catalog, informed, history, seed),
        "best, greedily": optimised(world.catalog, informed, history, seed, "greedy"),
        "setwise": optimised(model.catalog(), seen, history, seed),
        "greedy": optimised(model.catalog(), seen, history, seed, "greedy"),
        "setwise, log alone": optimised(offline.catalog(), before, history, seed),
        "k-NN + greedy": greedy_of_nearest(model, seen, history),
        "pure embedding": pure_embedding(log, history, Schedule(epochs=epochs, seed=seed)),
    }
    return {
        "world": kind,
        "seed": seed,
        **{name: float(world.expected(history, shown).sum(axis=1).mean()) for name, shown in answers.items()},
        "promised": promise(model, seen, answers["setwise"]),
        "promised, log alone": promise(offline, before, answers["setwise, log alone"]),
        "validation_loss": min(min(stage["validation"]) for stage in model.summary["stages"].values()),
        "seconds": time.perf_counter() - began,
    }


def promise(model: SimpleTransformer, users: list[sw.User], slates: np.ndarray) -> float:
    """The mean F of these slates by the reference objective."""
    return float(np.mean([sw.set_value(model.catalog(), user, one) for user, one in zip(users, slates, strict=True)]))


def table(rows: list[Row]) -> Table:
    """Each run, and the means."""
    result = Table(title=f"True expected hits of {K}, and shares of the best")
    headings = (
        "world",
        "seed",
        "best",
        "setwise",
        "of best",
        "log alone",
        "over pure",
        "over k-NN + greedy",
        "greedy of best",
        "greedy with the truth",
        "promised / true",
        "s",
    )
    for heading in headings:
        result.add_column(heading, justify="left" if heading == "world" else "right")
    for row in [*rows, *_means(rows)]:
        result.add_row(
            row["world"],
            str(row["seed"]),
            f"{row['best']:.3f}",
            f"{row['setwise']:.3f}",
            f"{row['setwise'] / row['best']:.4f}",
            f"{row['setwise, log alone'] / row['best']:.4f}",
            f"{row['setwise'] / row['pure embedding']:.4f}",
            f"{row['setwise'] / row['k-NN + greedy']:.4f}",
            f"{row['greedy'] / row['best']:.4f}",
            f"{row['best, greedily'] / row['best']:.4f}",
            f"{row['promised'] / row['setwise']:.3f}",
            f"{row['seconds']:.0f}",
        )
    return result


def _means(rows: list[Row]) -> list[Row]:
    result = []
    for world in dict.fromkeys(row["world"] for row in rows):
        mine = [row for row in rows if row["world"] == world]
        numbers = {name: np.mean([row[name] for row in mine]) for name in FIELDS[2:]}
        result.append({"world": world, "seed": "mean", **numbers})
    return result


def main() -> None:
    """Run all seeds in both worlds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--slates", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=Schedule.epochs)
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    arguments = parser.parse_args()
    sizes = {name: getattr(arguments, name) for name in ("slates", "items", "users", "epochs")}
    console, kept = Console(width=140), KeptRows(arguments.out, FIELDS, sizes)
    wanted = [f"{kind}/{seed}" for kind in arguments.worlds for seed in arguments.seeds]
    for one in kept.missing(wanted, "closed loop"):
        kind, seed = one.split("/")
        kept.add(one, [run(int(seed), kind, **sizes)])
    console.print(table(kept.rows))


if __name__ == "__main__":
    main()
