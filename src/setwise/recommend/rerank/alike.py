"""By what the candidates of a list are alike: vectors, attributes that are named, or those of text that repeat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from setwise._validation import did_you_mean
from setwise.errors import InvalidInput
from setwise.model.attributes import Categorical
from setwise.model.likeness import AttributeLikeness, Likeness, NoLikeness, VectorLikeness
from setwise.recommend.rerank.candidates import Candidates

MOST_VALUES = 0.5  # of the candidates: a text that is different for more of them is a name


def likeness_of(candidates: Candidates, by: str | Sequence[str] | None, sharpness: float, asked: bool) -> Likeness:
    """How much these candidates are alike; where nothing says it, that is refused if diversity was ``asked`` for."""
    table, every = candidates.attributes, np.arange(len(candidates))
    if by is None and candidates.vectors is not None:
        return VectorLikeness(candidates.vectors, sharpness, candidates.square)
    names = [by] if isinstance(by, str) else list(by or ())
    for name in names:
        if name not in table:
            known = ", ".join(sorted(table)) or "none"
            todo = did_you_mean(name, table) or "use one of those"
            raise InvalidInput("by", f"attributes that the candidates have ({known})", repr(name), todo)
    labels = [table.labels(name, every) for name in names]
    if by is None:
        columns = [table.labels(name, every) for name in table if isinstance(table[name], Categorical)]
        labels = [codes for codes in columns if len(np.unique(codes)) <= MOST_VALUES * len(every)]
    if labels:
        return AttributeLikeness(labels)
    if asked:
        must = "left out where nothing says which candidates are alike"
        todo = "pass embeddings, or attributes and by"
        raise InvalidInput("diversity (or strength)", must, "given", todo)
    return NoLikeness(len(candidates))
