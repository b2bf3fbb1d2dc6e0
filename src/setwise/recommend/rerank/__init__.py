"""Re-rank: choose the best set from the candidates of another system. No catalogue, index or training is needed."""

from setwise.recommend.rerank.answer import Order
from setwise.recommend.rerank.diversity import fit_diversity
from setwise.recommend.rerank.learned import LearnedDiversity
from setwise.recommend.rerank.requests import answer_data, rerank_data
from setwise.recommend.rerank.rerank import rerank
from setwise.recommend.rerank.tables import RerankedTable, rerank_table

__all__ = [
    "LearnedDiversity",
    "Order",
    "RerankedTable",
    "answer_data",
    "fit_diversity",
    "rerank",
    "rerank_data",
    "rerank_table",
]
