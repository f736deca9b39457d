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

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ConfigurationError, read_settings

PREFIX = "SLUICEGATE_"


def load(
    path: Path | None = None, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Read, merge and check. Raises `ConfigurationError` that names the place and the valid names."""
    tree = read_tree(path, environ or {})
    _merge(tree, overrides or {})
    return read_settings(Settings, tree, "")


def read_tree(path: Path | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """What file and variables say together, not checked yet. Raises `ConfigurationError` for a file that is no TOML."""
    tree = read_toml(path, "configuration file") if path else {}
    _merge(tree, _from_environment(environ))
    return tree


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Raises `ConfigurationError` that calls the file `what`."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read the {what} {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the {what} {path} is not valid TOML: {error}") from error


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
