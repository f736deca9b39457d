"""`sluicegate safety tune`: move where the shipped classifier rings, by reported false alarms and misses."""

from __future__ import annotations

import argparse
import functools
import getpass
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.redteam import RedteamRow, rows_of
from sluicegate.gateway.commands.tables import table
from sluicegate.plugins.errors import ConfigurationError

NOTES = """\
DATA are sets to hold against (JSON lines or .gz of `text`, `label`, perhaps `category`). Only --apply changes.
Let the gateway read FOLDER/current.npz: `weights` of [stages.screen.injection], `.harm` and [stages.moderate.harm]; a
reload (POST /admin/reload) takes a new version."""


def define(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `safety`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    tune = actions.add_parser("tune", help="propose where a head rings, and show what that changes", epilog=NOTES)
    tune.add_argument("data", nargs="*", type=Path, metavar="DATA", help="sets that must not get worse, one a file")
    tune.add_argument("--head", choices=("injection", "document", "harm"), default="injection")
    tune.add_argument(
        "--by", choices=("midpoint", "words"), default="midpoint", help="what moves: where the head rings, or its words"
    )
    tune.add_argument("--regressions", type=Path, help="reported texts as a file, beside those kept in FOLDER")
    tune.add_argument("--url", default="", help="of a gateway whose reports are fetched, and kept in FOLDER")
    tune.add_argument("--key", default=os.environ.get("SLUICEGATE_API_KEY", ""), help="API key ($SLUICEGATE_API_KEY)")
    tune.add_argument("--false-alarms", type=float, default=0.01, help="most of each harmless set (0.01)")
    tune.add_argument("--may-lose", type=float, default=0.02, help="most recall that a set of attacks may lose (0.02)")
    tune.add_argument("--apply", action="store_true", help="write the proposal as a new version and use it")
    tune.add_argument("--json", action="store_true", help="print one JSON object")
    _shared(tune, _tune)
    _shared(actions.add_parser("versions", help="list what was applied"), _versions)
    back = actions.add_parser("back", help="use the version before the current one again")
    back.add_argument("--from", type=int, dest="base", metavar="VERSION", help="only if this version is current")
    _shared(back, _back)


def _shared(action: argparse.ArgumentParser, run: Any) -> None:
    action.add_argument("--folder", type=Path, required=True, help="where reports and versions are kept")
    action.add_argument("--config", type=Path, metavar="FILE", help="TOML file that names [audit] path")
    action.set_defaults(run=run)


def _tune(parsed: argparse.Namespace) -> int:
    from sluicegate.gateway.commands.safety.tuning import proposal, refit
    from sluicegate.gateway.commands.safety.versions import VersionFolder, reports_of

    if not 0 <= parsed.false_alarms < 1 or not 0 <= parsed.may_lose <= 1:
        raise ConfigurationError("--false-alarms and --may-lose are shares from 0 to 1")
    folder = VersionFolder(parsed.folder)
    reports = reports_of(folder, parsed.regressions, parsed.url, parsed.key)
    sets = [replace(row, category=path.name.partition(".")[0]) for path in parsed.data for row in rows_of(path)]
    base = folder.number()
    propose = refit if parsed.by == "words" else proposal
    found = propose(folder.weights(), parsed.head, reports, sets, parsed.false_alarms, parsed.may_lose)
    print(json.dumps(found.as_json()) if parsed.json else found.as_text())
    if parsed.apply and found.shift:
        _check_held(found.shift, sets, by_words=parsed.by == "words")
        change = functools.partial(folder.add, found.weights, found.as_json(), base)
        number = _audited(parsed, "safety.tune", change, head=parsed.head)
        if not parsed.json:
            print(f"version {number} is current: {folder.current}; reload the gateway to use it")
    return 0


def _check_held(shift: float, sets: Sequence[RedteamRow], *, by_words: bool) -> None:
    """Raise `ConfigurationError` where no set holds a change back: then reports alone, which anybody may send, would
    decide."""
    needed = {"attacks": True, "harmless texts": False}
    for kind, harmful in needed.items():
        if (by_words or harmful is (shift < 0)) and not any(row.harmful is harmful for row in sets):
            raise ConfigurationError(f"--apply needs a set of {kind} in DATA, which the change must not make worse")


def _versions(parsed: argparse.Namespace) -> int:
    from sluicegate.gateway.commands.safety.versions import FOUND, VersionFolder

    folder = VersionFolder(parsed.folder)
    rows = [(one["version"], one["head"], one["shift"], "current" if one["current"] else "") for one in
            folder.listing()]  # fmt: skip
    if folder.number() == FOUND:
        rows.append(("-", "current.npz is none of these", "", "current"))
    print(table(("version", "head", "shift", ""), rows))
    return 0


def _back(parsed: argparse.Namespace) -> int:
    from sluicegate.gateway.commands.safety.versions import VersionFolder

    change = functools.partial(VersionFolder(parsed.folder).back, parsed.base)
    number = _audited(parsed, "safety.back", change)
    print(f"version {number} is current" if number else "the shipped weights are current")
    return 0


def _audited(parsed: argparse.Namespace, action: str, change: Any, **facts: Any) -> int:
    """Write a line before and one after the change, where the configuration names an audit log; no line, no change."""
    from sluicegate.gateway.audit import writer_of
    from sluicegate.gateway.config import load

    writer = None if parsed.config is None else writer_of(load(parsed.config).audit)
    entry = {"action": action, "by": f"cli:{getpass.getuser()}", "target": str(parsed.folder), "facts": facts}
    if writer is not None:
        try:
            begun = writer.write({**entry, "state": "begun"})
        except OSError as error:
            raise ConfigurationError(f"the audit log takes no line ({error}), so that nothing is changed") from error
    number = int(change())
    if writer is not None:
        writer.write({**entry, "state": "done", "of": begun.seq, "result": {"version": number}})
    return number
