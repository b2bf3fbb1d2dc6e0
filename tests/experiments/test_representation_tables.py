"""What Tables 1 and 2 are made from: parts that leak nothing, slates, vectors. (test_reproduce.py runs them.)"""

from __future__ import annotations

import gzip
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from setwise.datasets.sessions import Sessions
from setwise.model.ragged import Ragged
from setwise.training.export import export_model

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
PLAYLISTS = "playlists/mpd_followed_playlists.jsonl.gz"
HOTELS = "sets/trivago_100k/sessions.csv.gz"
HEADER = (
    "user_id,session_id,timestamp,step,action_type,reference,platform,city,device,current_filters,impressions,prices"
)


@pytest.fixture(scope="module")
def miniature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Playlists of four genres that never mix, and lists of hotels whose first or cheapest is clicked."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (folder / "playlists").mkdir()
    (folder / HOTELS).parent.mkdir(parents=True)
    (folder / "embeddings").mkdir()
    words = "\n".join(["rock", "jazz", "folk", "soul", "song"]).encode()
    vectors = rng.normal(size=(5, 100)).astype(np.float16)
    np.savez(
        folder / "embeddings" / "glove100_words_0-59999.npz", words=np.frombuffer(words, np.uint8), vectors=vectors
    )
    with gzip.open(folder / "playlists" / "mpd_followed_tracks.csv.gz", "wt") as file:
        file.write("track_id,track_uri,artist_name,track_name\n")
        for track in range(240):
            file.write(f"{track},uri:{track},Ann,{('Rock', 'Jazz', 'Folk', 'Soul')[track // 60]} song no. {track}\n")
    with gzip.open(folder / PLAYLISTS, "wt") as file:
        for number in range(300):
            tracks = number % 4 * 60 + rng.choice(60, rng.integers(22, 40), replace=False)
            file.write(json.dumps({"name": "", "tracks": tracks.tolist()}) + "\n")
    with gzip.open(folder / HOTELS, "wt") as file:
        file.write(HEADER + "\n")
        for number in range(120):
            hotels, prices = rng.choice(10_000, 25, replace=False), rng.permutation(25) + 40
            clicked = hotels[rng.choice([0, prices.argmin(), rng.integers(25)])]
            lists = "|".join(map(str, hotels)), "|".join(map(str, prices))
            if number % 2:
                file.write(f"u{number},s{number},{number},0,interaction item image,{hotels[3]},DE,,mobile,,,\n")
            file.write(f"u{number},s{number},{number},1,clickout item,{clicked},DE,,mobile,,{lists[0]},{lists[1]}\n")
    return folder


def test_test_playlists_reach_neither_vectors_nor_catalogue(miniature: Path) -> None:
    representation = import_module("representation")
    sessions = representation.read_playlists(miniature / PLAYLISTS)
    effort = representation.Effort.quick()
    parts = representation.divide(sessions, 3, effort)
    kept = [part.items for part in (parts.corpus, parts.training, parts.validation, parts.test)]
    assert sum(map(len, kept)) == len(sessions)
    assert (parts.corpus.popularity >= representation.LEAST).all()
    # The same corpus with everybody else's playlists turned into others: same catalogue, same vectors.
    corpus, *others = (set(rows) for rows in representation.random_split(len(sessions), representation.SHARES, 3))
    changed = [items if number in corpus else np.array([5, 6, 7]) for number, items in enumerate(sessions.items)]
    other = representation.divide(Sessions(Ragged.of(changed), sessions.ids), 3, effort)
    assert list(other.corpus.ids) == list(parts.corpus.ids)
    np.testing.assert_array_equal(other.vectors, parts.vectors)
    assert not corpus & set().union(*others)


def test_slates_of_parts_are_drawn_anew(miniature: Path) -> None:
    representation = import_module("representation")
    parts = representation.divide(
        representation.read_playlists(miniature / PLAYLISTS), 0, representation.Effort.quick()
    )
    one, again, other = (parts.slates("training", "uniform", number) for number in (0, 0, 1))
    np.testing.assert_array_equal(one.shown.values, again.shown.values)
    half = len(one) // 2 * 5
    np.testing.assert_array_equal(one.shown.values[:half], other.shown.values[:half])
    assert (one.shown.values[half:] != other.shown.values[half:]).mean() > 0.9
    assert len(parts.drawn("uniform", 0, 3)) == 3 * len(one)


def test_unordered_playlists_are_shuffled(tmp_path: Path) -> None:
    representation = import_module("representation")
    path = tmp_path / "lists.jsonl"
    lines = [{"tracks": list(range(30)), "ordered": ordered} for ordered in (True, False)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sessions = representation.read_playlists(path)
    assert list(sessions.items[0]) == list(range(30))
    assert list(sessions.items[1]) != list(range(30))
    assert sorted(sessions.items[1]) == list(range(30))


def test_titles_become_vectors(miniature: Path) -> None:
    embed = import_module("titles").title_vectors(miniature)
    vectors = embed(Sessions(Ragged.of([[0, 1, 2, 3]]), [0, 1, 60, 9999]))  # rock, rock, jazz, and no title at all
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert (vectors[0] != vectors[2]).any()
    assert not vectors[3].any()


def test_slates_of_five_hotels(miniature: Path) -> None:
    hotels = import_module("hotels")
    lists = hotels.read_lists(miniature / HOTELS)
    assert len(lists) == 120
    cell, looked = np.divmod(lists.shown.values.reshape(120, 25), 2)
    place, decile = np.divmod(cell, hotels.DECILES)
    np.testing.assert_array_equal(looked.sum(axis=1), np.arange(120) % 2)  # hotel 3 of every other session
    assert len(hotels.read_lists(miniature / HOTELS, most=7)) == 7
    np.testing.assert_array_equal(place, np.tile(np.arange(25), (120, 1)))
    assert (np.sort(decile, axis=1) == np.arange(25) * 10 // 25).all()
    with gzip.open(miniature / HOTELS, "rt") as file:
        prices = np.array([line.strip().split(",")[-1].split("|") for line in file if "clickout" in line], int)
    assert (decile.ravel()[prices.ravel() == 40] == 0).all()  # the cheapest of each list
    slates = hotels.fives(lists, 0)
    assert len(slates) == 120
    assert (slates.outcome.reshape(120, 5).sum(1) == 1).all()
    assert (slates.outcome.reshape(120, 5).sum(0) > 5).all()  # the click stands anywhere
    for seen, shown, listed in zip(slates.history, slates.shown, lists.shown, strict=True):
        assert len(seen) == 15
        assert len({*seen, *shown}) == 20
        assert {*seen, *shown} <= set(listed)
    literal = hotels.literal(lists)
    clicked = lists.outcome.reshape(120, 25)[:, 15:20].any(1)
    assert len(literal) == clicked.sum() > 0
    for seen, shown in zip(literal.history, literal.shown, strict=True):
        assert [*seen // 20, *shown // 20] == list(range(20))


def test_the_literal_architecture() -> None:
    """Figure 1: one head, no base, no sink; the user is linear in the plain mean of the history."""
    representation = import_module("representation")
    vectors = np.random.default_rng(0).normal(size=(9, representation.LITERAL.dim)).astype(np.float32)
    model = export_model(representation.literal(9, vectors), [f"t{i}" for i in range(9)], {})
    catalog = model.catalog()
    assert (catalog.heads, catalog.base, catalog.sink) == (1, None, None)
    one, other, both = (model.user(history).heads for history in (["t1"], ["t2"], ["t1", "t2"]))
    np.testing.assert_allclose(both, (one + other) / 2, rtol=1e-4, atol=1e-6)
