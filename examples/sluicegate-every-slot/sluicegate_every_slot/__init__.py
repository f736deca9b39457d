"""One small, real stage for each slot of the pipeline."""

from __future__ import annotations

from sluicegate.plugins import RegistryLike
from sluicegate_every_slot.admit import DailyQuota
from sluicegate_every_slot.assemble import HouseRules
from sluicegate_every_slot.constrain import NamedPatterns
from sluicegate_every_slot.generate import Deadline
from sluicegate_every_slot.moderate import NoBidi
from sluicegate_every_slot.recall import Files
from sluicegate_every_slot.record import JsonLines
from sluicegate_every_slot.route import ByLength
from sluicegate_every_slot.screen import TooLong
from sluicegate_every_slot.settings import read


def register(registry: RegistryLike) -> None:
    """Each factory reads its own table; those that wrap a stage make it with `registry.build`, when they are called."""
    registry.add("admit", "daily-quota", lambda table: DailyQuota(**read("daily-quota", table, requests=1000)))
    registry.add("screen", "too-long", lambda table: TooLong(**read("too-long", table, characters=100_000)))
    registry.add(
        "route",
        "by-length",
        lambda table: ByLength(**read("by-length", table, short="", long="", from_characters=2000)),
    )
    registry.add("assemble", "house-rules", lambda table: HouseRules.of(registry, table))
    registry.add("recall", "files", lambda table: Files(**read("files", table, folder="answers")))
    registry.add("constrain", "named-patterns", lambda table: NamedPatterns.of(registry, table))
    registry.add("generate", "deadline", lambda table: Deadline.of(registry, table))
    registry.add("moderate", "no-bidi", lambda table: NoBidi(**read("no-bidi", table)))
    registry.add("record", "json-lines", lambda table: JsonLines(**read("json-lines", table, path="requests.jsonl")))
