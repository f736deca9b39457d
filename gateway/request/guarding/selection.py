"""Select the rails of a request by its policy and their health, and record how the output rails did."""

from __future__ import annotations

from collections.abc import Iterator

from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.gateway.rails.policy import Policy, RailSlot
from sluicegate.gateway.rails.states import reads_states, shows_states
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.stages import Stages
from sluicegate.plugins import PermissionDenied, StageFailed
from sluicegate.safety import WindowLimits


def choose_rails(exchange: Exchange, chosen: Policy | None = None) -> None:
    """Set the request's policy, `chosen` or the one that claims it, and its output rails. Raises `StageFailed` for one
    that is out of the way and must not be passed over, before anything is generated; `PermissionDenied` as
    `_check_required`."""
    stages, safety = exchange.stages, exchange.safety
    policy = chosen or stages.policies.of(exchange.request, exchange.caller, exchange.entry.route)
    safety.policy = policy
    _check_required(exchange)
    for slot, name in _names(stages) if any(policy.rail_policies.values()) else ():
        if policy.rail_policy(slot, name).mode == "shadow":
            safety.unenforced.append(f"{slot} {name}: in shadow")
    for name, rail in stages.moderate:
        rail_policy = policy.rail_policy("moderate", name)
        if rail_policy.mode == "off":
            continue
        if stages.rail_health.runs("moderate", name, rail_policy):
            safety.output_rails.append((name, rail))
            if reads_states(rail):
                safety.state_rails.append((name, rail))
        else:
            safety.unenforced.append(f"moderate {name}: failed open")


def limits_of(exchange: Exchange) -> WindowLimits:
    policy = exchange.safety.policy
    return WindowLimits(policy.max_hold, policy.rail_policies.get("moderate", {}))


def settle_states(exchange: Exchange) -> None:
    """Leave out rails that go by states which this model does not show, where they may fail. Raises `StageFailed` for
    one that must act: the answer could not be judged, so none is begun."""
    safety, model = exchange.safety, exchange.served
    if not safety.state_rails or shows_states(model):
        return
    for name, rail in list(safety.state_rails):
        rail_policy = safety.policy.rail_policy("moderate", name)
        if rail_policy.mode == "shadow":
            continue
        if not rail_policy.may_fail:
            raise StageFailed("moderate", name, f"model {model.name!r} has no probes, and its answers must be judged")
        safety.output_rails.remove((name, rail))
        safety.state_rails.remove((name, rail))
        safety.unenforced.append(f"moderate {name}: model {model.name!r} has no probes")


def settle_output_rails(exchange: Exchange, moderation: Moderation, *, in_shadow: bool) -> None:
    """Report to the breakers, after their last piece, which output rails failed, and note it for the answer; of those
    in shadow mode, or of the others."""
    health, failed = exchange.stages.rail_health, set(moderation.failures)
    for name, rail in exchange.safety.output_rails:
        rail_policy = exchange.safety.policy.rail_policy("moderate", name)
        if (rail_policy.mode == "shadow") is not in_shadow:
            continue
        if name not in failed:
            health.succeeded("moderate", name, rail_policy)
            continue
        health.failed_writing(name, rail, rail_policy)
        if rail_policy.failure_mode == "open" and rail_policy.mode == "enforce":
            exchange.safety.unenforced.append(f"moderate {name}: failed open")


def _check_required(exchange: Exchange) -> None:
    """Check that the rails which the key requires act under the policy. Raises `PermissionDenied` where the key is only
    served under rails that the policy keeps from acting."""
    caller, policy = exchange.caller, exchange.safety.policy
    if not caller.rails:
        return
    acting = {name for slot, name in _names(exchange.stages) if policy.rail_policy(slot, name).mode == "enforce"}
    missing = sorted(caller.rails - acting)
    if missing:
        raise PermissionDenied(
            f"key {caller.key_id!r} is only served where {', '.join(missing)} acts, which it does not under policy "
            f"{policy.name!r}"
        )


def _names(stages: Stages) -> Iterator[tuple[RailSlot, str]]:
    """Yield every rail by slot and name."""
    for name, _ in stages.screen:
        yield "screen", name
    for name, _ in stages.moderate:
        yield "moderate", name
