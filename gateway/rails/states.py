"""Rails that read the model's hidden states, and the models whose probes they need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sluicegate.gateway.rails.policy import Policy
from sluicegate.plugins import Channel, ConfigurationError, Generator, ProbedModel, ServedModel, shows
from sluicegate.safety import CascadeJudge, JudgeRail, ProbeAnswerJudge


def reads_states(rail: object) -> bool:
    return isinstance(rail, JudgeRail) and rail.reads_states


def shows_states(model: ServedModel) -> bool:
    return shows(model, ProbedModel) and bool(model.probe_labels)


def any_enforced(rails: Iterable[tuple[str, object]], policy: Policy) -> bool:
    """Return whether one of the rails acts under the policy."""
    return any(policy.rail_policy("moderate", name).mode == "enforce" for name, _ in rails)


def holds_texts(rails: Iterable[tuple[str, object]], policy: Policy, channels: Collection[Channel]) -> bool:
    """Return whether one of the rails holds texts of all `channels` to the end of their sentences, under the policy."""
    acting = [rail for name, rail in rails if policy.rail_policy("moderate", name).mode == "enforce"]
    return any(isinstance(rail, JudgeRail) and rail.properties.channels.issuperset(channels) for rail in acting)


def check_probes(rails: Iterable[tuple[str, object]], generator: Generator) -> None:
    """Raise `ConfigurationError` for a rail that no served model has probes for, or that names a label no probe has."""
    known: set[str] = set()
    for model in generator.models.values():
        known.update(model.probe_labels if isinstance(model, ProbedModel) else ())
    for name, rail in rails:
        if not isinstance(rail, JudgeRail) or not reads_states(rail):
            continue
        if not known:
            raise ConfigurationError(
                f"moderate.{name}: no model that this gateway serves has probes; train one with `sluicegate probe "
                "train` and name it in `probes` of the model in [stages.generate.engine] models"
            )
        if missing := [label for label in _labels(rail) if label not in known]:
            found = ", ".join(sorted(known))
            raise ConfigurationError(f"moderate.{name}: labels name {missing[0]!r}, which no probe has; found: {found}")


def _labels(rail: JudgeRail) -> Sequence[str]:
    judge = rail.judge.first if isinstance(rail.judge, CascadeJudge) else rail.judge
    return judge.labels if isinstance(judge, ProbeAnswerJudge) else ()
