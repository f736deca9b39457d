"""`sluicegate keys`: create, list, revoke and rotate keys, and say what they used. Works on the store itself, beside a
running gateway, which heeds the change within `flush_s`."""

from __future__ import annotations

import argparse
import csv
import getpass
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from sluicegate.gateway.accounts.accounts import Accounts
from sluicegate.gateway.accounts.changes import audit_facts, create, revoke, rotate
from sluicegate.gateway.accounts.export import DIMENSIONS, as_csv, rows
from sluicegate.gateway.accounts.idle_keys import idle_words
from sluicegate.gateway.accounts.parsing import LISTS
from sluicegate.gateway.accounts.records import KeyRecord, day_of, known_day, limits_of, moment, new_secret
from sluicegate.gateway.accounts.stores.base import creation
from sluicegate.gateway.audit import writer_of
from sluicegate.gateway.commands.tables import date, table
from sluicegate.gateway.config import load
from sluicegate.gateway.database import Database
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import ConfigurationError, RequestError
from sluicegate.plugins.errors import plain


def define(keys: argparse.ArgumentParser) -> None:
    """Add the actions of `keys`."""
    actions = keys.add_subparsers(required=True, metavar="ACTION")
    _create_parser(_action(actions, "create", "make a key and print it, once", _create))
    listing = _action(actions, "list", "all keys, without secrets", _list)
    listing.add_argument("--json", action="store_true", help="print one JSON object a key")
    _action(actions, "revoke", "refuse a key from now on", _revoke).add_argument("id")
    rotating = _action(actions, "rotate", "a new secret for a key; the old one stays good for a while", _rotate)
    rotating.add_argument("id")
    rotating.add_argument("--grace-s", type=float, default=86400.0, help="how long the old secret is good (1 day)")
    team = _action(actions, "team", "set the limits that all keys of a team share", _team)
    team.add_argument("id")
    _add_limits(team)
    _usage_parser(_action(actions, "usage", "what was used and what it cost", _usage))


def _action(actions: Any, name: str, help: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=help)
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file that names [accounts] path or url")
    parser.set_defaults(run=run)
    return parser


def _create_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="a name for the key, shown in usage and logs")
    parser.add_argument("--team", type=_named)
    parser.add_argument("--tenant", type=_named, help="whose cache and KV blocks it shares (default: its own)")
    for name in LISTS:
        parser.add_argument(
            f"--{name}", type=_names, default=(), metavar="A,B", help=f"{name} of the key (default: see docs)"
        )
    parser.add_argument("--expires", type=_named, metavar="DATE")
    _add_limits(parser)


def _named(text: str) -> str:
    """Refuse an empty text, as of a variable of a shell that is not set: the key would be open to more."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; leave the option out where that is meant")
    return text


def _names(text: str) -> tuple[str, ...]:
    """Read a list. Nothing in it would stand for all."""
    return tuple(_named(part).strip() for part in text.split(","))


def _add_limits(parser: argparse.ArgumentParser) -> None:
    for limit in fields(Limits):
        kind = float if limit.name.startswith("budget") else int
        parser.add_argument(f"--{limit.name.replace('_', '-')}", type=kind, default=None)


def _usage_parser(parser: argparse.ArgumentParser) -> None:
    month = day_of(time.time())[:7]
    parser.add_argument("--since", default=f"{month}-01", metavar="DAY", help="first day (UTC; the month's first)")
    parser.add_argument("--until", default="9999-12-31", metavar="DAY", help="last day (none)")
    parser.add_argument("--by", default="key_id,model", help=f"any of {','.join(DIMENSIONS)}")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table")
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="as --format json")


def _create(parsed: argparse.Namespace) -> int:
    with _store(parsed) as accounts:
        lists: dict[str, Any] = {name: getattr(parsed, name) for name in LISTS}
        lists["expires"] = moment(parsed.expires, "--expires") if parsed.expires else None
        record, secret = create(
            accounts,
            parsed.id,
            tenant=parsed.tenant or "",
            team=parsed.team or "",
            limits=_limits(parsed),
            **lists,
        )
        with _audited(parsed, "keys.create", record.id, **audit_facts(record)):
            accounts.store.edit_key(record.id, creation(record))
        print(secret)
    _note(idle_words(record, load(parsed.config, os.environ)))
    _note_budget(parsed, record.limits)
    return 0


def _note(texts: Iterable[str]) -> None:
    for text in texts:
        print(f"note: {text}", file=sys.stderr)


def _note_budget(parsed: argparse.Namespace, limits: Limits) -> None:
    """Note a budget that holds nothing of some models' answers, where a file says which models there are."""
    from sluicegate.gateway.idle_settings.models import idle_budget

    if parsed.config is not None:
        _note(idle_budget(limits, load(parsed.config, os.environ)))


def _list(parsed: argparse.Namespace) -> int:
    with _store(parsed) as accounts:
        records, now_s = list(accounts.keyring.records.values()), time.time()
        if parsed.json:
            for record in records:
                print(json.dumps({**record.public(), "state": record.state(now_s)}))
        else:
            print(_as_table(records, now_s) if records else "no keys yet; `sluicegate keys create NAME` makes one")
        for name in sorted(accounts.store.set_aside.keys):
            print(f"the store's row {name!a} is no key; it is not believed", file=sys.stderr)
    return 0


