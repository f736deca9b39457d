"""What an operator can set, as facts: one dataclass for each table of the configuration, with its defaults."""

from sluicegate.gateway.settings.accounts import (
    ALLOW_LISTS,
    EMPTY_LIST,
    AccountSettings,
    KeySettings,
    Limits,
    PriceSettings,
)
from sluicegate.gateway.settings.numbers import MAX_LIMIT, Money, Number, Part
from sluicegate.gateway.settings.prompts import PromptSettings, RetrievalSettings
from sluicegate.gateway.settings.ray import RayEngineSettings, RayGatewaySettings, RaySettings
from sluicegate.gateway.settings.routing import (
    OnlineChecks,
    QueueSettings,
    RolloutMetric,
    RolloutSettings,
    RouteSettings,
    RoutingSettings,
)
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
from sluicegate.gateway.settings.whole import PipelineSettings, Settings

__all__ = [
    "ALLOW_LISTS",
    "EMPTY_LIST",
    "MAX_LIMIT",
    "AccountSettings",
    "AuditSettings",
    "BatchSettings",
    "DatabaseSettings",
    "FeedbackSettings",
    "GrpcSettings",
    "KeySettings",
    "Limits",
    "Money",
    "Number",
    "OnlineChecks",
    "Part",
    "PipelineSettings",
    "PriceSettings",
    "PromptSettings",
    "QueueSettings",
    "RayEngineSettings",
    "RayGatewaySettings",
    "RaySettings",
    "RecordingSettings",
    "RetrievalSettings",
    "ReviewSettings",
    "RolloutMetric",
    "RolloutSettings",
    "RouteSettings",
    "RoutingSettings",
    "ServerSettings",
    "Settings",
    "TelemetrySettings",
    "WorkSettings",
]
