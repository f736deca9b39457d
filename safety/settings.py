"""Reading a stage's settings: every key is known, every value has its type, and a message lists what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate.plugins.errors import ConfigurationError

ACTIONS = ("redact", "escalate", "block")
ROLES = ("system", "developer", "user", "assistant", "tool")


def check_keys(stage: str, settings: Mapping[str, Any], known: Iterable[str]) -> None:
    valid = sorted(known)
    for key in settings:
        if key not in valid:
            raise ConfigurationError(f"{stage}: there is no setting {key!r}; valid settings: {', '.join(valid)}")


def one_of(stage: str, key: str, value: Any, valid: Iterable[str]) -> str:
    if value not in tuple(valid):
        raise ConfigurationError(f"{stage}: {key} = {value!r} is not one of {', '.join(valid)}")
    return str(value)


def some_of(stage: str, key: str, value: Any, valid: Iterable[str]) -> tuple[str, ...]:
    return tuple(one_of(stage, key, item, valid) for item in strings(stage, key, value))


def strings(stage: str, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(f"{stage}: {key} must be a list of strings, found {value!r}")
    return tuple(value)


def text(stage: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{stage}: {key} must be a string, found {value!r}")
    return value


def flag(stage: str, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{stage}: {key} must be true or false, found {value!r}")
    return value


def table(stage: str, key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{stage}: {key} must be a table, found {value!r}")
    return value
