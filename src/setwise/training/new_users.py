"""New users: what a model recommends to a user without a history.

Item-kNN, EASE and ALS give every item the score 0 if there is no history, so that all slates would be worth the same
and the order of the catalogue would decide. What is known of such a user is how often each item occurs: in c_i of N
sessions. The probability that an item is a hit, one of the session, is

    p_i = (c_i + ½) / (N + 1)

and with the reward f(a) = logistic(scale · a + bias) an added score t_i predicts it, beside the base term that an empty
history has already (a two-tower network has one):

    t_i = (logit(p_i) − bias) / scale − base_i · u⁰(∅)

Attention, where it was kept, comes on top.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from setwise.datasets.sessions import Sessions
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.ragged import Ragged
from setwise.model.rewards import Logistic


def with_new_users(encoder: Encoder, catalog: Catalog, reward: Logistic, sessions: Sessions) -> Encoder:
    """The encoder with the added scores of users without a history; ``sessions`` hold no item twice."""
    share = (sessions.popularity + 0.5) / (len(sessions) + 1)
    scores = (np.log(share / (1 - share)) - reward.bias) / reward.scale
    user = encoder.users(Ragged.of([[]]))[0]
    if catalog.base is not None and user.base is not None:
        scores = scores - catalog.base @ user.base
    return replace(encoder, base_terms=replace(encoder.base_terms, new_user=scores.astype(np.float32)))
