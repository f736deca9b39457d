"""An input rail that asks an HTTP service; no verdict, no answer."""

from __future__ import annotations

import os

from sluicegate.plugins import RegistryLike
from sluicegate_remote_rail.rail import RemoteRail
from sluicegate_remote_rail.settings import RemoteSettings, read_settings

__all__ = ["RemoteRail", "RemoteSettings", "read_settings", "register"]


def register(registry: RegistryLike) -> None:
    registry.add("screen", "remote", lambda settings: RemoteRail(read_settings(settings, os.environ)), api_version=1)
