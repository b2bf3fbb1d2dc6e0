"""SlateModel: a catalogue and the encoder of its users, as plain arrays.

It predicts the outcome of every item of a slate, f(a_i(S)), from the history of the user. It needs numpy only; torch
is needed to train one (``SimpleTransformer.fit``), not to use it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from setwise._types import Array, Floats
from setwise._validation import frozen
from setwise.datasets.sessions import Slates
from setwise.errors import InvalidInput
from setwise.model.batch_objective import many_arguments
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.ids import IdChoice
from setwise.model.ragged import Ragged
from setwise.model.rewards import Exp, Reward, evaluate
from setwise.model.users import User, Users
from setwise.storage import artifact
from setwise.training.calibration import Reliability, fit_logistic, reliability
from setwise.training.effects.drawing import drawing
from setwise.training.summary import Summary

if TYPE_CHECKING:
    from setwise.model.attributes import Attributes
    from setwise.training.effects.transfer import Transferred

_LEAST, _MOST, _SCORES = 64, 4096, 1 << 25  # slates at once, and added scores of their users


class SlateModel:
    """A catalogue and the encoder of its users; ``summary`` records how the model was trained."""

    def __init__(self, catalog: Catalog, encoder: Encoder, summary: Mapping[str, Any] | None = None) -> None:
        if not isinstance(catalog, Catalog) or not isinstance(encoder, Encoder):
            got = f"{type(catalog).__name__} and {type(encoder).__name__}"
            raise InvalidInput("catalog and encoder", "a setwise.Catalog and an Encoder", got, "pass those two")
        if catalog.positions is not None:
            todo = "rank ordered slates as an Instance instead"
            raise InvalidInput("catalog", "without positions, because models are of sets", "one with positions", todo)
        self._catalog, self.encoder = catalog, encoder.fitted_to(catalog)
        self.summary = Summary(summary or {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._catalog!r})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.summary._repr_html_()}"

    def catalog(self) -> Catalog:
        """The items, ready for an index."""
        return self._catalog

    def user(self, history: IdChoice) -> User:
        """The user whose history is these ids, oldest first; an empty history gives the user of an unknown visitor."""
        return self.users(Ragged.of([self._catalog.rows_of(history)]))[0]

    def users(self, history: Ragged) -> Users:
        """The users of many histories, given as rows of the catalogue."""
        return self.encoder.users(history)

    @property
    def effects(self) -> dict[str, Any]:
        """What items of a slate do to each other, as far as it can be read: ``words``, and a ``drawing`` in SVG."""
        words = list(self.summary.get("words", ()))
        return {"words": words, "drawing": drawing(self.summary["pictures"])} if words else {}

    def effects_on(self, attributes: Attributes, vectors: Array | None = None) -> Transferred:
        """The base and the effects for candidates with these attributes, seen before or not (effects/transfer.py)."""
        from setwise.training.effects.transfer import for_candidates

        if "transfer" not in self.summary:
            todo = "train it on slates, by setwise train slates"
            raise InvalidInput("effects", "a model of effects of attributes", "another model", todo)
        return for_candidates(self.summary["transfer"], attributes, vectors)

    # --- predictions ---

    def arguments(self, history: Ragged, shown: Ragged) -> Floats:
        """a_i(S) of every item shown, aligned with ``shown.values``."""
        numbers, size = np.arange(len(shown)), max(_LEAST, min(_MOST, _SCORES // len(self._catalog)))
        parts = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        arguments = [self._arguments(history.taken(rows), shown.taken(rows)) for rows in parts]
        return np.concatenate([np.empty(0), *arguments])

    def _arguments(self, history: Ragged, shown: Ragged) -> Floats:
        """``arguments`` of some slates: the added scores of all their users are in memory."""
        rows, filled = shown.padded(max(1, int(shown.lengths.max(initial=0))))
        users = self.users(history)
        argument = many_arguments(self._catalog, users.heads, users.base, rows, filled) + users.added(rows)
        result: Floats = argument[filled]
        return result

    def predict(self, slates: Slates) -> Floats:
        """f(a_i(S)) of every item shown: the probability that it is a hit; aligned with ``shown.values``.

        Of a model of choices (``training/effects/choice.py``) it is the probability that this item is chosen.
        Slates of another file number its ids in another order; items are found by their ids. Items of histories that
        the model does not have are left out.
        """
        known = self._over_its_ids(slates)
        value, reward = self._values(known), self._catalog.rewards[0]
        if not (self.of_choices and isinstance(reward, Exp)):
            return value
        attraction = value / np.exp(reward.bias)
        return np.asarray(attraction / (1 + np.bincount(known.shown.owner, attraction, len(known)))[known.shown.owner])

    def _values(self, slates: Slates) -> Floats:
        """f(a_i(S)) of every item shown."""
        argument = self.arguments(slates.history, slates.shown)
        return evaluate(self._catalog.rewards, self._catalog.reward_class[slates.shown.values], argument)

    @property
    def of_choices(self) -> bool:
        """Whether one item of a slate is chosen, or none."""
        return bool(self.summary.get("choices"))

    def _over_its_ids(self, slates: Slates) -> Slates:
        """The slates with the rows of the catalogue."""
        ids = self._catalog.ids
        if len(ids) == len(slates.ids) and list(ids[:]) == list(slates.ids):
            return slates
        row = ids.places_of(list(slates.ids))
        shown = row[slates.shown.values]
        if (shown < 0).any():
            first = slates.ids[int(slates.shown.values[int(np.argmax(shown < 0))])]
            todo = "leave out slates with other items, or train again with them"
            known = first.item() if isinstance(first, np.generic) else first
            raise InvalidInput("slates", "of items of this model", f"the item {known!r}", todo)
        seen = row[slates.history.values]
        history = Ragged(frozen(seen), slates.history.offsets).kept(seen >= 0)
        return Slates(history, Ragged(frozen(shown), slates.shown.offsets), slates.outcome, list(ids[:]))

    def reliability(self, slates: Slates, bins: int = 10) -> Reliability:
        """Predictions against outcomes on these slates, as a reliability diagram."""
        return reliability(self.predict(slates), slates.outcome, bins)

    # --- calibration ---

    def with_reward(self, reward: Reward, summary: Mapping[str, Any] | None = None) -> Self:
        """The same model with another reward function. The order of sets may change; that of single items does not."""
        catalog = self._catalog
        changed = Catalog(
            catalog.query,
            catalog.key,
            catalog.value,
            reward,
            catalog.base,
            catalog.sink,
            catalog.ids,
            dict(catalog.attributes.items()),
            dtype=catalog.query.dtype.type,
        )
        return type(self)(changed, self.encoder, {**self.summary, **(summary or {})})

    def calibrated(self, slates: Slates) -> Self:
        """The model with the increasing logistic reward that makes the outcomes of these slates most likely.

        A model of choices gets a factor, with which its values are the number of choices of these slates.
        """
        own_slates = self._over_its_ids(slates)
        reward = self._catalog.rewards[0]
        if self.of_choices and isinstance(reward, Exp):
            factor = (float(np.sum(own_slates.outcome)) + 1) / (float(self._values(own_slates).sum()) + 1)
            return self.with_reward(Exp(reward.scale, reward.bias + math.log(factor)), {"calibrated_on": len(slates)})
        reward = fit_logistic(self.arguments(own_slates.history, own_slates.shown), slates.outcome)
        return self.with_reward(reward, {"calibrated_on": len(slates)})

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to the folder ``path``. A model already there is replaced atomically."""
        arrays, meta = self._catalog.packed()
        parts = {f"catalog.{name}": array for name, array in arrays.items()}
        parts |= {f"encoder.{name}": array for name, array in self.encoder.packed().items()}
        artifact.write(path, "model", parts, {"catalog": meta, "summary": self.summary})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a saved model: the digests are checked, then every array is a view of the mapped file."""
        saved = artifact.read(path, "model")
        with artifact.restoring(path):
            catalog = Catalog.unpacked(artifact.under("catalog.", saved.arrays), saved.meta["catalog"])
            encoder = Encoder.unpacked(artifact.under("encoder.", saved.arrays))
            return cls(catalog, encoder, saved.meta["summary"])
