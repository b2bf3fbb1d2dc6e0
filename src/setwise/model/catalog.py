"""Catalog: the items, as a simple transformer sees them.

    query, key   (n, H, d_kq)   attention of item i to item j in head h: exp(q_i^h · k_j^h)
    value        (n, H, d_v)    what an item contributes where it is attended to; its score is s_i^h = v_i^h · u^h
    base         (n, d_0)       the self term (residual connection): base_i · u⁰, independent of the set
    sink         per head       attended to by every item, never shown (the paper's dummy row)
    positions    per place      encodings added to query, key and value in an ordered slate
    reward       f_i            one function, or τ functions and the class of each item

Arrays are stored in float32, or in float64 with ``dtype=numpy.float64`` (for constructions that must be exact).
Writeable arrays are copied; read-only ones, such as those mapped from a file by ``Catalog.load``, are not.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Array, Rows
from setwise._validation import frozen, index_array, numbers, real_array
from setwise.errors import InvalidInput
from setwise.model import rewards as reward_families
from setwise.model.attributes import Attributes, Categorical, Strings
from setwise.model.ids import IdChoice, Ids
from setwise.model.rewards import Logistic, RewardChoice, reward_classes
from setwise.model.users import User
from setwise.storage import artifact, saved_arrays


@dataclass(frozen=True, eq=False)
class Sink:
    """The sink, attended to by every item and never shown: key (H, d_kq), value (H, d_v)."""

    key: Array
    value: Array


@dataclass(frozen=True, eq=False)
class Positions:
    """Encodings of P places, added to an item's own: query, key (P, H, d_kq) and value (P, H, d_v)."""

    query: Array
    key: Array
    value: Array


