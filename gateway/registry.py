"""The registered stages: built-in ones, those passed in, and those of installed plug-ins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import sluicegate.cache.stage
import sluicegate.engine.stage
import sluicegate.gateway.stage
import sluicegate.grammar.stage
import sluicegate.safety.stage
from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import Registry, discover

if TYPE_CHECKING:  # OpenTelemetry and Prometheus, which lists of stages do without
    from sluicegate.gateway.telemetry import Metrics

log = logging.getLogger("sluicegate")
Register = Callable[[Registry], None]
PACKAGES = (sluicegate.safety.stage, sluicegate.grammar.stage, sluicegate.engine.stage, sluicegate.cache.stage)


def registry_of(
    settings: Settings, metrics: Metrics, registers: Sequence[Register] = (), accounts: Accounts | None = None
) -> Registry:
    """Register built-ins, then `registers`, then installed plug-ins. A broken plug-in is logged, the others stay."""
    registry = built_ins(settings, metrics, accounts)
    for register in registers:
        registry.register_from(register.__module__, register)
    for complaint in discover(registry):
        log.warning("plug-in ignored: %s", complaint)
    return registry


def built_ins(settings: Settings, metrics: Metrics | None = None, accounts: Accounts | None = None) -> Registry:
    registry = Registry()
    books = accounts or Accounts(settings.accounts, settings.keys)
    for package in PACKAGES:
        registry.register_from(package.__name__, package.register)
    own = sluicegate.gateway.stage
    registry.register_from(own.__name__, lambda r: own.register(r, settings, metrics, books))
    return registry
