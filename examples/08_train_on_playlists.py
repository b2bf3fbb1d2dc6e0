"""Train on playlists: from a file of lists to a slate for whoever likes these songs, and what can be promised of it.

    python examples/08_train_on_playlists.py                   playlists of a simulated world, written to a file first
    python examples/08_train_on_playlists.py my_playlists.csv  or any other file or folder that setwise.datasets reads

Needs ``pip install 'setwise[train]'``. The command ``setwise train`` does the same and judges the model more closely.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import setwise as sw
from setwise.datasets import Sessions, World, read
from setwise.training import SimpleTransformer

K, JUDGES = 8, 50  # songs to a slate; playlists that take no part in learning
QUICK = {"dim": 16, "heads": 1, "epochs": 6}  # for the simulated playlists: seconds instead of minutes


def simulated(path: Path) -> Path:
    """A file with a playlist a line: {"tracks": ["Silver Harbour", …]}."""
    world = World.make(n_items=300, seed=2)
    titles = np.array(world.catalog.attributes["title"][:])
    playlists = world.new_histories(1000, np.random.default_rng(0))
    path.write_text("".join(json.dumps({"tracks": titles[rows].tolist()}) + "\n" for rows in playlists))
    return path


def main(folder: Path) -> None:
    named = sys.argv[1:]
    playlists = read(named[0] if named else simulated(folder / "playlists.jsonl"))
    if not isinstance(playlists, Sessions):
        sys.exit("These are slates with outcomes, not playlists: docs/how-to/learning.md says how to learn from them.")
    playlists = playlists.trimmed(least_sessions=3, least_items=4)  # of rare songs nothing can be learned
    order = np.random.default_rng(0).permutation(len(playlists))
    judges, learned = playlists.taken(order[:JUDGES]), playlists.taken(order[JUDGES:])
    print(f"{len(learned):,} playlists of {playlists.n_items:,} songs to learn from, {len(judges)} to judge by")

    model = SimpleTransformer.fit(learned, k=K, **({} if named else QUICK))
    model.save(folder / "model")  # what `setwise index` takes
    recommender = sw.Recommender.from_model(model)  # indexes the songs, and reads histories of ids

    # Whoever has the first half of a playlist is shown K songs: hits promised, and hits that the rest of it holds.
    ids = np.array(playlists.ids)
    halves = [np.array_split(ids[rows], 2) for rows in judges.items]
    slates = recommender.recommend_many(histories=[known for known, _ in halves], k=K, certify=False)
    had = [np.isin(slate.items, rest).sum() for slate, (_, rest) in zip(slates, halves, strict=True)]
    popular = ids[np.argsort(-learned.popularity)[:K]]
    print(f"setwise: {np.mean([slate.value for slate in slates]):.2f} hits of {K} promised, {np.mean(had):.2f} had")
    print(f"the most popular songs: {np.mean([np.isin(popular, rest).sum() for _, rest in halves]):.2f} had")
    if model.summary["kept"] == "alone":
        print("(Playlists show no set effects beyond doubt here: songs are worth what they are worth alone.)")

    known = halves[0][0]
    slate = recommender.recommend(history=known, k=K)  # what the history holds is not recommended again
    title = dict(zip(playlists.ids, playlists.attributes.get("title", playlists.ids), strict=True))
    print(f"\nFor whoever likes {', '.join(str(title[item]) for item in known)}:")
    for item, reward in zip(slate.items, slate.rewards, strict=True):
        print(f"  {title[item]}: a hit with probability {reward:.0%}")
    print(f"Worth {slate.value:.3f} hits; no set of all {len(slate.catalog)} songs is worth more than", end=" ")
    print(f"{slate.upper_bound:.3f}{', so this is the best there is' if slate.proven else ''}.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
