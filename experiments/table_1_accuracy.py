"""Table 1, who can tell what people chose: models without attention, the simple transformer, general transformers.

    python experiments/table_1_accuracy.py --out report/table_1.csv        (about half an hour on one core)

*Playlists*: the first 15 tracks of a playlist and the next 5, or 5 others: true or fake? With the paper's uniform fakes
and with hard ones (``negatives.py``). Parts, rare tracks and vectors are as ``representation.py`` says;
tracks are known by their company or by their titles alone.
*Hotels*: which of five was clicked? On a small sample, by five-fold cross-validation (``hotels.py``).

Flat models come with several sets of features, so that they are judged by the best of them. Sizes and rates were chosen
on the validation playlists of seed 0. The rows are made from real people's playlists: --out is not committed.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hotels import Scorers, cross_validated, fives, network_scorer, read_lists, vectors
from representation import (
    ATTENTION,
    HOTELS,
    PLAYLISTS,
    SHAPE,
    Clock,
    Effort,
    Network,
    Parts,
    Row,
    accuracy,
    belief,
    divide,
    general,
    means,
    read_playlists,
    row_of,
    simple,
    spread,
    taught,
    write,
)
from rich.console import Console
from rich.table import Table
from titles import title_vectors

from setwise.datasets.sessions import Slates
from setwise.training.baselines import FEATURES, MODELS, FlatModel, PureEmbedding
from setwise.training.negatives import KINDS

PAPER = {
    ("playlists", "random forest"): 0.518,
    ("playlists", "logistic regression"): 0.520,
    ("playlists", "support vector machine"): 0.334,
    ("playlists", "simple transformer"): 0.702,
    ("playlists", "general transformer"): 0.726,
    ("hotels", "random forest"): 0.271,
    ("hotels", "logistic regression"): 0.530,
    ("hotels", "support vector machine"): 0.531,
    ("hotels", "simple transformer"): 0.631,
    ("hotels", "general transformer"): 0.742,
}
DEPTHS = ((1, 1),)  # of general transformers; Table 2 has more


def networks(n_items: int, x: np.ndarray) -> dict[tuple[str, str], tuple[Callable[[], Network], float]]:
    """Model and kind -> how it is made, and its highest learning rate."""
    made: dict[tuple[str, str], tuple[Callable[[], Network], float]] = {
        ("pure embedding", "bilinear"): (lambda: PureEmbedding(n_items, SHAPE.dim, x), 3e-3),
        ("simple transformer", "one layer"): (lambda: simple(n_items, x), 3e-3),
    }
    for encoder, decoder in DEPTHS:
        kind = f"encoder {encoder}, decoder {decoder}"
        made["general transformer", kind] = (lambda e=encoder, d=decoder: general(n_items, x, e, d), 1e-3)
    return made


def playlist_rows(task: str, parts: Parts, fakes: str, effort: Effort) -> list[Row]:
    """Every model on the test playlists of one parting."""
    test, learned, clock, rows = (
        parts.slates("test", fakes),
        parts.drawn(fakes, 0, effort.flat_draws, False),
        Clock(),
        [],
    )

    def note(model: str, features: str, probability: np.ndarray) -> None:
        share = accuracy(probability, test)
        rows.append(row_of(task, fakes, model, features, parts.seed, len(test), share, clock))

    for model in MODELS:
        for features in FEATURES[: 1 if model == "random guess" else None]:
            x = parts.words if features == "similarities" else parts.vectors  # each where it does better
            note(model, features, FlatModel(model, x, features, seed=parts.seed).fit(learned).predict(test))
    for (model, kind), (make, rate) in networks(parts.corpus.n_items, parts.vectors).items():
        note(model, kind, belief(taught(make, parts, fakes, effort, rate), test))
    return rows


def hotel_rows(path: Path, seed: int, effort: Effort) -> list[Row]:
    """Every model on every list of the sample."""
    clock, x, lists = Clock(), vectors(), read_lists(path)

    def fitted(training: Slates, validation: Slates, seed: int) -> Scorers:
        return flat_scorers(training, x, seed) | {
            name: network_scorer(make, training, validation, effort.schedule(seed, rate / 3))
            for name, (make, rate) in networks(len(x), x).items()
        }

    return [
        row_of("hotels", slates, *name, seed, len(hits), float(hits.mean()), clock)
        for (slates, *name), hits in cross_validated(
            lists.taken(np.arange(len(lists))[: effort.most]), seed, effort.folds, fitted
        ).items()
    ]


def flat_scorers(training: Slates, x: np.ndarray, seed: int) -> Scorers:
    """Guesses and flat models; cosines mean nothing between such vectors, so there are three sets of features."""
    slates, rng = fives(training, seed), np.random.default_rng(seed)
    found: Scorers = {
        ("random guess", "-"): lambda test: rng.random(len(test.shown.values)),
        ("highest in the list", "-"): lambda test: -test.shown.values.astype(float),  # items go by place first
    }
    for model in MODELS:
        for features in () if model == "random guess" else FEATURES[:3]:
            found[model, features] = FlatModel(model, x, features, "item", seed=seed).fit(slates).predict
    return found


def shown(rows: list[Row], console: Console) -> None:
    """The table, ours beside the paper's, and the two distances that the paper speaks of."""
    for task, fakes in dict.fromkeys((one["task"], one["fakes"]) for one in rows):
        mine = [one for one in rows if (one["task"], one["fakes"]) == (task, fakes)]
        sizes = sorted({one["slates"] for one in mine})
        seeds = len({one["seed"] for one in mine})
        table = Table(title=f"{task}, {fakes}: accuracy on {'/'.join(map(str, sizes))} slates, {seeds} seeds")
        for name in ("group", "model", "features", "accuracy", "paper"):
            table.add_column(name)
        for (group, model, features), found in means(mine, "group", "model", "features").items():
            paper = PAPER.get((task.split(",")[0], model)) if fakes in ("uniform", "five of the list") else None
            table.add_row(group, model, features, spread(found), "" if paper is None else f"{paper:.3f}")
        console.print(table)
        distances(mine, console)


