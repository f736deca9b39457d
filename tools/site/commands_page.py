"""The page of the command line: what `--help` prints, for every command and what is below it."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from unittest.mock import patch

from sluicegate.gateway.commands.cli import COMMANDS, CommandParser

HEAD = """# Commands

What `sluicegate COMMAND --help` prints. `--debug`, which every command takes, shows the traceback of what goes wrong;
without it an error is one line. The exit status is 2 where the mistake is in what was given, and 1 where something else
failed.
"""
WIDTH = "100"


def page() -> str:
    with patch.dict("os.environ", COLUMNS=WIDTH):  # argparse looks there for where to break lines
        return "\n".join([HEAD, *(line for name in COMMANDS for line in _command(name))])


def _command(name: str) -> Iterator[str]:
    parser = CommandParser(prog=f"sluicegate {name}", description=COMMANDS[name])
    importlib.import_module(f"sluicegate.gateway.commands.{name}").define(parser)
    yield f"## sluicegate {name}\n"
    yield from _helped(parser)


def _helped(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"```text\n{parser.format_help().strip()}\n```\n"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):  # the only way argparse has to what is below a command
            for name, below in action.choices.items():
                yield f"### {parser.prog} {name}\n"
                yield from _helped(below)
