"""The command `sluicegate`. Only the command that is asked for is imported: `--help` and `--version` need none."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence

from sluicegate import __version__
from sluicegate.plugins.errors import ConfigurationError, ModelLoadError, PluginError, SluicegateError

COMMANDS: Mapping[str, str] = {
    "serve": "serve the API until stopped",
    "demo": "start a gateway, extract from a document, show every step, stop",
    "warm": "compile now, and keep, what a first start would compile",
    "deploy": "serve on a cluster: Ray Serve",
    "config": "check a configuration without serving it",
    "keys": "API keys of the store: create, list, revoke, rotate, usage",
    "backup": "copy what a deployment must not lose into a folder",
    "restore": "put a backup where the configuration keeps things",
    "audit": "check the log of who changed what",
    "plugins": "list, check and begin plug-ins",
    "cache": "look at, or withdraw, the answers that a running gateway keeps",
    "bench": "measure a running gateway: latencies, throughput, goodput",
    "eval": "ask a running gateway cases with known answers; compare two versions",
    "replay": "ask recorded requests again: another model, version or policy",
    "redteam": "run attack and harmless texts against a running gateway",
    "safety": "learn from reported false alarms and misses; go back",
    "probe": "train and judge probes on a model's hidden states",
    "lint": "say what makes a model do better with a schema",
    "mask": "show why a mask takes as long as it does",
    "size": "what a model needs, what it fits on, and how fast it can be at best",
}
"""Name -> description. The module of that name beside this one has `define`, which adds the arguments."""
MISTAKE = 2
"""Exit status of errors that the operator can correct; 1 = any other failure."""
INTERRUPTED = 130
COLLECT_AFTER = (50_000, 20, 5)
"""Thresholds of the garbage collector during imports, which create hundreds of thousands of objects and hardly any
garbage: searching them took an eighth of a start."""


class CommandParser(argparse.ArgumentParser):
    """One of ours, at every level: `--debug` is taken wherever it stands."""

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        text = "show the traceback of what goes wrong"
        self.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, and turn whatever goes wrong into one line and an exit status; a traceback needs `--debug`."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    gc.set_threshold(*COLLECT_AFTER)
    parsed = _parser(given).parse_args(given)
    try:
        status = int(parsed.run(parsed))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who read it has enough, as `| head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter says so at its end
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if hasattr(parsed, "debug"):
            traceback.print_exc()
        print(f"sluicegate: {error_line(error)}", file=sys.stderr)
        return MISTAKE if isinstance(error, ConfigurationError | PluginError | ModelLoadError) else 1


def error_line(error: Exception) -> str:
    """Say what went wrong on one line."""
    if isinstance(error, SluicegateError):
        return " ".join(error.message.split())
    words = " ".join(str(error).split())
    return f"stopped by {type(error).__name__}: {words or 'no reason given'}; --debug shows where"


def _parser(arguments: Sequence[str]) -> CommandParser:
    parser = CommandParser(prog="sluicegate", description="A structured-output and safety gateway.")
    parser.add_argument("--version", action="version", version=f"sluicegate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    asked = next((word for word in arguments if not word.startswith("-")), "")
    for name, help in COMMANDS.items():
        command = commands.add_parser(name, help=help)
        if name == asked:
            importlib.import_module(f"sluicegate.gateway.commands.{name}").define(command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
