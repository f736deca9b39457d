"""What several processes of one gateway may share, and what each of them has of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from sluicegate.gateway.settings import Limits, Settings
from sluicegate.plugins import ConfigurationError

FOLDER = "worker-{}"
LOCAL = ("engine", "encoders")
"""Generators that hold models in the process."""


def check_workers(settings: Settings) -> None:
    """Check that workers can run. Raises `ConfigurationError` where several processes would not agree on what each of
    them is asked for, or where an earlier start left usage that none of those that begin now would take back."""
    if settings.server.workers > 1:
        _check_shared(settings)
        _check_ports(settings)
    _check_journals(settings)


def _check_shared(settings: Settings) -> None:
    several = f"[server] workers = {settings.server.workers}"
    models = [name for name in settings.pipeline.generate if name in LOCAL]
    if models:
        raise ConfigurationError(
            f"{several}: each process would load the models of {models[0]!r} again and compete for the same processor; "
            'set [pipeline] generate = ["upstream"], or leave workers at 1 (the engine uses all cores)'
        )
    alone = settings.kept_by_one
    if settings.batches.path and not settings.database.url:
        alone = [*alone, "[batches] path without a [database] url"]
    if alone:
        raise ConfigurationError(f"{several}: {alone[0]} is for one process; [database] url keeps it for all of them")
    if _limits_somebody(settings) and not (settings.database.url or settings.accounts.url):
        raise ConfigurationError(
            f"{several}: each process would grant the limits of keys and teams anew; set [database] url or [accounts] "
            "url (Redis), so that they hold over all of them together"
        )
    if settings.grpc.enabled:
        raise ConfigurationError(f"{several}: [grpc] is served by one process; leave workers at 1")


def _limits_somebody(settings: Settings) -> bool:
    limits = [*(key.limits for key in settings.keys), *settings.accounts.teams.values()]
    return any(one != Limits() for one in limits)


def _check_ports(settings: Settings) -> None:
    server = settings.server
    own = range(server.worker_port, server.worker_port + server.workers)
    if server.worker_port and (own[-1] > 65_535 or server.port in own):
        raise ConfigurationError(
            f"[server] worker_port: {server.workers} workers would take the ports {own[0]} to {own[-1]}, which must be "
            f"at most 65535 and not {server.port}, the port of all of them"
        )


def _check_journals(settings: Settings) -> None:
    folder, workers = settings.accounts.journal, settings.server.workers
    if not folder:
        return
    taken = {FOLDER.format(number) for number in range(workers)} if workers > 1 else set()
    for place in sorted(Path(folder).glob(FOLDER.format("[0-9]*"))):
        if place.name not in taken and any(file.stat().st_size for file in place.glob("*.log")):
            raise ConfigurationError(
                f"{place} holds usage of a worker that was killed and is not in the books yet; start once with "
                f"--workers {int(place.name.rpartition('-')[2]) + 1} or more, which takes it back"
            )


def reread(settings: Settings, read: Callable[[], Settings]) -> Settings:
    """Return what a worker begins with: `settings`, which all began with, and what others have reloaded since. Raises
    `ConfigurationError`, as a reload does where the last key is gone."""
    from sluicegate.gateway.reload import exchanged

    found = exchanged(settings, read())
    if settings.keys and not found.keys:
        raise ConfigurationError(
            "no worker begins, since the last [[keys]] are gone, so that nobody would need a key; that takes a restart "
            "of all of them"
        )
    return found


def of_worker(settings: Settings, number: int, port: int) -> Settings:
    """Return what worker `number` runs with: a journal, a history and a port of its own, beside the shared `port`."""
    server, own = settings.server, FOLDER.format(number)
    journal, history = settings.accounts.journal, settings.telemetry.history
    return dataclasses.replace(
        settings,
        server=dataclasses.replace(
            server, port=port, worker_port=server.worker_port + number if server.worker_port else 0
        ),
        accounts=dataclasses.replace(settings.accounts, journal=str(Path(journal) / own) if journal else ""),
        telemetry=dataclasses.replace(settings.telemetry, history=str(Path(history) / own) if history else ""),
    )
