"""setwise: recommend the best set, not the best items.

catalog = setwise.Catalog(query, key, value)                      the items, as a simple transformer sees them
recommender = setwise.Recommender(setwise.Index.build(catalog))
slate = recommender.recommend(user, k=10)                         the best set found, its value, a bound on all others

setwise.SimpleTransformer.fit(setwise.read("baskets.csv"))         a catalogue and its users, learned from data

setwise.rerank(scores, k=10, embeddings=x)                        for a list that is there already
setwise.set_value(catalog, user, rows)                            F(S), by the reference objective
setwise.rank(setwise.Instance.from_catalog(catalog, user, rows), k=10)   Phase Two alone
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from setwise.bounds.candidates.upper_bound import upper_bound
from setwise.errors import SetwiseError
from setwise.model import rewards
from setwise.model.catalog import Catalog, Positions, Sink
from setwise.model.instance import Instance
from setwise.model.objective import attention, item_rewards, set_value
from setwise.model.rewards import (
    Constant,
    Exp,
    LeakyReLU,
    Linear,
    Logistic,
    PiecewiseLinear,
    ReLU,
    Softplus,
    Tanh,
)
from setwise.model.users import User
from setwise.ranking import Ranking, rank, rank_many
from setwise.recommend.explanation import Explanation
from setwise.recommend.recommender import Recommender
from setwise.recommend.rerank import fit_diversity, rerank
from setwise.recommend.slate import Slate
from setwise.retrieval import Index

if TYPE_CHECKING:
    from setwise.datasets import read
    from setwise.training import SimpleTransformer

__version__ = "0.1.0"

__all__ = [
    "Catalog",
    "Constant",
    "Exp",
    "Explanation",
    "Index",
    "Instance",
    "LeakyReLU",
    "Linear",
    "Logistic",
    "PiecewiseLinear",
    "Positions",
    "Ranking",
    "ReLU",
    "Recommender",
    "SetwiseError",
    "SimpleTransformer",
    "Sink",
    "Slate",
    "Softplus",
    "Tanh",
    "User",
    "attention",
    "fit_diversity",
    "item_rewards",
    "rank",
    "rank_many",
    "read",
    "rerank",
    "rewards",
    "set_value",
    "upper_bound",
]

LAZY = {"read": "setwise.datasets", "SimpleTransformer": "setwise.training"}  # imported when they are first used


def __getattr__(name: str) -> Any:
    """The names of LAZY: readers and training take time and memory that a recommender does not need."""
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
