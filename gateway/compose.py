"""Composition: from settings to a `Runtime`, in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.accounts.health import Part
from sluicegate.gateway.accounts.limits.estimates import UNKNOWN_CONTEXT, CandidateModels
from sluicegate.gateway.accounts.metrics import AccountMetrics
from sluicegate.gateway.api.body.reader import Reader
from sluicegate.gateway.api.dialects.chat_answer import completion
from sluicegate.gateway.audit import AuditTrail, writer_of
from sluicegate.gateway.batches import Batches
from sluicegate.gateway.database import Database, tables_of
from sluicegate.gateway.deployment import Deployment
from sluicegate.gateway.feedback import feedback_book
from sluicegate.gateway.file_watcher import FileWatcher
from sluicegate.gateway.history import History
from sluicegate.gateway.http.body_budget import BodyBudget
from sluicegate.gateway.mcp.mcp_gateway import McpGateway
from sluicegate.gateway.mcp.screening import MODEL as TOOL_SERVER
from sluicegate.gateway.prompts import PromptBuilder
from sluicegate.gateway.readiness import DiskSpace, Source, TroubleList, TroubleMetrics
from sluicegate.gateway.readiness.server_certificates import ServerCertificates
from sluicegate.gateway.readiness.tls_servers import tls_servers
from sluicegate.gateway.recording.recorder import recorder_of
from sluicegate.gateway.registry import Register, registry_of
from sluicegate.gateway.reload import Reloader
from sluicegate.gateway.request.guarding.holding import Holding
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.request.shadow_traffic import ShadowTraffic
from sluicegate.gateway.request.stages import Stages
from sluicegate.gateway.request.tracing.capture import OutputCapture, wanted
from sluicegate.gateway.request.tracing.live import LiveRequests
from sluicegate.gateway.retrieval.reranker import make_reranker
from sluicegate.gateway.review import review_queue, sealer_of
from sluicegate.gateway.rollout.judging import RolloutJudge
from sluicegate.gateway.rollout.rollouts import Rollouts
from sluicegate.gateway.routing import RouteTable, Routing
from sluicegate.gateway.routing.queues import ModelQueues
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.shared_models import LocalModels, SharedModels
from sluicegate.gateway.stage_set import StageSet
from sluicegate.gateway.telemetry import Metrics, TraceSink, semconv
from sluicegate.gateway.telemetry.gpu import Gpus
from sluicegate.gateway.telemetry.loop_lag import LoopLag
from sluicegate.gateway.telemetry.metrics import Objectives
from sluicegate.gateway.telemetry.push import pusher_of
from sluicegate.gateway.workers import Workers
from sluicegate.plugins import CapacityReporter, ModelHost, RequestError, Trouble, TroubleReporter, offers
from sluicegate.plugins.addresses import key_in
from sluicegate.plugins.compiled.compile_mode import COMPILE_MODE


def compose(settings: Settings, environ: Mapping[str, str], *, registers: Sequence[Register] = ()) -> Runtime:
    """Build everything, and start nothing. `registers`: plug-ins that are not installed but at hand, as in an author's
    test. Raises `ConfigurationError` or `PluginError`."""
    telemetry = settings.telemetry
    metrics = Metrics(
        Objectives(telemetry.slo_first_s, telemetry.slo_token_s, telemetry.slo_total_s), telemetry.label_values
    )
    database = Database(settings.database) if settings.database.url else None
    accounts = Accounts(settings.accounts, settings.keys, database)
    stage_set = StageSet(settings, lambda wanted: registry_of(wanted, metrics, registers, accounts))
    sink = TraceSink(environ, telemetry.recent if telemetry.console else 0)
    shows_content = wanted(environ, telemetry.content)
    history = History(telemetry, sink.recent, sealer_of(telemetry.history_secret, "[telemetry] history_secret"))
    sink.keep = history.take
    live = LiveRequests(sink, OutputCapture() if shows_content else None, accounts.feature_of, accounts.cost_nanos)
    reviews = review_queue(settings.review, environ, database)
    routes = RouteTable(settings.routing, database)
    routing = Routing(stage_set.router[1], routes)
    workers = Workers(settings.work)
    queues = ModelQueues(settings.routing.queues, settings.server.shed_s)
    stages = _stages(settings, environ, stage_set, routing, queues, workers)
    holding = Holding(reviews, lambda exchange: completion(exchange, explain=False))
    pipeline = Pipeline(stages, metrics, live, holding)
    shadows = ShadowTraffic(pipeline, routes)
    pipeline.when_begun(shadows.consider)
    audit = AuditTrail(writer_of(settings.audit))
    rollouts = _rollouts(settings, database, routes, audit, pipeline)
    pipeline.when_over(rollouts.observe)
    feedback = feedback_book(settings.feedback, database, rollouts.add)
    if feedback is not None:
        pipeline.when_over(feedback.note)
    accounts.reach_of = lambda name: _reach(routing, name, pipeline)
    recorder = recorder_of(settings.recording, database, accounts.prices.cost_nanos)
    if recorder is not None:
        pipeline.when_over(recorder.note)
    reloader = Reloader(stage_set, pipeline, accounts)
    shared = None if database is None else SharedModels(database, lambda: _host(pipeline))
    mcp = _mcp(settings, pipeline, accounts, audit, database)
    deployment = None
    if database is not None:
        deployment = Deployment(
            database,
            settings.database.look_s,
            routes=routes,
            models=shared if isinstance(stages.generate[1], ModelHost) else None,
            reloader=reloader,
            caches=lambda: pipeline.stages.recall,
            pins=None if mcp is None else mcp.catalogue.read_pins,
        )
    runtime = Runtime(
        stage_set=stage_set,
        database=database,
        deployment=deployment,
        shelf=shared or LocalModels(lambda: _host(pipeline)),
        pipeline=pipeline,
        live=live,
        accounts=accounts,
        batches=Batches(settings.batches, database, settings.database),
        reviews=reviews,
        mcp=mcp,
        audit=audit,
        routes=routes,
        queues=queues,
        shadows=shadows,
        rollouts=rollouts,
        feedback=feedback,
        recorder=recorder,
        workers=workers,
        bodies=BodyBudget(settings.server),
        reader=Reader(settings.server, workers, lambda key: accounts.keyring.identify(key)[1]),
        reloader=reloader,
        metrics=metrics,
        troubles=TroubleList(),
        disks=DiskSpace(written_folders(settings), settings.server.min_free_bytes),
        server_certificates=ServerCertificates(lambda: tls_servers(stage_set.settings, environ)),
        renewal=FileWatcher(settings.server.renew_s),
        trace_sink=sink,
        history=history,
        lag=LoopLag(semconv.METRIC_LOOP_LAG),
        pusher=pusher_of(metrics.registry, environ),
        shows_content=shows_content,
    )
    _watch_troubles(runtime)
    _expose(runtime)
    return runtime


def _stages(
    settings: Settings,
    environ: Mapping[str, str],
    stage_set: StageSet,
    routing: Routing,
    queues: ModelQueues,
    workers: Workers,
) -> Stages:
    """Return the stages of requests: those that the settings name, and what is built around them."""
    retrieval = settings.retrieval
    return stage_set.stages(
        routing,
        prompts=PromptBuilder(settings.prompts),
        queues=queues,
        workers=workers,
        instead=routing.instead,
        drawn=routing.drawn,
        retrieval=retrieval,
        reranker=make_reranker(
            retrieval.rerank, key_in(retrieval.rerank_key_env, "retrieval", "rerank_key_env", environ)
        ),
        deadline_s=settings.server.deadline_s or None,
    )


def _rollouts(
    settings: Settings, database: Database | None, routes: RouteTable, audit: AuditTrail, pipeline: Pipeline
) -> Rollouts:
    """Return the rollouts, which are kept beside the routes' state or in the database."""
    state = settings.routing.state
    return Rollouts(
        tables_of(database, f"{state}.rollouts" if state else ""),
        routes,
        audit,
        RolloutJudge(pipeline),
        lambda: pipeline.stages.generate[1].models,
        shared=database is not None,
    )


