"""A world of songs behind the real service, for the tests of the page and its pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from services import here, world_recommender

import setwise as sw

HOSTILE = {
    3: "<script>window.hurt = 1</script> Silver",
    4: '"><img src=x onerror="window.hurt = 2"> Silver',
    5: 'O\'Brien & "Sons" </li></ol> ${window.hurt = 3} Silver',
}


def with_hostile_titles(n_items: int) -> sw.Recommender:
    """The world with some hostile titles."""
    world = world_recommender(n_items)
    attributes = {name: list(column[:]) for name, column in world.index.catalog.attributes.items()}
    for row, title in HOSTILE.items():
        attributes["title"][row] = title
    return _described(world, world.index.catalog.ids[:], attributes)


IMAGE_HOSTS = ("images.example", "*.cdn.example")
FORBIDDEN = (  # addresses of pictures that must never be asked for
    "https://elsewhere.example/1.png",
    "http://images.example/2.png",
    "//images.example/3.png",
    "javascript:window.hurt=4",
    "data:image/svg+xml,<svg onload='window.hurt=5'/>",
    "https://images.example@elsewhere.example/6.png",
    "https://user:word@images.example/7.png",
    "https://images.example.elsewhere.example/8.png",
    "https://cdn.example/9.png",
    "https://images.example:8443/10.png",
    "https://[images.example/11.png",
)
ODD_IDS = {
    0: '"><img src=x onerror="window.hurt = 6">',
    1: "__proto__",
    2: "a b&history=[]#k=3",
    3: "../../v1/info",
    4: "\u05e9\u05d9\u05e8",
    5: "x" * 3000,
    6: "one,two",
}
ODD_TITLES = {
    0: "<b onclick='window.hurt = 7'>bold</b>",
    1: "\u0634\u0627\u0631\u0639 \u0627\u0644\u0646\u062e\u064a\u0644",  # Arabic
    2: "\u202eelttil a\u2069",  # an override of the direction, and the end of an isolate
    3: "word " * 1000,
    4: "w" * 5000,
    5: " \t ",
    7: "two\nlines",
}


def odd_songs(n_items: int) -> sw.Recommender:
    """The world with pictures, prices, a column of yes and no, and odd ids and titles."""
    world = world_recommender(n_items)
    ids = list(world.index.catalog.ids[:])
    attributes = {name: list(column[:]) for name, column in world.index.catalog.attributes.items()}
    for row, id_ in ODD_IDS.items():
        ids[row] = id_
    for row, title in ODD_TITLES.items():
        attributes["title"][row] = title
    pictures = [f"https://images.example/{row}.png" for row in range(n_items)]
    pictures[-len(FORBIDDEN) :] = FORBIDDEN
    pictures[10], pictures[11] = "https://a.cdn.example/10.png", None
    attributes |= {
        "Price": [1 + row / 4 for row in range(n_items)],
        "live": [row % 3 == 0 for row in range(n_items)],
        "cover": pictures,
    }
    return _described(world, np.array(ids, object), attributes)


def with_covers(n_items: int) -> sw.Recommender:
    """The world with an address of a cover for each song."""
    world = world_recommender(n_items, cells=16)
    attributes = {name: list(column[:]) for name, column in world.index.catalog.attributes.items()}
    attributes["cover"] = [f"https://covers.example/{row}.svg" for row in range(n_items)]
    return _described(world, world.index.catalog.ids[:], attributes)


def without_titles(n_items: int, first_id: int = 0) -> sw.Recommender:
    """The world without titles and with other rewards: the ids are numbers, and a value is not a number of hits."""
    return _described(world_recommender(n_items), first_id + np.arange(n_items), None, sw.ReLU())


def without_attention(n_items: int) -> sw.Recommender:
    """The world without attention, and artists and albums that are codes, as in many exports."""
    codes = {"artist": [str(row % 9 + 100) for row in range(n_items)], "album": [str(row) for row in range(n_items)]}
    world = world_recommender(n_items)
    return _described(world, world.index.catalog.ids[:], codes, still=True)


def _described(world: sw.Recommender, ids, attributes, reward=None, still: bool = False) -> sw.Recommender:
    known = world.index.catalog
    catalog = sw.Catalog(
        known.query,
        known.key,
        np.zeros_like(known.value) if still else known.value,
        reward=reward or known.rewards[0],
        base=known.base,
        sink=None if still else known.sink,
        ids=ids,
        attributes=attributes,
    )
    return sw.Recommender(sw.Index.build(catalog, cells=8), encoder=world.encoder)


SLACK = {"deadline_ms": 20_000, "grace_ms": 120_000}  # other tests may keep the machine busy


@contextmanager
def served(shown: sw.Recommender, folder: Path, image_hosts: Sequence[str] = (), **limits: int) -> Iterator[str]:
    """The address of the page of this recommender."""
    shown.save(folder / "songs")
    with here(folder / "songs", image_hosts=image_hosts, **SLACK | limits) as service:
        yield service.url + "/"