class Catalog:
    """n items with their queries, keys, values and rewards; immutable.

    query, key   (n, d) or (n, heads, d)          value       (n, d_v) or (n, heads, d_v)
    reward       one reward function, or a pair ([functions], number of each item's function)
    base         (n, d_0): the self term; users are then given as ``User(heads, base)``
    sink         a ``Sink``: what items attend to when no item of the set fits
    ids          n distinct int or str; row numbers unless given
    attributes   {name: column} or a data frame, used by ``where`` and ``at_most``
    positions    ``Positions``: encodings of places, for ordered slates
    dtype        numpy.float32, or numpy.float64 where float32 is not exact enough
    """

    def __init__(
        self,
        query: ArrayLike,
        key: ArrayLike,
        value: ArrayLike,
        reward: RewardChoice = Logistic(scale=1.0, bias=0.0),
        base: ArrayLike | None = None,
        sink: Sink | None = None,
        ids: IdChoice | Ids | None = None,
        attributes: Any = None,
        positions: Positions | None = None,
        dtype: type[np.float32] | type[np.float64] = np.float32,
    ) -> None:
        if dtype not in (np.float32, np.float64):
            raise InvalidInput("dtype", "numpy.float32 or numpy.float64", repr(dtype), "leave it out for float32")
        self._fill_arrays(query, key, value, base, sink, positions, dtype)
        self.rewards, self.reward_class = reward_classes(reward, self.n_items)
        self.ids = Ids.of(ids, self.n_items)
        self.attributes = Attributes.of(attributes, self.n_items)

    def _fill_arrays(
        self,
        query: ArrayLike,
        key: ArrayLike,
        value: ArrayLike,
        base: ArrayLike | None,
        sink: Sink | None,
        positions: Positions | None,
        dtype: type[Any],
    ) -> None:
        self.query: Array = _headed("query", query, ("n", "heads", "d_kq"), dtype)
        n, heads, d_kq = self.query.shape
        if n == 0 or heads == 0 or d_kq == 0:
            todo = "pass at least one item"
            raise InvalidInput(
                "query", "an array with an item, a head and a dimension", f"shape {self.query.shape}", todo
            )
        self.key: Array = _headed("key", key, (n, heads, d_kq), dtype)
        self.value: Array = _headed("value", value, (n, heads, "d_v"), dtype)
        d_v = self.value.shape[2]
        self.base: Array | None = None if base is None else real_array("base", base, (n, "d_0"), dtype)
        for name, part, kind in (("sink", sink, Sink), ("positions", positions, Positions)):
            if part is not None and not isinstance(part, kind):
                todo = f"pass setwise.{kind.__name__}(...) or leave it out"
                raise InvalidInput(name, f"a setwise.{kind.__name__}", type(part).__name__, todo)
        self.sink: Sink | None = sink and Sink(
            _small("sink key", sink.key, (heads, d_kq), dtype), _small("sink value", sink.value, (heads, d_v), dtype)
        )
        self.positions: Positions | None = positions and _positions(positions, heads, d_kq, d_v, dtype)

    # --- sizes ---

    @property
    def n_items(self) -> int:
        """The number of items, n."""
        return int(self.query.shape[0])

    @property
    def heads(self) -> int:
        """The number of attention heads, H."""
        return int(self.query.shape[1])

    @cached_property
    def attends(self) -> bool:
        """Whether attention can contribute: some value, of an item or of the sink, is not zero."""
        return bool(self.value.any()) or (self.sink is not None and bool(self.sink.value.any()))

    @cached_property
    def longest_base(self) -> float:
        """The largest norm of a row of the base term; 0 without one."""
        return 0.0 if self.base is None else float(np.sqrt(np.einsum("nd,nd->n", self.base, self.base).max()))

    def embeddings(self, rows: Rows) -> NDArray[np.float64]:
        """Vectors (len(rows), d) that say which items are similar: base vectors, or values without a base term."""
        own = self.value.reshape(len(self), -1) if self.base is None else self.base
        return np.asarray(own[rows], np.float64)

    def __len__(self) -> int:
        return self.n_items

    def __repr__(self) -> str:
        extras = [name for name in ("base", "sink", "positions") if getattr(self, name) is not None]
        heads, rewards = self.heads, len(self.rewards)
        return (
            f"Catalog({self.n_items} items, {heads} head{'s' * (heads != 1)}, "
            f"d_kq={self.query.shape[2]}, d_v={self.value.shape[2]}, "
            f"{rewards} reward function{'s' * (rewards != 1)}{''.join(', ' + extra for extra in extras)})"
        )

    # --- users and ids ---

    def user(self, user: ArrayLike | User) -> User:
        """``user`` as a ``User`` that fits this catalogue: from (d_v,) with one head, (H, d_v), or a ``User``."""
        result = user if isinstance(user, User) else User(user)
        wanted = (self.heads, self.value.shape[2])
        if result.heads.shape != wanted:
            todo = "check that user and catalogue come from one model"
            raise InvalidInput(
                "user", f"an array of shape (heads, d_v) = {wanted}", f"shape {result.heads.shape}", todo
            )
        have = None if result.base is None else result.base.size
        want = None if self.base is None else self.base.shape[1]
        if have != want:
            must = "absent, as the catalogue has no base" if want is None else f"a vector of length {want}"
            got = "none" if have is None else f"length {have}"
            raise InvalidInput("user base", must, got, "pass setwise.User(heads=..., base=...) that fits the catalogue")
        if result.scores is not None and result.scores.n != self.n_items:
            todo = "pass one score per item, in the order of the catalogue, or a mapping {id: score}"
            raise InvalidInput("scores", f"one for each of {self.n_items} items", f"{result.scores.n}", todo)
        if result.weights is not None and len(result.weights) != self.n_items:
            todo = "pass one weight per item, in the order of the catalogue, or a mapping {id: weight}"
            raise InvalidInput("weights", f"one for each of {self.n_items} items", f"{len(result.weights)}", todo)
        return result

    def rows_of(self, ids: IdChoice) -> NDArray[np.intp]:
        """The row numbers of these ids, in their order."""
        return self.ids.rows_of(ids)

    def items(self, rows: ArrayLike) -> NDArray[np.intp]:
        """``rows`` checked: distinct row numbers of this catalogue."""
        return index_array("items", rows, self.n_items, "the catalogue")

    # --- other catalogues ---

    def taken(self, rows: ArrayLike) -> Catalog:
        """The catalogue of these rows only, in their order."""
        chosen = self.items(rows)
        return self.bare(chosen).named(self.ids[chosen], self.attributes.taken(chosen))

    def bare(self, rows: Rows) -> Catalog:
        """The catalogue of these rows only, in their order, without ids and attributes; a row may come twice."""
        return Catalog(
            frozen(self.query[rows]),
            frozen(self.key[rows]),
            frozen(self.value[rows]),
            (self.rewards, self.reward_class[rows]),
            None if self.base is None else frozen(self.base[rows]),
            self.sink,
            None,
            None,
            self.positions,
            self.query.dtype.type,
        )

    def named(self, ids: IdChoice | Ids, attributes: Any) -> Catalog:
        """The same items with these ids and attributes."""
        other = copy.copy(self)
        other.__dict__.pop("digest", None)  # of what it was computed from
        other.ids = Ids.of(ids, self.n_items)
        other.attributes = Attributes.of(attributes, self.n_items)
        return other

    def joined(self, others: Catalog) -> Catalog:
        """The items of both, those of ``others`` last; it must come from the same model and have the same columns."""
        for name in ("query", "value", "base"):
            mine, theirs = getattr(self, name), getattr(others, name)
            shapes = [None if part is None else part.shape[1:] for part in (mine, theirs)]
            if shapes[0] != shapes[1]:
                raise InvalidInput(
                    f"{name} of the new items", f"of shape {shapes[0]} each", f"{shapes[1]}", "use one model"
                )
        for name in ("sink", "positions"):
            if not _same(getattr(self, name), getattr(others, name)):
                raise InvalidInput(f"{name} of the new items", "that of the catalogue", "another", "use one model")
        return Catalog(
            frozen(np.concatenate([self.query, others.query])),
            frozen(np.concatenate([self.key, others.key])),
            frozen(np.concatenate([self.value, others.value])),
            (
                [*self.rewards, *others.rewards],
                np.concatenate([self.reward_class, others.reward_class + len(self.rewards)]),
            ),
            None if self.base is None or others.base is None else frozen(np.concatenate([self.base, others.base])),
            self.sink,
            self.ids.joined(others.ids),
            self.attributes.joined(others.attributes),
            self.positions,
            self.query.dtype.type,
        )

    # --- files ---

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the catalogue to the folder ``path``; an older one is replaced atomically."""
        artifact.write(path, "catalog", *self.packed())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Catalog:
        """Open a saved catalogue: digests are checked, then every array is a view of the mapped file."""
        saved = artifact.read(path, "catalog")
        with artifact.restoring(path):
            return cls.unpacked(saved.arrays, saved.meta)

    @cached_property
    def digest(self) -> str:
        """A sha256 of everything that values, ids and filters depend on; slate files identify the catalogue by it.

        Saving and loading does not change it. The sorted keys that speed up the search for ids are left out.
        """
        arrays, meta = self.packed()
        arrays = {name: array for name, array in arrays.items() if not name.startswith("ids.")}
        arrays |= _packed("ids.values", self.ids.values)
        state = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
        for name in sorted(arrays):
            array = np.ascontiguousarray(arrays[name], arrays[name].dtype.newbyteorder("<"))
            state.update(json.dumps([name, array.dtype.str, array.shape]).encode())
            state.update(array.data)
        return state.hexdigest()

    def packed(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The catalogue as named arrays and JSON data."""
        arrays: dict[str, Array | None] = {
            "query": self.query,
            "key": self.key,
            "value": self.value,
            "base": self.base,
            "reward_class": self.reward_class,
        }
        for name in ("sink", "positions"):
            part = getattr(self, name)
            arrays |= {f"{name}.{field}": array for field, array in (vars(part) if part else {}).items()}
        if not self.ids.are_row_numbers:
            arrays |= {"ids.keys": self.ids.keys, "ids.order": self.ids.order} | _packed("ids.values", self.ids.values)
        for number, column in enumerate(self.attributes.values()):
            arrays |= _packed(f"attribute.{number}", column)
        rewards = [reward_families.to_spec(reward) for reward in self.rewards]
        present = {name: array for name, array in arrays.items() if array is not None}
        return present, {"rewards": rewards, "attributes": list(self.attributes)}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> Catalog:
        """The inverse of ``packed``; every array is checked, nothing is copied."""
        catalog = cls.__new__(cls)
        catalog._fill_arrays(
            arrays["query"],
            arrays["key"],
            arrays["value"],
            arrays.get("base"),
            Sink(**artifact.under("sink.", arrays)) if "sink.key" in arrays else None,
            Positions(**artifact.under("positions.", arrays)) if "positions.key" in arrays else None,
            np.float64 if arrays["query"].dtype == np.float64 else np.float32,
        )
        n, names = catalog.n_items, list(meta["attributes"])
        catalog.rewards = tuple(reward_families.from_spec(spec) for spec in meta["rewards"])
        classes = saved_arrays.typed("reward_class", arrays["reward_class"], np.int32, (n,))
        catalog.reward_class = saved_arrays.ranged("reward_class", classes, 0, len(catalog.rewards) - 1)
        catalog.ids = (
            Ids.opened(_unpacked("ids.values", arrays, n), arrays["ids.keys"], arrays["ids.order"], n)
            if "ids.keys" in arrays
            else Ids.numbered(n)
        )
        columns = [_unpacked(f"attribute.{number}", arrays, n) for number in range(len(names))]
        catalog.attributes = Attributes.opened(names, columns, n)
        return catalog


