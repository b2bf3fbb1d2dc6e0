"""Table 1, accuracy at recognising what people chose: flat models, the simple transformer, general transformers.

    python experiments/table_1_accuracy.py --out report/table_1.csv        (about an hour on one core)

*Playlists*: the first 15 tracks of a playlist and the next 5, or 5 others: true or negative? With uniform
negatives as in the paper and with hard ones (``negatives.py``). ``representation.py`` describes parts, rare tracks and
vectors, which come from co-occurrence or from titles.
*Hotels*: which of five was clicked? On 13,596 lists, by cross-validation (``hotels.py``).

The *simple transformer* is ours: four heads, a base term, a sink. The *literal* one is the architecture that the paper
describes: one head, no base term, no sink, and the mean of the first fifteen as the user.

Flat models come with several sets of features, and the best of them counts. Sizes and rates were chosen
on the validation playlists of seed 0. The rows are made from real people's playlists: --out is not committed. An
interrupted run resumes with the next model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from baselines import FEATURES, MODELS, FlatModel, PointwiseNetwork
from hotels import Scorers, cross_validated, fives, network_scorer, read_lists, vectors
from kept_rows import KeptRows
from representation import (
    ATTENTION,
    FIELDS,
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
    effort_of,
    general,
    literal,
    means,
    parser_of,
    read_playlists,
    row_of,
    simple,
    spread,
    trained_network,
)
from rich.console import Console
from rich.table import Table
from titles import title_vectors

from setwise.datasets.sessions import Slates

PAPER = {
    ("playlists", "random forest"): 0.518,
    ("playlists", "logistic regression"): 0.520,
    ("playlists", "support vector machine"): 0.334,
    ("playlists", "simple transformer"): 0.702,
    ("playlists", "simple transformer, literal"): 0.702,
    ("playlists", "general transformer"): 0.726,
    ("hotels", "random forest"): 0.271,
    ("hotels", "logistic regression"): 0.530,
    ("hotels", "support vector machine"): 0.531,
    ("hotels", "simple transformer"): 0.631,
    ("hotels", "simple transformer, literal"): 0.631,
    ("hotels", "general transformer"): 0.742,
}
DEPTHS = ((1, 1),)  # of general transformers; Table 2 has more
MOST_SUPPORT = 1500  # lists of hotels for support vector machines, whose cost grows with the square of their number


def networks(n_items: int, x: np.ndarray) -> dict[tuple[str, str], tuple[Callable[[], Network], float]]:
    """Model and kind -> how it is made, and its highest learning rate."""
    made: dict[tuple[str, str], tuple[Callable[[], Network], float]] = {
        ("pure embedding", "bilinear"): (lambda: PointwiseNetwork(n_items, SHAPE.dim, x), 3e-3),
        ("simple transformer", "one layer"): (lambda: simple(n_items, x), 3e-3),
        ("simple transformer, literal", "one head, no base, no sink, mean"): (lambda: literal(n_items, x), 3e-3),
    }
    for encoder, decoder in DEPTHS:
        kind = f"encoder {encoder}, decoder {decoder}"
        made["general transformer", kind] = (lambda e=encoder, d=decoder: general(n_items, x, e, d), 1e-3)
    return made


FLAT = [(model, one) for model in MODELS for one in FEATURES[: 1 if model == "random guess" else None]]
COMPARED = [*FLAT, *networks(0, np.empty(0))]  # model and features, or kind


class PlaylistTask:
    """One split with one kind of negatives: training and test slates."""

    def __init__(self, vectors_of: str, parts: Parts, negatives: str, effort: Effort) -> None:
        self.name, self.parts, self.negatives, self.effort = (
            f"playlists, vectors of {vectors_of}",
            parts,
            negatives,
            effort,
        )
        self.test = parts.slates("test", negatives)
        self.learned = parts.drawn(negatives, 0, effort.flat_draws, False)

    def row(self, model: str, features: str) -> Row:
        """How often one model is right."""
        clock, parts = Clock(), self.parts
        if (model, features) in FLAT:
            x = parts.words if features == "similarities" else parts.vectors  # each where it does better
            found = FlatModel(model, x, features, seed=parts.seed).fit(self.learned).predict(self.test)
        else:
            make, rate = networks(parts.corpus.n_items, parts.vectors)[model, features]
            found = belief(trained_network(make, parts, self.negatives, self.effort, rate), self.test)
        share = accuracy(found, self.test)
        return row_of(self.name, self.negatives, model, features, parts.seed, len(self.test), share, clock)


def hotel_rows(path: Path, seed: int, effort: Effort) -> list[Row]:
    """Every model on every list."""
    clock, x, lists = Clock(), vectors(), read_lists(path, effort.most)

    def fitted(training: Slates, validation: Slates, seed: int) -> Scorers:
        return flat_scorers(training, x, seed) | {
            name: network_scorer(make, training, validation, effort.schedule(seed, rate / 3))
            for name, (make, rate) in networks(len(x), x).items()
        }

    return [
        row_of("hotels", slates, *name, seed, len(hits), float(hits.mean()), clock)
        for (slates, *name), hits in cross_validated(lists, seed, effort.folds, fitted).items()
    ]


def flat_scorers(training: Slates, x: np.ndarray, seed: int) -> Scorers:
    """Guesses and flat models; cosines mean nothing between such vectors, so there are three sets of features."""
    slates, rng = fives(training, seed), np.random.default_rng(seed)
    found: Scorers = {
        ("random guess", "-"): lambda test: rng.random(len(test.shown.values)),
        ("highest in the list", "-"): lambda test: -test.shown.values.astype(float),  # items go by place first
    }
    for model in MODELS:
        learned = slates.taken(np.arange(len(slates))[: MOST_SUPPORT if model == "support vector machine" else None])
        for features in () if model == "random guess" else FEATURES[:3]:
            found[model, features] = FlatModel(model, x, features, "item", seed=seed).fit(learned).predict
    return found


def shown(rows: list[Row], console: Console) -> None:
    """The table, ours beside the paper's, and the two distances that the paper speaks of."""
    for task, negatives in dict.fromkeys((one["task"], one["negatives"]) for one in rows):
        mine = [one for one in rows if (one["task"], one["negatives"]) == (task, negatives)]
        sizes = sorted({one["slates"] for one in mine})
        seeds = len({one["seed"] for one in mine})
        table = Table(title=f"{task}, {negatives}: accuracy on {'/'.join(map(str, sizes))} slates, {seeds} seeds")
        for name in ("group", "model", "features", "accuracy", "paper"):
            table.add_column(name)
        for (group, model, features), found in means(mine, "group", "model", "features").items():
            paper = PAPER.get((task.split(",")[0], model)) if negatives in ("uniform", "five of the list") else None
            table.add_row(group, model, features, spread(found), "" if paper is None else f"{paper:.3f}")
        console.print(table)
        for name, (best, differences) in distances(mine).items():
            console.print(f"  simple transformer less {name} ({', '.join(best)}): {spread(differences)}")


