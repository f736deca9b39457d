"""Models that an operator added or removed while the gateways ran: what one serves, all serve, also after a restart."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, Protocol

from sluicegate.gateway.database import Database, DatabaseUnavailable, note_change, unavailable
from sluicegate.plugins import ModelHost, NotFound, ServedModel, SluicegateError

log = logging.getLogger("sluicegate.models")
KIND = "models"


class ModelShelf(Protocol):
    """Adds and removes served models."""

    async def add(self, settings: dict[str, Any], *, replace: bool) -> ServedModel: ...

    async def remove(self, name: str) -> None: ...


class LocalModels:
    """A `ModelShelf` of this gateway alone."""

    def __init__(self, host: Callable[[], ModelHost]) -> None:
        self._host = host

    async def add(self, settings: dict[str, Any], *, replace: bool) -> ServedModel:
        return await self._host().add_model(settings, replace=replace)

    async def remove(self, name: str) -> None:
        await self._host().remove_model(name)


class SharedModels:
    """A `ModelShelf` of all gateways of a deployment. Used on the event loop. A model is loaded here first, then
    written down, then loaded by the others as each finds it; paths must lead to the same files everywhere."""

    def __init__(self, database: Database, host: Callable[[], ModelHost]) -> None:
        self._database = database
        self._host = host
        self._done: dict[str, int] = {}
        """The last generation of each name that this gateway has applied."""
        self._turn = asyncio.Lock()
        self.failed: dict[str, str] = {}
        """Why a model of the deployment is not served here, by name."""

    async def add(self, settings: dict[str, Any], *, replace: bool) -> ServedModel:
        """Add a model. Raises what `ModelHost.add_model` raises, and `Overloaded` where the database does not
        answer."""
        async with self._turn:
            await self._kept(self._rows)  # before minutes of loading
            made = await self._host().add_model(settings, replace=replace)
            try:
                self._done[made.name] = await self._kept(lambda: self._write(made.name, json.dumps(settings)))
            except BaseException:
                if not replace:
                    await self._host().remove_model(made.name)
                raise
            self.failed.pop(made.name, None)
        return made

    async def remove(self, name: str) -> None:
        """Remove a model. Raises `NotFound`, and `Overloaded` where the database does not answer."""
        async with self._turn:
            await self._kept(self._rows)
            await self._host().remove_model(name)
            self._done[name] = await self._kept(lambda: self._write(name, None))

    async def refresh(self) -> None:
        """Follow what other gateways added and removed. What cannot be loaded here waits for its next change."""
        async with self._turn:
            for name, generation, settings in await self._database.call(self._rows):
                if self._done.get(name) != generation:
                    await self._follow(name, settings)
                    self._done[name] = generation

    async def _follow(self, name: str, settings: str | None) -> None:
        try:
            if settings is None:
                await self._host().remove_model(name)
            else:
                await self._host().add_model(json.loads(settings), replace=True)
            self.failed.pop(name, None)
        except (SluicegateError, ValueError) as error:
            if settings is None and isinstance(error, NotFound):
                return
            reason = error.message if isinstance(error, SluicegateError) else str(error)
            self.failed[name] = reason
            log.error("model %s, which another gateway serves, cannot be served here: %s", name, reason)

    def _rows(self) -> list[tuple[str, int, str | None]]:
        query = "select name, generation, settings from sluicegate.models order by name"
        rows = self._database.execute(query).fetchall()
        return [(str(name), int(generation), settings) for name, generation, settings in rows]

    def _write(self, name: str, settings: str | None) -> int:
        put = (
            "insert into sluicegate.models values (%s, 1, %s) on conflict (name) do "
            "update set generation = models.generation + 1, settings = excluded.settings returning generation"
        )
        with self._database.transaction() as db:
            [(generation,)] = db.execute(put, (name, settings)).fetchall()
            note_change(db, KIND)
        return int(generation)

    async def _kept(self, work: Callable[[], Any]) -> Any:
        try:
            return await self._database.call(work)
        except DatabaseUnavailable as error:
            raise unavailable("models") from error
