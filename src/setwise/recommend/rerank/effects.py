"""A list whose candidates act on each other as a model of effects says, seen before or not.

    a_i(S) = t_i + Σ_families effect of S∖i on i,      f logistic

t_i are the scores as log-odds; the effects are those of the model, in log-odds of its outcomes. They are heads of
attention (``training/effects``), so that this is an ``Instance`` as any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from setwise._types import Floats
from setwise._validation import frozen
from setwise.errors import InvalidInput
from setwise.model.instance import Instance
from setwise.model.rewards import Logistic
from setwise.recommend.rerank.candidates import Candidates


def affected(effects: Any, candidates: Candidates, argument: Floats, factor: Floats | None) -> Instance:
    """The instance of these candidates with the model's effects."""
    if not hasattr(effects, "effects_on"):
        todo = "pass SimpleTransformer.load(folder)"
        raise InvalidInput("effects", "a model that was trained on slates", type(effects).__name__, todo)
    heads = effects.effects_on(candidates.attributes, candidates.vectors).heads
    reward, m = effects.catalog().rewards[0], len(argument)
    scale = reward.scale if isinstance(reward, Logistic) else 1.0
    if not heads:
        logits, sink = np.zeros((m, m)), (np.zeros(m), np.zeros(1))
        return Instance(logits, np.zeros(m), Logistic(), argument, *sink, reward_weight=factor)
    alone = scale * sum(head.alone for head in heads)
    return Instance(
        frozen(np.stack([head.query @ head.key.T for head in heads])),
        frozen(np.stack([scale * head.value for head in heads])),
        base=argument - alone,
        sink_logit=np.stack([np.full(m, head.sink) for head in heads]),
        sink_score=np.zeros(len(heads)),
        reward_weight=factor,
    )
