"""`sluicegate backup`: copy what a deployment must not lose into a folder, beside running gateways."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from sluicegate.gateway.commands.backup.copying import back_up
from sluicegate.gateway.config import load


def define(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="a new folder for the copy; it holds prompts and answers")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration of the gateways")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    facts = back_up(load(parsed.config, os.environ), os.environ, parsed.folder)
    missed = f"; {facts['files_missed']} files were removed meanwhile" if facts["files_missed"] else ""
    print(f"backed up to {parsed.folder}{missed}")
    return 0
