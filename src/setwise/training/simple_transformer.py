"""SimpleTransformer: a learned model of what people want together, as plain arrays.

    model = SimpleTransformer.fit(sessions or slates)
    catalog, user = model.catalog(), model.user(["id of a song", "another"])
    model.save("model/"); SimpleTransformer.load("model/")

What was learned is a catalogue and an encoder of users, both plain numpy: only ``fit`` needs torch. Arrays that were
trained elsewhere are as good: ``SimpleTransformer(catalog, Encoder(...))``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setwise._types import Floats
from setwise.datasets.sessions import Sessions, Slates
from setwise.errors import InvalidInput, MissingDependency
from setwise.model.batch_objective import many_arguments
from setwise.model.catalog import Catalog
from setwise.model.encoder import Encoder
from setwise.model.ids import IdChoice
from setwise.model.ragged import Ragged
from setwise.model.rewards import Logistic, evaluate
from setwise.model.users import User
from setwise.storage import artifact

if TYPE_CHECKING:
    from setwise.training.calibration import Reliability


class SimpleTransformer:
    """A catalogue and the encoder of its users; ``summary`` says how it was learned."""

    def __init__(self, catalog: Catalog, encoder: Encoder, summary: Mapping[str, Any] | None = None) -> None:
        if not isinstance(catalog, Catalog) or not isinstance(encoder, Encoder):
            got = f"{type(catalog).__name__} and {type(encoder).__name__}"
            raise InvalidInput("catalog and encoder", "a setwise.Catalog and an Encoder", got, "pass those two")
        if catalog.positions is not None:
            todo = "rank ordered slates as an Instance instead"
            raise InvalidInput("catalog", "without positions, as what is learned is sets", "one with some", todo)
        self._catalog, self.encoder = catalog, encoder.fitted_to(catalog)
        self.summary = dict(summary or {})

    @classmethod
    def fit(cls, data: Sessions | Slates, **options: Any) -> SimpleTransformer:
        """Learn from sessions (playlists, baskets) or from slates with outcomes; the options are those of ``learn``."""
        try:
            from setwise.training.learn import learn  # torch: imported when first needed
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "torch":
                raise
            raise MissingDependency("torch", "learning a model", "train") from None
        return learn(data, **options)

    def __repr__(self) -> str:
        return f"SimpleTransformer({self._catalog!r})"

    # --- what it is for ---

    def catalog(self) -> Catalog:
        """The items, ready for an index."""
        return self._catalog

    def user(self, history: IdChoice) -> User:
        """Whoever has heard these ids, in this order; a newcomer when there are none."""
        return self.users(Ragged.of([self._catalog.rows_of(history)]))[0]

    def users(self, history: Ragged) -> list[User]:
        """The users of many histories, given as rows of the catalogue."""
        heads, base = self.encoder.users(history)
        return [User(one, None if base is None else base[row]) for row, one in enumerate(heads)]

    def arguments(self, history: Ragged, shown: Ragged) -> Floats:
        """a_i(S) of every item shown, aligned with ``shown.values``."""
        rows, filled = shown.padded(max(1, int(shown.lengths.max(initial=0))))
        result: Floats = many_arguments(self._catalog, *self.encoder.users(history), rows, filled)[filled]
        return result

    def predict(self, slates: Slates) -> Floats:
        """f(a_i(S)) of every item shown: how likely it is a hit in this company; aligned with ``shown.values``."""
        catalog, argument = self._catalog, self.arguments(slates.history, slates.shown)
        return evaluate(catalog.rewards, catalog.reward_class[slates.shown.values], argument)

    # --- calibration ---

    def rewarded(self, reward: Logistic, summary: Mapping[str, Any] | None = None) -> SimpleTransformer:
        """The same model with another reward function; sets keep their order only if they are of one item."""
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
        )
        return SimpleTransformer(changed, self.encoder, {**self.summary, **(summary or {})})

    def calibrated(self, slates: Slates) -> SimpleTransformer:
        """The model whose promises fit these outcomes best: f stays logistic and increasing (calibration.py)."""
        from setwise.training.calibration import calibrated

        return calibrated(self, slates)

    def reliability(self, slates: Slates, bins: int = 10) -> Reliability:
        """How far promises and outcomes agree on these slates, for a reliability diagram."""
        from setwise.training.calibration import reliability

        return reliability(self.predict(slates), slates.outcome, bins)

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to the folder ``path``; an older one there is replaced in one step, or not at all."""
        arrays, meta = self._catalog.packed()
        parts = {f"catalog.{name}": array for name, array in arrays.items()}
        parts |= {f"encoder.{name}": array for name, array in self.encoder.packed().items()}
        artifact.write(path, "model", parts, {"catalog": meta, "summary": self.summary})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SimpleTransformer:
        """Open a saved model: digests are checked, then every array is a view of the mapped file."""
        saved = artifact.read(path, "model")
        catalog = Catalog.unpacked(artifact.under("catalog.", saved.arrays), saved.meta["catalog"])
        encoder = Encoder(**artifact.under("encoder.", saved.arrays))
        return cls(catalog, encoder, saved.meta["summary"])
