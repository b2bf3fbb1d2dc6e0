"""Other libraries: factor models become catalogues and users, tables of candidates become scores, slates become tables.

    adapted = interop.from_implicit(als, ids=item_ids, user_ids=user_ids)      also from_sklearn, from_rectools
    recommender = adapted.recommender()
    slates = recommender.recommend_many(adapted.users(["anna", "ben"]))
    interop.slates_to_frame(slates, ["anna", "ben"])                           pandas, or polars

    scores = interop.scores_by_user(table)      of columns user_id, item_id, score: {user: {item: score}}
    interop.recommend_frame(recommender, table, k=10)                          the same table in, slates out

    rerank_frame(table, k=10, at_most={"brand": 2})     the best set of each list of a data frame or Arrow table

Retrieved documents are re-ranked by ``interop.langchain``, ``interop.llama_index``, ``interop.haystack``, each of which
imports its library, and ``interop.qdrant``.

Nothing here imports implicit, scikit-learn or RecTools: their models are used as they are passed, by public names.
pandas or polars is imported when a table of its kind is made.
"""

from setwise.interop.candidates import candidate_scores
from setwise.interop.factors import FactorModel, from_factors, from_implicit, from_rectools, from_sklearn
from setwise.interop.frames import histories_by_user, recommend_frame, scores_by_user, slates_to_frame
from setwise.interop.lists import rerank_frame, rerank_implicit
from setwise.interop.qdrant import rerank_points

__all__ = [
    "FactorModel",
    "candidate_scores",
    "from_factors",
    "from_implicit",
    "from_rectools",
    "from_sklearn",
    "histories_by_user",
    "recommend_frame",
    "rerank_frame",
    "rerank_implicit",
    "rerank_points",
    "scores_by_user",
    "slates_to_frame",
]
