"""Reading the configuration: one TOML file, then `SLUICEGATE_*` variables, then the command line; frozen once read.

    [server]                                    SLUICEGATE_SERVER__PORT=9000
    port = 8000
    [pipeline]
    moderate = ["blocklist", "pii"]             SLUICEGATE_PIPELINE__MODERATE='["pii"]'
    [stages.moderate.blocklist]
    phrases = ["project nightingale"]

    SLUICEGATE_ACCOUNTS__URL__FILE=/run/secrets/redis-url    the value is the content of a file
    SLUICEGATE_API_KEY_FILE=/run/secrets/api-key

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
API_KEY, API_KEY_FILE = "SLUICEGATE_API_KEY", "SLUICEGATE_API_KEY_FILE"
FROM_FILE = "__FILE"


def load(
    path: Path | None = None, environ: Mapping[str, str] | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Read, merge and check. Raises `ConfigurationError` that names the place and the valid names."""
    tree = read_tree(path, environ or {})
    _merge(tree, overrides or {})
    return read_settings(Settings, tree, "")


def read_tree(path: Path | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what file and variables say together, not checked yet. Raises `ConfigurationError` for a file that is not
    TOML."""
    tree = read_toml(path, "configuration file") if path else {}
    _merge(tree, _from_environment(environ))
    return tree


def is_empty(path: Path | None) -> bool:
    """Return whether there is no configuration file, or it holds no setting. Raises `ConfigurationError`."""
    return path is None or not read_toml(path, "configuration file")


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read a TOML file. Raises `ConfigurationError` that calls the file `what`."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))  # some editors begin a file with a mark
    except OSError as error:
        raise ConfigurationError(f"cannot read the {what} {path}: {error.strerror}") from error
    except ValueError as error:  # not TOML, not UTF-8, or a number of more digits than Python reads
        raise ConfigurationError(f"the {what} {path} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"the {what} {path} has lists or tables within each other too deeply") from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or "__" not in name:
            continue
        path = name[len(PREFIX) :].removesuffix(FROM_FILE)
        *parents, leaf = (_dashed(part) for part in path.lower().split("__"))
        node = tree
        for part in parents:
            node = node.setdefault(part, {})
        node[leaf if parents[:1] == ["stages"] and len(parents) == 2 else leaf.replace("-", "_")] = (
            _secret(name, text) if name.endswith(FROM_FILE) else _value(text)
        )
    if key := environ.get(API_KEY) or (environ.get(API_KEY_FILE) and _secret(API_KEY_FILE, environ[API_KEY_FILE])):
        tree["keys"] = [{"id": "environment", "key": key}]
    return tree


def secret_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the files that variables name as places of values."""
    named = (name == API_KEY_FILE or (name.startswith(PREFIX) and name.endswith(FROM_FILE)) for name in environ)
    return [Path(text) for text, wanted in zip(environ.values(), named, strict=True) if wanted]


def _secret(name: str, path: str) -> str:
    """Return what the file holds, as text, without the line's end that editors and shells add. Raises
    `ConfigurationError`."""
    try:
        found = Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{name} names the file {path!r}, which cannot be read: {reason}") from error
    if not found:
        raise ConfigurationError(f"{name} names the file {path!r}, which is empty")
    return found


def _dashed(part: str) -> str:
    """Replace underscores with dashes. Shells allow no dash in a variable's name; stages have dashes in theirs."""
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
