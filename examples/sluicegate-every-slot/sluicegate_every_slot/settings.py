"""A stage's table, read against its defaults: their names are the valid names, their types the valid types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluicegate.plugins import ConfigurationError


def read(stage: str, table: Mapping[str, Any], **defaults: Any) -> dict[str, Any]:
    """Raises `ConfigurationError` that names the setting and what is expected of it."""
    for name, value in table.items():
        if name not in defaults:
            raise ConfigurationError(
                f"{stage} has no setting {name!r}; valid names: {', '.join(defaults) or 'none, it has no settings'}"
            )
        wanted = type(defaults[name])
        if not isinstance(value, wanted) and not (wanted is float and isinstance(value, int)):
            raise ConfigurationError(f"{stage}: {name} must be a {wanted.__name__}, found {value!r}")
    return {**defaults, **table}
