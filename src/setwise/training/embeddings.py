"""Item embeddings from co-occurrence: word2vec, with sessions as sentences and items as words.

Items that co-occur get vectors of similar direction (skip-gram with negative sampling, Mikolov et al. 2013). The order
of a session matters only through ``window``: one as long as the sessions treats them as sets.

With one worker the same sessions, options and seed give the same bits. Several workers update the same vectors
concurrently and do not. An item that no session holds has no training data: its vector is zero.
"""

from __future__ import annotations

import importlib
import logging
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Floats32
from setwise._validation import frozen, whole_number
from setwise.datasets.sessions import Sessions
from setwise.errors import InvalidInput, MissingDependency
from setwise.training.base.session_matrix import scipy_for

MOST_SPECTRAL = 5000  # items, at most: the matrix is dense
STEPS, SPARE = 20, 10  # of its leading eigenvectors: steps of three multiplications, and vectors beyond those wanted
LEAST_INFORMATION = -2.0  # lower limit of pointwise mutual information, for pairs that never co-occur


def word2vec(
    sessions: Sessions, dim: int = 64, epochs: int = 10, window: int = 10, seed: int = 0, workers: int = 1
) -> Floats32:
    """One vector per id (n_items, dim), zero for ids that no session holds."""
    options = {
        "vector_size": whole_number("dim", dim),
        "epochs": whole_number("epochs", epochs),
        "window": whole_number("window", window),
        "workers": whole_number("workers", workers),
        "seed": whole_number("seed", seed, least=0),
    }
    if not (sessions.items.lengths > 1).any():
        raise InvalidInput("sessions", "with two items or more somewhere", "none", "pass sessions of several items")
    names = np.arange(sessions.n_items).astype(str)  # gensim interprets integers as positions in its own vocabulary
    sentences = [names[items].tolist() for items in sessions.items]
    model = _gensim().Word2Vec(sentences, sg=1, hs=0, negative=5, min_count=1, sample=0, **options)
    vectors = np.zeros((sessions.n_items, dim), np.float32)
    vectors[np.array(model.wv.index_to_key, np.int64)] = model.wv.vectors
    return frozen(vectors)


def spectral(sessions: Sessions, dim: int = 32) -> Floats32:
    """Vectors without a random step, for up to MOST_SPECTRAL items: eigenvectors of pointwise mutual information.

    M_ij = log((c_ij + ½) Σc / ((c_i + 1)(c_j + 1))), at least LEAST_INFORMATION, with c_ij the number of sessions that
    hold both. A vector is a row of the eigenvectors of largest |eigenvalue|, each scaled by √|eigenvalue|, and centred.
    Skip-gram with negative sampling factorises nearly the same matrix (Levy and Goldberg 2014). Negative values are
    kept: with positive values alone, models trained from these vectors were distinctly worse.
    """
    n = sessions.n_items
    items = sessions.distinct().items
    if not (items.lengths > 1).any():
        raise InvalidInput("sessions", "with two items or more somewhere", "none", "pass sessions of several items")
    if n > MOST_SPECTRAL:
        raise InvalidInput("sessions", f"over at most {MOST_SPECTRAL:,} items", f"{n:,}", "use word2vec")
    sparse = scipy_for("embeddings").sparse
    holds = sparse.csr_matrix((np.ones(len(items.values)), (items.owner, items.values)), (len(items), n))
    together = (holds.T @ holds).toarray()
    np.fill_diagonal(together, 0)
    total = together.sum(axis=1)
    information = np.log((together + 0.5) * total.sum() / np.outer(total + 1, total + 1))
    np.maximum(information, LEAST_INFORMATION, out=information)
    np.fill_diagonal(information, 0)
    # One more than dim: the leading eigenvector represents popularity, and centring removes it.
    values, vectors = _leading_eigenvectors(information, min(whole_number("dim", dim) + 1, n))
    vectors = vectors * np.sqrt(np.abs(values))
    vectors -= vectors.mean(axis=0)
    widest = np.sort(np.argsort(-vectors.std(axis=0), kind="stable")[:dim])
    result = np.zeros((n, dim), np.float32)
    result[:, : len(widest)] = vectors[:, widest]
    return frozen(result)


def _leading_eigenvectors(matrix: Floats, count: int) -> tuple[Floats, Floats]:
    """Eigenvalues of largest magnitude of a symmetric matrix and their vectors, by a fixed number of subspace steps.

    Lanczos iterations until convergence do not end where many eigenvalues are equal, as with items that no two sessions
    have in common; there any basis of their space will do.
    """
    basis = np.random.default_rng(0).normal(size=(len(matrix), min(count + SPARE, len(matrix))))
    for _ in range(STEPS):
        basis, _ = np.linalg.qr(matrix @ (matrix @ (matrix @ basis)))
    values, rotation = np.linalg.eigh(basis.T @ matrix @ basis)
    largest = np.argsort(-np.abs(values), kind="stable")[:count]
    return values[largest], basis @ rotation[:, largest]


def correspondence(sessions: Sessions, dim: int = 32) -> Floats32:
    """Vectors without a random step, for few sessions of many items: correspondence analysis (Benzécri 1973).

    Where c_ij counts the sessions of both items, each pair 1/n in a session of n, c_ij Σc / (c_i c_j) − 1 is X Xᵀ: near
    independence it is pointwise mutual information. X = C^−½ V Σ, with the singular vectors V of the table of sessions
    by items, whose entries are divided by the roots of the sums of their row and column. No matrix of items by items is
    made: the cost is that of the entries, and the number of steps is fixed.
    """
    items = sessions.distinct().items
    if not (items.lengths > 1).any():
        raise InvalidInput("sessions", "with two items or more somewhere", "none", "pass sessions of several items")
    sparse, n = scipy_for("embeddings").sparse, sessions.n_items
    items = items.taken(np.flatnonzero(items.lengths))
    total, rows = len(items.values), np.sqrt(items.lengths)
    columns = np.sqrt(np.bincount(items.values, minlength=n))
    scaled = 1 / (rows[items.owner] * columns[items.values])
    holds = sparse.csr_matrix((scaled, (items.owner, items.values)), (len(items), n))
    rows, columns = rows[:, None] / np.sqrt(total), columns[:, None] / np.sqrt(total)  # the trivial singular vectors
    count = min(whole_number("dim", dim), *holds.shape)
    basis = np.random.default_rng(0).normal(size=(len(items), min(count + SPARE, len(items))))
    for _ in range(STEPS):
        of_items = holds.T @ basis - columns * (rows.T @ basis)
        basis, _ = np.linalg.qr(holds @ of_items - rows * (columns.T @ of_items))
    of_items = holds.T @ basis - columns * (rows.T @ basis)
    values, rotation = np.linalg.eigh(of_items.T @ of_items)
    result = np.zeros((n, dim), np.float32)
    coordinates = of_items @ rotation[:, np.argsort(-values)[:count]]
    result[:, :count] = coordinates / np.where(columns > 0, columns, 1)
    return frozen(result)


def unit(vectors: NDArray[np.floating]) -> Floats32:
    """Vectors scaled to length one, so that inner products are cosines; zero stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1), np.float32)


def _gensim() -> ModuleType:
    """gensim, without its warnings about small data, which this module's checks cover."""
    try:
        models = importlib.import_module("gensim.models")
    except ImportError:
        raise MissingDependency("gensim", "word2vec", "train") from None
    logging.getLogger("gensim").setLevel(logging.ERROR)
    return models
