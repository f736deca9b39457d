"""`sluicegate plugins list | check | new`: what is installed, whether it keeps its contract, and how to begin one.

Heavy imports are made by the commands that need them: `new` is quick, `--help` too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.gateway.commands.tables import table
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import SLOTS, ConfigurationError, PluginError, Registry, SlotName, properties_of
from sluicegate.plugins.registry import Registered

if TYPE_CHECKING:  # what checks plug-ins is imported by `check`
    from sluicegate.plugins.testing import Fault


def define(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of `plugins`; without one it lists."""
    _add_config(parser, None)
    parser.set_defaults(run=_list, json=False)
    verbs = parser.add_subparsers(metavar="list | check | new")
    listing = verbs.add_parser("list", help="every installed stage by slot, and whether it is enabled")
    _add_config(listing, argparse.SUPPRESS)
    listing.add_argument("--json", action="store_true", help="print one JSON object a stage")
    check = verbs.add_parser("check", help="try installed plug-ins against the contract; exit status 1 on a fault")
    check.add_argument("names", nargs="*", metavar="NAME", help="a plug-in, a stage, or slot/stage (all plug-ins)")
    _add_config(check, argparse.SUPPRESS)
    check.set_defaults(run=_check)
    new = verbs.add_parser("new", help="write an installable plug-in with its test into a new folder")
    new.add_argument("name", metavar="NAME", help="lower-case letters, digits and dashes, such as ticket-numbers")
    new.add_argument("--slot", choices=SLOTS, default="moderate")
    new.add_argument("--into", type=Path, default=Path(), metavar="FOLDER", help="where the folder is made (here)")
    new.set_defaults(run=_new)


def _add_config(parser: argparse.ArgumentParser, default: Any) -> None:
    text = "TOML file; SLUICEGATE_* variables override it"
    parser.add_argument("--config", type=Path, metavar="FILE", default=default, help=text)


def _list(parsed: argparse.Namespace) -> int:
    settings, registry, complaints = _installed(parsed.config)
    enabled = {stage: stage.name in getattr(settings.pipeline, stage.slot) for stage in registry.all()}
    if parsed.json:
        for stage, runs in enabled.items():
            print(json.dumps({"slot": stage.slot, "name": stage.name, "enabled": runs, "source": stage.source}))
        for complaint in complaints:
            print(f"ignored: {complaint}", file=sys.stderr)
        return 0
    rows = [(stage.slot, stage.name, "enabled" if runs else "", stage.source) for stage, runs in enabled.items()]
    print(table(("slot", "stage", "state", "from"), rows))
    for complaint in complaints:
        print(f"ignored: {complaint}")
    return 0


def _check(parsed: argparse.Namespace) -> int:
    settings, registry, complaints = _installed(parsed.config)
    complaints = [c for c in complaints if not parsed.names or c.partition(":")[0] in parsed.names]
    stages = _chosen(registry, parsed.names, complaints)
    if not stages and not complaints:
        print("no plug-in is installed; `sluicegate plugins new NAME` begins one")
    failed = [_report(stage, *_tried(registry, stage, settings)) for stage in stages]
    for complaint in complaints:
        print(f"{'-':10} {'-':20} broken   {complaint}")
    return 1 if any(failed) or complaints else 0


def _new(parsed: argparse.Namespace) -> int:
    from sluicegate.plugins.scaffold import next_steps, scaffold

    folder = scaffold(parsed.name, parsed.slot, parsed.into)
    print(next_steps(folder, parsed.name))
    return 0


def _installed(config: Path | None) -> tuple[Settings, Registry, list[str]]:
    from sluicegate.gateway.config import load
    from sluicegate.gateway.registry import built_ins
    from sluicegate.plugins import discover

    settings = load(config, os.environ)
    registry = built_ins(settings)
    return settings, registry, discover(registry)


def _chosen(registry: Registry, names: Sequence[str], complaints: Sequence[str]) -> list[Registered]:
    """Return the stages that `names` mean, built-ins too; without names every stage that is not built in. Raises
    `ConfigurationError` for a name that is not installed."""
    if not names:
        return [stage for stage in registry.all() if not stage.source.endswith(".stage")]
    found: list[Registered] = []
    for name in names:
        meant = [s for s in registry.all() if name in (s.source, s.name, f"{s.slot}/{s.name}")]
        if not meant and not any(complaint.startswith(f"{name}:") for complaint in complaints):
            known = sorted({stage.source for stage in registry.all()})
            raise ConfigurationError(f"there is no plug-in or stage {name!r}; installed: {', '.join(known)}")
        found += (stage for stage in meant if stage not in found)
    return found


def _tried(registry: Registry, stage: Registered, settings: Settings) -> tuple[Any, list[Fault]]:
    from sluicegate.plugins.testing import Fault, check_stage

    try:
        built = registry.build(stage.slot, stage.name, settings.of_stage(stage.slot, stage.name))
    except ConfigurationError as error:
        text = f"{error.message}; give [stages.{stage.slot}.{stage.name}] with --config FILE"
        return None, [Fault("not-built", text)]
    except PluginError as error:
        return None, [Fault("crashing", error.message)]
    return built, check_stage(stage.slot, built)


def _report(stage: Registered, built: Any, faults: Sequence[Fault]) -> bool:
    """Print one stage's row, a line for each fault below it; whether there was one."""
    text = f"{len(faults)} fault{'s' * (len(faults) != 1)}" if faults else f"ok       {_declared(stage.slot, built)}"
    print(f"{stage.slot:10} {stage.name:20} {text}".rstrip())
    for fault in faults:
        print(f"    {fault}")
    return bool(faults)


def _declared(slot: SlotName, built: Any) -> str:
    if slot not in ("screen", "moderate"):
        return ""
    found = properties_of(built)
    if found is None:
        return "(declares nothing, so only ordinary texts were tried)"
    promises = [f"version {found.version}", f"{len(found.examples)} examples"]
    promises += [f"holds at most {found.hold_back}"] if found.hold_back is not None else []
    promises += [f"looks back {found.look_back}"] if found.look_back is not None else []
    promises += [f"within {found.budget_s:g} s"] if found.budget_s is not None else []
    return f"({', '.join([*promises, f'fails {found.failure_mode}'])})"