def distances(rows: list[Row]) -> dict[str, tuple[tuple[str, str], list[float]]]:
    """By rival: its best kind, and the simple transformer's accuracy less that one's, seed by seed."""
    groups = means(rows, "model", "features")
    (ours,) = (found for (model, _), found in groups.items() if model == "simple transformer")
    rivals = {
        "the best model without attention": [key for key in groups if key[0] not in ATTENTION],
        "the best of them on the bag of all twenty": [key for key in groups if key[1] == "bag"],
        "the best of them on plain vectors": [key for key in groups if key[1] == "vectors"],
        "the pure embedding model": [key for key in groups if key[0] == "pure embedding"],
        "the best general transformer": [key for key in groups if key[0] == "general transformer"],
    }
    best = {name: max(keys, key=lambda key: float(np.mean(groups[key]))) for name, keys in rivals.items()}
    return {
        name: (key, [one - other for one, other in zip(ours, groups[key], strict=True)]) for name, key in best.items()
    }


def sizes(parts: Parts) -> str:
    """The sizes of the parts."""
    cut = [int((part.items.lengths >= 20).sum()) for part in (parts.training, parts.validation, parts.test)]
    known = f"{len(parts.corpus)} corpus playlists, {parts.corpus.n_items} tracks"
    return "{}; {} training, {} validation, {} test playlists".format(known, *cut)


def units(options: argparse.Namespace) -> Iterator[str]:
    """One a model and split of the playlists, one a split of the hotels."""
    if "playlists" in options.tasks:
        for vectors_of in options.vectors:
            for seed in options.seeds:
                for negatives in options.negatives:
                    yield from ("/".join((vectors_of, str(seed), negatives, *each)) for each in COMPARED)
    if "hotels" in options.tasks:
        yield from (f"hotels/{seed}" for seed in options.seeds)


def run(options: argparse.Namespace) -> list[Row]:
    """Every model that the file does not hold yet."""
    effort = effort_of(options)
    kept = KeptRows(options.out, FIELDS, {"effort": effort})

    @cache
    def parts(vectors_of: str, seed: int) -> Parts:
        embed = title_vectors(options.data) if vectors_of == "titles" else None
        divided = divide(read_playlists(options.playlists or options.data / PLAYLISTS), seed, effort, embed)
        print(f"seed {seed}, vectors of {vectors_of}: {sizes(divided)}", flush=True)
        return divided

    @cache
    def task(vectors_of: str, seed: int, negatives: str) -> PlaylistTask:
        return PlaylistTask(vectors_of, parts(vectors_of, seed), negatives, effort)

    for unit in kept.missing(units(options), "Table 1"):
        what, seed, *which = unit.split("/")
        if what == "hotels":
            kept.add(unit, hotel_rows(options.data / HOTELS, int(seed), effort))
        else:
            negatives, model, features = which
            kept.add(unit, [task(what, int(seed), negatives).row(model, features)])
    return kept.rows


def main() -> None:
    """Measure and show."""
    parser = parser_of(__doc__.splitlines()[0], seeds=[0, 1, 2], negatives=["uniform", "hard"], epochs=25)
    parser.add_argument("--vectors", nargs="+", choices=("cooccurrence", "titles"), default=["cooccurrence", "titles"])
    shown(run(parser.parse_args()), Console())


if __name__ == "__main__":
    main()
