"""The paper's Main Algorithm end to end: δ-cover, k nearest neighbours of every cell, Phase Two; and Theorem 1.

    preprocess   ``MainAlgorithm.build``: the δ-cover of queries, keys and reward functions (cover.py), and
                 the nearest neighbours of its cells
    query        ``recommend``: I, the k best items of every cell; W' on I from cells of diameter δ'
                 (rank_partition.py); Phase Two on I (algorithm.py)

**Theorem 1, repaired.** With η the additive error of the nearest neighbours, ε₁ = η + δ · sensitivity (cover.py), and
the constants w, c, c', F of algorithm.py for the instance on I,

    OPT(I) ≥ (1 − g(ε₁)) OPT − k h(ε₁)                     Phase One
    ALG ≥ Phase Two's bound with OPT(I) for OPT            Phase Two

``MainAnswer.guarantee`` computes it. Every step is a non-decreasing function of the value before it, so the lower bound
on OPT(I) may be inserted. The printed theorem has no term for γ in h, and one g for both phases (see the errata).

The algorithm is for models of one head without a sink whose rewards are at least 0. It is a reference for small
catalogues: the enumeration of Phase Two grows as |I|^λ. ``Recommender`` is what requests use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proofs.algorithm import PhaseTwo, phase_two
from proofs.cover import Cover, cover
from proofs.fjlt import FJLT, neighbours
from proofs.rank_partition import rank_partition
from setwise._validation import real_number, whole_number
from setwise.errors import InvalidInput
from setwise.model.catalog import Catalog
from setwise.model.constraints import Constraints
from setwise.model.instance import Instance
from setwise.model.users import User
from setwise.retrieval.backends.protocol import BACKENDS, Neighbors, item_vectors, user_vector


@dataclass(frozen=True, eq=False)
class MainAnswer:
    """The set that the Main Algorithm found, and the constants of its guarantee."""

    indices: NDArray[np.intp]  # rows of the catalogue
    value: float
    candidates: NDArray[np.intp]  # I
    retrieval_loss: float  # ε₁: no argument of a reward falls by more in Phase One
    ranking: PhaseTwo
    cover: Cover

    def guarantee(self, optimum: float) -> float:
        """The value that Theorem 1 guarantees when the best set of the catalogue is worth ``optimum``."""
        return self.ranking.guarantee(self.cover.guaranteed_after(self.retrieval_loss, optimum, self.ranking.k))


@dataclass(frozen=True, eq=False)
class MainAlgorithm:
    """The preprocessed catalogue."""

    cover: Cover
    nearest: Neighbors

    @classmethod
    def build(cls, catalog: Catalog, delta: float, backend: str = "numpy", **options: float) -> MainAlgorithm:
        """Phase One's preprocessing; ``backend`` is exact, or ``fjlt`` with its ``options``."""
        name, family = neighbours(backend)
        if name != "fjlt" and not BACKENDS[name].exact:
            raise InvalidInput("backend", "exact, or one whose error is bounded (fjlt)", repr(name), "choose another")
        if catalog.heads != 1 or catalog.sink is not None or catalog.positions is not None:
            raise InvalidInput("catalog", "of one head, without sink and places", "another", "use setwise.Recommender")
        made = cover(catalog, delta)
        partition = made.partition
        return cls(made, family.build(item_vectors(catalog), partition.cell_of, partition.n_cells, **options))

    def recommend(
        self,
        user: ArrayLike | User,
        k: int,
        *,
        epsilon: float = 0.5,
        rank_delta: float | None = None,
        lam: int | None = None,
        lam_prime: int | None = None,
    ) -> MainAnswer:
        """Phase One's query and Phase Two; ``rank_delta`` is δ', by default the δ of the cover."""
        catalog, k = self.cover.catalog, whole_number("k", k)
        checked = catalog.user(user)
        candidates = self.candidates(checked, k)
        instance = Instance.from_catalog(catalog, checked, candidates)
        distance = self.cover.delta if rank_delta is None else real_number("rank_delta", rank_delta)
        query, key = catalog.query[candidates, 0], catalog.key[candidates, 0]
        made = rank_partition(query, key, distance, share_keys=False).surrogate
        found = phase_two(
            instance, Constraints.of(instance, k), epsilon=epsilon, surrogate=made, lam=lam, lam_prime=lam_prime
        )
        loss = self.cover.eps(checked, self._neighbour_error(checked))
        return MainAnswer(candidates[found.indices], found.value, candidates, loss, found, self.cover)

    def candidates(self, user: ArrayLike | User, k: int) -> NDArray[np.intp]:
        """I: the k best of every cell, ascending."""
        checked = self.cover.catalog.user(user)
        rows = self.nearest.search(user_vector(checked)[None], whole_number("k", k)).rows
        return np.unique(rows[rows >= 0]).astype(np.intp)

    def _neighbour_error(self, user: User) -> float:
        """η: by how much the j-th neighbour of a cell may score below the j-th best."""
        if not isinstance(self.nearest, FJLT):
            return 0.0
        whole = user.heads.ravel() if user.base is None else np.append(user.heads, user.base)
        return float(self.nearest.slack(whole.astype(np.float32)).max())
