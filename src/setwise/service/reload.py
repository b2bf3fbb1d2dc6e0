"""The folder that is served, and how what it holds by now takes the place of what is served: at once, or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

from setwise.service.http_errors import Refusal, bad_artifact
from setwise.service.logs import log, where_it_failed
from setwise.service.metrics import Metrics
from setwise.service.queue import Admission
from setwise.service.schemas import Info
from setwise.service.settings import Settings
from setwise.service.worker_pool import Crew

AGAIN_S = 5.0  # after a refused reload, until workers that have died are missed again


class Reloads:
    """A folder and its crew at this moment."""

    def __init__(self, folder: Path, settings: Settings, metrics: Metrics) -> None:
        self._folder, self._settings, self._metrics = folder, settings, metrics
        self.changing = asyncio.Lock()  # held while another crew is hired
        self._mending: asyncio.Task[None] | None = None

    async def start(self) -> Admission:
        """Hire the first crew: the queue that it works for."""
        self.admission = Admission(self._settings, self._metrics, await self._hired(), self._short)
        return self.admission

    async def reload(self) -> tuple[Info, Info]:
        """Serve what the folder holds now: the old and the new. A bad artifact changes nothing."""
        if self.changing.locked():
            raise Refusal(409, "reloading", "A reload is under way; wait for it to end.")
        async with self.changing:
            old, new = self.admission.crew.info, await self._fit()
            self.admission.replace(new)
        self._metrics.reloaded("done")
        log().info("reloaded", version=new.info.version, before=old.version)
        return old, new.info

    async def _fit(self) -> Crew:
        try:
            return await self._hired()
        except Exception as error:  # whatever is wrong with a file, the old one goes on
            self._metrics.reloaded("refused")
            log().error("reload refused", serving=self.admission.crew.info.version, **where_it_failed(error))
            raise bad_artifact(error) from None

    async def _hired(self) -> Crew:
        return await Crew.hired(self._folder, self._settings, self._metrics)

    # --- workers that die: by a lack of memory, or by a fault in compiled code ---

    def _short(self) -> None:
        if self._mending is None or self._mending.done():
            self._mending = asyncio.get_running_loop().create_task(self._mend())

    async def _mend(self) -> None:
        """Hire a new crew, until there is a whole one."""
        while len(self.admission.crew.workers) < self._settings.crew:
            try:
                await self.reload()
            except Refusal:
                await asyncio.sleep(AGAIN_S)

    async def end(self) -> None:
        """Let everybody go."""
        if self._mending is not None:
            self._mending.cancel()
        await self.admission.crew.gone()