def _mcp(
    settings: Settings, pipeline: Pipeline, accounts: Accounts, audit: AuditTrail, database: Database | None
) -> McpGateway | None:
    """Build the MCP gateway. Raises `ConfigurationError` if the extra is not installed."""
    if not settings.mcp.enabled:
        return None
    most = settings.server.max_body_bytes
    return McpGateway(settings.mcp, pipeline, lambda key: accounts.keyring.identify(key)[1], audit, database, most)


def _host(pipeline: Pipeline) -> ModelHost:
    """Return the generator as a `ModelHost`. Raises `RequestError` where its models are fixed."""
    generator = pipeline.stages.generate[1]
    if not isinstance(generator, ModelHost):
        raise RequestError("the generator of this gateway keeps the models it started with", code="fixed_models")
    return generator


def written_folders(settings: Settings) -> dict[str, Path]:
    """Return the folders where the gateway writes, by what it writes there."""
    accounts = settings.accounts
    named = {
        "usage": accounts.path,
        "journal": accounts.journal,
        "batches": settings.batches.path,
        "reviews": settings.review.path,
        "audit": settings.audit.path,
        "feedback": settings.feedback.path,
        "recordings": settings.recording.path,
        "history": settings.telemetry.history,
        "mcp": settings.mcp.path,
        "routes": settings.routing.state,
    }
    return {name: Path(path).absolute() for name, path in named.items() if path}


