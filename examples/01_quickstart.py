"""Quick start: a simulated world of songs, one user, and the value of the set that each ranker finds."""

import numpy as np

import setwise as sw
from setwise.datasets import World


def main() -> None:
    world = World.make(n_items=1000, seed=1)
    history = world.histories[0]
    user = world.user(history)

    # Forty songs outside the history, the best by score.
    unheard = np.setdiff1d(np.arange(len(world.catalog)), history)
    instance = sw.Instance.from_catalog(world.catalog, user, unheard)
    instance = sw.Instance.from_catalog(world.catalog, user, unheard[np.argsort(-instance.total_score)[:40]])

    for ranker in ("knn", "greedy", "swap", "exhaustive"):
        ranking = sw.rank(instance, k=4, ranker=ranker, at_most={"artist": 2})
        print(f"{ranker:>10}: {ranking.value:.3f} songs liked of 4 expected")

    rows = instance.candidates[ranking.indices]
    for row, reward in zip(rows, sw.item_rewards(world.catalog, user, rows), strict=True):
        title, artist = (world.catalog.attributes[name][int(row)] for name in ("title", "artist"))
        print(f"  {title} by {artist}: liked with probability {reward:.0%}")


if __name__ == "__main__":
    main()
