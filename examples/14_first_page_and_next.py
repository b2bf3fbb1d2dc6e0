"""The first page and the next: no repeats, and new items are chosen beside those that were shown."""

import setwise as sw
from setwise.datasets import World


def main() -> None:
    world = World.make(n_items=1000, seed=0)
    recommender = sw.Recommender(sw.Index.build(world.catalog, cells=16)).prepare()
    user = world.user(world.histories[0])

    shown: list[str] = []
    for page in range(1, 4):
        slate = recommender.recommend(user, k=4, after=shown, at_most={"artist": 1}, after_counts=True)
        print(
            f"page {page}: {', '.join(slate)}; value {slate.value:.3f} beside what was shown, "
            f"at most {100 * slate.gap:.2f} % below the best page"
        )
        shown += slate.items.tolist()
    print(f"{len(shown)} songs, {len(set(shown))} of them different")


if __name__ == "__main__":
    main()
