"""Learn the knob: how strong the penalty for similar candidates is, from lists that were shown and what became of them.

    logit P(outcome of i) = offset + slope · score_i − strength · W_i / (1 + W_i) − decay · log(1 + place_i)

W_i counts what is like i in the same list, as ``rerank`` does, so that the fit is the objective of ``rerank`` with its
scores on the scale of log-odds; ``diversity`` is a quarter of the strength. The place is there where the table has a
column ``place`` or ``position``, as what is further down is looked at less. Errors are of lists, not of candidates: the
outcomes of one list depend on each other.

What a log can tell: lists whose company never varied say nothing, and where a policy knows a taste that the scores do
not, similar items are liked together, which lowers the strength. Shown at random, some lists tell more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from setwise._types import Floats
from setwise.errors import InvalidInput
from setwise.model.likeness import SHARPNESS
from setwise.recommend.rerank.alike import likeness_of
from setwise.recommend.rerank.candidates import columns_of, found_among
from setwise.recommend.rerank.learned import LearnedDiversity
from setwise.recommend.rerank.tables import GROUPS, Lists, Vectors, grouped
from setwise.recommend.score_scaling import logistic_regression

OUTCOMES, PLACES = ("outcome", "clicked", "hit"), ("place", "position", "rank")
FEWEST = 20  # lists
LEAST_SPREAD = 1e-6  # of the penalty over the log


def fit_diversity(
    table: Any,
    *,
    group: str | None = None,
    vectors: Vectors | None = None,
    by: str | Sequence[str] | None = None,
    sharpness: float = SHARPNESS,
) -> LearnedDiversity:
    """The strength of diversity that these lists want, with its error.

    table   a row for each candidate that was shown: its list, score and outcome (a column ``outcome``, ``clicked`` or
            ``hit``, from 0 to 1), perhaps its place, id, vector and attributes
    group, vectors  as ``rerank_table`` has them; ``by`` and ``sharpness`` as ``rerank``
    """
    columns = columns_of(table)
    outcome = _numbers(columns, OUTCOMES, "outcome")
    if outcome is None:
        raise InvalidInput("table", f"one with a column {' or '.join(OUTCOMES)}", ", ".join(columns), "add it")
    place = _numbers(columns, PLACES, "place")
    name = group if group is not None else found_among(columns, GROUPS)
    if name is None or name not in columns:
        must = f"one of the columns ({', '.join(columns)})"
        raise InvalidInput("group", must, repr(group), "name the column of the lists")
    _, parts = grouped(columns.pop(name))
    lists = Lists(columns, vectors)
    score, penalty, hit, owner, seen = [], [], [], [], []
    for number, rows in enumerate(parts):
        candidates = lists.candidates(rows)
        kept = rows if candidates.rows is None else rows[candidates.rows]
        copies = likeness_of(candidates, by, sharpness, asked=True).weights().astype(np.float64).sum(axis=1)
        score.append(candidates.scores)
        penalty.append(copies / (1 + copies))
        hit.append(outcome[kept])
        seen.append(np.zeros(len(kept)) if place is None else np.log1p(place[kept]))
        owner.append(np.full(len(kept), number))
    design = [np.concatenate(score), -np.concatenate(penalty)]
    if place is not None:
        design.append(-np.concatenate(seen))
    names = (by,) if isinstance(by, str) else None if by is None else tuple(by)
    return _fitted(np.stack(design, axis=1), np.concatenate(hit), np.concatenate(owner), len(parts), names, sharpness)


def _fitted(
    columns: Floats, hit: Floats, owner: Floats, lists: int, by: tuple[str, ...] | None, sharpness: float
) -> LearnedDiversity:
    if not np.isfinite(hit).all() or hit.min() < 0 or hit.max() > 1 or hit.min() == hit.max() or lists < FEWEST:
        must = f"from 0 to 1 and not all the same, of {FEWEST} lists or more"
        raise InvalidInput("outcomes", must, f"others, or {lists} lists", "pass more of the past")
    if columns[:, 0].std() == 0 or columns[:, 1].std() < LEAST_SPREAD:
        got = "the same for all candidates"
        raise InvalidInput("scores and likeness", "different between candidates", got, "pass lists that vary")
    centre, spread = columns.mean(axis=0), columns.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    design = np.column_stack([(columns - centre) / spread, np.ones(len(columns))])
    weights = logistic_regression(design, hit)
    chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
    bread = np.linalg.pinv((design * (chance * (1 - chance))[:, None]).T @ design)
    scores_of_lists = np.zeros((lists, design.shape[1]))
    np.add.at(scores_of_lists, owner.astype(np.intp), design * (hit - chance)[:, None])
    error = np.sqrt(np.diag(bread @ (scores_of_lists.T @ scores_of_lists) @ bread))
    slopes = weights[:-1] / spread
    if slopes[0] <= 0:
        todo = "check the sign of the scores"
        raise InvalidInput("scores", "higher where outcomes are better", "outcomes that fall with them", todo)
    offset = float(weights[-1] - slopes @ centre)
    return LearnedDiversity(
        strength=float(slopes[1]),
        error=float(error[1] / spread[1]),
        slope=float(slopes[0]),
        offset=offset,
        lists=lists,
        by=by,
        sharpness=sharpness,
    )


def _numbers(columns: dict[str, Any], known: Sequence[str], what: str) -> Floats | None:
    """The column of one of these names, taken out of the table, as numbers."""
    name = found_among(columns, known)
    if name is None:
        return None
    try:
        return np.asarray(columns.pop(name), np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"the column '{name}'", f"numbers, the {what}", "others", "convert it") from None
