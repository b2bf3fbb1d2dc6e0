"""SimpleTransformer: a model of what people choose together, trained from sessions or slates.

    model = sw.SimpleTransformer.fit(sw.read("baskets.csv"))
    catalog, user = model.catalog(), model.user(["id of a song", "another"])
    model.save("model/"); sw.SimpleTransformer.load("model/")

A trained model is a catalogue and an encoder of users, both plain numpy: only ``fit`` needs torch. Arrays that were
trained elsewhere can be used the same way: ``SimpleTransformer(catalog, Encoder(...))``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from setwise._types import SLATE_SIZE, Floats32
from setwise.datasets.sessions import Sessions, Slates
from setwise.errors import MissingDependency
from setwise.training.settings import FOR_SESSIONS, FOR_SLATES, Schedule, Shape
from setwise.training.slate_model import SlateModel


class SimpleTransformer(SlateModel):
    """A slate model that can be trained: a catalogue and the encoder of its users."""

    @classmethod
    def fit(
        cls,
        data: Sessions | Slates,
        *,
        k: int = SLATE_SIZE,
        heads: int | None = None,
        dim: int | None = None,
        epochs: int = Schedule.epochs,
        minutes: float | None = None,
        seed: int = Schedule.seed,
        validation: Slates | None = None,
        loss: str = "item",
        embeddings: str | Floats32 | None = "auto",
        features: Sequence[str] | None = None,
        d_kq: int = Shape.d_kq,
        d_v: int = Shape.d_v,
        base: bool = Shape.base,
        sink: bool = Shape.sink,
        pooling: str | None = None,
        batch: int = Schedule.batch,
        learning_rate: float = Schedule.learning_rate,
        weight_decay: float | None = None,
        patience: int = Schedule.patience,
        checkpoint: str | os.PathLike[str] | None = None,
        device: str | None = None,
        progress: bool | None = None,
    ) -> SimpleTransformer:
        """Train on sessions (playlists, baskets) or on slates with outcomes, as ``setwise.read`` returns them.

        data           sessions or slates
        k              the size of the slates that will be shown (sessions only)
        heads          attention heads; None: 4 for slates, none for sessions, which do not say what else was
                       shown: what looks like an effect there is taste
        dim            dimension of the embeddings; None: 64 for sessions, 32 for slates
        epochs         at most so many passes over the data; early stopping may end the training before
        minutes        time to try settings of the base models (sessions only); None: the size of the data decides
        seed           of all random numbers: the same data and seed give the same model
        validation     slates for early stopping, for the choice between the stages and for calibration (slates only);
                       None: a part of the data
        loss           "item", or "set" or "choice" (slates only)
        embeddings     of the items that attend to each other: "word2vec", "spectral" or "correspondence" of the
                       sessions or histories, an array (n_items, d), None for random ones, or "auto": for sessions the
                       item factors of ALS, for slates spectral over few items, word2vec or correspondence otherwise
        features       attributes through which items may have effects on each other (slates only); None: all
        d_kq, d_v      dimensions of queries and keys, and of values
        base           whether an item has a score that does not depend on the slate (sessions need it)
        sink           whether a head can attend to nothing, which makes a softmax nearly additive
        pooling        of histories: "projected", "unit_mean", "mean" or "attention"; None: "unit_mean" for sessions,
                       "projected" for slates
        batch          slates per step
        learning_rate  the largest of the cycle
        weight_decay   of matrices; None: 0.003 for sessions, 0.03 for slates
        patience       epochs without a better validation loss before the training stops, in the second half of them
        checkpoint     a folder from which an interrupted run resumes
        device         "cpu" or "cuda"; None: cuda where there is one
        progress       whether to show progress; None: on a terminal as a bar, elsewhere as lines
        """
        try:
            from setwise.training.recipe import fit as fit_model  # imports torch, so only when needed
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "torch":
                raise
            raise MissingDependency("torch", "training a model", "train") from None
        usual, cycle = FOR_SESSIONS if isinstance(data, Sessions) else FOR_SLATES
        decay = cycle.weight_decay if weight_decay is None else weight_decay
        model = fit_model(
            data,
            Shape(
                usual.dim if dim is None else dim,
                usual.heads if heads is None else heads,
                d_kq,
                d_v,
                base,
                sink,
                pooling or usual.pooling,
            ),
            Schedule(epochs, batch, learning_rate, decay, patience, seed),
            k=k,
            validation=validation,
            loss=loss,
            embeddings=embeddings,
            features=features,
            attention=heads is not None,
            minutes=minutes,
            checkpoint=checkpoint,
            device=device,
            progress=progress,
        )
        return cls(model.catalog(), model.encoder, model.summary)
