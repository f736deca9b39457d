"""The command `sluicegate`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.bench import add_bench
from sluicegate.gateway.commands.cache import add_cache
from sluicegate.gateway.commands.keys import add_keys
from sluicegate.gateway.commands.mask import add_mask
from sluicegate.gateway.commands.plugins import add_plugins
from sluicegate.gateway.commands.redteam import add_redteam
from sluicegate.gateway.commands.size import add_size
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ConfigurationError, PluginError


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, and turn an operator's mistake into one line and exit status 2."""
    parsed = _parser().parse_args(arguments)
    try:
        status = int(parsed.run(parsed))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who read it has enough, as `| head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter says so at its end
        return 1
    except (ConfigurationError, PluginError) as error:
        print(f"sluicegate: {error.message}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sluicegate", description="A structured-output and safety gateway.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="serve the API until stopped")
    _add_settings(serve)
    serve.add_argument("--model", help="the bundled model, a folder with a checkpoint, or a hub name")
    serve.add_argument("--host", help="address to listen on (default 127.0.0.1; a public one needs an API key)")
    serve.add_argument("--port", type=int, help="port to listen on (default 8000; 0 takes a free one)")
    serve.set_defaults(run=_serve)
    demo = commands.add_parser("demo", help="start a gateway, extract from a document, show every step, stop")
    demo.set_defaults(run=_demo)
    add_size(commands)
    add_mask(commands)
    add_bench(commands)
    add_cache(commands)
    add_plugins(commands)
    add_redteam(commands)
    add_keys(commands)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; SLUICEGATE_* variables override it")


def _serve(parsed: argparse.Namespace) -> int:
    from sluicegate.gateway.config import load
    from sluicegate.gateway.server import serve

    def read() -> Settings:
        return load(parsed.config, os.environ, _overrides(parsed))

    return serve(read(), read)


def _overrides(parsed: argparse.Namespace) -> dict[str, Any]:
    server = {name: getattr(parsed, name) for name in ("host", "port") if getattr(parsed, name) is not None}
    found: dict[str, Any] = {"server": server} if server else {}
    if parsed.model:
        found["stages"] = {"generate": {"engine": {"models": [parsed.model]}}}
    return found


def _demo(parsed: argparse.Namespace) -> int:
    from sluicegate.gateway.commands.demo import demo

    return demo()


if __name__ == "__main__":
    sys.exit(main())
