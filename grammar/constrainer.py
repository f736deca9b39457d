"""The stage that turns constraints into grammars, and keeps them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sluicegate.grammar.budget.meter import Allowance, allowed
from sluicegate.grammar.budget.remembered import Forgetting
from sluicegate.grammar.compile import (
    compile_choices,
    compile_json_object,
    compile_json_schema,
    compile_regex,
    compile_text,
)
from sluicegate.grammar.compile_pool import CompileJob, CompilePool, JobAbandoned
from sluicegate.grammar.kept_grammars import KeptGrammars
from sluicegate.grammar.kernel_list import GRAMMAR_KERNELS
from sluicegate.grammar.lark import compile_lark
from sluicegate.grammar.matching.grammar import LazyGrammar
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.settings import STAGE, GrammarSettings
from sluicegate.grammar.store.folder import Folder
from sluicegate.grammar.store.footprint import footprint
from sluicegate.grammar.store.vocabularies import Vocabularies
from sluicegate.grammar.tags import compile_structural_tags
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins import Constraint, ServedModel
from sluicegate.plugins.cache_folder import default_folder
from sluicegate.plugins.compiled.compile_mode import COMPILE_MODE
from sluicegate.plugins.errors import ConfigurationError, GrammarLimit, InvalidGrammar


def _folder(settings: GrammarSettings) -> Folder | None:
    if settings.cache_dir == "":
        return None
    path = default_folder() if settings.cache_dir is None else Path(settings.cache_dir).expanduser()
    return Folder(path, settings.cache_bytes)


_QUICK_S = 0.002
"""CPU time of compiling up to which the size of a grammar is estimated: adding it up would take a third as long."""
_LOOKED_AT = 20_000
"""Objects of a grammar whose size is added up, in some 15 ms; a usual one has 600. What has more is estimated."""
_MADE_A_SECOND = 250e6
"""Bytes of a grammar for a second of CPU time that it took to compile: 50 to 400 MB, measured for many properties,
large enums, counted classes and long Lark literals."""


class GrammarConstrainer:
    """Compiles on a small thread pool, where tenants take turns, and keeps the grammars used last: `cache_entries`, of
    `kept_bytes` together.

    Two requests for the same grammar share one compilation; a failed one is not kept.
    """

    def __init__(self, settings: GrammarSettings) -> None:
        """Check the options of `settings`; compile nothing yet. Raises `ConfigurationError` for invalid ones."""
        blocked = {"blocklist": list(settings.blocklist), "blocklist_patterns": list(settings.blocklist_patterns)}
        self._blocked = {name: phrases for name, phrases in blocked.items() if phrases}
        self._options = dict(settings.options)
        self._limits = settings.limits
        try:
            self._resolved(self._options)
        except InvalidGrammar as error:
            raise ConfigurationError(f"[{STAGE}] {error.reason}") from error
        self.unconstrained = Constraint("text") if self._blocked else None
        """Used for a request without a constraint."""
        self._pool = CompilePool(settings.threads, "grammar")
        self._grammars = KeptGrammars(settings.cache_entries, settings.kept_bytes)
        self._vocabularies = Vocabularies(_folder(settings))
        self._lock = threading.Lock()
        if COMPILE_MODE.builder is not None:
            COMPILE_MODE.builder.request_all(GRAMMAR_KERNELS, lambda failed: None)  # whoever builds says what failed
        self._forgetting = Forgetting()
        self._compiled = 0
        self._compile_s = 0.0

    def stats(self) -> Mapping[str, float]:
        """Return the totals since the start, and how many grammars are kept."""
        return {
            "compiled_total": float(self._compiled),
            "compile_seconds_total": self._compile_s,
            "kept": float(len(self._grammars)),
            "kept_bytes": float(self._grammars.bytes),
            "waiting": float(self._pool.waiting),
        }

    async def compile(self, constraint: Constraint, model: ServedModel) -> LazyGrammar:
        """Compile `constraint` for `model`. Raises a `GrammarError`; never blocks the event loop."""
        return await self.compile_for("", constraint, model)

    async def compile_for(self, tenant: str, constraint: Constraint, model: ServedModel) -> LazyGrammar:
        """Compile as `compile` does, in the turn of `tenant`. Raises `RateLimited` too, where too much of its work
        waits."""
        source = _canonical(constraint)
        key = (f"{model.name}\0{model.version}", blake2b(source, digest_size=32).digest())
        while True:
            found = self._grammars.get(key)
            if found is None:
                found = self._pool.add(tenant, partial(self._compile, constraint, model, len(source)))
                self._grammars.keep(key, found)
            try:
                return await self._pool.wait(found)  # type: ignore[no-any-return]
            except JobAbandoned:  # by others, just before
                continue

    async def warm(self, model: ServedModel) -> None:
        """Prepare the vocabulary of `model` and the compiled loops before the first request."""
        await self.compile(Constraint("json_object"), model)

    async def close(self) -> None:
        self._pool.close()
        await asyncio.to_thread(self._vocabularies.keep)

    async def start(self) -> None:
        """Return at once: vocabularies are prepared with their first grammar, or by `warm`."""

    def _resolved(self, given: Mapping[str, Any]) -> GrammarOptions:
        """Join the options of a request with the operator's. A request may block more than the operator does, never
        less. Raises `InvalidGrammar`."""
        options = {**self._options, **given}
        for name, blocked in self._blocked.items():
            options[name] = [*blocked, *options.get(name, [])]
        return GrammarOptions.from_mapping(options, self._limits)

    def _compile(self, constraint: Constraint, model: ServedModel, source_bytes: int, job: CompileJob) -> LazyGrammar:
        compiler = _KINDS.get(constraint.kind)
        if compiler is None:
            raise InvalidGrammar(f"unknown kind of constraint {constraint.kind!r}; there are {', '.join(_KINDS)}")
        options = self._resolved(constraint.options)
        vocabulary, began = self._vocabularies.of(model), time.perf_counter()
        most_s = 2 * options.limits.cpu_s
        error = GrammarLimit(f"the grammar takes more than {most_s:g} s of CPU time to compile; make it smaller")
        allowance = Allowance(most_s, error, job.pause)
        try:
            with allowed(allowance):
                made = compiler(constraint.value, vocabulary, options)
        finally:
            worked_s = allowance.spent_s()
            job.kept_bytes = source_bytes + int(worked_s * _MADE_A_SECOND)
            self._forgetting.worked(worked_s)
        if worked_s > _QUICK_S:
            found, all_of_it = footprint(made, (made.vocabulary,), _LOOKED_AT)
            job.kept_bytes = found if all_of_it else max(found, job.kept_bytes)
        with self._lock:
            self._compiled += 1
            self._compile_s += time.perf_counter() - began
        return made


_KINDS: dict[str, Callable[[Any, Vocabulary, GrammarOptions], LazyGrammar]] = {
    "json_schema": lambda value, vocabulary, options: compile_json_schema(value, vocabulary, options=options),
    "json_object": lambda value, vocabulary, options: compile_json_object(vocabulary, options=options),
    "text": lambda value, vocabulary, options: compile_text(vocabulary, options=options),
    "regex": lambda value, vocabulary, options: compile_regex(value, vocabulary, options=options),
    "choice": lambda value, vocabulary, options: compile_choices(value, vocabulary, options=options),
    "lark": lambda value, vocabulary, options: compile_lark(value, vocabulary, options=options),
    "structural_tag": lambda value, vocabulary, options: compile_structural_tags(value, vocabulary, options=options),
}


def _canonical(constraint: Constraint) -> bytes:
    """Return what tells one grammar from another. Property order stays, since by default it is part of a schema's
    meaning. Raises `InvalidGrammar` for a constraint that is not JSON."""
    try:
        return json.dumps([constraint.kind, constraint.value, dict(constraint.options)]).encode()
    except (TypeError, ValueError) as error:
        raise InvalidGrammar(f"the constraint is not JSON: {error}") from error
