"""Reload: replace the served artifact by what the folder holds now, in one step or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

from setwise.service.http_errors import HttpError, reload_failed
from setwise.service.logs import error_place, log
from setwise.service.metrics import Metrics
from setwise.service.queue import TaskQueue
from setwise.service.schemas import Info
from setwise.service.served_cluster import Cluster
from setwise.service.served_lists import ListsOnly
from setwise.service.settings import Settings
from setwise.service.worker_pool import WorkerPool

RETRY_S = 5.0  # after a failed attempt to replace lost workers


class Reloader:
    """Starts worker pools for a folder, the first and one for each reload, and replaces lost workers."""

    queue: TaskQueue

    def __init__(
        self, folder: Path, settings: Settings, metrics: Metrics, cluster: Cluster | ListsOnly | None = None
    ) -> None:
        self._folder, self._settings, self._metrics, self._cluster = folder, settings, metrics, cluster
        self._lock = asyncio.Lock()  # held while another pool starts
        self._asked = False  # a reload waits for the lock
        self._repairs: set[asyncio.Task[None]] = set()  # one for each lost worker

    async def start(self) -> TaskQueue:
        """Start the first pool; the queue that it serves."""
        self.queue = TaskQueue(self._settings, self._metrics, await self._new_pool(), self._replace_later)
        return self.queue

    async def reload(self) -> tuple[Info, Info]:
        """Serve what the folder holds now; the old and the new description. A bad artifact changes nothing."""
        if self._lock.locked():
            raise HttpError(409, "reloading", "A reload is in progress; wait until it ends.")
        async with self._lock:
            return await self._replace_pool()

    async def reload_later(self) -> None:
        """Reload as soon as no other reload is in progress: that one may have read the folder before it changed."""
        if self._asked:
            return
        self._asked = True
        async with self._lock:
            self._asked = False
            await self._replace_pool()

    async def _replace_pool(self) -> tuple[Info, Info]:
        old, pool = self.queue.pool.info, await self._checked_pool()
        self.queue.replace(pool)
        self._metrics.count_reload("done")
        log().info("reloaded", version=pool.info.version, before=old.version)
        return old, pool.info

    async def _checked_pool(self) -> WorkerPool:
        try:
            return await self._new_pool()
        except Exception as error:  # whatever is wrong with the files, the old pool goes on
            self._metrics.count_reload("refused")
            log().error("reload refused", serving=self.queue.pool.info.version, **error_place(error))
            raise reload_failed(error) from None

    async def _new_pool(self) -> WorkerPool:
        return await WorkerPool.start(self._folder, self._settings, self._metrics, self._cluster)

    # --- workers that end, by a lack of memory or a fault in compiled code, or that hang ---

    def _replace_later(self) -> None:
        repair = asyncio.get_running_loop().create_task(self._replace_worker(self.queue.pool))
        self._repairs.add(repair)
        repair.add_done_callback(self._repairs.discard)

    async def _replace_worker(self, pool: WorkerPool) -> None:
        """Start a worker in place of a lost one, while the others of the pool go on.

        It maps the files that the others have mapped. Where that fails, the folder is opened again, as in a reload;
        where that fails too, both are tried again until the pool is complete, or another is in use.
        """
        while self.queue.pool is pool:
            try:
                self.queue.join(pool, await pool.start_worker())
                return
            except Exception as error:  # of the files, or of a system without memory or descriptors
                if self.queue.pool is not pool:
                    return
                log().error("worker not replaced", **error_place(error))
            try:
                await self.reload()
            except HttpError:
                await asyncio.sleep(RETRY_S)

    async def end(self) -> None:
        """End every worker."""
        for repair in self._repairs:
            repair.cancel()
        await self.queue.end()
