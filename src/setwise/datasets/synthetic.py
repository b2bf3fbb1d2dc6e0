"""A simulated world of songs with people-readable titles and a simple transformer behind it: the embedded default.

Songs lie near their artist, artists in genres. Two kinds of head take turns, each with a silent sink, so that a song
alone gains little from them:

* company: a song attends to songs of its mood and borrows the user's liking of them (songs that go together);
* boredom: a song attends to its near-copies, whose value is the same negative number (the fifth near-copy bores).

A song's own worth is the base term: liking, popularity and a constant. With the logistic reward, F(S) is the expected
number of songs the user likes. Everything follows from the seed.

The constants below were chosen by trying some dozens of settings for one in which top-k by score loses about a fifth of
the value, as it does on trained models. So what rankers gain in this world illustrates the idea; it is no evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise.catalog import Catalog, Sink
from setwise.checks import whole_number
from setwise.rewards import Logistic
from setwise.users import User

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

TASTE, MOOD, HISTORY = 8, 4, 15  # dimensions of taste and mood; songs in a history
_LIKING, _POPULARITY, _OFFSET = 1.6, 0.3, -2.5  # the base term: base_i · u⁰ = liking + popularity + offset
_COMPANY, _BOREDOM = 5.0, 8.0  # how much good company adds at most, and how much near-copies take
_MOOD_SHARPNESS, _COPY_SHARPNESS = 6.0, 8.0  # logits of a perfect match
_SINK_MOOD, _SINK_COPY = 6.0, 9.0  # the sink's logits: what one perfect match has to compete with


def _words(text: str) -> list[str]:
    return text.split()


_GENRES = _words(
    "folk jazz house soul punk ambient disco blues metal reggae salsa techno gospel swing fado grime opera ska dub "
    "samba"
)
_FIRST = _words(
    "silver quiet hollow golden paper midnight electric lonely distant velvet broken early crooked northern bitter "
    "gentle burning second hidden little amber wooden restless open winter borrowed simple careless violet endless"
)
_SECOND = _words(
    "harbour river letters engine garden mirror summer horses avenue thunder kitchen shadow island window satellite "
    "orchard lantern tuesday machine valley ocean stranger carousel feather signal castle market season bridge "
    "compass"
)
_NAMES = _words(
    "Ada Bruno Carla Dario Esther Felix Greta Hugo Irma Jonas Kaya Leon Mona Nils Olga Pavel Rosa Sami Tilda Uwe Vera "
    "Willem Yara Zoe"
)
_SURNAMES = _words(
    "Alder Birch Cedar Dogwood Elm Fir Ginkgo Hazel Ivy Juniper Larch Maple Oak Poplar Quince Rowan Spruce Thorn "
    "Willow Yew"
)


@dataclass(frozen=True, eq=False)
class World:
    """n songs, some users with histories, and the transformer that says what they like together."""

    catalog: Catalog
    taste: Floats  # (n, TASTE): where each song lies
    histories: tuple[Rows, ...]  # the songs each user has heard, as rows

    @classmethod
    def make(cls, n_items: int = 2000, n_users: int = 50, heads: int = 2, seed: int = 0) -> World:
        """A world from a seed: any number of songs, users and heads."""
        n, n_users, heads = (
            whole_number("n_items", n_items),
            whole_number("n_users", n_users),
            whole_number("heads", heads),
        )
        rng = np.random.default_rng(whole_number("seed", seed, least=0))
        genre, artist, taste = _tastes(rng, n)
        popularity = rng.gumbel(size=n)
        query, key, value, sink = _heads(rng, taste, heads)
        catalog = Catalog(
            query,
            key,
            value,
            reward=Logistic(),
            base=np.column_stack([_LIKING * taste, _POPULARITY * popularity, np.ones(n)]),
            sink=sink,
            ids=[f"song-{i}" for i in range(n)],
            attributes={
                "title": _titles(n),
                "artist": [_artist_name(a) for a in artist],
                "genre": [_GENRES[g] for g in genre],
                "year": 1960 + rng.integers(0, 66, size=n),
            },
        )
        return cls(catalog, taste, tuple(_histories(rng, taste, popularity, n_users)))

    def user(self, history: ArrayLike) -> User:
        """Whoever has heard the songs ``history`` (rows): their mean taste, at unit length; none for a newcomer."""
        rows = self.catalog.items(history)
        mean = self.taste[rows].sum(axis=0) / max(1, len(rows))
        u = mean / max(float(np.linalg.norm(mean)), 1e-9)
        return User(heads=np.tile(np.append(u, 1.0), (self.catalog.heads, 1)), base=np.concatenate([u, [1.0, _OFFSET]]))


def _tastes(rng: np.random.Generator, n: int) -> tuple[Rows, Rows, Floats]:
    """Genre and artist of each song, and its taste vector: genre + artist + its own twist, at unit length."""
    genres = min(len(_GENRES), max(2, n // 50))
    artists = max(genres, n // 12)
    genre_of_artist = np.arange(artists) % genres
    fame = 1.0 / np.arange(1, artists + 1) ** 0.7
    artist = rng.choice(artists, size=n, p=fame / fame.sum())
    genre = genre_of_artist[artist]
    centre = rng.normal(size=(genres, TASTE))
    of_artist = centre[genre_of_artist] + 0.6 * rng.normal(size=(artists, TASTE))
    return genre, artist, _unit(of_artist[artist] + 0.5 * rng.normal(size=(n, TASTE)))


def _heads(rng: np.random.Generator, taste: Floats, heads: int) -> tuple[Floats, Floats, Floats, Sink]:
    """Queries, keys and values, company and boredom in turn; a query's last coordinate speaks to the sink alone."""
    n = len(taste)
    query, key = np.zeros((n, heads, TASTE + 1)), np.zeros((n, heads, TASTE + 1))
    value = np.zeros((n, heads, TASTE + 1))
    sink = Sink(np.zeros((heads, TASTE + 1)), np.zeros((heads, TASTE + 1)))
    query[:, :, -1] = 1.0
    companies, boredoms = (heads + 1) // 2, heads // 2
    for h in range(heads):
        if h % 2 == 0:
            mood = _unit(taste @ rng.normal(size=(TASTE, MOOD)))
            query[:, h, :MOOD], key[:, h, :MOOD] = _MOOD_SHARPNESS * mood, mood
            value[:, h, :-1], sink.key[h, -1] = _COMPANY / companies * taste, _SINK_MOOD
        else:
            query[:, h, :-1], key[:, h, :-1] = _COPY_SHARPNESS * taste, taste
            value[:, h, -1], sink.key[h, -1] = -_BOREDOM / boredoms, _SINK_COPY
    return query, key, value, sink


