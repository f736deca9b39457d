"""Find settings that name models which this gateway does not serve, and budgets of which models without a price take
nothing: both are usually typing mistakes, and neither shows in any answer.

Not covered: stages of slot `generate` that plug-ins bring, whose models are not known before they start; with one of
them nothing is said. Nor models that operators add while the gateway runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sluicegate.engine.encoders.settings import EncoderSettings
from sluicegate.engine.settings import EngineSettings
from sluicegate.gateway.settings import RouteSettings, Settings
from sluicegate.gateway.settings.accounts import Limits
from sluicegate.gateway.upstream.settings import STAGE, UpstreamSettings
from sluicegate.plugins import read_settings

UNSERVED = "which no stage of [pipeline] generate serves"
GUARDS = ("guard", "token-guard")
OTHER_MODELS, MCP = "*", "mcp/"
"""What a price may be of besides a model."""


@dataclass(slots=True)
class ServedNames:
    """Names of models that a configuration serves, and their aliases."""

    models: set[str] = field(default_factory=set)
    aliases: set[str] = field(default_factory=set)

    @property
    def priced_as(self) -> dict[str, tuple[str, ...]]:
        """Return the names under which each model may have a price: a version `model@v2` also under `model`."""
        return {model: (model, model.partition("@")[0]) for model in self.models}


def idle_models(settings: Settings) -> list[str]:
    """Return a sentence for each model that is named and not served, and for each budget that a model without a price
    takes nothing of. Raises `ConfigurationError`."""
    served = _served(settings)
    if served is None:
        return []
    known = served.models | served.aliases | set(settings.routing.models)
    prices = {name for names in served.priced_as.values() for name in names}
    named = (*_routes(settings), *_claims(settings))
    unserved = [(place, model) for place, model in named if model not in known]
    unserved += [(place, model) for place, model in _judges(settings) if model not in served.models]
    unserved += [("[accounts.prices]", name) for name in _models_priced(settings) if name not in prices]
    found = [f"{place} names the model {model!r}, {UNSERVED}" for place, model in unserved]
    return [*found, *(f"{who}: {text}" for who, limits in _limited(settings) for text in idle_budget(limits, settings))]


def idle_budget(limits: Limits, settings: Settings) -> list[str]:
    """Return a sentence where `limits` has a budget that some model takes nothing of, since it has no price."""
    served, prices = _served(settings), settings.accounts.prices
    if served is None or OTHER_MODELS in prices or {limits.budget_day, limits.budget_month, limits.run_cost} == {None}:
        return []
    free = sorted(model for model, names in served.priced_as.items() if not any(name in prices for name in names))
    if not free:
        return []
    answers = f"{', '.join(free)} answer{'s' * (len(free) == 1)}"
    return [
        f"its budget holds nothing of what {answers}: [accounts.prices] names no price; set one, 0 where that is free"
    ]


def _served(settings: Settings) -> ServedNames | None:
    """Return the names of all configured models; None where a stage of a plug-in has models of its own."""
    found = ServedNames()
    for stage in settings.pipeline.generate:
        table = settings.of_stage("generate", stage)
        if stage == "upstream":
            found.models |= set(read_settings(UpstreamSettings, table, STAGE).models)
        elif stage == "engine":
            for model in EngineSettings.of(table).models:
                found.models.add(model.served_name)
                found.aliases |= set(model.other_names)
        elif stage == "encoders":
            for encoder in EncoderSettings.of(table).models:
                found.models.add(encoder.served_name)
                found.aliases |= set(encoder.aliases)
        else:
            return None
    return found


def _routes(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (place, model) of all models that routes and queues name."""
    for name, route in settings.routing.models.items():
        place = f"[routing.models.{name}]"
        yield from ((f"{place} {what}", model) for what, model in _of_route(route))
    for name in settings.routing.queues:
        yield "[routing.queues]", name


def _of_route(route: RouteSettings) -> Iterator[tuple[str, str]]:
    yield from (("weights", model) for model in route.weights)
    yield from (("fallback", model) for model in route.fallback)
    if route.shadow:
        yield "shadow", route.shadow
    if route.rollout is not None:
        yield from (("rollout", model) for model in (route.rollout.canary, route.rollout.baseline))
        if route.rollout.judge:
            yield "rollout", route.rollout.judge


def _claims(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (place, model) of all models that keys and policies name, without patterns."""
    for key in settings.keys:
        yield from ((f"key {key.id!r}", model) for model in key.models or ())
    for name, policy in settings.policies.items():
        models = policy.get("models") if isinstance(policy, Mapping) else None
        yield from ((f"[policies.{name}] models", one) for one in models or () if "*" not in str(one))


def _judges(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (place, model) of the models that judge answers; a start refuses one that is not served."""
    for stage in settings.pipeline.moderate:
        table = settings.of_stage("moderate", stage)
        guard = table.get("guard") if stage == "cascade" else table if stage in GUARDS else None
        if isinstance(guard, Mapping) and "model" in guard:
            yield f"[stages.moderate.{stage}]", str(guard["model"])


def _models_priced(settings: Settings) -> list[str]:
    return [name for name in settings.accounts.prices if name != OTHER_MODELS and not name.startswith(MCP)]


def _limited(settings: Settings) -> Iterable[tuple[str, Limits]]:
    teams: Mapping[str, Limits] = settings.accounts.teams
    yield from ((f"key {key.id!r}", key.limits) for key in settings.keys)
    yield from ((f"team {name!r}", limits) for name, limits in teams.items())
