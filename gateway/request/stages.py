"""The stages that requests run on, as one value: a reload replaces it, and requests end on the one they began with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluicegate.cache import TieredCache
from sluicegate.gateway.prompts import PromptBuilder
from sluicegate.gateway.prompts.lengths import Lengths
from sluicegate.gateway.rails.health import RailHealth
from sluicegate.gateway.rails.policy import Policies
from sluicegate.gateway.retrieval.health import RetrievalHealth
from sluicegate.gateway.retrieval.reranker import Reranker
from sluicegate.gateway.routing.queues import ModelQueues
from sluicegate.gateway.routing.table import VersionDraw
from sluicegate.gateway.settings import PromptSettings, RetrievalSettings
from sluicegate.gateway.workers import Workers
from sluicegate.plugins import (
    Admitter,
    Assembler,
    Constrainer,
    Generator,
    InputRail,
    OutputRail,
    Recorder,
    Retriever,
    Router,
)


@dataclass(frozen=True, slots=True)
class Stages:
    """(name, stage) by slot, in the order of the configuration, and what the slots share."""

    admit: Sequence[tuple[str, Admitter]]
    screen: Sequence[tuple[str, InputRail]]
    route: tuple[str, Router]
    assemble: tuple[str, Assembler]
    recall: Sequence[tuple[str, TieredCache]]
    constrain: tuple[str, Constrainer]
    generate: tuple[str, Generator]
    moderate: Sequence[tuple[str, OutputRail]]
    record: Sequence[tuple[str, Recorder]]
    policies: Policies = field(default_factory=Policies)
    rail_health: RailHealth = field(default_factory=RailHealth)
    fingerprint: str = ""
    """Digest of the configuration of every stage that shapes an answer; part of every cache key."""
    prompts: PromptBuilder = field(default_factory=lambda: PromptBuilder(PromptSettings()))
    queues: ModelQueues = field(default_factory=lambda: ModelQueues({}))
    deadline_s: float | None = None
    """Deadline of requests that set none and belong to no batch."""
    workers: Workers = field(default_factory=Workers)
    lengths: Lengths = field(default_factory=Lengths)
    retrieve: Sequence[tuple[str, Retriever]] = ()
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    reranker: Reranker | None = None
    retrieval_health: RetrievalHealth = field(default_factory=RetrievalHealth)
    instead: Callable[..., str | None] = lambda *arguments: None
    """`Routing.instead`: returns a model that answers in place of another."""
    drawn: Callable[[str], VersionDraw | None] = lambda request_id: None
    """`Routing.drawn`: how the version was drawn for the request that was just routed."""
