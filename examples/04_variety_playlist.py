"""A playlist with variety: the songs that are liked best, and how many genres they are of."""

import numpy as np

import setwise as sw

GENRES = {"Folk": [1.0, 0.1, 0.0], "Jazz": [0.1, 1.0, 0.2], "Techno": [-0.2, 0.1, 1.0]}


def main() -> None:
    genres = ["Folk", "Folk", "Folk", "Jazz", "Jazz", "Techno", "Folk", "Jazz", "Techno", "Techno"]
    liking = np.array([1.00, 0.99, 0.98, 0.95, 0.94, 0.93, 0.50, 0.40, 0.30, 0.20])
    titles = [f"{genre} {number}" for number, genre in enumerate(genres, 1)]
    for diversity in (0.0, 0.1, 0.2):
        rows = sw.rerank(liking, k=4, embeddings=[GENRES[genre] for genre in genres], diversity=diversity)
        several = len({genres[row] for row in rows})
        print(f"diversity {diversity:.1f}: {several} genres, {', '.join(titles[row] for row in rows)}")


if __name__ == "__main__":
    main()
