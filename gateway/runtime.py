"""Composition: the only place that knows concrete classes. Settings become a registry, stages and a pipeline."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sluicegate.cache.stage
import sluicegate.engine.stage
import sluicegate.gateway.stage
import sluicegate.grammar.stage
import sluicegate.safety.stage
from sluicegate import cache
from sluicegate.cache import TieredCache
from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.accounts.limits.estimates import UNKNOWN_CONTEXT, Reach
from sluicegate.gateway.accounts.metrics import AccountMetrics
from sluicegate.gateway.api.body.reader import Reader
from sluicegate.gateway.api.dialects.chat_answer import completion
from sluicegate.gateway.api.offline import Offline
from sluicegate.gateway.batches import Batches
from sluicegate.gateway.http.body_budget import BodiesHeld
from sluicegate.gateway.prompts import PromptBuilder
from sluicegate.gateway.rails.health import RailHealth
from sluicegate.gateway.rails.policy import SLOTS as RAIL_SLOTS
from sluicegate.gateway.rails.policy import Policies, read_file, read_policies
from sluicegate.gateway.reload import Reloader, stages_of
from sluicegate.gateway.request.capture import Capturing, wanted
from sluicegate.gateway.request.generators import Generators
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.request.recall import bind_embedders
from sluicegate.gateway.request.shadow import Shadows
from sluicegate.gateway.request.slots import Stages
from sluicegate.gateway.request.spans import Spans
from sluicegate.gateway.review import review_queue
from sluicegate.gateway.routing import RouteTable, Routing
from sluicegate.gateway.routing.queues import ModelQueues
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.telemetry import Metrics, TraceSink, semconv
from sluicegate.gateway.telemetry.gpu import Gpus
from sluicegate.gateway.telemetry.loop_lag import LoopLag
from sluicegate.gateway.telemetry.metrics import Objectives
from sluicegate.gateway.telemetry.push import pusher_of
from sluicegate.gateway.workers import Workers
from sluicegate.plugins import (
    SLOTS,
    Caller,
    ConfigurationError,
    Lifecycle,
    Overloaded,
    RailProperties,
    Registry,
    RequestError,
    ServedModel,
    SlotName,
    discover,
)

log = logging.getLogger("sluicegate")
Register = Callable[[Registry], None]
SINGLE: tuple[SlotName, ...] = ("route", "assemble", "constrain")
SHAPING: tuple[SlotName, ...] = ("screen", "assemble", "constrain", "moderate")
"""Slots whose configuration changes answers; their digest is part of every cache key."""


def registry_of(
    settings: Settings, metrics: Metrics, registers: Sequence[Register] = (), accounts: Accounts | None = None
) -> Registry:
    """Built-ins, then `registers`, then installed plug-ins; one of these that is broken is logged, the others stay."""
    registry = built_ins(settings, metrics, accounts)
    for register in registers:
        registry.register_from(register.__module__, register)
    for complaint in discover(registry):
        log.warning("plug-in ignored: %s", complaint)
    return registry


def built_ins(settings: Settings, metrics: Metrics, accounts: Accounts | None = None) -> Registry:
    """Only what the house brings itself."""
    registry = Registry()
    books = accounts or Accounts(settings.accounts, settings.keys)
    for package in (sluicegate.safety.stage, sluicegate.grammar.stage, sluicegate.engine.stage, sluicegate.cache.stage):
        registry.register_from(package.__name__, package.register)
    registry.register_from(
        "sluicegate.gateway.stage", lambda r: sluicegate.gateway.stage.register(r, settings, metrics, books)
    )
    return registry


class Runtime:
    """Everything a running gateway holds. `start` before the first request, `close` after the last."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], *, registers: Sequence[Register] = ()) -> None:
        """`registers`: plug-ins that are not installed but at hand, as in an author's test."""
        self.settings = settings
        told = settings.telemetry
        self.metrics = Metrics(Objectives(told.slo_first_s, told.slo_token_s, told.slo_total_s), told.label_values)
        self.heartbeat_s = settings.server.heartbeat_s
        self.started_s = int(time.time())
        self.state = "not started"
        self.is_stopping: Callable[[], bool] = lambda: False
        """Whether the server takes no more requests; whoever serves says so."""
        self.failure: Exception | None = None
        self.accounts = Accounts(settings.accounts, settings.keys)
        self.metrics.registry.register(AccountMetrics(self.accounts))
        self.batches = Batches(settings.batches)
        self._registers = registers
        self._built = self.build_slots(settings, SLOTS)
        self._built["recall"] = [(name, cache.front(stage)) for name, stage in self._built["recall"]]
        self.accounts.reach_of = self._reach_of
        self.trace_sink = TraceSink(environ, settings.telemetry.recent if told.console else 0)
        self.lag = LoopLag(semconv.METRIC_LOOP_LAG)
        self.pusher = pusher_of(self.metrics.registry, environ)
        self._expose()
        self.reviews = review_queue(settings.review, environ, lambda exchange: completion(exchange, explain=False))
        self.prompts = PromptBuilder(settings.prompts)
        self.routes = RouteTable(settings.routing)
        self.workers = Workers(settings.work)
        self.bodies = BodiesHeld(settings.server)
        self.reader = Reader(self)
        self.queues = ModelQueues(settings.routing.queues, settings.server.shed_s)
        stages = self._stages()
        self.shows_content = wanted(environ, settings.telemetry.content)
        self.spans = Spans(self.trace_sink, Capturing() if self.shows_content else None)
        self.pipeline = Pipeline(stages, self.metrics, self.spans, self.reviews)
        self.shadows = Shadows(self.pipeline, self.routes)
        self.reloader = Reloader(self)
        self.metrics.watch(lambda: self.pipeline.stages.rail_health.stats())

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """What callers may name: served models, and the public names that stand for some of them."""
        return self.routes.catalogue(self.served_models)

    @property
    def served_models(self) -> Mapping[str, ServedModel]:
        return self.pipeline.stages.generate[1].models

    @property
    def caches(self) -> Sequence[tuple[str, TieredCache]]:
        """(name, cache) of the slot `recall`, in order."""
        return self.pipeline.stages.recall

    @property
    def rail_names(self) -> frozenset[str]:
        """Of both slots."""
        stages = self.pipeline.stages
        return frozenset(name for name, _ in (*stages.screen, *stages.moderate))

    @property
    def ready(self) -> bool:
        return self.state == "ready"

    @property
    def readiness(self) -> tuple[bool, str]:
        """Whether to send requests here, and why not, or what does not work beside."""
        troubles = self.accounts.health.troubles
        reasons = "".join(f"\n{part}: {reason}" for part, reason in troubles.items())
        refuses = self.ready and not self.accounts.health.is_well
        return self.ready and not refuses, (
            "not ready: usage cannot be written down" if refuses else self.state
        ) + reasons

    def check_ready(self) -> None:
        if not self.ready:
            raise Overloaded(f"the gateway is not ready: {self.state}", retry_after_s=1)

    def identify(self, api_key: str | None) -> Caller:
        return self.accounts.keyring.identify(api_key)[1]

    @property
    def keyed(self) -> bool:
        """Nobody is served without a key."""
        return self.accounts.keyring.required

    @property
    def closed_to_strangers(self) -> bool:
        """No route that does anything serves whoever has no key: there are keys, and the door asks for them."""
        return self.keyed and "api-keys" in self.settings.pipeline.admit

    def check_store(self) -> None:
        """Raises `RequestError` where keys have no place to be kept."""
        if not (self.settings.accounts.path or self.settings.accounts.url):
            raise RequestError("this gateway keeps no keys; set [accounts] path in its configuration", code="no_store")

    async def start(self) -> None:
        """Start every stage; a failure is kept in `failure`, for whoever serves to act on."""
        try:
            self.state = "opening accounts"
            await self.accounts.start()
            await self._start_stages()
        except Exception as error:
            log.exception("start-up failed in: %s", self.state)
            self.failure = error
            self.state = f"failed while {self.state}: {error}"

    async def _start_stages(self) -> None:
        self.trace_sink.start()
        self.lag.start()
        if self.pusher is not None:
            self.pusher.start()
        for slot, stages in self._built.items():
            for name, stage in stages:
                self.state = f"starting {slot} {name}"
                if isinstance(stage, Lifecycle):
                    await stage.start()
                if hasattr(stage, "stats"):
                    self.metrics.watch(stage.stats, _prefix(slot, name, first=stage is stages[0][1]))
        self.metrics.watch(self.queues.stats, "routing_")
        self.metrics.watch(self.batches.stats, "batches_")
        self.metrics.watch(self.shadows.stats, "shadow_")
        self.metrics.watch(self.workers.stats)
        self.metrics.watch(self.bodies.stats)
        bind_embedders(self.caches, self.pipeline.stages.generate[1])
        await self._warm()
        self.state = "opening batches"
        await self.batches.start(Offline(self))  # their lines wait until all is ready
        self.state = "ready"

    async def _warm(self) -> None:
        """Pay for what the first request would else wait for: the vocabulary's tables and the compiled loops."""
        [(name, constrainer)] = self._built["constrain"]
        warm = getattr(constrainer, "warm", None)
        if warm is None:
            return
        for model in self.served_models.values():
            self.state = f"warming {name} for model {model.name}"
            started = time.perf_counter()
            await warm(model)
            log.info("grammar is warm for model %s after %.1f s", model.name, time.perf_counter() - started)

    async def close(self) -> None:
        self.state = "shutting down"
        await self.shadows.close()
        await self.batches.close()
        await self.reloader.close()
        for slot, stages in reversed(self._built.items()):
            for name, stage in stages:
                if isinstance(stage, Lifecycle):
                    await _closed(slot, name, stage)
        if self.reviews is not None:
            await self.reviews.close()
        await _closed("record", "accounts", self.accounts)
        self.workers.close()
        self.lag.close()
        await asyncio.to_thread(self.trace_sink.close)
        if self.pusher is not None:
            await asyncio.to_thread(self.pusher.close)

    def _expose(self) -> None:
        """Numbers of what is no stage: the event loop, GPUs where there are any, exported traces, vLLM's names."""
        self.metrics.registry.register(self.lag.buckets)
        if gpus := Gpus():
            self.metrics.registry.register(gpus)
        if self.trace_sink.exporter is not None:
            self.metrics.watch(self.trace_sink.exporter.stats, "export_")
        _, generator = _generator(self._built["generate"])
        self.metrics.alias(generator.stats, lambda: next(iter(generator.models), ""))

    def _stages(self) -> Stages:
        built, settings = self._built, self.settings
        [(name, router)] = built["route"]
        routing = Routing(router, self.routes)
        return Stages(
            admit=built["admit"],
            screen=built["screen"],
            route=(name, routing),
            assemble=built["assemble"][0],
            recall=built["recall"],
            constrain=built["constrain"][0],
            generate=_generator(built["generate"]),
            moderate=built["moderate"],
            record=built["record"],
            policies=_policies(settings, built),
            fingerprint=_fingerprint(settings, built),
            prompts=self.prompts,
            queues=self.queues,
            workers=self.workers,
            instead=routing.instead,
            begun=lambda exchange: self.shadows.consider(exchange),
        )

    def build_slots(self, settings: Settings, slots: Sequence[SlotName]) -> dict[SlotName, list[tuple[str, Any]]]:
        """Stages as `settings` say, not started. Raises `ConfigurationError` or `PluginError`."""
        registry = registry_of(settings, self.metrics, self._registers, self.accounts)
        return {slot: _build(settings, registry, slot) for slot in slots}

    def stages_with(self, old: Stages, built: Mapping[SlotName, list[tuple[str, Any]]], settings: Settings) -> Stages:
        """`old` with other rails. Raises `ConfigurationError`."""
        whole = {**self._built, **built}
        policies, fingerprint = _policies(settings, whole), _fingerprint(settings, whole)
        return stages_of(old, dict(built), policies=policies, fingerprint=fingerprint)

    def exchange_stages(
        self, stages: Stages, built: Mapping[SlotName, list[tuple[str, Any]]], settings: Settings
    ) -> tuple[RailHealth, dict[SlotName, list[tuple[str, Any]]]]:
        """From now on; what ran until now, to be closed once nothing uses it."""
        old = self.pipeline.stages.rail_health, {slot: self._built[slot] for slot in built}
        self.pipeline.stages, self.settings = stages, settings
        self._built = {**self._built, **built}
        return old

    def _reach_of(self, name: str) -> Reach:
        """Who may come to answer where `name` is asked for, as the routes are now."""
        [(_, router)] = self._built["route"]
        found = Routing(router, self.routes).reach(name)
        served = self.served_models
        lengths = [served[n].context_length for n in (served if found is None else found) if n in served]
        return Reach(found, max(lengths, default=UNKNOWN_CONTEXT))


