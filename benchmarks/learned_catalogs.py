"""Catalogues learned from real sessions by the library's own recipes, for whole_catalog.py: trained once, not committed.

    python benchmarks/learned_catalogs.py --data ../shared/data --out ../learned

* ``polimi_four_heads``, ``mpd_four_heads``: base term and four heads, trained on positive and negative slates of the Polimi
  playlists, and of the followed playlists of the Million Playlist Dataset with another seed than the shared catalogue.
* ``als_two_heads``: the base is that of ALS with 128 factors, and two heads are learned on top of it as from sessions
  (training/from_sessions.py), over the 12,000 most frequent items of Polimi. They are kept whether they pay or not.

Rewards are as training calibrates them. Each file has the form of ``shared/data/catalogs``, with 100 held-out users. The files
are made from real sessions: do not commit them.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))

from negatives import positive_and_negative_slates
from peers import mpd, polimi

from setwise.datasets.sessions import Sessions
from setwise.datasets.splits import HistorySplit, random_split
from setwise.model.base_terms import BaseTerms
from setwise.model.rewards import Logistic
from setwise.training import SimpleTransformer
from setwise.training.base.als import fit_als
from setwise.training.base.search import FACTORS
from setwise.training.base.session_matrix import session_matrix
from setwise.training.embeddings import unit
from setwise.training.from_sessions import Evaluated, calibrate_on_policy, learn_attention, with_base
from setwise.training.network import Shape
from setwise.training.slate_model import SlateModel
from setwise.training.stages import Stages
from setwise.training.trainer import Schedule

USERS, HISTORY, SIZE = 100, 15, 5
EPOCHS, ITEMS = 6, 12_000
FAMILIES = (("als_two_heads", 3, 2, polimi), ("polimi_four_heads", 1, 4, polimi), ("mpd_four_heads", 2, 4, mpd))
SHAPE = {"dim": 64, "pooling": "unit_mean"}  # of models of sessions (training/recipe.py)
SCHEDULE = {"learning_rate": 0.01, "weight_decay": 0.003}


def held_out_users(sessions: Sessions, seed: int) -> tuple[HistorySplit, Sessions]:
    """The histories of held-out sessions, and the other sessions."""
    long = np.flatnonzero(sessions.items.lengths >= HISTORY + SIZE)
    held_out = np.random.default_rng(seed).permutation(long)[:USERS]
    rest = np.setdiff1d(np.arange(len(sessions)), held_out)
    return HistorySplit.window(sessions.taken(held_out), HISTORY, SIZE), sessions.taken(rest)


def from_slates(rest: Sessions, seed: int, heads: int) -> SlateModel:
    """Base and attention, from the slates that followed histories and from others."""
    slates = positive_and_negative_slates(rest, "popular", HISTORY, SIZE, seed)
    return SimpleTransformer.fit(slates, heads=heads, epochs=EPOCHS, seed=seed, embeddings="word2vec", progress=False)


def als_and_heads(sessions: Sessions, seed: int, heads: int, k: int = 10) -> SlateModel:
    """ALS as the base, and attention that is learned from slates of the model itself."""
    stages = Stages(sessions, Shape(**SHAPE, heads=heads), Schedule(**SCHEDULE, seed=seed), None, None, False)
    fitted, held_out = random_split(len(sessions), (0.8, 0.2), seed)
    fold_in = fit_als(session_matrix(sessions.taken(fitted).items, sessions.n_items), FACTORS, 0.1, 10.0, seed=seed)
    split = HistorySplit.first(sessions.taken(held_out))
    found = calibrate_on_policy(with_base(stages, BaseTerms(fold_in)), split, k)
    base, bias = BaseTerms(fold_in).scaled(found.reward.scale), Logistic(1.0, found.reward.bias)
    plain = Evaluated(with_base(stages, base).with_reward(bias), bias, found.hits)
    halves = [split.taken(part) for part in random_split(len(split), (0.5, 0.5), seed)]
    attention = learn_attention(stages, stages.network(unit(fold_in.items)), plain, base, halves, k)
    return attention.with_reward(calibrate_on_policy(attention, split, k).reward)


def frequent(sessions: Sessions, items: int) -> Sessions:
    """The sessions with the most frequent items only."""
    rows = np.sort(np.argsort(-sessions.popularity, kind="stable")[:items])
    kept = np.zeros(sessions.n_items, bool)
    kept[rows] = True
    return replace(sessions, items=sessions.items.kept(kept[sessions.items.values])).renumbered(rows)


def saved(path: Path, model: SlateModel, split: HistorySplit) -> None:
    """Write the catalogue and its held-out users."""
    catalog, users = model.catalog(), model.encoder.users(split.history)
    arrays = {
        "query": catalog.query, "key": catalog.key, "value": catalog.value, "base": catalog.base,
        "user_heads": np.stack([users[number].heads for number in range(USERS)]),
        "user_base": np.stack([users[number].base for number in range(USERS)]),
        "history": split.history.values.reshape(USERS, HISTORY),
    }  # fmt: skip
    if catalog.sink is not None:
        arrays |= {"sink_key": catalog.sink.key, "sink_value": catalog.sink.value}
    reward = catalog.rewards[0]
    np.savez(path, **arrays, scale=reward.scale, bias=reward.bias)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("../learned"))
    parser.add_argument("--only", nargs="*", default=[family[0] for family in FAMILIES], help="these catalogues")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, seed, heads, read in [family for family in FAMILIES if family[0] in options.only]:
        start = time.perf_counter()
        sessions = read(options.data)
        als = name == "als_two_heads"
        split, rest = held_out_users(frequent(sessions, ITEMS) if als else sessions, seed)
        model = als_and_heads(rest, seed, heads) if als else from_slates(rest, seed, heads)
        saved(options.out / f"{name}.npz", model, split)
        kept = model.summary.get("kept", "interaction")
        print(f"  {name}: {rest.n_items} items, kept: {kept}, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
