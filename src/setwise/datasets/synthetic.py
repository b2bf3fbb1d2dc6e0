"""A simulated world of songs with readable titles, whose users follow a simple transformer: the built-in data set.

The taste vector of a song is near that of its artist, and an artist's near that of a genre. A song also has a mood
vector. Heads are of two kinds in turn, each with a sink, so that a slate of one song gains little from them:

* complementarity: a song attends to songs of its mood; their value is the user's liking of them;
* redundancy: a song attends to similar songs; their value is one negative number, so that near-copies are penalised.

The base term is liking, popularity and a constant. With the logistic reward, F(S) is the expected number of songs that
the user likes. Everything is determined by the seed.

The constants were chosen by trying some dozens of settings, first for a world in which top-k by score loses about a
fifth of the value, as it does on trained models, then (six more settings) for one whose effects can be learned from a
log of about 200,000 slates. The gain of a ranker in this world is therefore an illustration, not evidence. The quality
of a trained model in this world is evidence about the training, for data of the same family.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setwise._types import Floats, Rows
from setwise._validation import real_number, whole_number
from setwise.datasets.simulation import Simulation, sample, unit
from setwise.model.catalog import Catalog, Sink
from setwise.model.rewards import Logistic

TASTE, MOOD, HISTORY = 8, 4, 15  # dimensions of taste and mood; songs in a history
_LIKING, _POPULARITY, _OFFSET = 1.6, 0.3, -2.0  # the base term: base_i · u⁰ = liking + popularity + offset
_COMPLEMENTARITY, _REDUNDANCY = 6.0, 8.0  # the largest gain by matching songs, and the largest loss by near-copies
_MOOD_SHARPNESS, _COPY_SHARPNESS = 3.0, 5.0  # logits of a perfect match
_TASTE_PULL, _MOOD_PULL = 6.0, 2.0  # concentration of a history around its taste and mood
_SINK_MOOD, _SINK_COPY = 4.5, 7.0  # the sink's logits, to compare with that of a perfect match


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
class World(Simulation):
    """n songs, users with histories, and the simple transformer that determines what users like."""

    catalog: Catalog
    taste: Floats  # (n, TASTE)
    mood: Floats  # (n, MOOD)
    popularity: Floats  # (n,)
    histories: Rows  # (users, HISTORY): the seen songs of each user

    @classmethod
    def make(
        cls,
        n_items: int = 2000,
        n_users: int = 50,
        heads: int = 2,
        seed: int = 0,
        variety: float = 1.0,
        complementarity: float = 1.0,
    ) -> World:
        """Generate a world of any number of songs, users and heads.

        ``variety`` scales the penalty of near-copies and ``complementarity`` the gain by matching songs; with both 0
        there are no interactions.
        """
        n, n_users, heads = (
            whole_number("n_items", n_items),
            whole_number("n_users", n_users),
            whole_number("heads", heads),
        )
        rng = np.random.default_rng(whole_number("seed", seed, least=0))
        genre, artist, taste, mood = _tastes(rng, n)
        popularity = rng.gumbel(size=n)
        gain = _COMPLEMENTARITY * real_number("complementarity", complementarity)
        penalty = _REDUNDANCY * real_number("variety", variety)
        query, key, value, sink = _heads(rng, taste, mood, heads, gain, penalty)
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
        return cls(catalog, taste, mood, popularity, _histories(rng, taste, mood, popularity, n_users))

    def _users(self, history: Rows) -> tuple[Floats, Floats]:
        """The mean taste of a history's songs, at unit length (zero for an empty history), and constants."""
        taste, one = unit(self.taste[history].sum(axis=1)), np.ones((len(history), 1))
        heads = np.repeat(np.hstack([taste, one])[:, None], self.catalog.heads, axis=1)
        return heads, np.hstack([taste, one, _OFFSET * one])

    def new_histories(self, users: int, rng: np.random.Generator) -> Rows:
        """The histories of ``users`` new users (users, HISTORY)."""
        return _histories(rng, self.taste, self.mood, self.popularity, users)

    def _liking(self, history: Rows) -> tuple[Floats, Floats]:
        return unit(self.taste[history].sum(axis=1)) @ self.taste.T, 0.5 * self.popularity


