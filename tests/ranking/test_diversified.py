"""MMR and DPP against their definitions, word for word, and their limits at diversity 0."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise as sw
from counts import examples
from setwise.errors import InvalidInput


def instance_of(seed: int, m: int = 12) -> sw.Instance:
    rng = np.random.default_rng(seed)
    query, key, value = rng.normal(size=(3, m, 6))  # of six dimensions, so that no three vectors are dependent
    sink = sw.Sink(rng.normal(size=(1, 6)), rng.normal(size=(1, 6)))
    return sw.Instance.from_catalog(sw.Catalog(query, key, value, sink=sink), rng.normal(size=6), np.arange(m))


def relevance(instance: sw.Instance) -> np.ndarray:
    alone = np.array([instance.value([i]) for i in range(instance.m)])
    return (alone - alone.min()) / (alone.max() - alone.min())


def cosines(instance: sw.Instance) -> np.ndarray:
    vectors = instance.embed()
    return np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in vectors] for a in vectors])


@examples(20)
@given(seed=st.integers(0, 10**6), diversity=st.sampled_from([0.1, 0.25, 0.6, 1.0]))
def test_mmr_is_its_definition(seed: int, diversity: float) -> None:
    instance = instance_of(seed)
    r, cosine, chosen = relevance(instance), cosines(instance), list[int]()
    for _ in range(4):
        rest = [i for i in range(instance.m) if i not in chosen]
        nearest = {i: max((cosine[i, j] for j in chosen), default=0.0) for i in rest}
        chosen.append(max(rest, key=lambda i: (1 - diversity) * r[i] - diversity * nearest[i]))
    assert sorted(sw.rank(instance, 4, "mmr", diversity=diversity).indices.tolist()) == sorted(chosen)


@examples(20)
@given(seed=st.integers(0, 10**6), diversity=st.sampled_from([0.1, 0.25, 0.6]))
def test_dpp_adds_what_raises_the_determinant_most(seed: int, diversity: float) -> None:
    instance = instance_of(seed)
    quality = np.exp((1 - diversity) / (2 * diversity) * relevance(instance))
    kernel, chosen = quality[:, None] * cosines(instance) * quality, list[int]()
    for _ in range(3):
        rest = [i for i in range(instance.m) if i not in chosen]
        chosen.append(max(rest, key=lambda i: np.linalg.slogdet(kernel[np.ix_([*chosen, i], [*chosen, i])])[1]))
    assert sorted(sw.rank(instance, 3, "dpp", diversity=diversity).indices.tolist()) == sorted(chosen)


@pytest.mark.parametrize("ranker", ["mmr", "dpp"])
def test_without_diversity_it_is_top_k(ranker: str) -> None:
    instance = instance_of(5)
    top = sw.rank(instance, 4, "top-k").indices.tolist()
    assert sw.rank(instance, 4, ranker, diversity=0).indices.tolist() == top
    for wrong in (-0.1, 1.5):
        with pytest.raises(InvalidInput, match="diversity must be from 0"):
            sw.rank(instance, 4, ranker, diversity=wrong)


@pytest.mark.parametrize("ranker", ["mmr", "dpp"])
def test_copies_are_not_chosen_together_unless_needed(ranker: str) -> None:
    value = np.repeat(np.eye(3), 2, axis=0)  # three pairs of copies
    catalog = sw.Catalog(0 * value, 0 * value, value, reward=sw.Linear())
    instance = sw.Instance.from_catalog(catalog, [3.0, 2.9, 2.8], np.arange(6))
    assert [one // 2 for one in sw.rank(instance, 3, ranker, diversity=0.6).indices.tolist()] == [0, 1, 2]
    assert len(sw.rank(instance, 6, ranker).indices) == 6


def test_top_k_is_the_best_set_where_items_do_not_interact() -> None:
    rng = np.random.default_rng(1)
    instance = sw.Instance(np.zeros((8, 8)), np.zeros(8), sw.Linear(), base=rng.normal(size=8))
    best = max(
        sum(instance.value([i]) for i in chosen) for k in (1, 2, 3) for chosen in itertools.combinations(range(8), k)
    )
    assert sw.rank(instance, 3, "top-k").value == pytest.approx(best)


def test_dpp_fills_a_slate_with_more_items_than_dimensions() -> None:
    """Dividing by what rounding leaves of a dependent item would overflow after some steps."""
    rng = np.random.default_rng(0)
    catalog = sw.Catalog(*(rng.normal(size=(200, 3)) for _ in range(3)))
    instance = sw.Instance.from_catalog(catalog, rng.normal(size=3), np.arange(200))
    assert len(sw.rank(instance, 100, "dpp").indices) == 100
