"""`sluicegate restore`: put a backup where the configuration keeps things; no gateway runs meanwhile."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from sluicegate.gateway.commands.backup import restore
from sluicegate.gateway.config import load


def define(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="what `sluicegate backup` wrote")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration of the gateways")
    parser.add_argument("--replace", action="store_true", help="remove what is there now")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    counts = restore(load(parsed.config, os.environ), os.environ, parsed.folder, replace=parsed.replace)
    for name, count in sorted(counts.items()):
        print(f"{count:>8}  {name}")
    return 0
