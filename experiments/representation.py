"""Shared by Tables 1 and 2: a split of the playlists without leaks, the networks, their schedules and the scoring.

Playlists are split four ways, by playlist: a *corpus* that word2vec reads and negatives come from, and training,
validation and test playlists that neither has seen. With one part for both, the classifier would learn from playlists
whose co-occurrences the vectors contain, and be tested on playlists whose co-occurrences they do not contain.

A track's vector is its word2vec vector in the corpus, or the mean word vector of its title (``titles.py``): the
paper does not say which "word2vec embedding of the song" it took.

The catalogue is the tracks of at least ``LEAST`` corpus playlists; other tracks are taken out of all playlists (nothing
is known of them), and playlists with fewer than 20 tracks left are not cut.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from general_transformer import Depth, GeneralTransformer
from negatives import KINDS, positive_and_negative_slates
from numpy.typing import NDArray

from setwise.datasets.sessions import Sessions, Slates
from setwise.datasets.splits import random_split
from setwise.training.embeddings import unit, word2vec
from setwise.training.network import Shape, SimpleNetwork
from setwise.training.trainer import PaddedSlates, Schedule, train

SHARES = (0.55, 0.25, 0.08, 0.12)  # corpus, training, validation, test
LEAST = 3
torch.set_num_threads(1)  # in matrices this small, several threads wait for one another
SHAPE = Shape(dim=64, heads=4, d_kq=16, d_v=16)
PLAYLISTS = "playlists/mpd_followed_playlists.jsonl.gz"
HOTELS = "sets/trivago_100k/sessions.csv.gz"
LITERAL = Shape(dim=64, heads=1, d_kq=16, d_v=64, base=False, sink=False, pooling="mean")  # the paper's Figure 1
ATTENTION = ("simple transformer", "simple transformer, literal", "general transformer")
FIELDS = ("task", "negatives", "group", "model", "features", "seed", "slates", "accuracy", "seconds")

Network = torch.nn.Module
Row = dict[str, Any]
Embed = Callable[[Sessions], NDArray[np.float32]]


@dataclass(frozen=True)
class Effort:
    """How much is spent on a model; ``quick`` only shows that everything runs."""

    epochs: int = 25
    draws: int = 4  # cuts and negatives redrawn for every epoch
    flat_draws: int = 4  # for models that see their data once: the beginning of each playlist and three random places
    word_epochs: int = 10
    most: int | None = None  # playlists, or lists of hotels
    folds: int = 5  # of cross-validation

    @classmethod
    def quick(cls) -> Effort:
        """Next to nothing."""
        return cls(epochs=1, draws=1, flat_draws=1, word_epochs=1, most=300, folds=2)

    def schedule(self, seed: int, rate: float = 3e-3) -> Schedule:
        """One cycle over all epochs; the parameters of the best validation loss are kept."""
        return Schedule(self.epochs, 128, rate, weight_decay=0.01, patience=self.epochs, seed=seed)


@dataclass(frozen=True)
class Parts:
    """Playlists over one catalogue: the corpus, the training, validation and test parts, and track vectors."""

    corpus: Sessions
    training: Sessions
    validation: Sessions
    test: Sessions
    words: NDArray[np.float32]  # as word2vec gives them: their lengths express popularity
    vectors: NDArray[np.float32]  # of one length, as networks take them
    seed: int

    def slates(self, part: str, negatives: str, number: int = 0, anywhere: bool = False) -> Slates:
        """True and negative slates of a part; ``number`` counts independent draws."""
        seed = 1_000_000 * self.seed + 10_000 * ("training", "validation", "test").index(part) + number
        place = seed if anywhere else None
        return positive_and_negative_slates(
            getattr(self, part), negatives, seed=seed, pool=self.corpus, offset_seed=place
        )

    def drawn(self, negatives: str, first: int, count: int, anywhere: bool = True) -> Slates:
        """Training slates of several draws; without ``anywhere`` the first draw cuts at the beginnings."""
        slates = self.slates("training", negatives, first, anywhere)
        for number in range(first + 1, first + count):
            slates = slates.joined(self.slates("training", negatives, number, True))
        return slates


def read_playlists(path: Path) -> Sessions:
    """Playlists of a slice of the MPD, or of a file with one JSON object a line whose ``tracks`` are ids."""
    if ".jsonl" not in path.name:
        playlists = json.loads(path.read_text(encoding="utf-8"))["playlists"]
        return Sessions.of([[track["track_uri"] for track in playlist["tracks"]] for playlist in playlists])
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    sessions = Sessions.of([one["tracks"] for one in read])
    ordered = np.array([one.get("ordered", True) for one in read])
    return replace(sessions, ordered=ordered).shuffled_where_unordered()


def divide(sessions: Sessions, seed: int, effort: Effort, embed: Embed | None = None) -> Parts:
    """Four parts by playlist, over the tracks that the corpus holds often enough; vectors by word2vec or ``embed``."""
    distinct = sessions.distinct().taken(np.arange(len(sessions))[: effort.most])
    parts = [distinct.taken(rows) for rows in random_split(len(distinct), SHARES, seed)]
    common = parts[0].popularity >= LEAST
    corpus, *others = (
        replace(part, items=part.items.kept(common[part.items.values])).renumbered(np.flatnonzero(common))
        for part in parts
    )
    if embed is not None:
        words = embed(corpus)
        return Parts(corpus, *others, words, 2 * words, seed)
    words = word2vec(corpus, epochs=effort.word_epochs, seed=seed)
    # Directions are what word2vec is good for; of the lengths 1, 2 and 5 the second did best on validation.
    return Parts(corpus, *others, words, 2 * unit(words), seed)


def simple(n_items: int, vectors: NDArray[np.float32]) -> Network:
    """The simple transformer of both tables."""
    return SimpleNetwork(n_items, SHAPE, vectors)


def literal(n_items: int, vectors: NDArray[np.float32]) -> Network:
    """The architecture of the paper's Figure 1 to the letter: one head, no base term, no sink, the mean as the user."""
    return SimpleNetwork(n_items, LITERAL, vectors)


