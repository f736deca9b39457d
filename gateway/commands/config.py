"""`sluicegate config check FILE`: every mistake of a configuration, as `serve` would judge it, without serving.

Each table is read and built apart from the others, so that one mistake hides no other; where nothing is found, all is
composed together as `serve` does. Nothing is bound, and no weights are read. Not covered: what only a start can show
(weights that are damaged, stores and other servers that do not answer, a port that is taken).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from sluicegate.gateway.config import misspelt_variables, read_tree
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import Registry, SlotName
from sluicegate.plugins.contract.disk_paths import paths_checked
from sluicegate.plugins.errors import SluicegateError
from sluicegate.plugins.settings import collecting, read_settings

REFUSED = 2
IDLE = 1


def define(parser: argparse.ArgumentParser) -> None:
    """Add the action of `config`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    check = actions.add_parser(
        "check", help="name every mistake; exit status 2 where serve would refuse, 1 where it would only warn"
    )
    check.add_argument("file", type=Path, metavar="FILE", help="TOML file; SLUICEGATE_* variables override it")
    check.add_argument("--json", action="store_true", help="print one JSON object")
    check.set_defaults(run=_check)


def _check(parsed: argparse.Namespace) -> int:
    tree = read_tree(parsed.file, os.environ)
    logging.disable()  # what serve would log is printed here
    try:
        with paths_checked():
            refused, idle = mistakes(tree)
    finally:
        logging.disable(logging.NOTSET)
    idle += misspelt_variables(os.environ)
    if parsed.json:
        print(json.dumps({"file": str(parsed.file), "mistakes": refused, "idle": idle}))
    else:
        for text in (*refused, *idle):
            print(text)
        print(f"{parsed.file}: {_verdict(len(refused), len(idle))}")
    return REFUSED if refused else IDLE if idle else 0


def _verdict(refused: int, idle: int) -> str:
    if not refused and not idle:
        return "no mistake"
    both = [f"{refused} mistake{'s' * (refused != 1)}"] if refused else []
    both += [f"{idle} setting{'s' * (idle != 1)} without effect"] if idle else []
    return " and ".join(both)


def mistakes(tree: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return what `serve` would refuse, and what it would only warn of."""
    from sluicegate.gateway.accounts.idle_keys import idle_keys
    from sluicegate.gateway.commands.worker_processes.terms import check_workers
    from sluicegate.gateway.http.host_check import OwnNames
    from sluicegate.gateway.idle_settings.models import idle_models
    from sluicegate.gateway.server import check_bind, check_tls

    found: list[str] = []
    settings = _readable(tree, found)
    idle = _stages(settings, found)
    _note(found, lambda: idle.extend(idle_keys(settings)))
    _note(found, lambda: idle.extend(idle_models(settings)))
    for check in (check_bind, check_tls, check_workers, lambda read: OwnNames.of(read.server)):
        _note(found, check, settings)
    if not found:
        _note(found, _composed, settings)
    else:
        sound = _sound(settings)
        for name in (field.name for field in fields(Settings) if field.name not in ("stages", "pipeline")):
            if getattr(settings, name) != getattr(sound, name):
                _note(found, _composed, replace(sound, **{name: getattr(settings, name)}))
    return list(dict.fromkeys(found)), idle


def _readable(tree: Mapping[str, Any], found: list[str]) -> Settings:
    """Return the tables that can be read, with defaults in place of the others. What is wrong with those is added to
    `found`."""
    read: dict[str, Any] = {}
    for name, table in tree.items():
        before = len(found)
        _note(found, lambda one: read_settings(Settings, one, ""), {name: table})
        if len(found) == before:
            read[name] = table
    return read_settings(Settings, read, "")


def _stages(settings: Settings, found: list[str]) -> list[str]:
    """Build every stage that is enabled or configured; returns what is configured and does not run."""
    from sluicegate.gateway.stage_set import check_slot, idle_stages
    from sluicegate.plugins import SLOTS

    registry = _registry(settings, found)
    idle: list[str] = []
    for slot in SLOTS:
        _note(found, lambda slot=slot: check_slot(settings, registry, slot))
        for name in dict.fromkeys(getattr(settings.pipeline, slot)):
            _stage(settings, registry, slot, name, found)
        idle += idle_stages(slot, settings, registry)
        for name in set(settings.stages.get(slot, {})) & set(registry.names(slot)):
            if not registry.was_built(slot, name):
                _stage(settings, registry, slot, name, found)
    return idle


def _stage(settings: Settings, registry: Registry, slot: SlotName, name: str, found: list[str]) -> None:
    """Build one; where settings of it are wrong, also without these or under the names that were meant, for what they
    may hide."""
    table, before = settings.of_stage(slot, name), len(found)
    _note(found, registry.build, slot, name, table)
    place = re.escape(f"[stages.{slot}.{name}]")
    form = re.compile(rf"{place} (?:has no '([^']*)'; (?:did you mean '([^']*)')?|([\w-]+))")
    wrong = [one for text in found[before:] if (one := form.match(text)) is not None and (one[1] or one[3]) in table]
    if wrong:
        meant = {one[2]: table[one[1]] for one in wrong if one[2]}
        names = {one[1] or one[3] for one in wrong}
        rest = {setting: value for setting, value in table.items() if setting not in names}
        taken_out = tuple(
            f"[stages.{slot}.{name}] {said}" for setting in names for said in (f"needs {setting!r};", f"{setting} ")
        )
        hidden: list[str] = []
        _note(hidden, registry.build, slot, name, {**meant, **rest})
        found += [text for text in hidden if text not in found and not text.startswith(taken_out)]


def _registry(settings: Settings, found: list[str]) -> Registry:
    """Build the registry with the keys of the configuration where they can be used, and without them where they are the
    mistake."""
    from sluicegate.gateway.registry import registry_of
    from sluicegate.gateway.telemetry import Metrics

    try:
        return registry_of(settings, Metrics())
    except SluicegateError as error:
        found.append(error.message)
        return registry_of(replace(settings, keys=(), accounts=Settings().accounts), Metrics())


def _sound(settings: Settings) -> Settings:
    """Return the stages that are configured, if they can be composed; else those of a gateway without configuration."""
    sound = Settings(pipeline=settings.pipeline, stages=settings.stages)
    unsound: list[str] = []
    _note(unsound, _composed, sound)
    return Settings() if unsound else sound


def _composed(settings: Settings) -> None:
    from sluicegate.gateway.compose import compose

    compose(settings, os.environ)


def _note(found: list[str], check: Callable[..., object], *arguments: Any) -> None:
    """Call `check`, and add what it finds wrong that is not known yet."""
    with collecting() as more:
        try:
            check(*arguments)
        except SluicegateError as error:
            more.append(error.message)
    found += [text for text in dict.fromkeys(more) if text not in found]