def _build(settings: Settings, registry: Registry, slot: SlotName) -> list[tuple[str, Any]]:
    names = getattr(settings.pipeline, slot)
    if slot == "generate" and not names:
        raise ConfigurationError("[pipeline] generate names no stage; without one nothing can be answered")
    if slot in SINGLE and len(names) != 1:
        raise ConfigurationError(f"slot {slot!r} takes exactly one stage, [pipeline] names {list(names)}")
    unused = set(settings.stages.get(slot, {})) - set(names) - set(registry.names(slot))
    if unused:
        raise ConfigurationError(
            f"[stages.{slot}] configures {', '.join(sorted(unused))}, which nobody registered; "
            f"installed: {', '.join(registry.names(slot)) or 'none'}"
        )
    built = [(name, registry.build(slot, name, settings.of_stage(slot, name))) for name in names]
    _warn_of_idle(slot, settings, registry)
    return built


def _warn_of_idle(slot: SlotName, settings: Settings, registry: Registry) -> None:
    """A stage that is configured and not enabled does nothing, and its settings are not checked: easily overlooked."""
    for name in sorted(settings.stages.get(slot, {})):
        if not registry.was_built(slot, name):
            enabled = ", ".join(getattr(settings.pipeline, slot)) or "nothing"
            log.warning(
                f"[stages.{slot}.{name}] is configured and does not run: [pipeline] {slot} enables {enabled}; "
                f"add {name!r} there or take the table out"
            )


