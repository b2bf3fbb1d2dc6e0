"""Factor models as catalogues: the score of item i for user u is y_i · x_u, which is a base term without attention.

    base_i = y_i,   u⁰ = x_u,   query, key and value zero:      a_i(S) = y_i · x_u

A slate of such a catalogue is the top k of the model, now with constraints and a proof. Add attention by training it on
top, or by passing the model's scores to a trained recommender instead (``recommend(scores=…)``).

New users are folded in by the library itself, which knows its own loss: ALS solves a least-squares problem, truncated
SVD and NMF transform a row. A library is never imported: its model is used by public attributes and methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Array, Floats, Floats32, Rows
from setwise._validation import listed, real_array
from setwise.errors import InvalidInput
from setwise.interop.sparse_rows import history_matrix
from setwise.model.base_terms import BaseTerms
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.fold_in import FoldIn
from setwise.model.ids import IdChoice, Ids
from setwise.model.rewards import Logistic, RewardChoice
from setwise.model.users import User
from setwise.recommend.recommender import Recommender
from setwise.retrieval import Index

FoldInMethod = Callable[[Sequence[Rows]], Array]  # rows of each history -> (B, d)


@dataclass(frozen=True, eq=False)
class FactorModel:
    """Item factors (n, d), and where they are known user factors (m, d) or a way to fold in new users."""

    item_factors: Floats32
    ids: Ids
    user_factors: Floats32 | None = None
    user_ids: Ids | None = None
    fold_in: FoldInMethod | None = None
    reward: RewardChoice = Logistic()
    attributes: Any = None
    encoder: Encoder | None = None  # where setwise itself can fold in new users

    def catalog(self) -> Catalog:
        """The items with their factors as the base term, without attention."""
        nothing = np.zeros((len(self.item_factors), 1), np.float32)
        return Catalog(
            nothing, nothing, nothing, self.reward, self.item_factors, ids=self.ids, attributes=self.attributes
        )

    def recommender(self, cells: int | None = None, **options: Any) -> Recommender:
        """A recommender of this catalogue, which takes histories where there is an encoder; options are those of it."""
        return Recommender(Index.build(self.catalog(), cells), encoder=self.encoder, **options)

    def user(self, user: Any) -> User:
        """A user of the model, by id."""
        return self.users([user])[0]

    def users(self, users: IdChoice) -> list[User]:
        """Users of the model, by id."""
        if self.user_factors is None or self.user_ids is None:
            raise InvalidInput("users", "of a model with user factors", "one without", "use users_of(histories)")
        return [_user(x) for x in self.user_factors[self.user_ids.rows_of(users)]]

    def user_of(self, history: IdChoice) -> User:
        """A user with this history of ids, folded in."""
        return self.users_of([history])[0]

    def users_of(self, histories: Iterable[IdChoice]) -> list[User]:
        """Users with these histories of ids, folded in by the model's own library."""
        if self.fold_in is None:
            todo = "use users(ids), or a model that has such a method"
            raise InvalidInput("histories", "for a model that can fold in new users", "another model", todo)
        rows = [self.ids.rows_of(history) for history in listed("histories", histories, "histories")]
        return [_user(x) for x in self.fold_in(rows)] if rows else []


def _user(x: Array) -> User:
    return User(np.zeros((1, 1)), np.asarray(x, np.float64))


def from_factors(
    item_factors: ArrayLike,
    ids: IdChoice | None = None,
    *,
    user_factors: ArrayLike | None = None,
    user_ids: IdChoice | None = None,
    item_bias: ArrayLike | None = None,
    fold_in: FoldInMethod | None = None,
    reward: RewardChoice = Logistic(),
    attributes: Any = None,
) -> FactorModel:
    """A factor model from plain arrays: item factors (n, d), user factors (m, d), and a bias (n,) of each item.

    ``reward`` maps the model's scores to values: ``Linear()`` if they are values already, ``Logistic`` if log-odds.
    """
    items = real_array("item_factors", _host(item_factors), ("n", "d"), np.float32)
    users = None
    if user_factors is not None:
        users = real_array("user_factors", _host(user_factors), ("m", items.shape[1]), np.float32)
    if item_bias is not None:
        bias = real_array("item_bias", _host(item_bias), (len(items),), np.float32)
        items = np.hstack([items, bias[:, None]])
        users = None if users is None else np.hstack([users, np.ones((len(users), 1), np.float32)])
        fold_in = None if fold_in is None else _with_one(fold_in)
    return FactorModel(
        items,
        Ids.of(ids, len(items)),
        users,
        None if users is None else Ids.of(user_ids, len(users)),
        fold_in,
        reward,
        attributes,
    )


