"""Reading the configuration: one TOML file, then `SLUICEGATE_*` variables, then the command line; frozen once read.

    [server]                                    SLUICEGATE_SERVER__PORT=9000
    port = 8000
    [pipeline]
    moderate = ["blocklist", "pii"]             SLUICEGATE_PIPELINE__MODERATE='["pii"]'
    [stages.moderate.blocklist]
    phrases = ["project nightingale"]

    SLUICEGATE_POLICY_FILE=policies.toml                     a name at the top stands alone
    SLUICEGATE_ACCOUNTS__URL__FILE=/run/secrets/redis-url    the value is the content of a file
    SLUICEGATE_API_KEY_FILE=/run/secrets/api-key

A variable's name is the path with `__` between its parts; its value is read as TOML, or as plain text where it is none.
Every unknown name is an error that lists the valid ones: a misspelt rail must not silently stay off.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ConfigurationError, read_settings

PREFIX = "SLUICEGATE_"
API_KEY, API_KEY_FILE = "SLUICEGATE_API_KEY", "SLUICEGATE_API_KEY_FILE"
FROM_FILE = "__FILE"
_TABLES = frozenset(field.name for field in fields(Settings))


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
    if key := _one_key(environ):
        keys = tree.setdefault("keys", [])
        if isinstance(keys, list):  # else it is refused when it is checked
            tree["keys"] = [*keys, {"id": "environment", "key": key}]
    return tree


def _one_key(environ: Mapping[str, str]) -> str:
    """Return the key that a variable gives besides `[[keys]]`; empty where none is set. Raises `ConfigurationError`,
    for an empty one, too: whoever set it did not mean to serve without a key."""
    found = [name for name in (API_KEY, API_KEY_FILE) if name in environ]
    if len(found) > 1:
        raise ConfigurationError(f"{API_KEY} and {API_KEY_FILE} are both set; the key stands in one place")
    for name in found:
        if not environ[name]:
            raise ConfigurationError(f"{name} is set and empty; give it a value, or unset it")
        return _secret(name, environ[name]) if name == API_KEY_FILE else environ[name]
    return ""


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
    for name in sorted(filter(_names_setting, environ), key=lambda one: one.count("__")):  # tables, then what is inside
        *parents, leaf = _path_of(name)
        node = tree
        for depth, part in enumerate(parents, 1):
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                outer = PREFIX + "__".join(parents[:depth]).replace("-", "_").upper()
                raise ConfigurationError(f"{outer} is a value, and {name} a setting inside it; set one of the two")
        node[leaf] = _secret(name, environ[name]) if name.endswith(FROM_FILE) else _value(name, environ[name])
    return tree


def _names_setting(name: str) -> bool:
    """Return whether a variable is read: it has two underscores between parts of a path, or names a whole table.
    Others that begin alike are no settings; Kubernetes makes some for a service of our name."""
    return name.startswith(PREFIX) and ("__" in name or name[len(PREFIX) :].lower() in _TABLES)


def _path_of(name: str) -> list[str]:
    """Return the tables and the setting that a variable names."""
    path = name[len(PREFIX) :].removesuffix(FROM_FILE).lower()
    if path in _TABLES:
        return [path]
    *parents, leaf = (_dashed(part) for part in path.split("__"))
    return [*parents, leaf if parents[:1] == ["stages"] and len(parents) == 2 else leaf.replace("-", "_")]


def misspelt_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that is not read and would be with two underscores behind its first part."""
    found = []
    for name in environ:
        table = next((one for one in _TABLES if name.startswith(f"{PREFIX}{one.upper()}_")), None)
        if table and not _names_setting(name) and name not in (API_KEY, API_KEY_FILE):
            meant = name.replace(f"{table.upper()}_", f"{table.upper()}__", 1)
            found.append(f"the variable {name} is not read; parts of a path have two underscores between them: {meant}")
    return found


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


def _value(name: str, text: str) -> Any:
    """Read a variable as TOML, or as plain text where it is none. Raises `ConfigurationError` for TOML that no setting
    can be."""
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:  # a number of more digits than Python reads
        raise ConfigurationError(f"{name} is a number of {len(text)} digits, more than any setting takes") from error
    except RecursionError as error:
        raise ConfigurationError(f"{name} has lists or tables within each other too deeply") from error
    return found["value"] if len(found) == 1 else text


def _merge(tree: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, value in over.items():
        if isinstance(value, Mapping) and isinstance(tree.get(name), dict):
            _merge(tree[name], value)
        else:
            tree[name] = dict(value) if isinstance(value, Mapping) else value
