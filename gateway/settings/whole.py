"""The whole configuration, and which stages run."""

# ruff: noqa: RUF009 - all of them are frozen

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate.gateway.mcp.settings import McpSettings
from sluicegate.gateway.settings.accounts import AccountSettings, KeySettings
from sluicegate.gateway.settings.prompts import PromptSettings, RetrievalSettings
from sluicegate.gateway.settings.ray import RaySettings
from sluicegate.gateway.settings.routing import RoutingSettings
from sluicegate.gateway.settings.serving import GrpcSettings, ServerSettings, WorkSettings
from sluicegate.gateway.settings.storage import (
    AuditSettings,
    BatchSettings,
    DatabaseSettings,
    FeedbackSettings,
    RecordingSettings,
    ReviewSettings,
)
from sluicegate.gateway.settings.telemetry import TelemetrySettings
from sluicegate.plugins import SlotName
from sluicegate.plugins.contract.disk_paths import ReadFile


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Which stages run in each slot, in order."""

    admit: tuple[str, ...] = ("api-keys", "limits")
    """Who may make requests, and how many."""
    screen: tuple[str, ...] = ("secrets",)
    """Rails that judge requests."""
    route: tuple[str, ...] = ("by-name",)
    """Which model answers; the first stage that decides counts."""
    retrieve: tuple[str, ...] = ()
    """Sources of documents for the question."""
    assemble: tuple[str, ...] = ("chat-template",)
    """Makes the prompt from the messages."""
    recall: tuple[str, ...] = ("memory",)
    """Caches of answers."""
    constrain: tuple[str, ...] = ("grammar",)
    """Makes token masks from schemas and grammars."""
    generate: tuple[str, ...] = ("engine",)
    """Runs models."""
    moderate: tuple[str, ...] = ("secrets",)
    """Rails that judge answers as they stream."""
    record: tuple[str, ...] = ("ledger", "metrics", "log")
    """Receives each request when it has ended."""


@dataclass(frozen=True, slots=True)
class Settings:
    server: ServerSettings = ServerSettings()
    pipeline: PipelineSettings = PipelineSettings()
    keys: tuple[KeySettings, ...] = ()
    accounts: AccountSettings = AccountSettings()
    routing: RoutingSettings = RoutingSettings()
    batches: BatchSettings = BatchSettings()
    database: DatabaseSettings = DatabaseSettings()
    prompts: PromptSettings = PromptSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    work: WorkSettings = WorkSettings()
    grpc: GrpcSettings = GrpcSettings()
    stages: Mapping[SlotName, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Settings of stages by slot and name; each stage checks its own."""
    telemetry: TelemetrySettings = TelemetrySettings()
    review: ReviewSettings = ReviewSettings()
    audit: AuditSettings = AuditSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    recording: RecordingSettings = RecordingSettings()
    mcp: McpSettings = McpSettings()
    ray: RaySettings = RaySettings()
    policies: Mapping[str, Any] = field(default_factory=dict)
    """Policies by name; `gateway/rails/policy.py` checks them."""
    policy_file: ReadFile = ""
    """TOML file with further policies."""

    def __post_init__(self) -> None:
        alone = {
            "[accounts] path": self.accounts.path,
            "[review] path": self.review.path,
            "[routing] state": self.routing.state,
            "[feedback] path": self.feedback.path,
            "[recording] path": self.recording.path,
        }
        named = [name for name, value in alone.items() if value]
        if self.database.url and named:
            raise ValueError(
                f"[database] url keeps what {named[0]} would keep on this machine alone; set one of the two"
            )
        if self.recording.enabled and not self.recording.path and not self.database.url:
            raise ValueError("[recording] needs a path, or a [database] url, to keep requests in")

    @property
    def keeps_keys(self) -> bool:
        """Return whether keys can be made and revoked while the gateway runs."""
        return bool(self.accounts.path or self.accounts.url or self.database.url)

    @property
    def kept_by_one(self) -> list[str]:
        """Return the names of the settings by which this gateway keeps something that others cannot see."""
        places = {
            "[accounts] path": self.accounts.path,
            "[review] path": self.review.path,
            "[routing] state": self.routing.state,
            "[feedback] path": self.feedback.path,
            "[recording] path": self.recording.path,
        }
        return [name for name, value in places.items() if value]

    def of_stage(self, slot: SlotName, name: str) -> Mapping[str, Any]:
        return self.stages.get(slot, {}).get(name, {})
