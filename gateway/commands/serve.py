"""`sluicegate serve`: the gateway, until it is stopped."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from sluicegate.gateway.settings import Settings


def define(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `serve`."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; SLUICEGATE_* variables override it")
    parser.add_argument("--model", help="the bundled model, a folder with a checkpoint, or a hub name")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1; a public one needs an API key)")
    parser.add_argument("--port", type=int, help="port to listen on (default 8000; 0 takes a free one)")
    parser.set_defaults(run=_serve)


def _serve(parsed: argparse.Namespace) -> int:
    from sluicegate.gateway.config import load

    def read() -> Settings:
        return load(parsed.config, os.environ, _overrides(parsed))

    settings = read()  # before the imports that take seconds
    from sluicegate.gateway.server import serve

    return serve(settings, read, debug=hasattr(parsed, "debug"))


def _overrides(parsed: argparse.Namespace) -> dict[str, Any]:
    server = {name: getattr(parsed, name) for name in ("host", "port") if getattr(parsed, name) is not None}
    found: dict[str, Any] = {"server": server} if server else {}
    if parsed.model:
        found["stages"] = {"generate": {"engine": {"models": [parsed.model]}}}
    return found
