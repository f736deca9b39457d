"""The interface through which the planners of objects and arrays use the plans of a grammar."""

from __future__ import annotations

from typing import Any, Protocol

from sluicegate.grammar.blocked.language.blocklist import Blocklist
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.schema.containers import Conjunction, Fact
from sluicegate.grammar.schema.semantics import Semantics
from sluicegate.grammar.schema.value_set import ValueSet


class PlanSource(Protocol):
    options: GrammarOptions
    blocklist: Blocklist | None
    semantics: Semantics

    def value_set(self, terms: Conjunction) -> ValueSet:
        """Return the values that satisfy all of `terms`. Raises `InvalidGrammar`, `GrammarLimit`."""

    def satisfiable(self, terms: Conjunction) -> bool:
        """Return whether some value satisfies all of `terms`, as far as conjunctions tell."""

    def assume(self) -> None:
        """Mark the answer being computed as tentative: it must not be cached."""

    def refuses(self, value: Any, facts: frozenset[Fact]) -> bool:
        """Return whether a check of `facts` surely refuses `value`."""

    def check(self, facts: frozenset[Fact]) -> Guard | None: ...
