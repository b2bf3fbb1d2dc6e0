"""EASE with dropout regularisation: each item is predicted from all others by one ridge regression (Steck 2019, 2020).

B minimises |X − X B|² + Σ_j D_j |B_j.|² with a zero diagonal, where D_j = λ + p/(1 − p) · n_j and n_j is the number of
sessions of item j. The second term of D is what dropping each entry of X with probability p would add on average; it
regularises frequent items as strongly as rare ones. With P = (XᵀX + D)⁻¹

    B_ij = −P_ij / P_jj                                          (i ≠ j)

With fewer sessions than items the inverse is computed over sessions instead (Woodbury), with K = I + X D⁻¹ Xᵀ:

    P = D⁻¹ − D⁻¹ Xᵀ K⁻¹ X D⁻¹

B is dense; ``strongest`` keeps the largest weights of each row. With 100 of 33,706 weights a row, hits on held-out
playlists fell by less than one standard error.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from setwise._types import Array, Floats32, Ints
from setwise._validation import available_cores
from setwise.training.base.session_matrix import scipy_sparse, strongest

MOST_EXACT = 16_000  # rows of the matrix that is inverted; with more items and sessions, only the most frequent items
_BLOCK = 512  # rows of B in memory, per thread


@dataclass(frozen=True, eq=False)
class Ease:
    """B as a product of two factors, so that only the rows in use are computed.

    B = left · right / diagonal with a zero diagonal: over items left = −P and right is absent; over sessions
    left = D⁻¹ Xᵀ (sparse) and right = K⁻¹ X D⁻¹. ``items`` are those with weights, the most frequent of n.
    """

    n: int
    items: Ints
    left: Any
    right: Array | None
    diagonal: Floats32  # of P
    own: Floats32  # the diagonal of left · right, which B does not have

    @classmethod
    def fit(cls, matrix: Any, regularization: float, dropout: float, device: str | None = None) -> Ease:
        """Invert the smaller of the two matrices, on this device."""
        n = matrix.shape[1]
        items = np.arange(n)
        if min(matrix.shape) > MOST_EXACT:
            items = np.sort(np.argsort(-np.asarray(matrix.sum(axis=0)).ravel(), kind="stable")[:MOST_EXACT])
            matrix = matrix[:, items]
        count = np.asarray(matrix.sum(axis=0), np.float32).ravel()
        penalty = (regularization + dropout / (1 - dropout) * count).astype(np.float32)
        factors = _over_sessions if matrix.shape[0] < matrix.shape[1] else _over_items
        return cls(n, items, *factors(matrix, penalty, device))

    def rows(self, which: Ints) -> Floats32:
        """These rows of B, as numbered among ``items``: (R, items)."""
        left = self.left[which]
        block = left if self.right is None else left @ self.right
        block = np.asarray(block, np.float32) / self.diagonal
        block[np.arange(len(which)), which] = 0
        return block

    def scores(self, seen: Any) -> Floats32:
        """The scores (B, n) of weighted histories ``seen`` (B, n), from all weights."""
        used = seen[:, self.items]
        product = used @ self.left if self.right is None else np.asarray((used @ self.left) @ self.right)
        result = np.asarray(product, np.float32) / self.diagonal
        result -= np.asarray((used @ scipy_sparse().diags(self.own / self.diagonal)).toarray(), np.float32)
        scores = np.zeros((seen.shape[0], self.n), np.float32)
        scores[:, self.items] = result
        return scores

    def strongest(self, most: int) -> Any:
        """The ``most`` largest positive weights of each row, as a sparse matrix (n, n)."""
        count = len(self.items)
        blocks = [np.arange(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK)]
        with ThreadPoolExecutor(available_cores()) as pool:  # numpy and scipy release the interpreter's lock
            parts = list(pool.map(lambda which: strongest(self.rows(which), most), blocks))
        columns, values, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
        lengths = np.zeros(self.n, np.int64)
        lengths[self.items] = counts
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return scipy_sparse().csr_matrix((values, self.items[columns], offsets), shape=(self.n, self.n))


def _over_items(matrix: Any, penalty: Floats32, device: str | None) -> tuple[Any, Array | None, Floats32, Floats32]:
    gram = np.asarray((matrix.T @ matrix).toarray(), np.float32)
    gram[np.diag_indices(len(gram))] += penalty
    inverse = _inverse(gram, device)
    diagonal = inverse.diagonal().copy()
    return -inverse, None, diagonal, -diagonal


def _over_sessions(matrix: Any, penalty: Floats32, device: str | None) -> tuple[Any, Array | None, Floats32, Floats32]:
    scaled = (matrix @ scipy_sparse().diags(1 / penalty)).tocsr()
    kernel = np.asarray((scaled @ matrix.T).toarray(), np.float32)
    kernel[np.diag_indices(len(kernel))] += 1
    weight = np.ascontiguousarray((scaled.T @ _inverse(kernel, device)).T)  # K⁻¹ X D⁻¹, (sessions, n)
    removed = np.asarray(scaled.T.multiply(weight.T).sum(axis=1), np.float32).ravel()
    return scaled.T.tocsr(), weight, np.asarray(1 / penalty - removed, np.float32), removed


def _inverse(matrix: Floats32, device: str | None) -> Array:
    """The inverse of a symmetric positive definite matrix."""
    import torch  # takes a second, which the command line does not wait for

    from setwise.training.device import resolve_device

    factor, failed = torch.linalg.cholesky_ex(torch.from_numpy(matrix).to(resolve_device(device)))
    if failed.item():  # rounding in float32 made it indefinite
        raise np.linalg.LinAlgError("the matrix is not positive definite; use a larger regularization")
    return np.asarray(torch.cholesky_inverse(factor).cpu().numpy())
