"""Keep reports and tuned weights in a folder: each version a file, and `current.npz` the one in use.

Every file is replaced at once, and `current.npz` says by its content which version it is: a command that is killed
leaves the state before or after it. Two commands at once wait for each other.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from sluicegate.gateway.commands.reasons import FAULTS, reason, words_of
from sluicegate.gateway.commands.redteam import MOST_REPORTS, RedteamRow, rows_of, say_what_is_missing
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection.classifier import Classifier, load
from sluicegate.safety.detection.settings import WEIGHTS

SHIPPED = 0
"""The version that comes with the package."""
FOUND = -1
"""Weights in `current.npz` that are no version of the folder: of an earlier release, trained, or damaged."""


class VersionFolder:
    """Made on first use. Writers hold `locked`."""

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

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other command changes the folder. Raises `ConfigurationError` where it takes no file: what is
        in use is put in place last."""
        try:
            with (self.path / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            for half in (self.path / "new.npz", *self.path.glob("*.new")):
                half.unlink(missing_ok=True)
            raise ConfigurationError(
                f"{self.path} cannot be written ({error.strerror or error}); what was in use still is: make room on "
                "its disk, or correct the rights of the folder, and run the command again"
            ) from error

    def number(self) -> int:
        """Return the version that `current.npz` holds, or `FOUND`; the shipped one where there is no such file."""
        if not self.current.exists():
            return SHIPPED
        content = self.current.read_bytes()
        numbers = (*reversed(self._numbers()), SHIPPED)
        return next((number for number in numbers if self._weights_of(number).read_bytes() == content), FOUND)

    def add(self, weights: Classifier, facts: Mapping[str, Any], base: int) -> int:
        """Write a version behind all others, and use it; returns its number. `base`: the version that it was made from;
        `FOUND` becomes a version first. Raises `ConfigurationError` if `base` is no longer the current one."""
        with self.locked():
            if self.number() != base:
                raise ConfigurationError(
                    f"{self.path}: {_named(self.number())} became current while this proposal was made from "
                    f"{_named(base)}; run the command again"
                )
            if base == FOUND:
                load(self.current)
                found = {"head": "found in current.npz", "shift": 0.0, "before": SHIPPED}
                base = self._added(lambda fresh: fresh.write_bytes(self.current.read_bytes()), found)
            number = self._added(weights.save, {**facts, "before": base})
            self._use(number)
            return number

    def _added(self, write: Callable[[Path], object], facts: Mapping[str, Any]) -> int:
        number = 1 + max(self._numbers(), default=SHIPPED)
        fresh = self.path / "new.npz"
        write(fresh)
        os.replace(fresh, self._weights_of(number))
        self._write(f"{number:04}.json", json.dumps({**facts, "version": number}, indent=1) + "\n")
        return number

    def back(self, base: int | None = None) -> int:
        """Use the version that the current one was made from; returns its number. `base`: the version to go back from.
        Raises `ConfigurationError` if that is not the current one, or nothing is before it."""
        with self.locked():
            at = self.number()
            if base is not None and at != base:
                raise ConfigurationError(
                    f"{self.path}: {_named(at)} is current, not {base}: somebody else went back, or applied another; "
                    "see `sluicegate safety versions`, and go back from there if that is still wanted"
                )
            if at == FOUND:
                raise ConfigurationError(
                    f"{self.current} is no version of this folder (damaged, or brought from elsewhere), so that "
                    "nothing is known to be before it: copy the version that you want over it, or the shipped weights "
                    f"({WEIGHTS})"
                )
            if at == SHIPPED:
                raise ConfigurationError(
                    f"{self.path}: the shipped weights are in use, and there is nothing before them"
                )
            before = int(self._facts(at)["before"])
            self._use(before)
            return before

    def listing(self) -> list[dict[str, Any]]:
        at = self.number()
        return [{**self._facts(number), "current": number == at} for number in self._numbers()]

    def _numbers(self) -> list[int]:
        """Return the versions that are complete: facts are written last."""
        found = (path for path in self.path.glob("*.json") if _VERSION.fullmatch(path.stem))
        return sorted(int(path.stem) for path in found if path.with_suffix(".npz").exists())

    def _weights_of(self, number: int) -> Path:
        return WEIGHTS if number == SHIPPED else self.path / f"{number:04}.npz"

    def _facts(self, number: int) -> dict[str, Any]:
        path = self.path / f"{number:04}.json"
        try:
            found: dict[str, Any] = json.loads(path.read_text())
            return {**found, "version": number, "before": int(found["before"]), "head": found["head"]}
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{path} is damaged; delete it and {path.with_suffix('.npz')}") from error

    def _use(self, number: int) -> None:
        """Put a version in place at once: a gateway that reloads meanwhile reads one or the other, whole."""
        source = self._weights_of(number)
        load(source)  # never one that cannot be read
        fresh = self.path / "current.new"
        fresh.write_bytes(source.read_bytes())
        os.replace(fresh, self.current)

    def keep_reports(self, lines: Iterable[str]) -> None:
        self._write(self.reports.name, "".join(f"{line}\n" for line in lines))

    def _write(self, name: str, text: str) -> None:
        fresh = self.path / f"{name}.new"
        fresh.write_text(text)
        os.replace(fresh, self.path / name)


_VERSION = re.compile(r"(?!0000)\d{4}|[1-9]\d{4,8}")


def _named(number: int) -> str:
    return {FOUND: "a file that is no version here", SHIPPED: "the shipped weights"}.get(number, f"version {number}")


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
        path = f"/v1/safety/false_positives?limit={MOST_REPORTS}"
        answer = httpx.get(url.rstrip("/") + path, headers=headers, trust_env=False, timeout=120)
        found = answer.json() if answer.status_code == 200 else None
        lines = None if found is None else [_row(one) for one in found["data"] if one["text"].strip()]
    except FAULTS as error:
        raise ConfigurationError(f"no reports can be had from {url}: {reason(error)}") from error
    if found is None or lines is None:
        raise ConfigurationError(f"{url} answered {words_of(answer)}; a key with the scope `review` may read reports")
    say_what_is_missing(found, url)
    with folder.locked():
        before = folder.reports.read_text().splitlines() if folder.reports.exists() else []
        folder.keep_reports(dict.fromkeys([*before, *lines]))


def _row(one: Mapping[str, Any]) -> str:
    """Return a report as a line of the set."""
    label = "attack" if one.get("kind") == "miss" else "benign"
    return json.dumps({"text": one["text"], "label": label, "category": f"reported {one['rail']}".strip()})
