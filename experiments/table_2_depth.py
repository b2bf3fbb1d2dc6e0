"""Table 2: what more layers are worth, on the playlists with hard negatives and on lists of hotels.

    python experiments/table_2_depth.py --out report/table_2.csv        (about half an hour on one core)

General transformers of 1, 2 or 4 encoder layers over the history and 1, 2 or 4 decoder layers over the slate, beside
the simple transformer, all trained alike, and less long than in Table 1. Against uniform negatives nearly everything is
right nearly always, so depth is asked of the hard ones. The paper's table is on Trivago with all its sessions; ours
(``hotels.py``) has 7,612 of them. An interrupted run resumes with the next depth.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from hotels import Scorers, cross_validated, network_scorer, read_lists, vectors
from kept_rows import KeptRows
from representation import (
    FIELDS,
    HOTELS,
    PLAYLISTS,
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

from setwise.datasets.sessions import Slates

LAYERS = (1, 2, 4)
PAPER = {  # encoder and decoder layers: accuracy on Trivago
    (1, 1): 0.590, (2, 1): 0.602, (4, 1): 0.596,
    (1, 2): 0.654, (2, 2): 0.692, (4, 2): 0.700,
    (1, 4): 0.724, (2, 4): 0.742, (4, 4): 0.675,
}  # fmt: skip
SIMPLE = ("simple transformer", "one layer")


def networks(n_items: int, x: np.ndarray) -> dict[tuple[str, str], tuple[Callable[[], Network], float]]:
    """Model and kind -> how it is made, and its highest learning rate."""
    made: dict[tuple[str, str], tuple[Callable[[], Network], float]] = {SIMPLE: (lambda: simple(n_items, x), 3e-3)}
    for e, d in PAPER:
        made["general transformer", named(e, d)] = (lambda e=e, d=d: general(n_items, x, e, d), 1e-3)
    return made


def named(encoder: int, decoder: int) -> str:
    """How a depth is called in the rows."""
    return f"encoder {encoder}, decoder {decoder}"


def playlist_row(parts: Parts, negatives: str, model: str, kind: str, effort: Effort) -> Row:
    """One depth on the test playlists of one split."""
    test, clock = parts.slates("test", negatives), Clock()
    make, rate = networks(parts.corpus.n_items, parts.vectors)[model, kind]
    share = accuracy(belief(trained_network(make, parts, negatives, effort, rate), test), test)
    return row_of("playlists", negatives, model, kind, parts.seed, len(test), share, clock)


def hotel_rows(path: Path, seed: int, effort: Effort) -> list[Row]:
    """Every depth on every list."""
    clock, x, lists = Clock(), vectors(), read_lists(path, effort.most)

    def fitted(training: Slates, validation: Slates, seed: int) -> Scorers:
        return {
            name: network_scorer(make, training, validation, effort.schedule(seed, rate / 3))
            for name, (make, rate) in networks(len(x), x).items()
        }

    return [
        row_of("hotels", slates, *name, seed, len(hits), float(hits.mean()), clock)
        for (slates, *name), hits in cross_validated(lists, seed, effort.folds, fitted).items()
        if slates == "five of the list"
    ]


def shown(rows: list[Row], console: Console) -> None:
    """The grid of depths, the paper's in brackets, and how far the simple transformer is from the best of them."""
    for task, negatives in dict.fromkeys((one["task"], one["negatives"]) for one in rows):
        mine = [one for one in rows if (one["task"], one["negatives"]) == (task, negatives)]
        groups = {key[1]: found for key, found in means(mine, "model", "features").items()}
        table = Table(
            title=f"{task}, {negatives}: accuracy on {mine[0]['slates']} slates a seed, {len(groups[SIMPLE[1]])} seeds"
        )
        for name in ("decoder layers", *(f"{encoder} encoder layers" for encoder in LAYERS)):
            table.add_column(name)
        for decoder in LAYERS:
            cells = [spread(groups[named(encoder, decoder)]) for encoder in LAYERS]
            if task == "hotels":
                cells = [f"{cell} [{PAPER[e, decoder]:.3f}]" for cell, e in zip(cells, LAYERS, strict=True)]
            table.add_row(str(decoder), *cells)
        console.print(table)
        ours = groups.pop(SIMPLE[1])
        best = max(groups, key=lambda kind: float(np.mean(groups[kind])))
        difference = [one - other for one, other in zip(ours, groups[best], strict=True)]
        average = float(np.mean(list(groups.values())))
        console.print(f"  simple transformer: {spread(ours)}; the mean of the nine: {average:.3f}")
        console.print(f"  simple transformer less the best of the nine ({best}): {spread(difference)}")


def units(options: argparse.Namespace) -> Iterator[str]:
    """One a depth and split of the playlists, one a split of the hotels."""
    if "playlists" in options.tasks:
        for seed in options.seeds:
            for negatives in options.negatives:
                yield from ("/".join(("playlists", str(seed), negatives, *each)) for each in networks(0, np.empty(0)))
    if "hotels" in options.tasks:
        yield from (f"hotels/{seed}" for seed in options.seeds)


def run(options: argparse.Namespace) -> list[Row]:
    """Every depth that the file does not hold yet."""
    effort = effort_of(options)
    kept = KeptRows(options.out, FIELDS, {"effort": effort})

    @cache
    def parts(seed: int) -> Parts:
        return divide(read_playlists(options.playlists or options.data / PLAYLISTS), seed, effort)

    for unit in kept.missing(units(options), "Table 2"):
        what, seed, *which = unit.split("/")
        if what == "hotels":
            kept.add(unit, hotel_rows(options.data / HOTELS, int(seed), effort))
        else:
            kept.add(unit, [playlist_row(parts(int(seed)), *which, effort)])
    return kept.rows


def main() -> None:
    """Measure and show."""
    parser = parser_of(__doc__.splitlines()[0], seeds=[0, 1], negatives=["hard"], epochs=10)
    shown(run(parser.parse_args()), Console())


if __name__ == "__main__":
    main()