# --- parts of a catalogue -----------------------------------------------------------------------------------


def _headed(name: str, given: ArrayLike, shape: tuple[int | str, ...], dtype: type[Any]) -> Array:
    """An (n, H, d) array; (n, d) means one head."""
    array = numbers(name, given)
    return real_array(name, array[:, None, :] if array.ndim == 2 else array, shape, dtype)


def _small(name: str, given: ArrayLike, shape: tuple[int | str, ...], dtype: type[Any]) -> Array:
    """An (H, d) array; (d,) means one head."""
    array = numbers(name, given)
    return real_array(name, array[None, :] if array.ndim == 1 else array, shape, dtype)


def _positions(given: Positions, heads: int, d_kq: int, d_v: int, dtype: type[Any]) -> Positions:
    query = _headed("positions query", given.query, ("P", heads, d_kq), dtype)
    key = _headed("positions key", given.key, (len(query), heads, d_kq), dtype)
    return Positions(query, key, _headed("positions value", given.value, (len(query), heads, d_v), dtype))


def _same(one: Sink | Positions | None, other: Sink | Positions | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(np.array_equal(array, getattr(other, name)) for name, array in vars(one).items())


def _packed(name: str, column: Array | Strings | Categorical) -> dict[str, Array]:
    """A column of ids or attributes as named arrays, strings in two of them."""
    if isinstance(column, Categorical):
        return {f"{name}.codes": column.codes} | _packed(f"{name}.values", column.values)
    if isinstance(column, Strings):
        return {f"{name}.bytes": column.data, f"{name}.offsets": column.offsets}
    return {name: column}


def _unpacked(name: str, arrays: Mapping[str, Array], n: int) -> Any:
    """The inverse of ``_packed`` for a column of n cells."""
    if f"{name}.codes" in arrays:
        return Categorical.opened(name, arrays[f"{name}.codes"], _unpacked(f"{name}.values", arrays, n), n)
    if f"{name}.bytes" in arrays:
        return Strings.opened(name, arrays[f"{name}.bytes"], arrays[f"{name}.offsets"])
    return arrays[name]
