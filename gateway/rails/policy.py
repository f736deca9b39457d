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

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from sluicegate.plugins import Caller, ConfigurationError, Request
from sluicegate.safety import Conduct, Limits

DEFAULT = "default"
PLAIN = Conduct()
RailSlot = Literal["screen", "moderate"]
SLOTS: tuple[RailSlot, ...] = ("screen", "moderate")
CLAIMS = ("keys", "tenants", "teams", "models", "routes")
CHOICES = {"mode": ("enforce", "shadow", "off"), "failure_mode": ("closed", "open"), "on_block": ("block", "escalate")}
NUMBERS = ("budget_s", "escalate", "block", "pause_s")
TERMS = (*CHOICES, *NUMBERS, "failures_to_open")
Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Policy:
    """`fingerprint` is a digest of all that changes answers; part of every cache key."""

    name: str = DEFAULT
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    conducts: Mapping[str, Mapping[str, Conduct]] = field(default_factory=dict)
    max_hold: int = Limits().max_hold
    fingerprint: str = ""

    def conduct(self, slot: RailSlot, rail: str) -> Conduct:
        rails = self.conducts.get(slot)
        return PLAIN if rails is None else rails.get(rail, PLAIN)

    def claimed_by(self, request: Request, caller: Caller, route: str) -> bool:
        """Whether every list that this policy gives has a pattern (`*` for any run of characters) that fits."""
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

    def of(self, request: Request, caller: Caller, route: str = "") -> Policy:
        return next((p for p in self.claiming if p.claimed_by(request, caller, route)), self.default)


def read_file(path: Path) -> Mapping[str, Any]:
    """A policy file: what stands under `[policies]` elsewhere is at its top."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read the policy file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the policy file {path} is not valid TOML: {error}") from error


def read_policies(tables: Table, rails: Mapping[str, Sequence[str]]) -> Policies:
    """`rails`: the names that `[pipeline]` gives, by slot. Raises `ConfigurationError` naming place and valid names."""
    default = _policy(DEFAULT, _table(tables.get(DEFAULT, {}), f"[policies.{DEFAULT}]"), {}, rails)
    if default.claims:
        raise ConfigurationError(
            f"[policies.{DEFAULT}] holds for every request and claims none; leave out {sorted(default.claims)[0]!r}"
        )
    base = tables.get(DEFAULT, {})
    named = [_policy(name, table, base, rails) for name, table in tables.items() if name != DEFAULT]
    for policy in named:
        if not policy.claims:
            raise ConfigurationError(
                f"[policies.{policy.name}] claims no request; give at least one of {', '.join(CLAIMS)}"
            )
    return Policies(default, tuple(named))


def _policy(name: str, table: Any, base: Table, rails: Mapping[str, Sequence[str]]) -> Policy:
    where = f"[policies.{name}]"
    _known(_table(table, where), (*CLAIMS, *SLOTS, "max_hold"), where)
    terms = {slot: _terms(where, slot, table, base, rails.get(slot, ())) for slot in SLOTS}
    max_hold = table.get("max_hold", base.get("max_hold", Limits().max_hold))
    if not isinstance(max_hold, int) or isinstance(max_hold, bool) or max_hold < 1:
        raise ConfigurationError(f"{where} max_hold must be a whole number of characters above 0, found {max_hold!r}")
    said = json.dumps([terms, max_hold], sort_keys=True)
    return Policy(
        name,
        {kind: _names(where, kind, table[kind]) for kind in CLAIMS if kind in table},
        {slot: {rail: Conduct(**given) for rail, given in found.items()} for slot, found in terms.items()},
        max_hold,
        hashlib.sha256(said.encode()).hexdigest(),
    )


def _terms(where: str, slot: str, table: Table, base: Table, rails: Sequence[str]) -> dict[str, dict[str, Any]]:
    own, below = _table(table.get(slot, {}), f"{where[:-1]}.{slot}]"), _table(base.get(slot, {}), f"[.{slot}]")
    _known(own, rails, f"{where[:-1]}.{slot}]")
    merged: dict[str, dict[str, Any]] = {}
    for rail in rails:
        if rail in own or rail in below:
            place = f"{where[:-1]}.{slot}.{rail}]"
            merged[rail] = {**_table(below.get(rail, {}), place), **_checked(own.get(rail, {}), place)}
            _check_order(merged[rail], place)
    return merged


def _checked(given: Any, where: str) -> Table:
    _known(_table(given, where), TERMS, where)
    for name, value in given.items():
        if name in CHOICES:
            if value not in CHOICES[name]:
                raise ConfigurationError(f"{where} {name} = {value!r} is not one of {', '.join(CHOICES[name])}")
        elif isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ConfigurationError(f"{where} {name} must be a number above 0, found {value!r}")
    if not isinstance(given.get("failures_to_open", 1), int):
        raise ConfigurationError(f"{where} failures_to_open must be a whole number")
    return given  # type: ignore[no-any-return]


def _check_order(terms: Table, where: str) -> None:
    escalate, block = terms.get("escalate"), terms.get("block")
    if escalate is not None and block is not None and escalate > block:
        raise ConfigurationError(f"{where} escalate = {escalate:g} is above block = {block:g}; lower it")


def _names(where: str, kind: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise ConfigurationError(f"{where} {kind} must be a list of at least one string, found {value!r}")
    return tuple(value)


def _table(value: Any, where: str) -> Table:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{where} must be a table, found {value!r}")
    return value


def _known(table: Table, valid: Sequence[str], where: str) -> None:
    for name in table:
        if name not in valid:
            raise ConfigurationError(f"{where} has no {name!r}; valid names: {', '.join(valid) or 'none'}")
