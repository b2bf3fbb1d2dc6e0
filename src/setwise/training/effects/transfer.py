"""Effects of candidates that were never seen: what was learned, as data about attributes instead of items.

``learned`` writes the base and the families of effects with their coefficients, and how attributes are read: values of
labels by their texts, numbers by their mean and standard deviation. ``for_candidates`` builds the same heads for any
candidates with such attributes. A value that the log never had is like no other but itself, and worth what an item is
without that attribute; a missing number is the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from setwise._types import Array, Floats, Ints
from setwise.errors import InvalidInput
from setwise.model.attributes import Attributes, Categorical
from setwise.training.effects import base as base_terms
from setwise.training.effects.columns import Family, Head
from setwise.training.effects.contrast import ExtremeContrast, MeanContrast
from setwise.training.effects.features import Features, Label, Number, Vector
from setwise.training.effects.place import Size
from setwise.training.effects.regression import Fit
from setwise.training.effects.same_value import AnyOther, Each
from setwise.training.effects.similarity import Cosine, Similarity
from setwise.training.effects.threshold import Crowd
from setwise.training.effects.value_pairs import ValuePairs

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (AnyOther, Cosine, Crowd, Each, ExtremeContrast, MeanContrast, Similarity, Size, ValuePairs)
}
PARTS = ("label", "number", "vector")
OTHERS = "others"  # of ValuePairs: all values that are shown rarely


def learned(features: Features, families: Sequence[Family], fit: Fit) -> dict[str, Any]:
    """Base and effects as plain data."""
    numbers = {
        number.name: {"centre": number.centre, "scale": number.scale, "logged": number.logged}
        for number in features.numbers
    }
    return {
        "constant": float(fit.of(base_terms.ALL)[0][0]),
        "labels": {
            label.name: dict(
                zip(
                    [label.values[value] for value in base_terms.kept_values(label)],
                    _coefficients(fit, label.name),
                    strict=True,
                )
            )
            for label in features.labels
        },
        "numbers": {name: {**known, "alone": _coefficients(fit, name)} for name, known in numbers.items()},
        "vectors": {
            vector.name: (base_terms.components(vector.unit) @ np.asarray(_coefficients(fit, vector.name))).tolist()
            for vector in features.vectors
        },
        "families": [_family(family, fit.of(family.name)[0]) for family in families],
    }


def _coefficients(fit: Fit, name: str) -> list[float]:
    return list(fit.of(f"{name} alone")[0].tolist())


def _family(family: Family, theta: Floats) -> dict[str, Any]:
    """The kind, the attribute, the coefficients and the plain parts."""
    entry: dict[str, Any] = {"kind": type(family).__name__, "theta": theta.tolist()}
    for part in fields(family):  # type: ignore[arg-type]  # every family is a dataclass
        value = getattr(family, part.name)
        if part.name in PARTS:
            entry["of"] = value.name
        elif part.name == "values" or isinstance(value, (bool, int, float)):
            entry[part.name] = list(value) if part.name == "values" else value
    return entry


@dataclass(frozen=True, eq=False)
class Transferred:
    """The logit of each candidate alone, and the heads of the effects."""

    alone: Floats
    heads: tuple[Head, ...]


def for_candidates(known: Mapping[str, Any], attributes: Attributes, vectors: Array | None) -> Transferred:
    """What was learned, for candidates with these attributes; ``vectors`` (m, d) where it is about vectors."""
    reader = _Reader(known, attributes, vectors)
    alone = np.full(attributes.size, float(known["constant"]))
    for name, worth in known["labels"].items():
        texts = reader.texts(name)
        alone += np.array([worth.get(text, 0.0) for text in texts])
    for name, entry in known["numbers"].items():
        number = reader.number(name)
        columns = [number.x, number.x**2 - 1, number.missing]
        alone += sum(theta * column for theta, column in zip(entry["alone"], columns, strict=False))
    for name, weights in known["vectors"].items():
        alone += reader.vector(name, len(weights)).unit @ np.asarray(weights)
    heads = [head for entry in known["families"] for head in reader.family(entry).heads(np.asarray(entry["theta"]))]
    return Transferred(alone, tuple(heads))


class _Reader:
    """The attributes of candidates as the features of the families."""

    def __init__(self, known: Mapping[str, Any], attributes: Attributes, vectors: Array | None) -> None:
        self._known, self._attributes, self._vectors = known, attributes, vectors

    def texts(self, name: str) -> list[str | None]:
        """The values of a label as texts, whole numbers without a point."""
        column = self._column(name)
        cells = column[np.arange(len(column))] if isinstance(column, Categorical) else column.tolist()
        return [cell if cell is None or isinstance(cell, str) else _text(cell) for cell in cells]

    def label(self, name: str) -> Label:
        """A label of these candidates."""
        texts = self.texts(name)
        values = dict.fromkeys(text for text in texts if text is not None)
        number = {text: code for code, text in enumerate(values)}
        return Label(name, np.array([-1 if text is None else number[text] for text in texts], np.int64), list(values))

    def number(self, name: str) -> Number:
        """A number of these candidates in the units of the log."""
        entry, column = self._known["numbers"][name], self._column(name)
        if isinstance(column, Categorical):
            raise InvalidInput(f"attribute '{name}'", "numbers, as in the log", "texts", "convert the column")
        given = np.asarray(column, np.float64)
        present = np.isfinite(given) & ((given > 0) | (not entry["logged"]))
        safe = np.where(present, given, 1.0)
        measured = np.log(safe) if entry["logged"] else safe
        x = np.where(present, (measured - entry["centre"]) / entry["scale"], 0.0)
        missing: Ints = (~present).astype(np.int64)
        return Number(name, x, missing, entry["scale"], entry["logged"], entry["centre"])

    def vector(self, name: str, dim: int | None = None) -> Vector:
        """The vectors of these candidates."""
        if self._vectors is None:
            must = f"passed, as the effects are about '{name}'"
            raise InvalidInput("embeddings", must, "none", "pass the vectors of the candidates")
        x = self._vectors.astype(np.float64)
        if dim is not None and x.shape[1] != dim:
            raise InvalidInput("embeddings", f"of {dim} dimensions, as in the log", x.shape[1], "pass the same vectors")
        return Vector(name, x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12))

    def family(self, entry: Mapping[str, Any]) -> Family:
        """A family about these candidates."""
        kind = KINDS[entry["kind"]]
        plain = {name: part for name, part in entry.items() if name not in ("kind", "theta", "of", "values")}
        if kind is Size:
            return Size(self._attributes.size, plain["most"])
        name = entry["of"]
        if kind is ValuePairs:
            values = {value: code for code, value in enumerate(entry["values"])}
            codes = [-1 if text is None else values.get(text, values.get(OTHERS, -1)) for text in self.texts(name)]
            return ValuePairs(self.label(name), np.array(codes, np.int64), tuple(entry["values"]), **plain)
        read = {"label": self.label, "number": self.number, "vector": self.vector}
        part = next(field.name for field in fields(kind) if field.name in PARTS)
        family: Family = kind(**{part: read[part](name)}, **plain)
        return family

    def _column(self, name: str) -> Any:
        if name not in self._attributes:
            known = ", ".join(sorted(self._attributes)) or "none"
            must = f"with '{name}', which the effects are about"
            raise InvalidInput("attributes", must, known, "pass the column")
        return self._attributes[name]


def _text(cell: Any) -> str | None:
    """A number or truth value as the log's labels have it; None where it is missing."""
    return None if cell != cell else f"{float(cell):g}"
