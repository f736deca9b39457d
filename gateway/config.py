"""Reading the configuration: one TOML file, then `SLUICEGATE_*` variables, then the command line; frozen once read.

    [server]                                    SLUICEGATE_SERVER__PORT=9000
    port = 8000
    [pipeline]
    moderate = ["blocklist", "pii"]             SLUICEGATE_PIPELINE__MODERATE='["pii"]'
    [stages.moderate.blocklist]
    phrases = ["project nightingale"]

A variable's name is the path with `__` between its parts; its value is read as TOML, or as plain text where it is none.
Every unknown name is an error that lists the valid ones: a misspelt rail must not silently stay off.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sluicegate.gateway.settings import (
    AccountSettings,
    BatchSettings,
    KeySettings,
    PipelineSettings,
    PromptSettings,
    ReviewSettings,
    RoutingSettings,
    ServerSettings,
    Settings,
    TelemetrySettings,
    WorkSettings,
)
from sluicegate.plugins import SLOTS, ConfigurationError

PREFIX = "SLUICEGATE_"
T = TypeVar("T")


def load(
    path: Path | None = None, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Read, merge and check. Raises `ConfigurationError` that names the place and the valid names."""
    tree = _read(path) if path else {}
    _merge(tree, _from_environment(environ or {}))
    _merge(tree, overrides or {})
    return _build(tree)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or "__" not in name:
            continue
        *parents, leaf = (_dashed(part) for part in name[len(PREFIX) :].lower().split("__"))
        node = tree
        for part in parents:
            node = node.setdefault(part, {})
        node[leaf if parents[:1] == ["stages"] and len(parents) == 2 else leaf.replace("-", "_")] = _value(text)
    if environ.get("SLUICEGATE_API_KEY"):
        tree["keys"] = [{"id": "environment", "key": environ["SLUICEGATE_API_KEY"]}]
    return tree


def _dashed(part: str) -> str:
    """Shells allow no dash in a variable's name; stages have dashes in theirs."""
    return part.replace("_", "-")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _merge(tree: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, value in over.items():
        if isinstance(value, Mapping) and isinstance(tree.get(name), dict):
            _merge(tree[name], value)
        else:
            tree[name] = dict(value) if isinstance(value, Mapping) else value


def _build(tree: Mapping[str, Any]) -> Settings:
    _known(tree, [f.name for f in fields(Settings)], "the configuration")
    keys = tree.get("keys", [])
    if not isinstance(keys, list):
        raise ConfigurationError("[[keys]] must be a list of tables, each with `id` and `sha256` or `key`")
    return Settings(
        server=_table(ServerSettings, tree.get("server", {}), "[server]"),
        pipeline=_table(PipelineSettings, tree.get("pipeline", {}), "[pipeline]"),
        telemetry=_table(TelemetrySettings, tree.get("telemetry", {}), "[telemetry]"),
        keys=tuple(_table(KeySettings, key, "[[keys]]") for key in keys),
        prompts=_prompts(tree.get("prompts", {})),
        work=_table(WorkSettings, tree.get("work", {}), "[work]"),
        routing=_routing(tree.get("routing", {})),
        accounts=_table(AccountSettings, tree.get("accounts", {}), "[accounts]"),
        batches=_table(BatchSettings, tree.get("batches", {}), "[batches]"),
        stages=_stages(tree.get("stages", {})),
        review=_table(ReviewSettings, tree.get("review", {}), "[review]"),
        policies=_mapping(tree.get("policies", {}), "[policies]"),
        policy_file=_checked(tree.get("policy_file", ""), str, "policy_file"),
    )


def _prompts(tree: Any) -> PromptSettings:
    made = _table(PromptSettings, tree, "[prompts]")
    if made.order not in ("edges", "score", "given"):
        raise ConfigurationError(f"[prompts] order must be edges, score or given, found {made.order!r}")
    if made.context_share > 1:
        raise ConfigurationError(f"[prompts] context_share is {made.context_share}; it is a share of 1")
    return made


def _routing(tree: Any) -> RoutingSettings:
    made = _table(RoutingSettings, tree, "[routing]")
    for name, route in made.models.items():
        if route.sticky not in ("user", "tenant", "none"):
            raise ConfigurationError(
                f"[routing.models.{name}] sticky must be user, tenant or none, found {route.sticky!r}"
            )
        if route.shadow_share > 1:
            raise ConfigurationError(
                f"[routing.models.{name}] shadow_share is {route.shadow_share}; it is a share of 1"
            )
    return made


def _stages(tree: Any) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    _known(tree, SLOTS, "[stages]")
    for slot, stages in tree.items():
        for name, settings in _mapping(stages, f"[stages.{slot}]").items():
            _mapping(settings, f"[stages.{slot}.{name}]")
    return tree  # type: ignore[no-any-return]


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{where} must be a table, found {value!r}")
    return value


def _known(tree: Any, valid: Sequence[str], where: str) -> None:
    for name in _mapping(tree, where):
        if name not in valid:
            raise ConfigurationError(f"{where} has no {name!r}; valid names: {', '.join(valid)}")


def _table(kind: type[T], tree: Any, where: str) -> T:
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    _known(tree, names, where)
    hints = get_type_hints(kind)
    checked = {name: _checked(value, hints[name], f"{where} {name}") for name, value in tree.items()}
    try:
        return kind(**checked)
    except TypeError as error:
        raise ConfigurationError(f"{where}: {error}; valid names: {', '.join(names)}") from error


def _checked(value: Any, hint: Any, where: str) -> Any:
    origin = get_origin(hint)
    if origin is UnionType:  # something or None; nothing in a file says None
        return _checked(value, get_args(hint)[0], where)
    if origin is Mapping:
        kind = get_args(hint)[1]
        return {name: _checked(one, kind, f"{where} {name!r}") for name, one in _mapping(value, where).items()}
    if hint is Any:
        return value
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, str) for v in value):
            raise ConfigurationError(f"{where} must be a list of strings, found {value!r}")
        return tuple(value)
    if is_dataclass(hint) and isinstance(hint, type):
        return _table(hint, value, where)
    return _number_or_text(value, hint, where)


def _number_or_text(value: Any, hint: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023:
        value = float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigurationError(f"{where} must be {hint.__name__}, found {value!r}")
    if isinstance(value, int | float) and not 0 <= value < math.inf:
        raise ConfigurationError(f"{where} is {value!r}; it must not be negative, and must be a number")
    return value