def from_implicit(
    model: Any, ids: IdChoice | None = None, user_ids: IdChoice | None = None, **others: Any
) -> FactorModel:
    """A fitted matrix factorisation of implicit (ALS, BPR, LMF; on CPU or GPU).

    Biases of BPR and LMF are columns of their factors already. ALS folds in new users, also by the encoder of the
    recommender (``recommend(history=…)``); the others cannot. ``others`` are the reward and the attributes of
    ``from_factors``. For item-kNN models use ``candidate_scores``.
    """
    items, users = _fitted(model, "item_factors"), _fitted(model, "user_factors")

    def fold_in(histories: Sequence[Rows]) -> Array:
        matrix = history_matrix(histories, len(items))
        try:
            return np.asarray(_host(model.recalculate_user(np.arange(len(histories)), matrix)))
        except NotImplementedError:
            todo = "use users(ids), or AlternatingLeastSquares"
            raise InvalidInput("model", "one that folds in new users", type(model).__name__, todo) from None

    adapted = from_factors(items, ids, user_factors=users, user_ids=user_ids, fold_in=fold_in, **others)
    if not (hasattr(model, "alpha") and hasattr(model, "regularization")):
        return adapted
    nothing = np.zeros((len(adapted.item_factors), 1), np.float32)
    terms = BaseTerms(FoldIn.of(adapted.item_factors, float(model.alpha), float(model.regularization)))
    return replace(adapted, encoder=Encoder(nothing, np.zeros((1, 1, 1)), np.zeros((1, 1)), base_terms=terms))


def from_sklearn(model: Any, ids: IdChoice | None = None, **others: Any) -> FactorModel:
    """A fitted decomposition of a matrix of users by items, such as TruncatedSVD or NMF of scikit-learn.

    Any model will do that has ``components_`` (d, n), and ``transform`` from rows of users to factors.
    """
    items = _host(_fitted(model, "components_")).T

    def fold_in(histories: Sequence[Rows]) -> Array:  # NMF refuses rows of another type than its own
        return np.asarray(model.transform(history_matrix(histories, items.shape[0]).astype(items.dtype)))

    return from_factors(items, ids, fold_in=fold_in if hasattr(model, "transform") else None, **others)


def from_rectools(model: Any, dataset: Any, **others: Any) -> FactorModel:
    """A fitted vector model of RecTools and the ``Dataset`` that it was fitted on; ids are those of the data set.

    Any model will do that has ``get_vectors()``, ``get_vectors(dataset)`` or ``user_factors`` and ``item_factors``. For
    the others, pass the table that ``recommend`` returns to ``recommend_frame``.
    """
    if hasattr(model, "get_vectors"):  # models with features compute the vectors from those of the data set
        wants_dataset = "dataset" in signature(model.get_vectors).parameters
        users, items = model.get_vectors(dataset) if wants_dataset else model.get_vectors()
    else:
        users, items = _fitted(model, "user_factors"), _fitted(model, "item_factors")
    ids, user_ids = (np.asarray(part.external_ids).tolist() for part in (dataset.item_id_map, dataset.user_id_map))
    return from_factors(items, ids, user_factors=users, user_ids=user_ids, **others)


def _with_one(fold_in: FoldInMethod) -> FoldInMethod:
    """The same, with a 1 that multiplies the item's bias."""
    return lambda histories: np.hstack([np.asarray(fold_in(histories)), np.ones((len(histories), 1))])


def _fitted(model: Any, name: str) -> Any:
    array = getattr(model, name, None)
    if array is None:
        raise InvalidInput("model", f"a fitted one with {name}", type(model).__name__, "fit it, or use from_factors")
    return array


def _host(array: Any) -> Floats | Array:
    """The array in main memory: implicit's matrices on a GPU have ``to_numpy``."""
    return np.asarray(array.to_numpy() if hasattr(array, "to_numpy") else array)
