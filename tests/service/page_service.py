"""A world of songs behind the real service, for the tests of the page and its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from services import running, world_recommender

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


def without_titles(n_items: int) -> sw.Recommender:
    """The world without titles and with other rewards: the ids are numbers, and a value is not a number of hits."""
    return _described(world_recommender(n_items), np.arange(n_items), None, sw.ReLU())


def _described(world: sw.Recommender, ids, attributes, reward=None) -> sw.Recommender:
    known = world.index.catalog
    catalog = sw.Catalog(
        known.query,
        known.key,
        known.value,
        reward=reward or known.rewards[0],
        base=known.base,
        sink=known.sink,
        ids=ids,
        attributes=attributes,
    )
    return sw.Recommender(sw.Index.build(catalog, cells=8), encoder=world.encoder)


SLACK = ("--deadline-ms", "20000", "--grace-ms", "120000")  # other tests may keep the machine busy


@contextmanager
def served(shown: sw.Recommender, folder: Path) -> Iterator[str]:
    """The address of the page of this recommender."""
    shown.save(folder / "songs")
    with running(folder / "songs", *SLACK) as service:
        yield service.url + "/"