def _watch_troubles(runtime: Runtime) -> None:
    """Watch the parts that are not stages. Those of stages are added when they start."""
    watch, accounts = runtime.troubles.watch, runtime.accounts
    for part in get_args(Part):
        watch(part, partial(_of_books, accounts, part))
    watch("disk", runtime.disks.troubles)
    watch("server certificates", runtime.server_certificates.troubles)
    watch("audit", runtime.audit.troubles)
    watch("history", runtime.history.troubles)
    watch("rails", lambda: runtime.pipeline.stages.rail_health.troubles())
    watch("retrieval", lambda: runtime.pipeline.stages.retrieval_health.troubles())
    watch("batches", runtime.batches.troubles)
    watch("reload", partial(_of_reloads, runtime))
    watch("rollouts", runtime.rollouts.troubles)
    watch("routes", runtime.routes.troubles)
    for name, part in (("reviews", runtime.reviews), ("feedback", runtime.feedback), ("recordings", runtime.recorder)):
        if part is not None:
            watch(name, part.troubles)
    watch("compiled loops", _uncompiled)
    if runtime.mcp is not None:
        watch("mcp", runtime.mcp.troubles)
    watch("models", partial(_of_models, runtime))
    runtime.troubles.watch_all(lambda: _of_stages(runtime.stage_set))


def _of_stages(stage_set: StageSet) -> Iterator[tuple[str, Source]]:
    """Yield the troubles of the stages in place now, which a reload may have exchanged."""
    for slot, stages in stage_set.built.items():
        for name, stage in stages:
            if offers(stage, TroubleReporter):
                yield f"{slot} {name}", stage.troubles


def _of_books(accounts: Accounts, part: Part) -> Sequence[Trouble]:
    found = accounts.health.troubles.get(part)
    return () if found is None else (found,)


def _of_models(runtime: Runtime) -> Sequence[Trouble]:
    if not runtime.served_models:
        return (Trouble("no model is served; add one: POST /admin/models", refuses=True),)
    failed = runtime.deployment.troubles if runtime.deployment is not None else {}
    return [Trouble(f"{name}: {reason}") for name, reason in failed.items()]


def _of_reloads(runtime: Runtime) -> Sequence[Trouble]:
    behind = runtime.deployment.behind if runtime.deployment is not None else ""
    return (Trouble(behind),) if behind else runtime.reloader.troubles()


def _uncompiled() -> Sequence[Trouble]:
    reason = COMPILE_MODE.builder.trouble if COMPILE_MODE.builder is not None else ""
    return (Trouble(reason),) if reason else ()


def _reach(routing: Routing, name: str, pipeline: Pipeline) -> CandidateModels:
    """Return who may come to answer where `name` is asked for, as the routes are now."""
    if name.startswith(TOOL_SERVER):
        return CandidateModels((name,))
    found, served = routing.reach(name), pipeline.stages.generate[1].models
    lengths = [served[n].context_length for n in (served if found is None else found) if n in served]
    return CandidateModels(found, max(lengths, default=UNKNOWN_CONTEXT))


def _expose(runtime: Runtime) -> None:
    """Expose the numbers of what is not a stage: usage, the event loop, GPUs where there are any, queues, vLLM's
    names."""
    metrics, pipeline = runtime.metrics, runtime.pipeline
    metrics.registry.register(AccountMetrics(runtime.accounts))
    metrics.registry.register(runtime.lag.buckets)
    metrics.registry.register(TroubleMetrics(runtime.troubles, lambda: runtime.readiness))
    metrics.registry.register(runtime.disks)
    metrics.registry.register(runtime.server_certificates)
    if gpus := Gpus():
        metrics.registry.register(gpus)
    if runtime.trace_sink.exporter is not None:
        metrics.watch(runtime.trace_sink.exporter.stats, "export_")
    _, generator = runtime.stage_set.generator
    capacity = generator.capacity if offers(generator, CapacityReporter) else None
    metrics.alias(generator.stats, lambda: next(iter(generator.models), ""), capacity)
    metrics.watch(lambda: pipeline.stages.rail_health.stats())
    metrics.watch(runtime.queues.stats, "routing_")
    metrics.watch(runtime.batches.stats, "batches_")
    if runtime.database is not None:
        metrics.watch(runtime.database.stats, "database_")
    metrics.watch(runtime.shadows.stats, "shadow_")
    metrics.watch(runtime.rollouts.stats, "rollout_")
    if runtime.feedback is not None:
        metrics.watch(runtime.feedback.stats, "feedback_")
    if runtime.recorder is not None:
        metrics.watch(runtime.recorder.stats, "recording_")
    if runtime.mcp is not None:
        metrics.watch(runtime.mcp.stats, "mcp_")
    metrics.watch(runtime.audit.stats, "audit_")
    metrics.watch(runtime.workers.stats)
    metrics.watch(runtime.reloader.stats, "reload_")
    if COMPILE_MODE.builder is not None:
        metrics.watch(COMPILE_MODE.builder.stats, "compile_")
    metrics.watch(runtime.bodies.stats)
