"""Catalogues learned from real sessions, for whole_catalog.py: trained once, kept outside of the repository.

    python benchmarks/learned_catalogs.py --data ../shared/data --out ../learned

Four heads without a base term, trained on positive and negative slates: of the Polimi playlists (``polimi_four_heads``)
and of the followed playlists of the Million Playlist Dataset with another seed (``mpd_four_heads``). And ALS with two heads:
the base term is that of 128 factors, scaled to the range of the heads' scores, and the two heads are learned, over the 12,000
most frequent items of Polimi (``als_two_heads``). Each file has the form of ``shared/data/catalogs``, with 100 held-out
users. The files are made from real sessions: do not commit them.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))

from peers import mpd, polimi

from setwise.datasets.sessions import Sessions
from setwise.datasets.splits import HistorySplit
from setwise.training import SimpleTransformer
from setwise.training.base.als import fit_als
from setwise.training.base.search import padded
from setwise.training.base.session_matrix import session_matrix
from setwise.training.negatives import positive_and_negative_slates

USERS, HISTORY, SIZE = 100, 15, 5
EPOCHS, ITEMS = 6, 12_000


def trained(sessions: Sessions, seed: int, heads: int) -> tuple[SimpleTransformer, HistorySplit, Sessions]:
    """A model without a base term, the histories of held-out sessions, and the sessions it was trained on."""
    long = np.flatnonzero(sessions.items.lengths >= HISTORY + SIZE)
    order = np.random.default_rng(seed).permutation(long)
    held_out, rest = order[:USERS], order[USERS:]
    slates = positive_and_negative_slates(sessions.taken(rest), "popular", HISTORY, SIZE, seed)
    model = SimpleTransformer.fit(
        slates,
        heads=heads,
        base=False,
        sink=False,
        dim=64,
        epochs=EPOCHS,
        seed=seed,
        embeddings="word2vec",
        progress=False,
    )
    return model, HistorySplit.window(sessions.taken(held_out), HISTORY, SIZE), sessions.taken(rest)


def frequent(sessions: Sessions, items: int) -> Sessions:
    """The sessions with the most frequent items only."""
    rows = np.sort(np.argsort(-sessions.popularity, kind="stable")[:items])
    kept = np.zeros(sessions.n_items, bool)
    kept[rows] = True
    return replace(sessions, items=sessions.items.kept(kept[sessions.items.values])).renumbered(rows)


def head_scores(model: SimpleTransformer, split: HistorySplit) -> np.ndarray:
    """The sum over heads of every item's scores, for every user: (users, n)."""
    users, value = model.encoder.users(split.history), model.catalog().value
    return np.stack([np.einsum("nhd,hd->n", value, users[number].heads) for number in range(USERS)])


def als_base(model: SimpleTransformer, split: HistorySplit, rest: Sessions) -> tuple[np.ndarray, np.ndarray]:
    """Item factors of ALS and vectors of the users: the largest terms are as far from their median as those of the heads."""
    factors = fit_als(session_matrix(rest.items, rest.n_items), 128, 0.1, 10.0)
    vectors = factors.vectors(*padded(split.history))
    ratio = spread(head_scores(model, split)) / spread(vectors @ factors.items.T)
    return factors.items.astype(np.float32), ratio * vectors


def spread(scores: np.ndarray) -> float:
    """How far the largest scores of a user are from the median, on average over users."""
    return float((scores.max(axis=1) - np.median(scores, axis=1)).mean())


def saved(
    path: Path, model: SimpleTransformer, split: HistorySplit, base: tuple[np.ndarray, np.ndarray] | None
) -> None:
    """Write the catalogue and its held-out users.

    The reward of the largest sum of a user's scores is a half, and that of the median 4 less on the logistic scale, about as in
    the playlists. With the reward of training, which has no base term, the largest rewards would all be 1.
    """
    catalog, users = model.catalog(), model.encoder.users(split.history)
    arrays = {
        "query": catalog.query, "key": catalog.key, "value": catalog.value,
        "user_heads": np.stack([users[number].heads for number in range(USERS)]),
        "history": split.history.values.reshape(USERS, HISTORY),
    }  # fmt: skip
    both = head_scores(model, split)
    if base is not None:
        arrays |= {"base": base[0], "user_base": base[1]}
        both += base[1] @ base[0].T
    scale = 4.0 / spread(both)
    np.savez(path, **arrays, scale=scale, bias=-scale * float(np.median(both.max(axis=1))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("../learned"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    families = (("als_two_heads", 3, 2, polimi), ("polimi_four_heads", 1, 4, polimi), ("mpd_four_heads", 2, 4, mpd))
    for name, seed, heads, read in families:
        start = time.perf_counter()
        sessions = read(options.data)
        sessions = frequent(sessions, ITEMS) if name == "als_two_heads" else sessions
        model, split, rest = trained(sessions, seed, heads)
        base = als_base(model, split, rest) if name == "als_two_heads" else None
        saved(options.out / f"{name}.npz", model, split, base)
        print(f"  {name}: {sessions.n_items} items, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
