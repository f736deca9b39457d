"""The log on stderr: lines for people, or one JSON object a line for machines."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Literal

LogForm = Literal["text", "json"]
TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
FACTS = "facts"
"""Attribute of a log record, set by `extra={"facts": {...}}`: the message's values by name."""


class JsonFormatter(logging.Formatter):
    """An object on one line, whatever a message holds: `at` (RFC 3339, UTC), `level`, `logger`, `message`, the record's
    facts, and `error` with `type` and `trace` where something was raised."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "at": _rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said = {**getattr(record, FACTS, {}), **said}
        if record.exc_info and record.exc_info[0] is not None:
            said["error"] = {"type": record.exc_info[0].__name__, "trace": self.formatException(record.exc_info)}
        return json.dumps(said, default=str)


def begin_log(level: str, form: LogForm) -> None:
    """Send all logs to stderr from now on. `debug` is about us alone: the libraries below would drown it."""
    wanted = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=max(wanted, logging.INFO), handlers=[handler])
    logging.getLogger("sluicegate").setLevel(wanted)
    # The SDK quotes what MCP servers send, and its client each address.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    # What uvicorn says of its start, we say.
    logging.getLogger("uvicorn.error").setLevel(max(wanted, logging.WARNING))


def _rfc3339(seconds: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1000):03d}Z"