def _as_table(records: Iterable[KeyRecord], now_s: float) -> str:
    head = ("id", "state", "team", "tenant", "scopes", "models", "limits", "created", "expires", "from")
    return table(head, [_row(record, now_s) for record in records])


def _row(record: KeyRecord, now_s: float) -> tuple[str, ...]:
    limits = [f"{name} {plain(value)}" for name, value in record.public()["limits"].items()]
    lists = [",".join(found) for found in (record.scopes, record.models, limits)]
    dates = (date(record.created_at_s), date(record.expires_at_s))
    return (record.id, record.state(now_s), record.team, record.tenant, *lists, *dates, record.source)


def _revoke(parsed: argparse.Namespace) -> int:
    with _store(parsed) as accounts:
        known = _own(accounts, parsed.id)
        with _audited(parsed, "keys.revoke", parsed.id):
            accounts.store.edit_key(parsed.id, lambda found: revoke(found or known))
        print(f"key {parsed.id!r} is revoked")
    return 0


def _rotate(parsed: argparse.Namespace) -> int:
    with _store(parsed) as accounts:
        known, secret = _own(accounts, parsed.id), new_secret()
        rotate(known, secret, parsed.grace_s)  # what is known to be refused is no change to write down
        with _audited(parsed, "keys.rotate", parsed.id, grace_s=parsed.grace_s):
            accounts.store.edit_key(parsed.id, lambda found: rotate(found or known, secret, parsed.grace_s))
        print(secret)
    return 0


def _team(parsed: argparse.Namespace) -> int:
    with _store(parsed) as accounts:
        limits = _limits(parsed)
        with _audited(
            parsed, "teams.limits", parsed.id, limits={n: v for n, v in asdict(limits).items() if v is not None}
        ):
            accounts.store.put_team(parsed.id, limits)
        found = [f"{name} {plain(value)}" for name, value in asdict(limits).items() if value is not None]
        print(f"team {parsed.id!r}: {', '.join(found) or 'no limits'}")
    _note_budget(parsed, limits)
    return 0


def _usage(parsed: argparse.Namespace) -> int:
    by = [name for name in parsed.by.split(",") if name]
    with _store(parsed) as accounts:
        days = known_day(parsed.since), known_day(parsed.until)
        found = rows(accounts.store.usage(*days), by, accounts.settings.currency)
    if parsed.format == "csv":
        print(as_csv(found, by), end="")
    elif parsed.format == "json":
        print(json.dumps(found))
    else:
        head, *lines = csv.reader(io.StringIO(as_csv(found, by)))
        print(table(head, lines) if lines else f"nothing was used from {parsed.since} to {parsed.until}")
    return 0


def _limits(parsed: argparse.Namespace) -> Limits:
    given = {limit.name: getattr(parsed, limit.name) for limit in fields(Limits)}
    return limits_of({name: value for name, value in given.items() if value is not None})


def _own(accounts: Accounts, key_id: str) -> KeyRecord:
    record = accounts.key(key_id)
    if record.source == "configuration":
        raise ConfigurationError(f"key {key_id!r} stands in the configuration; change it there")
    return record


@contextmanager
def _audited(parsed: argparse.Namespace, action: str, target: str, **facts: Any) -> Iterator[None]:
    """Write who changes what before and after it, as the gateway does. Raises `ConfigurationError` where that cannot be
    written; then nothing is changed."""
    writer = writer_of(load(parsed.config, os.environ).audit)
    if writer is None:
        yield
        return
    entry = {"action": action, "by": f"command of {getpass.getuser()}", "target": target}
    try:
        begun = writer.write({**entry, **({"facts": facts} if facts else {}), "state": "begun"})
    except OSError as error:
        raise ConfigurationError(f"the audit log cannot be written: {error.strerror}; nothing was changed") from error
    try:
        yield
    except BaseException as error:
        writer.write({**entry, "state": "failed", "of": begun.seq, "error": type(error).__name__})
        raise
    writer.write({**entry, "state": "done", "of": begun.seq})


@contextmanager
def _store(parsed: argparse.Namespace) -> Iterator[Accounts]:
    """Open the store of keys and yield its accounts. Raises `ConfigurationError` where no store is named, and in place
    of a `RequestError`."""
    settings = load(parsed.config, os.environ)
    if not settings.keeps_keys:
        raise ConfigurationError(
            'keys need a place to be kept: set [accounts] path = "accounts.db" in --config, or '
            "SLUICEGATE_ACCOUNTS__PATH=accounts.db; [database] url for several gateways"
        )
    database = Database(settings.database) if settings.database.url else None
    accounts = Accounts(settings.accounts, settings.keys, database)
    accounts.store.open()
    try:
        accounts.keyring.replace(accounts.store.keys())
        yield accounts
    except RequestError as error:
        raise ConfigurationError(error.message) from error
    finally:
        accounts.store.close()
        if database is not None:
            database.close()