def general(n_items: int, vectors: NDArray[np.float32], encoder: int, decoder: int) -> Network:
    """A general transformer of the same width and number of heads."""
    return GeneralTransformer(n_items, Depth(encoder, decoder, dim=SHAPE.dim, heads=SHAPE.heads), vectors)


def trained_network(
    make: Callable[[], Network], parts: Parts, negatives: str, effort: Effort, rate: float = 3e-3
) -> Network:
    """A network trained to separate true slates from negatives."""
    torch.manual_seed(parts.seed)
    network = make()
    validation = parts.slates("validation", negatives)
    for number in range(1, effort.draws):
        validation = validation.joined(parts.slates("validation", negatives, number, anywhere=True))
    train(
        network,
        lambda epoch: parts.drawn(negatives, epoch * effort.draws, effort.draws),
        validation,
        "set",
        effort.schedule(parts.seed, rate),
        progress=False,
    )
    return network


def arguments(network: Network, slates: Slates) -> NDArray[np.float64]:
    """a_i(S), aligned with ``slates.shown.values``."""
    data = PaddedSlates.of(slates).to(next(network.parameters()).device)
    network.eval()
    with torch.no_grad():
        found = network(data.history, data.history_mask, data.shown, data.shown_mask)[data.shown_mask]
    return np.asarray(found.cpu().numpy(), np.float64)


def belief(network: Network, slates: Slates) -> NDArray[np.float64]:
    """Probability that each slate is true: the mean of f over it, that is the paper's sum over five by five."""
    reward = 1 / (1 + np.exp(-arguments(network, slates)))
    return np.asarray(np.add.reduceat(reward, slates.shown.offsets[:-1]) / slates.shown.lengths)


def accuracy(probability: NDArray[np.float64], slates: Slates) -> float:
    """Share of slates classified correctly as true or negative."""
    true = slates.outcome[slates.shown.offsets[:-1]] > 0.5
    return float(((probability > 0.5) == true).mean())


class Clock:
    """Seconds since the last look."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def seconds(self) -> float:
        """Since the last call."""
        now = time.perf_counter()
        passed, self.start = now - self.start, now
        return round(passed, 1)


def row_of(
    task: str, negatives: str, model: str, features: str, seed: int, slates: int, share: float, clock: Clock
) -> Row:
    """A raw row, as it goes to the CSV."""
    group = "attention" if model in ATTENTION else "no attention"
    return dict(
        zip(FIELDS, (task, negatives, group, model, features, seed, slates, share, clock.seconds()), strict=True)
    )


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def means(rows: list[Row], *by: str) -> dict[tuple[Any, ...], list[float]]:
    """The accuracies of every group of rows, in the order of appearance."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row["accuracy"])
    return groups


def parser_of(what: str, seeds: list[int], negatives: list[str], epochs: int) -> argparse.ArgumentParser:
    """The command line that both tables share."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--playlists", type=Path, help=f"default: {PLAYLISTS} under --data; the MPD itself will do")
    parser.add_argument("--tasks", nargs="+", choices=("playlists", "hotels"), default=["playlists", "hotels"])
    parser.add_argument("--negatives", nargs="+", choices=KINDS, default=negatives)
    parser.add_argument("--seeds", type=int, nargs="+", default=seeds, help="splits")
    parser.add_argument("--epochs", type=int, default=epochs, help="of every network")
    parser.add_argument("--draws", type=int, default=Effort.draws, help="cuts and negatives of every training playlist")
    parser.add_argument("--folds", type=int, default=Effort.folds, help="of cross-validation on the hotels")
    parser.add_argument("--quick", action="store_true", help="only show that it runs: the figures mean nothing")
    parser.add_argument("--out", type=Path, help="a CSV file for the raw rows; an interrupted run resumes")
    return parser


def effort_of(options: argparse.Namespace) -> Effort:
    """What the command line grants a model."""
    if options.quick:
        return Effort.quick()
    return Effort(options.epochs, options.draws, options.draws, folds=options.folds)
