"""The items of an encoder, beside those of a catalogue that has changed since.

An encoder is trained for a fixed list of items. An index may gain items (``add``) and lose some (``remove``,
``compact``), after which row i of the catalogue is another item than row i of the encoder. Histories are translated to
rows of the encoder, and the scores that it adds back to rows of the catalogue. An item that the encoder does not know
has the score of the items that are not named or, where all are, the lowest one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from setwise._types import Rows
from setwise.errors import InvalidInput
from setwise.model.added_scores import AddedScores
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.ids import Ids
from setwise.model.users import Users


class EncoderItems:
    """The ids that an encoder knows, in the order of its rows."""

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        self._latest: tuple[Ids, Rows] | None = None

    def rows(self, catalog: Catalog, rows: Rows) -> Rows:
        """The encoder's rows of these rows of the catalogue, without items that it does not know."""
        return rows if catalog.ids is self.ids else self.ids.known_rows(catalog.ids[rows])[0]

    def moved(self, catalog: Catalog, users: Users) -> Users:
        """The users with their added scores in the order of the catalogue."""
        if catalog.ids is self.ids or users.scores is None:
            return users
        places = self._places(catalog)
        return replace(users, scores=[_moved(scores, places) for scores in users.scores])

    def restricted(self, catalog: Catalog, encoder: Encoder) -> Encoder:
        """The encoder of just the items of the catalogue, in their order."""
        if catalog.ids is self.ids:
            return encoder
        places = self._places(catalog)
        if (places < 0).any():
            todo = "train again with them, or save the index alone by recommender.index.save"
            raise InvalidInput("encoder", "one that knows every item", "items added since", todo)
        return encoder.taken(places)

    def _places(self, catalog: Catalog) -> Rows:
        """The encoder's row of every item of the catalogue, −1 for unknown ones; kept for the latest catalogue."""
        latest = self._latest
        if latest is None or latest[0] is not catalog.ids:
            ids = catalog.ids[np.arange(len(catalog))]
            latest = self._latest = (catalog.ids, self.ids.places_of(ids))
        return latest[1]


def _moved(scores: AddedScores, places: Rows) -> AddedScores:
    known = places >= 0
    if scores.rows is None:
        lowest = float(scores.values.min(initial=0.0))
        return AddedScores.dense(np.where(known, scores.values[places], lowest))
    rows = np.flatnonzero(known)
    named = np.isin(places[rows], scores.rows)
    return AddedScores.sparse(len(places), rows[named], scores.of(places[rows[named]]), scores.rest)
