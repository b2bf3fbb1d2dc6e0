"""What a worker answers from: a saved recommender, or the front of a cluster (served_cluster.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from setwise.model.catalog import Catalog
from setwise.model.feature_encoder import FeatureEncoder
from setwise.model.rewards import Logistic
from setwise.recommend.compilation import warm_up
from setwise.recommend.explanation import Explanation
from setwise.recommend.item_search import ItemSearch
from setwise.recommend.recommender import Recommender
from setwise.recommend.slate import Slate
from setwise.service.item_records import columns, item
from setwise.service.schemas import INTERACTIVE, Info, ItemsRequest, ItemsResponse
from setwise.service.settings import Settings

LIMITS = ("k", "slow_k", "page_k", "history", "batch", "body_bytes", "budget_ms", "deadline_ms")  # settings in /v1/info
ShardCall = tuple[int, float | None]  # the shard, and the seconds of its answer; None: the call failed


def info_of(catalog: Catalog, settings: Settings, **known: Any) -> Info:
    """The description with what follows from the form of the catalogue and from the settings."""
    return Info(
        service="setwise",
        heads=catalog.heads,
        hits=all(isinstance(reward, Logistic) for reward in catalog.rewards),
        rankers=list(INTERACTIVE),
        limits={name: getattr(settings, name) for name in LIMITS},
        **known,
    )


def feature_names(encoder: FeatureEncoder | None) -> list[str]:
    """The names of the features of users."""
    return [] if encoder is None else list(encoder.names)


class Answers(Protocol):
    """The part of a recommender that requests use."""

    ranker: str
    certifies: bool

    @property
    def recommend(self) -> Callable[..., Slate]:
        """One slate."""
        ...

    @property
    def recommend_many(self) -> Callable[..., list[Slate]]:
        """Slates of requests that differ in the user."""
        ...

    @property
    def explain(self) -> Callable[[Slate], Explanation]:
        """The explanation of a slate."""
        ...


class Served(Protocol):
    """What is served, as the handlers use it."""

    @property
    def version(self) -> str:
        """Equal for equal content."""
        ...

    @property
    def recommender(self) -> Answers:
        """What answers requests for slates."""
        ...

    @property
    def attends(self) -> bool:
        """Whether items can contribute to each other."""
        ...

    def info(self, settings: Settings) -> Info:
        """The description that /v1/info returns."""
        ...

    def items(self, request: ItemsRequest) -> ItemsResponse:
        """Items by words or by ids."""
        ...

    def shard_calls(self) -> list[ShardCall]:
        """The calls of shards that have ended since the last time."""
        ...


@dataclass(frozen=True, eq=False)
class ServedArtifact:
    """A recommender, its version, and the search among its items. A worker has one all its life."""

    recommender: Recommender
    version: str
    search: ItemSearch

    @classmethod
    def open(cls, artifact: Path, version: str) -> ServedArtifact:
        """The recommender saved in ``artifact``, warmed up."""
        recommender = Recommender.load(artifact)
        warm_up(recommender)
        return cls(recommender, version, ItemSearch(recommender.index.catalog))

    @property
    def attends(self) -> bool:
        """Whether items can contribute to each other."""
        return self.recommender.index.catalog.attends

    def info(self, settings: Settings) -> Info:
        """The description that /v1/info returns."""
        catalog, search = self.recommender.index.catalog, self.search
        return info_of(
            catalog,
            settings,
            version=self.version,
            items=catalog.n_items,
            cells=self.recommender.index.partition.n_cells,
            understands_history=self.recommender.encoder is not None,
            features=feature_names(self.recommender.features),
            attributes=columns(search.columns()),
            title=search.title,
            group=search.group,
            attends=self.attends,
            effects=list(self.recommender.effects.get("words", ())),
            drawing=str(self.recommender.effects.get("drawing", "")),
        )

    def items(self, request: ItemsRequest) -> ItemsResponse:
        """Items by words or by ids."""
        search = self.search
        if request.ids is None:
            rows, total = search.find(request.q, request.limit)
        else:
            known = search.rows_of(request.wanted())
            rows, total = known[: request.limit], len(known)
        return ItemsResponse([item(self.recommender.index.catalog, row) for row in rows.tolist()], total)

    def shard_calls(self) -> list[ShardCall]:
        """None: there are no shards."""
        return []
