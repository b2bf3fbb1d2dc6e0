"""A playlist with variety: a song lowers the reward of similar later songs, so order matters (the paper's Model 1)."""

import itertools

import numpy as np

import setwise as sw
from setwise.preferences import SequentialVariety


def main() -> None:
    titles = ["Folk One", "Folk Two", "Folk Three", "Jazz One", "Jazz Two", "Techno One"]
    genre = np.array([[1.0, 0.1, 0.0]] * 3 + [[0.1, 1.0, 0.2]] * 2 + [[-0.2, 0.1, 1.0]])
    model = SequentialVariety(
        utility=[1.00, 0.98, 0.96, 0.80, 0.78, 0.70],
        embedding=genre / np.linalg.norm(genre, axis=1, keepdims=True),
        lag_weight=[1.0, 0.5, 0.25],  # the song just before counts most; playlists of up to four songs
        beta=-0.8,  # negative: variety is welcome
    )

    # The model as a simple transformer, right within a millionth, and ranked like any other catalogue.
    catalog, user = model.to_catalog(eps=1e-6, ids=titles), model.user()
    instance = sw.Instance.from_catalog(catalog, user, np.arange(len(titles)))
    for ranker in ("knn", "greedy", "swap", "exhaustive"):
        ranking = sw.rank(instance, k=4, ranker=ranker)
        rows = instance.candidates[ranking.indices]
        print(f"{ranker:>10}: {ranking.value:.3f}  {' → '.join(catalog.ids[rows])}")

    truth = max(model.value(order) for order in itertools.permutations(range(len(titles)), 4))
    print(f"the best order by brute force over the model itself: {truth:.3f}")


if __name__ == "__main__":
    main()