def distances(rows: list[Row], console: Console) -> None:
    """Simple transformer less the best without attention, and less the best general transformer, seed by seed."""
    groups = means(rows, "model", "features")
    (ours,) = (found for (model, _), found in groups.items() if model == "simple transformer")
    rivals = {
        "the best model without attention": [key for key in groups if key[0] not in ATTENTION],
        "the best of them on the bag of all twenty": [key for key in groups if key[1] == "bag"],
        "the best of them on plain vectors": [key for key in groups if key[1] == "vectors"],
        "the pure embedding model": [key for key in groups if key[0] == "pure embedding"],
        "the best general transformer": [key for key in groups if key[0] == "general transformer"],
    }
    for name, keys in rivals.items():
        best = max(keys, key=lambda key: float(np.mean(groups[key])))
        difference = [one - other for one, other in zip(ours, groups[best], strict=True)]
        console.print(f"  simple transformer less {name} ({', '.join(best)}): {spread(difference)}")


def sizes(parts: Parts) -> str:
    """How much there is to learn from and to judge by."""
    cut = [int((part.items.lengths >= 20).sum()) for part in (parts.training, parts.validation, parts.test)]
    known = f"{len(parts.corpus)} corpus playlists, {parts.corpus.n_items} tracks"
    return "{}; {} training, {} validation, {} test playlists".format(known, *cut)


def main() -> None:
    """Measure, write, show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--playlists", type=Path, help=f"default: {PLAYLISTS} under --data; the MPD itself will do")
    parser.add_argument("--tasks", nargs="+", choices=("playlists", "hotels"), default=["playlists", "hotels"])
    parser.add_argument("--vectors", nargs="+", choices=("company", "titles"), default=["company", "titles"])
    parser.add_argument("--fakes", nargs="+", choices=KINDS, default=["uniform", "hard"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="only show that it runs: the figures mean nothing")
    parser.add_argument("--out", type=Path, help="raw rows as CSV")
    options = parser.parse_args()
    effort, console, rows = Effort.quick() if options.quick else Effort(), Console(), []
    if "playlists" in options.tasks:
        sessions = read_playlists(options.playlists or options.data / PLAYLISTS)
        embeds = {"company": None, "titles": title_vectors(options.data) if "titles" in options.vectors else None}
        for vectors_of, seed in itertools.product(options.vectors, range(options.seeds)):
            parts = divide(sessions, seed, effort, embeds[vectors_of])
            console.print(f"seed {seed}, vectors of {vectors_of}: {sizes(parts)}")
            for fakes in options.fakes:
                rows += playlist_rows(f"playlists, vectors of {vectors_of}", parts, fakes, effort)
                write(rows, options.out)
    if "hotels" in options.tasks:
        for seed in range(options.seeds):
            rows += hotel_rows(options.data / HOTELS, seed, effort)
    write(rows, options.out)
    shown(rows, console)


if __name__ == "__main__":
    main()
