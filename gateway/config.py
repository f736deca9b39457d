"""Configuration: one TOML file, then `SLUICEGATE_*` variables, then the command line; frozen once read.

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

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from plugins import SLOTS, ConfigurationError

PREFIX = "SLUICEGATE_"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str = "127.0.0.1"
    port: int = 8000
    max_body_bytes: int = 8 * 1024 * 1024
    heartbeat_s: float = 15.0
    """A comment line is sent on a stream that was silent for so long, so that proxies keep it open."""
    drain_s: float = 10.0
    """How long open requests may go on after SIGTERM."""
    log_level: str = "info"


@dataclass(frozen=True, slots=True)
class KeySettings:
    """One API key; exactly one of `sha256` (hex of the key's UTF-8 bytes) and `key` is set."""

    id: str
    sha256: str = ""
    key: str = field(default="", repr=False)
    tenant: str = ""
    team: str = ""
    scopes: tuple[str, ...] = ()
    """`admin` opens everything under `/admin`."""
    models: tuple[str, ...] = ()
    """Models this key may ask; none named = all."""
    tools: tuple[str, ...] = ()
    """Tools this key may let a model call; none named = all."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Which stages run in each slot, in order."""

    admit: tuple[str, ...] = ("api-keys",)
    screen: tuple[str, ...] = ("secrets",)
    route: tuple[str, ...] = ("by-name",)
    assemble: tuple[str, ...] = ("chat-template",)
    recall: tuple[str, ...] = ("memory",)
    constrain: tuple[str, ...] = ("grammar",)
    generate: tuple[str, ...] = ("engine",)
    moderate: tuple[str, ...] = ("secrets",)
    record: tuple[str, ...] = ("metrics", "log")


@dataclass(frozen=True, slots=True)
class Settings:
    server: ServerSettings = ServerSettings()
    pipeline: PipelineSettings = PipelineSettings()
    keys: tuple[KeySettings, ...] = ()
    stages: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Settings of stages by slot and name; each stage checks its own."""

    def of_stage(self, slot: str, name: str) -> Mapping[str, Any]:
        return self.stages.get(slot, {}).get(name, {})


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
        keys=tuple(_table(KeySettings, key, "[[keys]]") for key in keys),
        stages=_stages(tree.get("stages", {})),
    )


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
    if get_args(hint):  # tuple[str, ...]
        if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, str) for v in value):
            raise ConfigurationError(f"{where} must be a list of strings, found {value!r}")
        return tuple(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigurationError(f"{where} must be {hint.__name__}, found {value!r}")
    return value
