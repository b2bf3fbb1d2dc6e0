"""Re-rank: choose the best set from the candidates of another system. No catalogue, index or training is needed."""

from setwise.recommend.rerank.answer import Order
from setwise.recommend.rerank.rerank import rerank

__all__ = ["Order", "rerank"]
