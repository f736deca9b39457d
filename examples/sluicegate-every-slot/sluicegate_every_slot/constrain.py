"""Slot `constrain`: patterns that the operator named once and callers use by `@name`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sluicegate.plugins import CompiledGrammar, Constrainer, Constraint, InvalidGrammar, ServedModel
from sluicegate_every_slot.wrapping import Wrapping


class NamedPatterns(Wrapping[Constrainer]):
    def __init__(self, inner: Constrainer, patterns: Mapping[str, str]) -> None:
        super().__init__(inner)
        self._patterns = patterns

    @property
    def unconstrained(self) -> Constraint | None:
        return self.inner.unconstrained

    async def compile(self, constraint: Constraint, model: ServedModel) -> CompiledGrammar:
        if constraint.kind == "regex" and str(constraint.value).startswith("@"):
            constraint = replace(constraint, value=self._pattern(constraint.value[1:]))
        return await self.inner.compile(constraint, model)

    def _pattern(self, name: str) -> str:
        if name not in self._patterns:
            known = ", ".join(f"@{known}" for known in sorted(self._patterns)) or "none"
            raise InvalidGrammar(f"there is no pattern named '@{name}' here; there are: {known}", param="regex")
        return self._patterns[name]
