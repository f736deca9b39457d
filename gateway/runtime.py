"""The parts of a running gateway, built once by `gateway.compose`, and what routes read of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sluicegate.cache import TieredCache
from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.api.body.reader import Reader
from sluicegate.gateway.audit import AuditTrail
from sluicegate.gateway.batches import Batches
from sluicegate.gateway.database import Database
from sluicegate.gateway.deployment import Deployment
from sluicegate.gateway.feedback import FeedbackBook
from sluicegate.gateway.file_watcher import FileWatcher
from sluicegate.gateway.history import History
from sluicegate.gateway.http.body_budget import BodyBudget
from sluicegate.gateway.mcp.mcp_gateway import McpGateway
from sluicegate.gateway.readiness import DiskSpace, Readiness, TroubleList
from sluicegate.gateway.readiness.server_certificates import ServerCertificates
from sluicegate.gateway.recording.recorder import RequestRecorder
from sluicegate.gateway.reload import Reloader
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.request.shadow_traffic import ShadowTraffic
from sluicegate.gateway.request.tracing.live import LiveRequests
from sluicegate.gateway.review import ReviewQueue
from sluicegate.gateway.rollout.rollouts import Rollouts
from sluicegate.gateway.routing import RouteTable
from sluicegate.gateway.routing.queues import ModelQueues
from sluicegate.gateway.settings import Settings
from sluicegate.gateway.shared_models import ModelShelf
from sluicegate.gateway.stage_set import StageSet
from sluicegate.gateway.telemetry import Metrics, TraceSink
from sluicegate.gateway.telemetry.loop_lag import LoopLag
from sluicegate.gateway.telemetry.push import Pusher
from sluicegate.gateway.workers import Workers
from sluicegate.plugins import Caller, Conflict, NotFound, Overloaded, RequestError, ServedModel, SluicegateError


@dataclass(slots=True)
class Progress:
    """How far the gateway has started or stopped; the only part of a `Runtime` that is assigned to."""

    state: str = "not started"
    detail: Callable[[], str] = str
    """Describes the progress of the stage that is starting."""
    failure: SluicegateError | None = None
    """What kept the gateway from starting."""
    leaving: str = ""
    """Why requests should go elsewhere although they are still served: the phase before a stop."""
    grpc: str = ""
    """Address of the gRPC server, `HOST:PORT`; '' = none."""
    reload_workers: Callable[[], None] | None = None
    """Has all workers of this one's parent reload; None: this gateway is no worker."""
    is_stopping: Callable[[], bool] = lambda: False
    """Whether the server accepts no more requests; set by the server."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """Started by `lifecycle.start` before the first request, closed by `lifecycle.close` after the last."""

    stage_set: StageSet
    database: Database | None
    """The database that all gateways of a deployment share; None = a single gateway."""
    deployment: Deployment | None
    """State of the deployment that shares it."""
    shelf: ModelShelf
    pipeline: Pipeline
    live: LiveRequests
    accounts: Accounts
    batches: Batches
    reviews: ReviewQueue | None
    mcp: McpGateway | None
    """None where no MCP servers are configured and no own tools are served."""
    audit: AuditTrail
    routes: RouteTable
    queues: ModelQueues
    shadows: ShadowTraffic
    rollouts: Rollouts
    feedback: FeedbackBook | None
    recorder: RequestRecorder | None
    workers: Workers
    bodies: BodyBudget
    reader: Reader
    reloader: Reloader
    metrics: Metrics
    troubles: TroubleList
    disks: DiskSpace
    server_certificates: ServerCertificates
    renewal: FileWatcher
    trace_sink: TraceSink
    history: History
    lag: LoopLag
    pusher: Pusher | None
    shows_content: bool
    """Whether traces and the console may contain texts."""
    started_s: int = field(default_factory=lambda: int(time.time()))
    progress: Progress = field(default_factory=Progress)

    @property
    def settings(self) -> Settings:
        """Return the settings in place now."""
        return self.stage_set.settings

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """Return what callers may name: served models, and the public names that stand for some of them."""
        return self.routes.catalogue(self.served_models)

    @property
    def served_models(self) -> Mapping[str, ServedModel]:
        return self.pipeline.stages.generate[1].models

    @property
    def caches(self) -> Sequence[tuple[str, TieredCache]]:
        """Return (name, cache) of the slot `recall`, in order."""
        return self.pipeline.stages.recall

    @property
    def rail_names(self) -> frozenset[str]:
        """Return the names of the rails of both slots."""
        stages = self.pipeline.stages
        return frozenset(name for name, _ in (*stages.screen, *stages.moderate))

    @property
    def ready(self) -> bool:
        return self.progress.state == "ready"

    @property
    def readiness(self) -> Readiness:
        """Return whether to send requests here; and why not, or what does not work beside."""
        detail = self.progress.detail()
        starting = "" if self.ready else self.progress.state + (f" ({detail})" if detail else "")
        return self.troubles.assess(stopping=self.progress.leaving, starting=starting)

    @property
    def mcp_gateway(self) -> McpGateway:
        """Return the MCP gateway. Raises `NotFound` if none is configured."""
        if self.mcp is None:
            raise NotFound("there are no MCP servers here; [mcp] in the configuration names them", code="mcp_off")
        return self.mcp

    def check_shared(self) -> None:
        """Check that a change of models or weights reaches all workers. Raises `Conflict`."""
        if self.progress.reload_workers is not None and self.deployment is None:
            count = self.settings.server.workers
            raise Conflict(
                f"this is one of {count} workers without a [database], which would change alone; set [database] url, "
                "or change the configuration and restart"
            )

    async def tell_others(self, what: str, content: Mapping[str, object]) -> None:
        """Announce a change to the other gateways of the deployment. Raises `Overloaded` where that is impossible."""
        if self.deployment is not None:
            await self.deployment.announce(what, content)

    def check_ready(self) -> None:
        """Check that the gateway is ready. Raises `Overloaded`."""
        if not self.ready:
            raise Overloaded(f"the gateway is not ready: {self.progress.state}", retry_after_s=1)

    def identify(self, api_key: str | None) -> Caller:
        """Return the caller with this key. Raises `AuthenticationError` or `BooksUnavailable`."""
        return self.accounts.keyring.identify(api_key)[1]

    @property
    def keyed(self) -> bool:
        """Return whether every request needs a key."""
        return self.accounts.keyring.required

    @property
    def closed_to_strangers(self) -> bool:
        """Return whether no route that does anything serves whoever has no key: there are keys, and `admit` asks for
        them."""
        return self.keyed and "api-keys" in self.settings.pipeline.admit

    def check_store(self) -> None:
        """Check that keys have a place to be kept. Raises `RequestError`."""
        if not self.settings.keeps_keys:
            raise RequestError(
                "this gateway keeps no keys; set [accounts] path or [database] url in its configuration",
                code="no_store",
            )
