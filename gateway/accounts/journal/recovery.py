"""Read the journal that a killed gateway left; implausible lines are set aside."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.parsing import RESERVED, ImplausibleRow, Line, read_line
from sluicegate.gateway.accounts.records import UsageTable, add_usage
from sluicegate.plugins import ConfigurationError

log = logging.getLogger("sluicegate.accounts")
MAX_LINE = 1 << 16
SET_ASIDE = "set-aside.lines"
"""File beside the segments for lines that cannot be parsed, each after the name of its segment."""


def recovered(segments: Iterable[Path], health: Health | None = None) -> UsageTable:
    """Add up segments, given in order: settled requests as they were, others at their reservation. Raises
    `ConfigurationError` where a segment can neither be read nor set aside."""
    table: UsageTable = {}
    reservations: dict[str, Line] = {}
    for path in segments:
        for line in _parsed_lines(path, health or Health()):
            if line[0] == RESERVED:
                reservations[line[1]] = line
            else:
                reservations.pop(line[1], None)
                add_usage(table, line[2], line[3])
    for line in reservations.values():
        add_usage(table, line[2], line[3])
    if table:
        log.warning(
            "the journal held %d requests of a gateway that was killed", sum(u.requests for u in table.values())
        )
    return table


def _parsed_lines(path: Path, health: Health) -> list[Line]:
    found: list[Line] = []
    strange: list[bytes] = []
    try:
        for raw in _lines(path):
            try:
                found.append(read_line(raw))
            except ImplausibleRow:
                strange.append(raw)
    except OSError as error:
        _set_file_aside(path, error)
        health.set_aside("lines_set_aside", 1, f"{path}.unreadable")
        return found
    if strange:
        _keep_strange(path, strange)
        health.set_aside("lines_set_aside", len(strange), str(path.parent / SET_ASIDE))
    return found


def _lines(path: Path) -> Iterator[bytes]:
    """Yield lines without line ends and blank ones; a line that is too long comes in parts, which do not parse."""
    with path.open("rb") as file:
        while raw := file.readline(MAX_LINE):
            if raw.strip(b"\n\0 "):
                yield raw.rstrip(b"\n")


def _keep_strange(path: Path, lines: list[bytes]) -> None:
    """Copy `lines` aside; where the disk is too full, keep the whole segment under a second name instead."""
    try:
        with os.fdopen(os.open(path.parent / SET_ASIDE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(b"".join(b"%s\t%s\n" % (path.name.encode(), line) for line in lines))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.link(path, path.with_name(f"{path.name}.damaged"))


def _set_file_aside(path: Path, error: OSError) -> None:
    """Rename an unreadable segment, so that it is not deleted with those that were read."""
    try:
        path.rename(path.with_name(f"{path.name}.unreadable"))
    except OSError as second:
        raise ConfigurationError(
            f"the journal's {path} cannot be read ({error.strerror}) nor moved ({second.strerror}); move it elsewhere"
        ) from error
