"""Re-rank: choose the best set from the candidates of another system. No catalogue, index or training is needed."""

from setwise.recommend.rerank.answer import Order
from setwise.recommend.rerank.requests import answer_data, rerank_data
from setwise.recommend.rerank.rerank import rerank
from setwise.recommend.rerank.tables import RerankedTable, rerank_table

__all__ = ["Order", "RerankedTable", "answer_data", "rerank", "rerank_data", "rerank_table"]
