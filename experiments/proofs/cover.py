"""The paper's δ-cover: cells so small that within a cell nothing but the score matters (Proposition "phase one").

**Cells.** Greedy maximal packing: the first item that is in no cell becomes the centre of a new one, which takes all
items within δ/2 of it, in the query *and* the key of *every* head, of the same reward class. (A ball of this
max-metric is the paper's pair of balls, in every head.) So all pairs of a cell are within δ. Centres are more than
δ/2 apart, balls of radius δ/4 around them do not meet, and by volume there are at most (1 + 4R/δ)^d of them for
vectors of length R in d dimensions; factors multiply. (The paper's ⌈4R/δ⌉^d is less than a greedy packing may need:
five points on a circle of radius δ/2 are more than δ/2 apart.)

**Several heads, or a base term, need more.** The paper exchanges an item for one of its cell with a higher score. The
score of an item here is the sum of its parts, one a head and the base, and those who attend to it in one head see one
part: an item of higher total can be far worse for them, however small δ is. So when there are several parts, all but
the first head's are covered as well: within a cell they differ by at most δ in vectors, δ‖u^p‖ in scores, and the
order by total is the order by the first head but for that.

*Proposition.* Take from every cell k items, the j-th of a score at most η below the j-th best there. OPT over these is
at least (1 − g(ε)) OPT − k h(ε), where, without any condition on δ,

    ε = η + δ ( Σ_h R_h D_h + 2 Σ_{p>1} ‖u^p‖ ),      R_h = (max ‖q^h‖ + max ‖k^h‖)/2,     D_h = max s^h − min s^h,

the sink's key and score included, and p runs over the parts but the first head's: none in the paper's model, where
ε = η + δRD. In an ordered slate items are exchanged place by place, and the encodings count in R_h and D_h.

*Proof.* Exchange the r-th best item of an optimal S* in its cell for the r-th retrieved there: i*_1, i*_2, … for i_1,
i_2, …, all different. Two things change in a_i. (1) Scores: those of the covered parts by at most δ‖u^p‖ each; those
of the first head fall by at most η + δ Σ_{p>1} ‖u^p‖, since the total falls by at most η. Averages fall by no more.
(2) Logits: q_i · k_j − q_i* · k_j* = q_i · (k_j − k_j*) + (q_i − q_i*) · k_j* is at most 2δR_h =: λ in size, for the
sink too, whose key stays. A softmax whose logits move by at most λ changes the odds of any set of columns by at most
e^(2λ), hence its probability by at most tanh(λ/2) ≤ λ/2 = δR_h; so an average of numbers in a range of length D_h
moves by at most δR_h D_h. Altogether a_i falls by at most ε, and f_i(a − ε) ≥ (1 − g(ε)) f_i(a) − h(ε).  ∎

The paper has 34δR(Vu)_max + δ for scores of one sign and δ ≤ 1/140R; here it is δR(Vu)_max, and 2δR max|Vu| for
signed scores. No constant below 1 in front of R_h D_h would do: a test has the example.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proofs.pure_embedding import guaranteed, refuse_added_scores
from setwise._types import Floats
from setwise._validation import real_number, whole_number
from setwise.errors import InvalidInput
from setwise.model import objective
from setwise.model.catalog import Catalog
from setwise.model.users import User
from setwise.retrieval.partition import Partition

INWARDS = 1 - 1e-12  # balls are this much smaller, so that rounding cannot make a pair exceed δ


@dataclass(frozen=True, eq=False)
class Cover:
    """The cells of a δ-cover, and the loss of retrieving only their best items."""

    catalog: Catalog
    partition: Partition
    delta: float

    def candidates(self, k: int) -> int:
        """|I|: the number of retrieved items, k from every cell that has as many."""
        return int(np.minimum(self.partition.sizes, whole_number("k", k)).sum())

    def most_candidates(self, k: int) -> int:
        """A bound on |I| that does not depend on n: τ k Π ⌈1 + 4R/δ⌉^d over all that is covered."""
        cells = len(self.catalog.rewards)
        for vectors in _covered(self.catalog):
            longest = float(np.linalg.norm(vectors, axis=1).max())
            cells *= math.ceil(1 + 4 * longest / self.delta) ** vectors.shape[1]
        return cells * whole_number("k", k)

    def eps(self, user: ArrayLike | User, eta: float = 0.0) -> float:
        """ε of the proposition for this user, ``eta`` being the additive error of the k-nearest neighbours."""
        return real_number("eta", eta) + self.delta * sensitivity(self.catalog, user)

    def guaranteed(self, optimum: float, user: ArrayLike | User, k: int, eta: float = 0.0) -> float:
        """(1 − g(ε)) OPT − k h(ε): a lower bound on the best value among the retrieved items."""
        return self.guaranteed_after(self.eps(user, eta), optimum, whole_number("k", k))

    def guaranteed_after(self, loss: float, optimum: float, k: int) -> float:
        """The same for an ε that is known: no argument of a reward falls by more than ``loss``."""
        return guaranteed(self.catalog.rewards, loss, k, optimum)


def cover(catalog: Catalog, delta: float) -> Cover:
    """The δ-cover of a catalogue; ``delta_for`` computes δ from ε."""
    delta = real_number("delta", delta)
    if delta <= 0:
        raise InvalidInput("delta", "greater than 0", delta, "pass a distance between queries, or use delta_for")
    cell_of = pack(_covered(catalog), catalog.reward_class, delta / 2 * INWARDS)
    return Cover(catalog, Partition.of(catalog, cell_of, int(cell_of.max()) + 1), delta)


def delta_for(catalog: Catalog, eps: float, user: ArrayLike | User) -> float:
    """The largest δ whose cover costs this user at most ε; for many users, take the least."""
    eps, loss = real_number("eps", eps), sensitivity(catalog, user)
    if eps <= 0:
        raise InvalidInput("eps", "greater than 0", eps, "pass the loss of score you can accept")
    if loss == 0:
        raise InvalidInput("user", "one with different scores", "equal scores only", "use any delta")
    return eps / loss


def sensitivity(catalog: Catalog, user: ArrayLike | User) -> float:
    """ε/δ of the proposition: Σ_h R_h D_h + 2 Σ_{p>1} ‖u^p‖."""
    checked = refuse_added_scores(catalog.user(user))
    reach = (_longest(catalog, "query") + _longest(catalog, "key")) / 2
    mixing = float(np.linalg.norm(checked.heads[1:], axis=1).sum())
    if checked.base is not None:
        mixing += float(np.linalg.norm(checked.base))
    return float(reach @ _score_range(catalog, checked)) + 2 * mixing


def _covered(catalog: Catalog) -> list[Floats]:
    """Everything in which the items of a cell must agree within δ: arrays (n, d)."""
    parts = [array[:, h] for array in (catalog.query, catalog.key) for h in range(catalog.heads)]
    parts += [catalog.value[:, h] for h in range(1, catalog.heads)]
    if catalog.base is not None:
        parts.append(catalog.base)
    return [part.astype(np.float64) for part in parts]


def pack(parts: list[Floats], reward_class: NDArray[np.int32], radius: float) -> NDArray[np.int32]:
    """The cell of each item, packed greedily in the order of the rows; its first item is the centre: (n,)."""
    points = np.hstack(parts)
    first = np.cumsum([0] + [part.shape[1] for part in parts[:-1]])
    cell_of = np.empty(len(points), np.int32)
    rest, cells = np.arange(len(points)), 0
    while rest.size:
        square = np.add.reduceat((points - points[0]) ** 2, first, axis=1).max(axis=1)
        near = (square <= radius**2) & (reward_class[rest] == reward_class[rest[0]])
        cell_of[rest[near]] = cells
        rest, points, cells = rest[~near], points[~near], cells + 1
    return cell_of


def _longest(catalog: Catalog, name: Literal["query", "key"]) -> Floats:
    """The length that no query, or no key, of a head exceeds, in any place and at the sink: (H,)."""
    longest = np.linalg.norm(getattr(catalog, name).astype(np.float64), axis=2).max(axis=0)
    if catalog.positions is not None:
        longest = longest + np.linalg.norm(getattr(catalog.positions, name).astype(np.float64), axis=2).max(axis=0)
    if catalog.sink is not None and name == "key":
        longest = np.maximum(longest, np.linalg.norm(catalog.sink.key.astype(np.float64), axis=1))
    return np.asarray(longest)


def _score_range(catalog: Catalog, user: User) -> Floats:
    """D_h, the largest minus the smallest score of a head, in any place and the sink's included: (H,)."""
    score, sink = objective.scores(catalog, user, np.arange(len(catalog)), None)
    low, high = score.min(axis=1), score.max(axis=1)
    if catalog.positions is not None:
        place = np.einsum("phd,hd->hp", catalog.positions.value.astype(np.float64), user.heads)
        low, high = low + place.min(axis=1), high + place.max(axis=1)
    if sink is not None:
        low, high = np.minimum(low, sink), np.maximum(high, sink)
    return np.asarray(high - low)