def _histories(rng: np.random.Generator, taste: Floats, popularity: Floats, users: int) -> list[Rows]:
    """Each user likes a place between two songs; the history is drawn around it, popular songs more often."""
    length = min(HISTORY, len(taste))
    result = []
    for _ in range(users):
        anchor = taste[rng.integers(len(taste), size=2)]
        liking = taste @ (0.7 * anchor[0] + 0.3 * anchor[1])
        noisy = (
            6.0 * liking + 0.5 * popularity + rng.gumbel(size=len(taste))
        )  # Gumbel noise: sampling without replacement
        result.append(np.argsort(-noisy)[:length])
    return result


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9))


def _titles(n: int) -> list[str]:
    """Distinct titles of two words; a numeral follows when the words run out."""
    words = [f"{first} {second}".title() for first in _FIRST for second in _SECOND]
    # A stride prime to the number of pairs walks through all of them, so that neighbours do not share a word.
    return [words[i * 437 % len(words)] + (f" {i // len(words) + 1}" if i >= len(words) else "") for i in range(n)]


def _artist_name(number: int) -> str:
    """Distinct names: every first name meets every surname once before a numeral follows."""
    generation, within = divmod(number, len(_NAMES) * len(_SURNAMES))
    round_, first = divmod(within, len(_NAMES))
    name = f"{_NAMES[first]} {_SURNAMES[(round_ + first) % len(_SURNAMES)]}"
    return name + (f" {generation + 1}" if generation else "")
