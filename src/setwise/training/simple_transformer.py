"""SimpleTransformer: a model of what people choose together, trained from sessions or slates.

    model = SimpleTransformer.fit(sessions or slates)
    catalog, user = model.catalog(), model.user(["id of a song", "another"])
    model.save("model/"); SimpleTransformer.load("model/")

A trained model is a catalogue and an encoder of users, both plain numpy: only ``fit`` needs torch. Arrays that were
trained elsewhere can be used the same way: ``SimpleTransformer(catalog, Encoder(...))``.
"""

from __future__ import annotations

from typing import Any

from setwise.datasets.sessions import Sessions, Slates
from setwise.errors import MissingDependency
from setwise.training.slate_model import SlateModel


class SimpleTransformer(SlateModel):
    """A slate model that can be trained: a catalogue and the encoder of its users."""

    @classmethod
    def fit(cls, data: Sessions | Slates, **options: Any) -> SimpleTransformer:
        """Train on sessions (playlists, baskets) or on slates with outcomes; for ``options`` see ``recipe.fit``."""
        try:
            from setwise.training.recipe import fit as fit_model  # imports torch, so only when needed
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "torch":
                raise
            raise MissingDependency("torch", "training a model", "train") from None
        model = fit_model(data, **options)
        return cls(model.catalog(), model.encoder, model.summary)
