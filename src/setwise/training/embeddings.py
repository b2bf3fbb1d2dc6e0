"""Item vectors from company alone: word2vec, with sessions for sentences and items for words.

Items that are held together get vectors of similar direction (skip-gram with negative sampling, Mikolov et al. 2013).
The order of a session matters only through ``window``: one as long as the sessions treats them as sets.

With one worker the same sessions, options and seed give the same bits again; several workers race for the same vectors
and do not. An item that no session holds has nothing to learn from: its vector is zero.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from setwise.checks import frozen, whole_number
from setwise.datasets.sessions import Sessions
from setwise.errors import InvalidInput, MissingDependency

Vectors = NDArray[np.float32]


def word2vec(
    sessions: Sessions, dim: int = 64, epochs: int = 10, window: int = 10, seed: int = 0, workers: int = 1
) -> Vectors:
    """One vector an id (n_items, dim), zero for ids that no session holds."""
    options = {
        "vector_size": whole_number("dim", dim),
        "epochs": whole_number("epochs", epochs),
        "window": whole_number("window", window),
        "workers": whole_number("workers", workers),
        "seed": whole_number("seed", seed, least=0),
    }
    if not (sessions.items.lengths > 1).any():
        raise InvalidInput("sessions", "with two items or more somewhere", "none", "word2vec learns from company only")
    names = np.arange(sessions.n_items).astype(str)  # gensim takes whole numbers for places in its own vocabulary
    sentences = [names[items].tolist() for items in sessions.items]
    model = _gensim().Word2Vec(sentences, sg=1, hs=0, negative=5, min_count=1, sample=0, **options)
    vectors = np.zeros((sessions.n_items, dim), np.float32)
    vectors[np.array(model.wv.index_to_key, np.int64)] = model.wv.vectors
    return frozen(vectors)


def spectral(sessions: Sessions, dim: int = 32) -> Vectors:
    """The same idea without a random step: leading eigenvectors of the items' positive pointwise mutual information.

    M_ij = max(0, log(c_ij Σc / (c_i c_j))) with c_ij the number of sessions that hold both; a vector is an item's row of
    the eigenvectors, each times the root of its eigenvalue. Skip-gram with negative sampling factorises nearly the same
    matrix (Levy and Goldberg 2014). Faster for many short sessions; where they are long c grows dense: use word2vec.
    """
    if not (sessions.items.lengths > 1).any():
        raise InvalidInput("sessions", "with two items or more somewhere", "none", "only company can teach it")
    linalg, sparse = _scipy()
    items = sessions.distinct().items
    holds = sparse.csr_matrix((np.ones(len(items.values)), (items.owner, items.values)), (len(items), sessions.n_items))
    together = (holds.T @ holds).tolil()
    together.setdiag(0)
    together = together.tocoo()
    total = np.asarray(together.sum(axis=1)).ravel()
    shared = np.log(together.data * total.sum() / (total[together.row] * total[together.col]))
    kept = shared > 0
    information = sparse.csr_matrix((shared[kept], (together.row[kept], together.col[kept])), together.shape)
    rank = min(whole_number("dim", dim), sessions.n_items - 1)
    values, vectors = linalg.eigsh(information, rank, which="LA", v0=np.ones(sessions.n_items))
    result = np.zeros((sessions.n_items, dim), np.float32)
    result[:, :rank] = vectors * np.sqrt(np.maximum(values, 0))
    return frozen(result)


def unit(vectors: NDArray[np.floating]) -> Vectors:
    """Every vector at length one, so that inner products are cosines; zero stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1), np.float32)


def _gensim() -> ModuleType:
    try:
        return importlib.import_module("gensim.models")
    except ImportError:
        raise MissingDependency("gensim", "word2vec", "train") from None


def _scipy() -> tuple[ModuleType, ModuleType]:
    try:
        return importlib.import_module("scipy.sparse.linalg"), importlib.import_module("scipy.sparse")
    except ImportError:
        raise MissingDependency("scipy", "spectral embeddings", "train") from None
