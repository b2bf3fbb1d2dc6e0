"""Vectors of tracks from the words of their titles: independent of who listens to a song."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise.datasets.sessions import Sessions

TITLES = "playlists/mpd_followed_tracks.csv.gz"
WORDS = "embeddings/glove100_words_0-59999.npz"


def title_vectors(data: Path) -> Callable[[Sessions], NDArray[np.float32]]:
    """From sessions to one vector a track: the mean of public word vectors (GloVe, 100 dimensions) over its title."""
    with gzip.open(data / TITLES, "rt", encoding="utf-8", newline="") as file:
        titles: dict[Any, str] = {int(row["track_id"]): row["track_name"] for row in csv.DictReader(file)}
    arrays = np.load(data / WORDS)
    row_of = {word: row for row, word in enumerate(bytes(arrays["words"]).decode().split("\n"))}
    vectors = arrays["vectors"].astype(np.float32)

    def embed(sessions: Sessions) -> NDArray[np.float32]:
        found = [
            [row_of[word] for word in re.findall(r"[a-z0-9]+", titles.get(one, "").lower()) if word in row_of]
            for one in sessions.ids
        ]
        means = np.array([vectors[rows].mean(0) if rows else np.zeros(vectors.shape[1]) for rows in found])
        known = np.array([bool(rows) for rows in found])
        means[known] -= means[known].mean(
            0
        )  # all titles have much in common; a title without known words has the zero vector
        return np.asarray(means / np.linalg.norm(means[known], axis=1).mean(), np.float32)

    return embed
