"""Build the parts of `Accounts` from its settings: journal, shared limits and shared runs."""

from __future__ import annotations

from pathlib import Path

from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.journal.folder import folder_of
from sluicegate.gateway.accounts.journal.journal import Journal
from sluicegate.gateway.accounts.limits.database_leases import DatabaseLeases, LeaseStore, SplitLeases
from sluicegate.gateway.accounts.limits.database_runs import DatabaseRuns
from sluicegate.gateway.accounts.limits.leases import LeaseClient
from sluicegate.gateway.accounts.limits.run_script import RedisRuns
from sluicegate.gateway.accounts.limits.run_store import RunStore
from sluicegate.gateway.accounts.limits.shared_runs import SharedRuns
from sluicegate.gateway.accounts.stores.base import AccountStore, MemoryAccountStore
from sluicegate.gateway.accounts.stores.postgres import PostgresAccountStore
from sluicegate.gateway.accounts.stores.redis import RedisAccountStore
from sluicegate.gateway.accounts.stores.sqlite import SqliteAccountStore
from sluicegate.gateway.database import Database
from sluicegate.gateway.settings import AccountSettings


def has_store(settings: AccountSettings, database: Database | None) -> bool:
    return bool(settings.path or settings.url or database is not None)


def leases_of(settings: AccountSettings, database: Database | None, health: Health) -> LeaseStore | None:
    """Return the store that limits are leased from, or None where this gateway counts alone."""
    fast = LeaseClient(settings.url, health) if settings.url else None
    if database is None:
        return fast
    lasting = DatabaseLeases(database, health)
    return SplitLeases(fast, lasting) if fast is not None else lasting


def shared_runs_of(settings: AccountSettings, database: Database | None, health: Health) -> SharedRuns | None:
    """Return what counts runs across gateways, or None where this gateway counts alone. A database is preferred: a
    Redis that forgets its data would start every run anew."""
    store: RunStore | None = None
    if database is not None:
        store = DatabaseRuns(database, health)
    elif settings.url:
        store = RedisRuns(settings.url, health)
    return SharedRuns(store) if store is not None else None


def store_of(settings: AccountSettings, database: Database | None) -> AccountStore:
    if database is not None:
        return PostgresAccountStore(database)
    if settings.url:
        return RedisAccountStore(settings.url)
    return SqliteAccountStore(Path(settings.path)) if settings.path else MemoryAccountStore()


def journal_of(settings: AccountSettings, health: Health) -> Journal | None:
    """Return None where the settings name no disk."""
    folder = folder_of(settings)
    return Journal(folder, sync=settings.sync, health=health) if folder else None