def _policies(settings: Settings, built: Mapping[SlotName, list[tuple[str, Any]]]) -> Policies:
    tables = {**(read_file(Path(settings.policy_file)) if settings.policy_file else {}), **settings.policies}
    return read_policies(tables, {slot: [name for name, _ in built[slot]] for slot in RAIL_SLOTS})


def _prefix(slot: str, name: str, *, first: bool) -> str:
    """Of a stage's numbers: those of the generator itself have none."""
    return "" if slot == "generate" and first else f"{slot}_{name.replace('-', '_')}_"


async def _closed(slot: str, name: str, stage: Lifecycle) -> None:
    """One stage that cannot close must not keep the others from closing."""
    try:
        await stage.close()
    except Exception:
        log.exception("stage %s of slot %s did not close", name, slot)


def _generator(parts: list[tuple[str, Any]]) -> tuple[str, Any]:
    return parts[0] if len(parts) == 1 else ("+".join(name for name, _ in parts), Generators(parts))


def _fingerprint(settings: Settings, built: Mapping[SlotName, list[tuple[str, Any]]]) -> str:
    """Of the settings, and of the rules that rails bring themselves."""
    shaping = {
        slot: [(name, settings.of_stage(slot, name), _version(stage)) for name, stage in built[slot]]
        for slot in SHAPING
    }
    return hashlib.sha256(json.dumps(shaping, sort_keys=True, default=str).encode()).hexdigest()


def _version(stage: Any) -> str:
    properties = getattr(stage, "properties", None)
    return properties.version if isinstance(properties, RailProperties) else ""
