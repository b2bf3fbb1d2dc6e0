"""Embeddings of sessions: items that co-occur have similar vectors; the same seed gives the same bits."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import processes
from setwise.datasets.sessions import Sessions
from setwise.errors import InvalidInput, MissingDependency
from setwise.model.ragged import Ragged
from setwise.training import embeddings
from setwise.training.embeddings import correspondence, spectral, unit, word2vec


def two_groups(sessions: int = 200) -> Sessions:
    """Items 0–19 and 20–39 never co-occur; no session holds items 40 and 41."""
    rng = np.random.default_rng(0)
    lists = [group * 20 + rng.choice(20, 8, replace=False) for group in (0, 1) for _ in range(sessions)]
    return Sessions(Ragged.of(lists), list(range(42)))


def test_items_that_co_occur_have_similar_vectors() -> None:
    vectors = word2vec(two_groups(), dim=8)
    assert vectors.shape == (42, 8)
    assert vectors.dtype == np.float32
    assert not vectors[40:].any()
    cosine = unit(vectors[:40]) @ unit(vectors[:40]).T
    same = np.equal.outer(np.arange(40) // 20, np.arange(40) // 20)
    assert cosine[same].mean() > cosine[~same].mean() + 0.3


def test_spectral_vectors_have_the_information_of_pairs() -> None:
    """With all dimensions their inner products are the centred matrix of magnitudes; groups are apart with a few."""
    vectors = spectral(two_groups(), dim=4)
    cosine = unit(vectors[:40]) @ unit(vectors[:40]).T
    same = np.equal.outer(np.arange(40) // 20, np.arange(40) // 20)
    assert cosine[same].mean() > cosine[~same].mean() + 0.5
    matrix = np.random.default_rng(1).normal(size=(60, 60)) @ np.diag(0.7 ** np.arange(60.0))
    matrix = matrix + matrix.T
    values, basis = embeddings._leading_eigenvectors(matrix, 8)
    exact = np.linalg.eigvalsh(matrix)
    np.testing.assert_allclose(np.abs(values), np.sort(np.abs(exact))[::-1][:8], rtol=1e-3)
    np.testing.assert_allclose(matrix @ basis, basis * values, atol=0.05 * np.abs(values[-1]))


def test_spectral_vectors_of_items_that_share_nothing() -> None:
    """Most eigenvalues are equal: an iteration until convergence did not end on a log of 400 slates."""
    slates = np.random.default_rng(0).permutation(1600).reshape(400, 4)
    vectors = spectral(Sessions(Ragged.of(list(slates)), list(range(1600))), dim=8)
    assert np.isfinite(vectors).all()
    assert vectors.any()


def test_correspondence_factorises_the_association_of_items() -> None:
    """All dimensions together give c_ij Σc / (c_i c_j) − 1 of items i and j that some session holds."""
    rng = np.random.default_rng(0)
    sessions = Sessions.of([rng.permutation(7)[: 2 + at % 3].tolist() for at in range(40)])
    holds = np.zeros((40, sessions.n_items))
    holds[sessions.items.owner, sessions.items.values] = 1
    total, sizes, counts = holds.sum(), holds.sum(1), holds.sum(0)
    together = (holds / sizes[:, None]).T @ holds  # in a session of n items each pair counts 1/n
    vectors = correspondence(sessions, dim=7)
    np.testing.assert_allclose(vectors @ vectors.T, total * together / np.outer(counts, counts) - 1, atol=1e-5)
    few = correspondence(sessions, dim=3)
    np.testing.assert_allclose(few @ few.T, vectors[:, :3] @ vectors[:, :3].T, atol=1e-5)


def test_correspondence_of_few_sessions_and_of_items_without_any() -> None:
    sessions = Sessions(Ragged.of([[0, 1, 1], [0, 1], [2, 3], [], [3]]), list(range(6)))
    vectors = unit(correspondence(sessions, dim=4))
    assert vectors[0] @ vectors[1] > 0.99
    assert vectors[0] @ vectors[2] < 0.5
    assert not vectors[4:].any()
    with pytest.raises(InvalidInput, match="with two items or more"):
        correspondence(Sessions.of([["a"], ["b"]]))


def test_the_seed_determines_the_vectors() -> None:
    sessions = two_groups(20)
    first = word2vec(sessions, dim=4, seed=3)
    np.testing.assert_array_equal(first, word2vec(sessions, dim=4, seed=3))
    assert (first != word2vec(sessions, dim=4, seed=4)).any()


@pytest.mark.nightly
def test_another_process_gives_the_same_bits() -> None:
    """Python's string hashes differ between processes; the result must not depend on them."""
    code = (
        "import numpy as np; from setwise.datasets.sessions import Sessions; from setwise.training.embeddings import word2vec;"
        "s = Sessions.of([[1, 2, 3], [2, 3, 4], [5, 6, 1]]); print(word2vec(s, dim=3).tobytes().hex())"
    )
    runs = [processes.run([sys.executable, "-c", code], check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout != ""


def test_unit_vectors() -> None:
    given = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(unit(given), [[0.6, 0.8], [0, 0]], rtol=1e-6)


def test_invalid_arguments_and_missing_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="two items or more"):
        word2vec(Sessions.of([[1], [2]]))
    with pytest.raises(InvalidInput, match="dim must be"):
        word2vec(two_groups(1), dim=0)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(MissingDependency, match=r"gensim.*setwise\[train\]"):
        embeddings.word2vec(two_groups(1))
