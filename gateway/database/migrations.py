"""The tables of the database, as steps that are taken once and in order; a step that was released is never changed.

Texts that callers choose lie in columns of JSON in ASCII: PostgreSQL's `text` has no NUL and no lone surrogate.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from sluicegate.plugins import ConfigurationError

log = logging.getLogger("sluicegate.database")
_FIRST = """
create table sluicegate.origin (
    one boolean primary key default true check (one), name text not null default gen_random_uuid()::text,
    files text not null default ''
);
insert into sluicegate.origin default values;
create table sluicegate.changes (kind text primary key, count bigint not null default 0);
create table sluicegate.set_aside (
    at timestamptz not null default now(), kind text not null, row text not null, reason text not null
);

create table sluicegate.keys (id text primary key, record text not null);
create table sluicegate.teams (name text primary key, limits text not null);
create table sluicegate.segments (
    journal text primary key, applied bigint not null, at timestamptz not null default now()
);
create table sluicegate.usage (
    day text not null, key_id text not null, team text not null, feature text not null, model text not null,
    requests bigint not null, errors bigint not null, interrupted bigint not null, cached bigint not null,
    prompt_tokens bigint not null, cached_tokens bigint not null, completion_tokens bigint not null,
    cost_nanos bigint not null, primary key (day, key_id, team, feature, model)
);

create table sluicegate.alive (gateway text primary key, until timestamptz not null);
create table sluicegate.leases (
    lim text not null, label text not null, gateway text not null, amount numeric not null check (amount >= 0),
    primary key (lim, label, gateway)
);
create table sluicegate.lease_answers (
    lim text not null, gateway text not null, seq bigint not null, granted numeric not null, rest numeric not null,
    oldest bigint not null, label text not null, primary key (lim, gateway)
);

create table sluicegate.files (
    id text primary key, tenant text not null, created_s bigint not null, bytes bigint not null, record text not null
);
create index files_of_tenants on sluicegate.files (tenant, created_s);
create table sluicegate.batches (
    id text primary key, number bigint generated always as identity, tenant text not null, created_s bigint not null,
    status text not null, input_file text not null, record text not null, owner text, owned_until timestamptz
);
create index batches_of_tenants on sluicegate.batches (tenant, created_s);
create index batches_by_status on sluicegate.batches (status, created_s);
create table sluicegate.results (
    batch text not null references sluicegate.batches on delete cascade, line bigint not null, custom_id text not null,
    status integer not null, body bytea not null, prompt_tokens bigint not null, completion_tokens bigint not null,
    primary key (batch, line)
);

create table sluicegate.reviews (
    id text primary key, created_s double precision not null, expires_s double precision not null,
    decided_s double precision, status text not null, tenant text not null, record text not null, body bytea not null,
    answered_by text, answered_until timestamptz
);
create index reviews_by_status on sluicegate.reviews (status, created_s);
create table sluicegate.reports (
    id text primary key, created_s double precision not null, tenant text not null, record text not null,
    body bytea not null
);
create index reports_of_tenants on sluicegate.reports (tenant);

