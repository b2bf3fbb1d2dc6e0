"""Phase Two: given m candidates, find the best set. Each ranker is a file; ``registry`` lists them."""

from setwise.ranking.ranker import Ranker, Ranking
from setwise.ranking.registry import DEFAULT, RANKERS, rank, rank_many, ranker_named, warm_up

__all__ = ["DEFAULT", "RANKERS", "Ranker", "Ranking", "rank", "rank_many", "ranker_named", "warm_up"]
