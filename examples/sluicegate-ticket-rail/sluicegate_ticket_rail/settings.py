"""The table `[stages.moderate.tickets]`, checked by hand: a misspelt name must not silently do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sluicegate.plugins import ConfigurationError


@dataclass(frozen=True, slots=True)
class TicketSettings:
    prefixes: tuple[str, ...] = ()
    digits: tuple[int, ...] = (3, 7)
    action: str = "redact"
    replacement: str = "[TICKET]"


def read_settings(table: Mapping[str, Any]) -> TicketSettings:
    """Raises `ConfigurationError` that says what is expected."""
    names = [field.name for field in fields(TicketSettings)]
    for name in table:
        _expect(name in names, f"there is no setting {name!r}; valid names: {', '.join(names)}")
    given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in table.items()}
    found = TicketSettings(**given)
    _expect(_are_keys(found.prefixes), '`prefixes` must be a list of keys of letters and digits, such as ["OPS"]')
    _expect(_are_bounds(found.digits), "`digits` must be the fewest and the most digits of a number, such as [3, 7]")
    _expect(found.action in ("redact", "block"), '`action` must be "redact" or "block"')
    _expect(isinstance(found.replacement, str), "`replacement` must be a text")
    return found


def _are_keys(value: Any) -> bool:
    whole = isinstance(value, tuple) and bool(value)
    return whole and all(isinstance(key, str) and key.isalnum() and key.isascii() for key in value)


def _are_bounds(value: Any) -> bool:
    whole = isinstance(value, tuple) and len(value) == 2 and all(isinstance(digits, int) for digits in value)
    return whole and 1 <= value[0] <= value[1] <= 30


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigurationError(f"tickets: {message}")
