"""Combine several generators: each job goes to the one that serves its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sluicegate.gateway.rails.stage_calls import Unfinished, begun, is_ours
from sluicegate.gateway.request.plugin_generation import PluginGeneration, in_time
from sluicegate.plugins import (
    Capacity,
    CapacityReporter,
    ConfigurationError,
    Embeddings,
    Generation,
    Generator,
    HealthReporter,
    Job,
    Load,
    LoadReporter,
    ModelHost,
    NotFound,
    RequestError,
    Scores,
    ServedModel,
    ServerHealth,
    TextEmbedder,
    TextScorer,
    TokenGuardHost,
    TokenReading,
    offers,
)


async def generation_of(name: str, generator: Generator, job: Job) -> Generation:
    """Return the generation that the generator `name` makes for `job`; a plug-in's is contained. Raises what
    `generate` raises, and `StageMisbehaved` for what is no generation."""
    if is_ours(generator):
        return await generator.generate(job)
    made = begun(partial(generator.generate, job))
    if isinstance(made, Unfinished):
        made = await in_time(job.deadline_s, made, "generate()", name)
    return PluginGeneration(name, made, job)


class Generators:
    """A `Generator` over `parts`; a model belongs to the first part that serves it. Optional Protocols are delegated to
    that part."""

    def __init__(self, parts: Sequence[tuple[str, Generator]]) -> None:
        self._parts = list(parts)

    @property
    def models(self) -> Mapping[str, ServedModel]:
        found: dict[str, ServedModel] = {}
        for _, part in self._parts:
            for name, model in part.models.items():
                found.setdefault(name, model)
        return found

    async def generate(self, job: Job) -> Generation:
        return await generation_of(*self._named_part_of(job.model), job)

    def part_of(self, model: str) -> Generator:
        """Return the generator that serves `model`. Raises `NotFound`."""
        return self._named_part_of(model)[1]

    def _named_part_of(self, model: str) -> tuple[str, Generator]:
        for name, part in self._parts:
            if model in part.models:
                return name, part
        raise NotFound(f"there is no model {model!r} here; served: {', '.join(sorted(self.models))}", param="model")

    def stats(self) -> Mapping[str, float]:
        """Add up the numbers of all parts; a ratio is that of the fullest."""
        found: dict[str, float] = {}
        for _, part in self._parts:
            for name, value in part.stats().items():
                found[name] = max(found.get(name, 0.0), value) if name.endswith("ratio") else found.get(name, 0) + value
        return found

    def load(self, model: str | None = None) -> Load:
        part = self.part_of(model or next(iter(self.models)))
        return part.load(model) if isinstance(part, LoadReporter) else Load(0, 0, 0, 0, 0.0)

    def health(self, model: str) -> Sequence[ServerHealth]:
        part = self.part_of(model)
        return part.health(model) if offers(part, HealthReporter) else ()

    def capacity(self) -> Capacity:
        """Return the capacity of the first part that reports one. Models on other servers are not counted: those
        servers report their own."""
        found = [part.capacity() for _, part in self._parts if offers(part, CapacityReporter)]
        return found[0] if found else Capacity(0, 0)

    async def embed(self, texts: Sequence[str | Sequence[int]], *, model: str | None = None) -> Embeddings:
        for _, part in self._parts:
            if isinstance(part, TextEmbedder) and (model is None or model in part.models):
                return await part.embed(texts, model=model)
        raise _unable(model, "embeds texts")

    async def score(self, query: str, texts: Sequence[str], *, model: str | None = None) -> Scores:
        for _, part in self._parts:
            if isinstance(part, TextScorer) and (model is None or model in part.models):
                return await part.score(query, texts, model=model)
        raise _unable(model, "scores texts")

    def open_reading(self, model: str, tenant: str) -> TokenReading:
        part = self.part_of(model)
        if not offers(part, TokenGuardHost):
            raise RequestError(f"model {model!r} has no heads that judge tokens", param="model")
        return part.open_reading(model, tenant)

    async def add_model(self, settings: Any, *, replace: bool = False) -> ServedModel:
        """Pass settings with a `url` to the generator that asks other servers, all others to the engine."""
        wanted = "upstream" if isinstance(settings, Mapping) and "url" in settings else "engine"
        for name, part in self._parts:
            if name == wanted and isinstance(part, ModelHost):
                return await part.add_model(settings, replace=replace)
        raise ConfigurationError(f"no generator {wanted!r} runs here that takes models; see [pipeline] generate")

    async def remove_model(self, name: str, *, drain_s: float | None = None) -> None:
        part = self.part_of(name)
        if not isinstance(part, ModelHost):
            raise RequestError(f"the generator of model {name!r} cannot let it go", param="model")
        await part.remove_model(name, drain_s=drain_s)


def _unable(model: str | None, what: str) -> RequestError:
    """Say that `model` cannot do what another one that is served may well do. None: no model can."""
    who = "no model that is served here" if model is None else f"model {model!r} is none that"
    return RequestError(f"{who} {what}; name another one", param="model", code="unsupported_model")
