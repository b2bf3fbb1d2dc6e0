"""Your own recommender's scores: the best set of its candidates, with constraints, other users' tables, and a proof."""

import numpy as np

import setwise as sw
from setwise import interop
from setwise.datasets import World


def main() -> None:
    world = World.make(n_items=1000, seed=0)
    recommender = sw.Recommender(sw.Index.build(world.catalog, cells=16))
    user, rng = world.user(world.histories[0]), np.random.default_rng(0)
    scores = rng.normal(size=1000)  # of your recommender: one number per song, on the scale of log-odds

    alone = recommender.recommend(k=5, scores=scores)  # without a user a slate is the top five
    one_each = recommender.recommend(k=5, scores=scores, at_most={"artist": 1})
    together = recommender.recommend(user, k=5, scores=scores)  # with what songs of a slate do to each other
    for name, slate in (("scores alone", alone), ("one song per artist", one_each), ("with the set model", together)):
        state = "proven optimal" if slate.proven else f"at most {100 * slate.gap:.2f} % below the best"
        print(f"{name:>20}: {', '.join(slate)}, value {slate.value:.3f}, {state}")

    candidates = {  # a table with RecTools' column names; a frame of pandas or polars will do as well
        "user_id": ["anna"] * 50 + ["ben"] * 50,
        "item_id": [f"song-{row}" for _ in range(2) for row in rng.permutation(1000)[:50]],
        "score": rng.normal(size=100).tolist(),
    }
    for name, own in interop.scores_by_user(candidates).items():
        slate = recommender.recommend(k=3, scores=own, at_most={"artist": 1})
        print(f"{name:>20}: {', '.join(slate)}")


if __name__ == "__main__":
    main()
