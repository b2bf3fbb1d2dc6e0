"""Arguments of ``rerank`` that contradict each other."""

from __future__ import annotations

from typing import Any

from setwise._validation import did_you_mean
from setwise.errors import InvalidInput
from setwise.recommend.rerank.strategies import SETWISE, STRATEGIES


def refuse_mixed(
    embeddings: Any,
    query: Any,
    key: Any,
    strategy: Any,
    diversity: Any,
    strength: Any,
    scale: Any,
    outcomes: Any,
    by: Any,
    effects: Any,
    weights: Any,
) -> None:
    """Refuse arguments that contradict each other."""
    if strategy not in STRATEGIES:
        must = f"one of {', '.join(STRATEGIES)}"
        todo = did_you_mean(strategy, STRATEGIES) or "choose one of those"
        raise InvalidInput("strategy", must, repr(strategy), todo)
    if diversity is not None and strength is not None:
        raise InvalidInput("diversity and strength", "one of the two", "both", "leave strength out")
    if scale is not None and outcomes is not None:
        raise InvalidInput("scale and outcomes", "one of the two", "both", "leave scale out")
    stated = {"by": by, "diversity": diversity, "strength": strength}
    name = next((name for name, part in stated.items() if part is not None), "")
    if effects is not None and (name or strategy != SETWISE or query is not None):
        must = "absent with effects, which say what candidates do to each other"
        raise InvalidInput(name or ("query" if query is not None else "strategy"), must, "given", "leave it out")
    if query is None and key is None:
        return
    given = {"embeddings": embeddings, "query": query, "key": key}
    if embeddings is not None or query is None or key is None:
        must = "either embeddings alone or query and key together"
        got = " and ".join(name for name, part in given.items() if part is not None)
        raise InvalidInput("rerank's arguments", must, got, "pass one of the two")
    stated |= {"scale": scale, "outcomes": outcomes, "weights": weights}
    name = next((name for name, part in stated.items() if part is not None), "")
    if name or strategy != SETWISE:
        must = "absent with query and key, which state the objective"
        raise InvalidInput(name or "strategy", must, "given", "leave it out")
