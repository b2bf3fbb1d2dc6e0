"""Margin instead of clicks: the slate of the largest expected margin, within a total price, and its proof."""

import numpy as np

import setwise as sw
from setwise.datasets import World


def main() -> None:
    world = World.make(n_items=1000, seed=0)
    rng = np.random.default_rng(0)
    price = np.round(np.exp(rng.normal(0.5, 0.5, 1000)), 2)
    margin = np.round(price * rng.uniform(0.1, 0.4, 1000), 2)
    catalog = world.catalog.named(world.catalog.ids, {"price": price, "margin": margin})
    recommender = sw.Recommender(sw.Index.build(catalog, cells=16)).prepare()
    user = world.user(world.histories[0])

    clicks = recommender.recommend(user, k=5)
    worth = recommender.recommend(user, k=5, weights="margin", value_unit="EUR")
    within = recommender.recommend(user, k=5, weights="margin", value_unit="EUR", sum_at_most={"price": 10})
    for name, slate in (("clicks", clicks), ("margin", worth), ("margin, at most 10 EUR", within)):
        rows = slate.indices
        rewards = sw.item_rewards(catalog, user, rows)
        print(
            f"{name:>24}: {rewards.sum():.2f} clicks, {rewards @ margin[rows]:.2f} EUR expected margin, "
            f"{price[rows].sum():.2f} EUR in all, at most {100 * slate.gap:.1f} % below the best"
        )


if __name__ == "__main__":
    main()
