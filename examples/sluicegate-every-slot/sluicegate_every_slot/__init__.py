"""One small, real stage for each slot of the pipeline."""

from __future__ import annotations

from sluicegate.plugins import NoSettings, RegistryLike, add_stage
from sluicegate_every_slot.admit import DailyQuota
from sluicegate_every_slot.assemble import HouseRules
from sluicegate_every_slot.constrain import NamedPatterns
from sluicegate_every_slot.generate import Deadline
from sluicegate_every_slot.moderate import NoBidi
from sluicegate_every_slot.recall import Files
from sluicegate_every_slot.record import JsonLines
from sluicegate_every_slot.retrieve import Notes
from sluicegate_every_slot.route import ByLength
from sluicegate_every_slot.screen import TooLong
from sluicegate_every_slot.settings import (
    DeadlineSettings,
    FileSettings,
    LengthSettings,
    LineSettings,
    NoteSettings,
    PatternSettings,
    QuotaSettings,
    RulesSettings,
    TooLongSettings,
)


def register(registry: RegistryLike) -> None:
    """Register a stage for every slot. Stages that wrap another make it with `registry.build`, when they are made
    themselves."""

    def rules(own: RulesSettings) -> HouseRules:
        return HouseRules(registry.build("assemble", own.inner, own.settings), own.text)

    def patterns(own: PatternSettings) -> NamedPatterns:
        return NamedPatterns(registry.build("constrain", own.inner, own.settings), own.patterns)

    def deadline(own: DeadlineSettings) -> Deadline:
        return Deadline(registry.build("generate", own.inner, own.settings), own.seconds)

    add_stage(registry, "admit", "daily-quota", QuotaSettings, lambda own: DailyQuota(own.requests))
    add_stage(registry, "screen", "too-long", TooLongSettings, lambda own: TooLong(own.characters))
    add_stage(
        registry, "route", "by-length", LengthSettings, lambda own: ByLength(own.short, own.long, own.from_characters)
    )
    add_stage(registry, "retrieve", "notes", NoteSettings, lambda own: Notes(own.folder))
    add_stage(registry, "assemble", "house-rules", RulesSettings, rules)
    add_stage(registry, "recall", "files", FileSettings, lambda own: Files(own.folder))
    add_stage(registry, "constrain", "named-patterns", PatternSettings, patterns)
    add_stage(registry, "generate", "deadline", DeadlineSettings, deadline)
    add_stage(registry, "moderate", "no-bidi", NoSettings, lambda _: NoBidi())
    add_stage(registry, "record", "json-lines", LineSettings, lambda own: JsonLines(own.path))
