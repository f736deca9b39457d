"""Find settings of keys that name nothing in this gateway, usually by a typing mistake."""

from __future__ import annotations

import time
from collections.abc import Iterator

from sluicegate.gateway.accounts.records import from_settings
from sluicegate.gateway.settings import KeySettings, Settings

SCOPES = ("admin", "review")


def idle_keys(settings: Settings) -> list[str]:
    """Return a sentence for each name in a key that has no effect, or locks the key out. Raises
    `ConfigurationError`."""
    return [f"key {key.id!r}: {text}" for key in settings.keys for text in _idle(key, settings)]


def _idle(key: KeySettings, settings: Settings) -> Iterator[str]:
    for scope in key.scopes:
        if scope not in SCOPES:
            yield f"no part of the gateway asks for the scope {scope!r}; there are {' and '.join(SCOPES)}"
    run = {*settings.pipeline.screen, *settings.pipeline.moderate}
    for rail in key.rails:
        if rail not in run:
            yield f"it is not served without the rail {rail!r}, and [pipeline] runs {', '.join(sorted(run)) or 'none'}"
    accounts = settings.accounts
    stored = accounts.path or accounts.url or settings.database.url
    if key.team and key.team not in accounts.teams and not stored:
        yield f"its team {key.team!r} has no limits; [accounts.teams.{key.team}] would say them"
    if from_settings(key).state(time.time()) == "expired":
        yield f"it has expired ({key.expires})"
