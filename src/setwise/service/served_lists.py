"""A service without a catalogue: it re-ranks lists that requests bring along."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from setwise.errors import InvalidInput
from setwise.kernels import parts, preparation
from setwise.service.schemas import INTERACTIVE, Info, ItemsRequest, ItemsResponse
from setwise.service.served import LIMITS, ShardCall
from setwise.service.settings import Settings


@dataclass(frozen=True)
class ListsOnly:
    """What a service without an artifact opens: the model of ``effects``, if there is one."""

    effects: Path | None = None
    version = "lists"

    def open(self, artifact: Path, version: str, settings: Settings) -> ServedLists:
        """The model, and the compiled code of lists, loaded."""
        parts_needed = [parts.LISTS]
        if self.effects is None:
            preparation.require(parts_needed)
            return ServedLists()
        from setwise.training.slate_model import SlateModel

        preparation.require([*parts_needed, parts.SWAP])
        return ServedLists(effects=SlateModel.load(self.effects))


@dataclass(frozen=True, eq=False)
class ServedLists:
    """Nothing but re-ranking: routes that need a catalogue are refused."""

    version: str = ListsOnly.version
    effects: Any = None
    attends = False

    @property
    def recommender(self) -> Any:
        """There is none."""
        _refuse()

    def info(self, settings: Settings) -> Info:
        """The description that /v1/info returns."""
        return Info(
            service="setwise",
            version=self.version,
            items=0,
            heads=0,
            cells=0,
            understands_history=False,
            attributes=[],
            title=None,
            group=None,
            hits=True,
            rankers=list(INTERACTIVE),
            limits={name: getattr(settings, name) for name in LIMITS},
            attends=False,
            effects=[] if self.effects is None else list(self.effects.summary.get("words", ())),
        )

    def items(self, request: ItemsRequest) -> ItemsResponse:
        """There are none."""
        _refuse()

    def shard_calls(self) -> list[ShardCall]:
        """None: there are no shards."""
        return []


def _refuse() -> NoReturn:
    must, got = "POST /v1/rerank or /v1/rerank/batch", "one that needs a catalogue"
    raise InvalidInput("the route", must, got, "start the service with the folder of a recommender")