def _tastes(rng: np.random.Generator, n: int) -> tuple[Rows, Rows, Floats, Floats]:
    """Genre and artist of each song, and its taste vector: genre + artist + noise, at unit length."""
    genres = min(len(_GENRES), max(2, n // 50))
    artists = max(genres, n // 12)
    genre_of_artist = np.arange(artists) % genres
    fame = 1.0 / np.arange(1, artists + 1) ** 0.7
    artist = rng.choice(artists, size=n, p=fame / fame.sum())
    genre = genre_of_artist[artist]
    centre = rng.normal(size=(genres, TASTE))
    of_artist = centre[genre_of_artist] + 0.6 * rng.normal(size=(artists, TASTE))
    taste = unit(of_artist[artist] + 0.5 * rng.normal(size=(n, TASTE)))
    mood = unit(rng.normal(size=(artists, MOOD))[artist] + 0.7 * rng.normal(size=(n, MOOD)))
    return genre, artist, taste, mood


def _heads(
    rng: np.random.Generator, taste: Floats, mood: Floats, heads: int, gain: float, penalty: float
) -> tuple[Floats, Floats, Floats, Sink]:
    """Queries, keys and values of both kinds of head in turn; a query's last coordinate meets the sink's key only."""
    n = len(taste)
    query, key = np.zeros((n, heads, TASTE + 1)), np.zeros((n, heads, TASTE + 1))
    value = np.zeros((n, heads, TASTE + 1))
    sink = Sink(np.zeros((heads, TASTE + 1)), np.zeros((heads, TASTE + 1)))
    query[:, :, -1] = 1.0
    complementary, redundant = (heads + 1) // 2, heads // 2
    for h in range(heads):
        if h % 2 == 0:
            query[:, h, :MOOD], key[:, h, :MOOD] = _MOOD_SHARPNESS * mood, mood
            value[:, h, :-1], sink.key[h, -1] = gain / complementary * taste, _SINK_MOOD
        else:
            query[:, h, :-1], key[:, h, :-1] = _COPY_SHARPNESS * taste, taste
            value[:, h, -1], sink.key[h, -1] = -penalty / redundant, _SINK_COPY
    return query, key, value, sink


def _histories(rng: np.random.Generator, taste: Floats, mood: Floats, popularity: Floats, users: int) -> Rows:
    """Histories near a point between two random songs, in the mood of the first; popular songs are more frequent."""
    first, second = rng.integers(len(taste), size=(2, users))
    pull = (0.7 * taste[first] + 0.3 * taste[second]) @ (_TASTE_PULL * taste.T) + _MOOD_PULL * mood[first] @ mood.T
    return sample(rng, pull + 0.5 * popularity, min(HISTORY, len(taste)))


def _titles(n: int) -> list[str]:
    """Distinct titles of two words; a numeral follows when the words run out."""
    words = [f"{first} {second}".title() for first in _FIRST for second in _SECOND]
    # A stride coprime to the number of pairs visits all of them, so that neighbours do not share a word.
    return [words[i * 437 % len(words)] + (f" {i // len(words) + 1}" if i >= len(words) else "") for i in range(n)]


def _artist_name(number: int) -> str:
    """Distinct names: all pairs of first name and surname, then the same with a numeral."""
    generation, within = divmod(number, len(_NAMES) * len(_SURNAMES))
    round_, first = divmod(within, len(_NAMES))
    name = f"{_NAMES[first]} {_SURNAMES[(round_ + first) % len(_SURNAMES)]}"
    return name + (f" {generation + 1}" if generation else "")
