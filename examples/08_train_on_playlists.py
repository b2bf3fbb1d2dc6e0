"""Train on playlists: from a file of playlists to a slate, with expected and actual hits on held-out playlists.

    python examples/08_train_on_playlists.py                   playlists of a simulated world, written to a file first
    python examples/08_train_on_playlists.py my_playlists.csv  or any other file or folder that setwise.datasets reads

Needs ``pip install 'setwise[train]'``. The command ``setwise train`` also evaluates the model in detail.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import setwise as sw
from setwise.datasets import Sessions, World, read
from setwise.training import SimpleTransformer

K, HELD_OUT = 8, 50  # songs in a slate; playlists that are not used for training
QUICK = {"dim": 16, "heads": 1, "epochs": 3}  # for the simulated playlists: seconds instead of minutes


def simulated(path: Path) -> Path:
    """A file with a playlist a line: {"tracks": ["Silver Harbour", …]}."""
    world = World.make(n_items=300, seed=2)
    titles = np.array(world.catalog.attributes["title"][:])
    playlists = world.new_histories(600, np.random.default_rng(0))
    path.write_text("".join(json.dumps({"tracks": titles[rows].tolist()}) + "\n" for rows in playlists))
    return path


def main(folder: Path) -> None:
    named = sys.argv[1:]
    playlists = read(named[0] if named else simulated(folder / "playlists.jsonl"))
    if not isinstance(playlists, Sessions):
        sys.exit("These are slates with outcomes, not playlists: see docs/how-to/learning.md for training on them.")
    playlists = playlists.trimmed(least_sessions=3, least_items=4)  # rare songs cannot be learned
    order = np.random.default_rng(0).permutation(len(playlists))
    held_out, training = playlists.taken(order[:HELD_OUT]), playlists.taken(order[HELD_OUT:])
    print(f"{len(training):,} playlists of {playlists.n_items:,} songs for training, {len(held_out)} held out")

    model = SimpleTransformer.fit(training, k=K, **({} if named else QUICK))
    model.save(folder / "model")  # what `setwise index` takes
    recommender = sw.Recommender.from_model(model)  # indexes the songs, and reads histories of ids

    # A user with the first half of a playlist is shown K songs: expected hits, and hits in the second half.
    ids = np.array(playlists.ids)
    halves = [np.array_split(ids[rows], 2) for rows in held_out.items]
    slates = recommender.recommend_many(histories=[known for known, _ in halves], k=K, certify=False)
    had = [np.isin(slate.items, rest).sum() for slate, (_, rest) in zip(slates, halves, strict=True)]
    popular = ids[np.argsort(-training.popularity)[:K]]
    print(
        f"setwise: {np.mean([slate.value for slate in slates]):.2f} expected hits of {K}, {np.mean(had):.2f} observed"
    )
    print(f"the most popular songs: {np.mean([np.isin(popular, rest).sum() for _, rest in halves]):.2f} had")
    if model.summary["kept"] == "alone":
        print("(Playlists show no set effects beyond doubt here: songs are worth what they are worth alone.)")

    known = halves[0][0]
    slate = recommender.recommend(history=known, k=K)  # what the history holds is not recommended again
    title = dict(zip(playlists.ids, playlists.attributes.get("title", playlists.ids), strict=True))
    print(f"\nFor a user who likes {', '.join(str(title[item]) for item in known)}:")
    for item, reward in zip(slate.items, slate.rewards, strict=True):
        print(f"  {title[item]}: a hit with probability {reward:.0%}")
    print(f"Worth {slate.value:.3f} hits; no set of all {len(slate.catalog)} songs is worth more than", end=" ")
    print(f"{slate.upper_bound:.3f}{', so this is the best there is' if slate.proven else ''}.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
