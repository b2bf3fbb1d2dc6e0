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

from setwise._types import Floats32
from setwise._validation import frozen, whole_number
from setwise.datasets.sessions import Sessions
from setwise.errors import InvalidInput, MissingDependency

MOST_SPECTRAL = 5000  # items: the matrix is dense
LEAST_INFORMATION = -2.0  # what two items that never meet are taken to say, at least


def word2vec(
    sessions: Sessions, dim: int = 64, epochs: int = 10, window: int = 10, seed: int = 0, workers: int = 1
) -> Floats32:
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


def spectral(sessions: Sessions, dim: int = 32) -> Floats32:
    """The same idea without a random step, for up to MOST_SPECTRAL items: eigenvectors of pointwise mutual information.

    M_ij = log((c_ij + ½) Σc / ((c_i + 1)(c_j + 1))), at least LEAST_INFORMATION, with c_ij the number of sessions that
    hold both; a vector is a row of the eigenvectors of largest |eigenvalue|, each times the root of it, centred.
    Skip-gram with negative sampling factorises nearly the same matrix (Levy and Goldberg 2014). That items shun each
    other is kept, too: with positive information alone a model learned distinctly worse from these vectors.
    """
    n = sessions.n_items
    items = sessions.distinct().items
    if not (items.lengths > 1).any():
        raise InvalidInput("sessions", "with two items or more somewhere", "none", "only company can teach it")
    if n > MOST_SPECTRAL:
        raise InvalidInput("sessions", f"over at most {MOST_SPECTRAL:,} items", f"{n:,}", "use word2vec")
    linalg, sparse = _scipy()
    holds = sparse.csr_matrix((np.ones(len(items.values)), (items.owner, items.values)), (len(items), n))
    together = (holds.T @ holds).toarray()
    np.fill_diagonal(together, 0)
    total = together.sum(axis=1)
    information = np.log((together + 0.5) * total.sum() / np.outer(total + 1, total + 1))
    np.maximum(information, LEAST_INFORMATION, out=information)
    np.fill_diagonal(information, 0)
    rank = min(
        whole_number("dim", dim) + 1, n - 1
    )  # one more: the leading vector tells popularity, and is centred away
    values, vectors = linalg.eigsh(information, rank, which="LM", v0=np.ones(n))
    vectors = vectors * np.sqrt(np.abs(values))
    vectors -= vectors.mean(axis=0)
    widest = np.sort(np.argsort(-vectors.std(axis=0), kind="stable")[:dim])
    result = np.zeros((n, dim), np.float32)
    result[:, : len(widest)] = vectors[:, widest]
    return frozen(result)


def unit(vectors: NDArray[np.floating]) -> Floats32:
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