create table sluicegate.routes (name text primary key, history text not null);
create table sluicegate.models (name text primary key, generation bigint not null, settings text);
create table sluicegate.announcements (
    number bigint generated always as identity primary key, kind text not null, content text not null,
    at timestamptz not null default now()
);
"""
KEPT_TABLES = """
create table sluicegate.leaders (
    name text primary key, gateway text not null, until_s double precision not null
);
create table sluicegate.rollouts (route text primary key, record text not null);
create table sluicegate.observations (
    id text primary key, route text not null, at_s double precision not null, record text not null
);
create table sluicegate.answered (
    owner text not null, request text not null, at_s double precision not null, record text not null,
    primary key (owner, request)
);
create table sluicegate.feedback (
    owner text not null, request text not null, at_s double precision not null, record text not null, comment bytea,
    primary key (owner, request)
);
create table sluicegate.recording_keys (
    subject text primary key, tenant text not null, key_id text not null, person text not null, sealed bytea not null
);
create table sluicegate.recordings (
    id text primary key, subject text not null, at_s double precision not null, size bigint not null,
    record text not null, body bytea not null
);
"""
"""SQL that SQLite also understands: `gateway/database/tables.py` makes these tables in files of one machine."""
_MCP_PINS = """
create table sluicegate.mcp_pins (
    server text not null, tool text not null, pin text not null, primary key (server, tool)
);
"""
_RUNS = """
create table sluicegate.runs (
    owner text not null, run text not null, began_ms bigint not null, at_ms bigint not null, calls bigint not null,
    tokens numeric not null, nanos numeric not null, primary key (owner, run)
);
create table sluicegate.run_shares (
    owner text not null, run text not null, ticket text not null, at_ms bigint not null, tokens numeric not null,
    nanos numeric not null, gone boolean not null, primary key (owner, run, ticket)
);
"""
KEPT_WRITERS = """
create table sluicegate.observation_writers (
    writer text primary key, batch bigint not null, at_s double precision not null
);
"""
"""Like `KEPT_TABLES`, which earlier releases have already created."""
STEPS: Sequence[str] = (_FIRST, KEPT_TABLES, _MCP_PINS, _RUNS, KEPT_WRITERS)
ADDED_ONLY = frozenset({2, 3, 4, 5})
"""Steps that only added something: a release that does not know them may start on a database that has them."""
LOCK = 0x51CE6A7E
"""Advisory lock held while migrating: gateways that start at the same time wait for each other."""


class FoundRows(Protocol):
    def fetchall(self) -> list[tuple[object, ...]]: ...


def migrate(
    execute: Callable[..., FoundRows], steps: Sequence[str] = STEPS, added_only: Collection[int] = ADDED_ONLY
) -> int:
    """Take the steps that the database lacks, within the caller's transaction; how many were taken.

    Raises `ConfigurationError` where a newer release took one that did more than add tables, or where a step that was
    taken is not the one here."""
    execute("select pg_advisory_xact_lock(%s)", (LOCK,))
    if not execute("select 1 from pg_namespace where nspname = 'sluicegate'").fetchall():
        execute("create schema sluicegate")
        execute(
            "create table sluicegate.migrations (number integer primary key, digest text not null, "
            "at timestamptz not null default now())"
        )
    # Releases before it do not ask for this column, and refuse whatever is newer.
    execute("alter table sluicegate.migrations add column if not exists added_only boolean not null default false")
    rows = execute("select number, digest, added_only from sluicegate.migrations order by number").fetchall()
    taken: dict[object, object] = {row[0]: row[1] for row in rows}
    _check(taken, steps, newer={row[0]: bool(row[2]) for row in rows[len(steps) :]})
    lacking = [(number, step) for number, step in enumerate(steps, 1) if number not in taken]
    for number, step in lacking:
        execute(step)
        execute("insert into sluicegate.migrations (number, digest) values (%s, %s)", (number, _digest(step)))
    marked = "update sluicegate.migrations set added_only = true where number = any(%s) and not added_only"
    execute(marked, (sorted(added_only),))
    return len(lacking)


def _check(taken: Mapping[object, object], steps: Sequence[str], newer: Mapping[object, bool]) -> None:
    """Check that the steps taken are those of this release. `newer`: steps of a newer release, and whether they only
    added. Raises `ConfigurationError`."""
    if not all(newer.values()):
        raise ConfigurationError(
            f"[database] url: its tables are those of a newer release (step {len(taken)}, this one knows "
            f"{len(steps)}); run that release, or restore a backup of before it"
        )
    for number, step in enumerate(steps[: len(taken)], 1):
        if taken.get(number) != _digest(step):
            raise ConfigurationError(f"[database] url: step {number} of its tables is not this product's; name another")
    if newer:
        log.warning("the database has tables of a newer release, which only added some: this one goes on without them")


def _digest(step: str) -> str:
    return hashlib.sha256(step.encode()).hexdigest()
