"""Policies: which rails act on which requests, and how strictly. Tables by name, in the configuration or a file.

    [policies.default.screen.injection]      # holds for every request, below what a claiming policy says
    mode = "shadow"

    [policies.strict]                        # claims a request where each list that is given names its caller or aim
    keys = ["billing"]                       # also: tenants, teams, models (as asked for), routes (paths of the API)
    max_hold = 4096
    [policies.strict.screen.injection]
    mode = "enforce"
    block = 0.7

A rail that `[pipeline]` names runs under every policy unless that says `mode = "off"`: leaving one out is never a slip.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from sluicegate.gateway.config import read_toml
from sluicegate.plugins import Caller, ConfigurationError, Request, check_names, read_settings, wrong_value
from sluicegate.plugins.settings import Count
from sluicegate.safety import RailPolicy, WindowLimits

DEFAULT = "default"
PLAIN = RailPolicy()
RailSlot = Literal["screen", "moderate"]
SLOTS: tuple[RailSlot, ...] = ("screen", "moderate")
CLAIMS = ("keys", "tenants", "teams", "models", "routes")
RailTables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """One table of `[policies]`. A list that is given must fit: its patterns have `*` for any run of characters."""

    keys: tuple[str, ...] | None = None
    """Ids of keys that the policy applies to."""
    tenants: tuple[str, ...] | None = None
    """Tenants that it applies to."""
    teams: tuple[str, ...] | None = None
    """Teams that it applies to."""
    models: tuple[str, ...] | None = None
    """Models that it applies to, by the name in the request."""
    routes: tuple[str, ...] | None = None
    """Paths of the API that it applies to."""
    screen: RailTables = field(default_factory=dict)
    """How input rails act, by name."""
    moderate: RailTables = field(default_factory=dict)
    """How output rails act, by name."""
    max_hold: Count | None = None
    """Characters of an answer that may be held before it is blocked; none = 8192."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`fingerprint` is a digest of all that changes answers; part of every cache key."""

    name: str = DEFAULT
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rail_policies: Mapping[str, Mapping[str, RailPolicy]] = field(default_factory=dict)
    max_hold: int = WindowLimits().max_hold
    fingerprint: str = ""

    def rail_policy(self, slot: RailSlot, rail: str) -> RailPolicy:
        rails = self.rail_policies.get(slot)
        return PLAIN if rails is None else rails.get(rail, PLAIN)

    def claimed_by(self, request: Request, caller: Caller, route: str) -> bool:
        """Return whether every list that this policy gives has a pattern (`*` for any run of characters) that fits."""
        said = {
            "keys": caller.key_id,
            "tenants": caller.tenant,
            "teams": caller.team,
            "models": request.model,
            "routes": route,
        }
        return all(any(fnmatchcase(said[kind] or "", name) for name in names) for kind, names in self.claims.items())


@dataclass(frozen=True, slots=True)
class Policies:
    """`claiming` in the order of the file: the first that claims a request has it."""

    default: Policy = Policy()
    claiming: tuple[Policy, ...] = ()

    def named(self, name: str) -> Policy | None:
        return next((policy for policy in (self.default, *self.claiming) if policy.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.default.name, *(policy.name for policy in self.claiming))

    def of(self, request: Request, caller: Caller, route: str = "") -> Policy:
        for policy in self.claiming:
            if policy.claimed_by(request, caller, route):
                return policy
        return self.default


def read_file(path: Path) -> Mapping[str, Any]:
    """Read a policy file. What stands under `[policies]` elsewhere is at its top."""
    return read_toml(path, "policy file")


def read_policies(tables: Mapping[str, Any], rails: Mapping[str, Sequence[str]]) -> Policies:
    """Read the policies. `rails` holds the names that `[pipeline]` gives, by slot. Raises `ConfigurationError` naming
    place and valid names."""
    base = read_settings(PolicySettings, tables.get(DEFAULT, {}), f"policies.{DEFAULT}")
    default = _policy(DEFAULT, base, PolicySettings(), rails)
    if default.claims:
        raise ConfigurationError(
            f"[policies.{DEFAULT}] holds for every request and claims none; leave out {min(default.claims)!r}"
        )
    named = []
    for name in tables:
        if name != DEFAULT:
            own = read_settings(PolicySettings, tables[name], f"policies.{name}")
            named.append(_policy(name, own, base, rails))
            if not named[-1].claims:
                raise ConfigurationError(
                    f"[policies.{name}] claims no request; give at least one of {', '.join(CLAIMS)}"
                )
    return Policies(default, tuple(named))


def _policy(name: str, own: PolicySettings, base: PolicySettings, rails: Mapping[str, Sequence[str]]) -> Policy:
    where = f"policies.{name}"
    claims = {kind: patterns for kind in CLAIMS if (patterns := getattr(own, kind)) is not None}
    if empty := [kind for kind, patterns in claims.items() if not patterns]:
        raise wrong_value(where, empty[0], "a list of at least one string", [])
    rail_policies: Mapping[str, Mapping[str, RailPolicy]] = {
        slot: _rail_policies(f"{where}.{slot}", getattr(own, slot), getattr(base, slot), rails.get(slot, ()))
        for slot in SLOTS
    }
    max_hold = own.max_hold or base.max_hold or WindowLimits().max_hold
    said = json.dumps([rail_policies, max_hold], sort_keys=True, default=dataclasses.asdict)
    return Policy(name, claims, rail_policies, max_hold, hashlib.sha256(said.encode()).hexdigest())


def _rail_policies(where: str, own: RailTables, below: RailTables, rails: Sequence[str]) -> dict[str, RailPolicy]:
    """Return what a policy says of the rails of one slot, over what holds for every request."""
    check_names(own, rails, where)
    return {
        rail: read_settings(RailPolicy, {**below.get(rail, {}), **own.get(rail, {})}, f"{where}.{rail}")
        for rail in rails
        if rail in own or rail in below
    }
