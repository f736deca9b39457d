"""Keep reports and tuned weights in a folder: each version a file, and `current.npz` the one in use."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from sluicegate.gateway.commands.reasons import FAULTS, reason, words_of
from sluicegate.gateway.commands.redteam import RedteamRow, rows_of
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection.classifier import Classifier, load
from sluicegate.safety.detection.settings import WEIGHTS

SHIPPED = 0
"""The version that comes with the package."""


class VersionFolder:
    """Made on first use. Not for two writers at once."""

    def __init__(self, path: Path) -> None:
        """Make the folder. Raises `ConfigurationError` where there is a file in its place."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"--folder {path} cannot be used: {error}") from error
        self.path = path
        self.current = path / "current.npz"
        self.reports = path / "regressions.jsonl"

    def weights(self) -> Path:
        return self.current if self.current.exists() else WEIGHTS

    def number(self) -> int:
        mark = self.path / "current"
        return int(mark.read_text()) if mark.exists() else SHIPPED

    def add(self, weights: Classifier, facts: Mapping[str, Any]) -> int:
        """Write a version behind all others, and use it; returns its number."""
        number = 1 + max((int(one["version"]) for one in self.listing()), default=SHIPPED)
        weights.save(self.path / f"{number:04}.npz")
        before = {"version": number, "before": self.number()}
        (self.path / f"{number:04}.json").write_text(json.dumps({**facts, **before}, indent=1) + "\n")
        self._use(number)
        return number

    def back(self) -> int:
        """Use the version that the current one was made from; returns its number. Raises `ConfigurationError`."""
        at = self.number()
        if at == SHIPPED:
            raise ConfigurationError(f"{self.path}: the shipped weights are in use, and there is nothing before them")
        before = int(json.loads((self.path / f"{at:04}.json").read_text())["before"])
        self._use(before)
        return before

    def listing(self) -> list[dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in sorted(self.path.glob("[0-9]*.json"))]
        return [{**one, "current": one["version"] == self.number()} for one in found]

    def _use(self, number: int) -> None:
        """Put a version in place at once: a gateway that reloads meanwhile reads one or the other, whole."""
        source = WEIGHTS if number == SHIPPED else self.path / f"{number:04}.npz"
        load(source)  # never one that cannot be read
        fresh = self.path / "current.new"
        shutil.copyfile(source, fresh)
        os.replace(fresh, self.current)
        mark = self.path / "current.mark"
        mark.write_text(str(number))
        os.replace(mark, self.path / "current")


def reports_of(folder: VersionFolder, file: Path | None, url: str, key: str) -> list[RedteamRow]:
    """Return reported texts: those that the folder keeps, those of `file`, and those of the gateway at `url`, which the
    folder keeps from now on. Raises `ConfigurationError`."""
    if url:
        _fetch(folder, url, key)
    rows = [row for path in (folder.reports, file) if path is not None and path.exists() for row in rows_of(path)]
    if file is not None and not file.exists():
        raise ConfigurationError(f"cannot read {file}: it is not there")
    if not rows:
        raise ConfigurationError("nobody has reported anything: give --url of a gateway, or --regressions FILE")
    return list(dict.fromkeys(rows))


def _fetch(folder: VersionFolder, url: str, key: str) -> None:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(f"{url.rstrip('/')}/v1/safety/false_positives?limit=10000", headers=headers, trust_env=False)
        lines = [_row(one) for one in answer.json()["data"]] if answer.status_code == 200 else None
    except FAULTS as error:
        raise ConfigurationError(f"no reports can be had from {url}: {reason(error)}") from error
    if lines is None:
        raise ConfigurationError(f"{url} answered {words_of(answer)}; a key with the scope `review` may read reports")
    before = folder.reports.read_text().splitlines() if folder.reports.exists() else []
    fresh = folder.path / "regressions.new"
    fresh.write_text("".join(f"{line}\n" for line in dict.fromkeys([*before, *lines])))
    os.replace(fresh, folder.reports)


def _row(one: Mapping[str, Any]) -> str:
    """Return a report as a line of the set."""
    label = "attack" if one.get("kind") == "miss" else "benign"
    return json.dumps({"text": one["text"], "label": label, "category": f"reported {one['rail']}".strip()})
