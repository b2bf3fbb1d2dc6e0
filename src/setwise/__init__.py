"""setwise: recommend the best set, not the best items.

catalog = setwise.Catalog(query, key, value)                      the items, as a simple transformer sees them
recommender = setwise.Recommender(setwise.Index.build(catalog))
slate = recommender.recommend(user, k=10)                         the best set found, its value, a bound on all others

setwise.rerank(scores, k=10, embeddings=x)                        for a list that is there already
setwise.set_value(catalog, user, rows)                            F(S), by the judge
setwise.rank(setwise.Instance.from_catalog(catalog, user, rows), k=10)   Phase Two alone
"""

from setwise.catalog import Catalog, Positions, Sink
from setwise.certificates.upper_bound import upper_bound
from setwise.errors import SetwiseError
from setwise.explanation import Explanation
from setwise.instance import Instance
from setwise.objective import attention, item_rewards, set_value
from setwise.ranking import Ranking, rank, rank_many
from setwise.recommender import Recommender
from setwise.rerank import rerank
from setwise.retrieval import Index
from setwise.rewards import (
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
from setwise.slate import Slate
from setwise.users import User

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
    "Sink",
    "Slate",
    "Softplus",
    "Tanh",
    "User",
    "attention",
    "item_rewards",
    "rank",
    "rank_many",
    "rerank",
    "set_value",
    "upper_bound",
]
