"""Find settings of keys that name nothing in this gateway, usually by a typing mistake."""

from __future__ import annotations

import time
from collections.abc import Iterator

from sluicegate.gateway.accounts.records import KeyRecord, day_of, from_settings
from sluicegate.gateway.settings import Settings

SCOPES = ("admin", "review")
PSEUDONYMS = "pseudonyms"
"""The stage that asks for a scope of its own."""


def idle_keys(settings: Settings) -> list[str]:
    """Return a sentence for each name in a key of the configuration that has no effect, or locks the key out. Raises
    `ConfigurationError`."""
    records = map(from_settings, settings.keys)
    return [f"key {record.id!r}: {text}" for record in records for text in idle_words(record, settings)]


def idle_words(record: KeyRecord, settings: Settings) -> Iterator[str]:
    """Yield what has no effect in one key, of the configuration or of a store."""
    scopes = _scopes(settings)
    for scope in record.scopes:
        if scope not in scopes:
            yield f"no part of the gateway asks for the scope {scope!r}; there are {' and '.join(scopes)}"
    run = {*settings.pipeline.screen, *settings.pipeline.moderate}
    for rail in record.rails:
        if rail not in run:
            yield f"it is not served without the rail {rail!r}, and [pipeline] runs {', '.join(sorted(run)) or 'none'}"
    accounts = settings.accounts
    stored = accounts.path or accounts.url or settings.database.url
    if record.team and record.team not in accounts.teams and not stored:
        yield f"its team {record.team!r} has no limits; [accounts.teams.{record.team}] would say them"
    if record.expires_at_s is not None and record.expires_at_s <= time.time():
        yield f"it has expired ({day_of(record.expires_at_s)})"


def _scopes(settings: Settings) -> tuple[str, ...]:
    """Return the scopes that some part of this gateway asks for."""
    if PSEUDONYMS not in settings.pipeline.screen:
        return SCOPES
    return (*SCOPES, str(settings.of_stage("screen", PSEUDONYMS).get("scope", "pii")))
