"""An input rail that asks an HTTP service; no verdict, no answer."""

from __future__ import annotations

import os

from sluicegate.plugins import RegistryLike, add_stage
from sluicegate_remote_rail.rail import RemoteRail
from sluicegate_remote_rail.settings import RemoteSettings

__all__ = ["RemoteRail", "RemoteSettings", "register"]


def register(registry: RegistryLike) -> None:
    def make(settings: RemoteSettings) -> RemoteRail:
        return RemoteRail(settings, settings.token(os.environ))

    add_stage(registry, "screen", "remote", RemoteSettings, make, api_version=1)
