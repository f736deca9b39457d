"""The built stages of a gateway, and the settings that they were built from; a reload exchanges some of them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sluicegate.cache import front
from sluicegate.gateway.accounts.idle_keys import idle_keys
from sluicegate.gateway.idle_settings.models import idle_models
from sluicegate.gateway.rails.health import RailHealth
from sluicegate.gateway.rails.policy import SLOTS as RAIL_SLOTS
from sluicegate.gateway.rails.policy import Policies, read_file, read_policies
from sluicegate.gateway.request.generators import Generators
from sluicegate.gateway.request.stages import Stages
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import SLOTS, ConfigurationError, Registry, Router, SlotName, properties_of

log = logging.getLogger("sluicegate")
SINGLE: tuple[SlotName, ...] = ("route", "assemble", "constrain")
SHAPING: tuple[SlotName, ...] = ("screen", "retrieve", "assemble", "constrain", "moderate")
"""Slots whose configuration changes answers; their digest is part of every cache key."""
Built = dict[SlotName, list[tuple[str, Any]]]
"""(name, stage) by slot, in the order of the configuration."""


class StageSet:
    """`settings` and `built` are those in place now. `registry` makes a fresh registry of all that is installed."""

    def __init__(self, settings: Settings, registry: Callable[[Settings], Registry]) -> None:
        """Build all stages. Raises `ConfigurationError` or `PluginError`."""
        self.settings = settings
        self._registry = registry
        for warning in (*idle_keys(settings), *idle_models(settings)):
            log.warning(warning)
        self.built = self.build(settings, SLOTS)
        self.built["recall"] = [(name, front(stage)) for name, stage in self.built["recall"]]
        self.generator: tuple[str, Any] = _generator(self.built["generate"])

    @property
    def router(self) -> tuple[str, Router]:
        [(name, router)] = self.built["route"]
        return name, router

    def build(self, settings: Settings, slots: Sequence[SlotName]) -> Built:
        """Build stages as `settings` say, and do not start them. Raises `ConfigurationError` or `PluginError`."""
        registry = self._registry(settings)
        return {slot: _build(settings, registry, slot) for slot in slots}

    def stages(self, router: Router, **shared: Any) -> Stages:
        """Return all stages; `router` takes the place of the configured one. Raises `ConfigurationError`."""
        built = self.built
        return Stages(
            admit=built["admit"],
            screen=built["screen"],
            route=(self.router[0], router),
            retrieve=built["retrieve"],
            assemble=built["assemble"][0],
            recall=built["recall"],
            constrain=built["constrain"][0],
            generate=self.generator,
            moderate=built["moderate"],
            record=built["record"],
            policies=_policies(self.settings, built),
            fingerprint=_fingerprint(self.settings, built),
            **shared,
        )

    def stages_with(self, old: Stages, built: Built, settings: Settings) -> Stages:
        """Return `old` with other rails and other checks of keys. Raises `ConfigurationError`."""
        whole = {**self.built, **built}
        return dataclasses.replace(
            old,
            admit=built["admit"],
            screen=built["screen"],
            moderate=built["moderate"],
            rail_health=RailHealth(),
            policies=_policies(settings, whole),
            fingerprint=_fingerprint(settings, whole),
        )

    def exchange(self, built: Built, settings: Settings) -> Built:
        """Use `built` from now on. Return what it takes the place of, to be closed once nothing uses it."""
        old = {slot: self.built[slot] for slot in built}
        self.settings = settings
        self.built = {**self.built, **built}
        return old


def _build(settings: Settings, registry: Registry, slot: SlotName) -> list[tuple[str, Any]]:
    check_slot(settings, registry, slot)
    names = getattr(settings.pipeline, slot)
    built = [(name, registry.build(slot, name, settings.of_stage(slot, name))) for name in names]
    for warning in idle_stages(slot, settings, registry):
        log.warning(warning)
    return built


def check_slot(settings: Settings, registry: Registry, slot: SlotName) -> None:
    """Check the stages of a slot. Raises `ConfigurationError` where too few or too many are named, or where settings
    are of a stage that nobody registered."""
    names = getattr(settings.pipeline, slot)
    if slot == "generate" and not names:
        raise ConfigurationError("[pipeline] generate names no stage; without one nothing can be answered")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(f"[pipeline] {slot} names {twice!r} twice; a stage runs once")
    if slot in SINGLE and len(names) != 1:
        raise ConfigurationError(f"slot {slot!r} takes exactly one stage, [pipeline] names {list(names)}")
    unused = set(settings.stages.get(slot, {})) - set(names) - set(registry.names(slot))
    if unused:
        raise ConfigurationError(
            f"[stages.{slot}] configures {', '.join(sorted(unused))}, which nobody registered; "
            f"installed: {', '.join(registry.names(slot)) or 'none'}"
        )


def idle_stages(slot: SlotName, settings: Settings, registry: Registry) -> list[str]:
    """Return a sentence for each stage that is configured and not enabled, which is easily overlooked."""
    enabled = ", ".join(getattr(settings.pipeline, slot)) or "nothing"
    return [
        f"[stages.{slot}.{name}] is configured and does not run: [pipeline] {slot} enables {enabled}; "
        f"add {name!r} there or take the table out"
        for name in sorted(set(settings.stages.get(slot, {})) & set(registry.names(slot)))
        if not registry.was_built(slot, name) and name not in getattr(settings.pipeline, slot)
    ]


def _policies(settings: Settings, built: Built) -> Policies:
    tables = {**(read_file(Path(settings.policy_file)) if settings.policy_file else {}), **settings.policies}
    return read_policies(tables, {slot: [name for name, _ in built[slot]] for slot in RAIL_SLOTS})


def _generator(parts: list[tuple[str, Any]]) -> tuple[str, Any]:
    return parts[0] if len(parts) == 1 else ("+".join(name for name, _ in parts), Generators(parts))


def _fingerprint(settings: Settings, built: Built) -> str:
    """Return a digest of the settings, and of the versions of the rules that rails bring themselves."""
    shaping = {
        slot: [(name, settings.of_stage(slot, name), version_of(stage)) for name, stage in built[slot]]
        for slot in SHAPING
    }
    return hashlib.sha256(json.dumps(shaping, sort_keys=True, default=str).encode()).hexdigest()


def version_of(stage: object) -> str:
    """Return the version of the rules that a rail brings itself; empty where it has none."""
    properties = properties_of(stage)
    return "" if properties is None else properties.version
