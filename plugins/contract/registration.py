"""What a plug-in registers, and the registry that it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sluicegate.plugins.contract.names import API_VERSION, SlotName


class StageFactory(Protocol):
    """What a plug-in registers: called once at start-up with its own settings (a table of the configuration file)."""

    def __call__(self, settings: Mapping[str, Any], /) -> Any: ...


class RegistryLike(Protocol):
    """What `register(registry)` of a plug-in gets."""

    def add(self, slot: SlotName, name: str, factory: StageFactory, *, api_version: int = API_VERSION) -> None: ...

    def build(self, slot: SlotName, name: str, settings: Mapping[str, Any]) -> Any:
        """Build another registered stage, in order to wrap it. Call it inside a factory: only then are all names known.
        The wrapping stage must pass `start` and `close` on to it."""
