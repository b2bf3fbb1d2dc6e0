"""Requests and responses of the routes that re-rank lists, as types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from setwise.recommend.arguments import ARGUMENTS
from setwise.recommend.rerank.requests import ARGUMENTS as LIST_ARGUMENTS
from setwise.service.schemas import field_of

_SHARED = tuple(name for name in LIST_ARGUMENTS if name in ARGUMENTS)  # with requests for slates
_OWN: dict[str, Any] = {
    "diversity": (float | None, None),
    "by": (str | list[str] | None, None),
    "strategy": (Literal["setwise", "mmr", "dpp"], "setwise"),
    "scale": (Literal["auto", "log-odds"] | None, None),
    "strength": (float | None, None),
    "sharpness": (float | None, None),
    "certify": (bool, False),
    "effects": (bool, True),
}

if TYPE_CHECKING:

    class _ListOptions(msgspec.Struct):
        """The options of a list, which mypy does not see."""

        def __getattr__(self, name: str) -> Any: ...
else:
    _ListOptions = msgspec.defstruct(
        "_ListOptions",
        [*(field_of(name) for name in _SHARED), *((name, *form) for name, form in _OWN.items())],
        kw_only=True,
    )


Candidates = list[dict[str, Any]] | dict[str, Any]


class RerankRequest(_ListOptions, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A list to re-rank: no catalogue is asked. Candidates are records, or columns by name."""

    candidates: Candidates

    def content(self) -> dict[str, Any]:
        """The list as ``rerank_data`` reads it."""
        return {"candidates": self.candidates, **_options(self)}


class RerankBatchRequest(_ListOptions, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Several lists by name, with the same options."""

    lists: dict[str, Candidates]

    def contents(self) -> dict[str, dict[str, Any]]:
        """Each list as ``rerank_data`` reads it."""
        shared = _options(self)
        return {name: {**shared, "candidates": candidates} for name, candidates in self.lists.items()}


def _options(request: _ListOptions) -> dict[str, Any]:
    """The options as plain data; the candidates, which are many, are not walked through."""
    stated = {name: getattr(request, name) for name in _ListOptions.__struct_fields__}
    return stated | {"where": msgspec.to_builtins(stated["where"])}


class RerankedItem(msgspec.Struct):
    """A chosen candidate: its reward in this set, and its score."""

    id: Any
    reward: float
    score: float


class RerankResponse(msgspec.Struct):
    """The chosen candidates, best first. Without ``certify`` upper_bound, gap and proven are null.

    given_up is the share of the highest scores' advantage over average candidates that the set gives up. notes has the
    ids of candidates that were left out or lack something, by the reason: unscored, repeated, without_vector, unknown.
    """

    items: list[RerankedItem]
    value: float
    given_up: float
    notes: dict[str, list[Any]]
    upper_bound: float | None = None
    gap: float | None = None
    proven: bool | None = None


class RerankBatchResponse(msgspec.Struct):
    """An answer, or an error, for each list by its name."""

    lists: dict[str, Any]  # RerankResponse or ErrorResponse
