"""Slot `admit`, stages `api-keys` and `limits`, and slot `record`, stage `ledger`: identify the caller, reserve,
settle."""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.gateway.accounts.accounts import Accounts
from sluicegate.gateway.accounts.keyring import Keyring
from sluicegate.gateway.accounts.records import KeyRecord
from sluicegate.plugins import Caller, Outcome, PermissionDenied, Request


class ApiKeys:
    """Identifies the caller by API key. Without keys everyone is the anonymous tenant, and the server binds only to
    loopback. `rails`: names of the active rails; a key that requires others is refused."""

    def __init__(self, keyring: Keyring, rails: Iterable[str] = ()) -> None:
        self._keyring = keyring
        self._rails = frozenset(rails)

    async def admit(self, request: Request, caller: Caller) -> Caller:
        if not self._keyring.required:
            return caller
        record, found = self._identified(request)
        if record is not None and record.rails:
            self._check_rails(record)
        return found

    def _identified(self, request: Request) -> tuple[KeyRecord | None, Caller]:
        if request.on_behalf_of is not None:
            return self._keyring.by_id(request.on_behalf_of)
        return self._keyring.identify(request.api_key)

    def _check_rails(self, record: KeyRecord) -> None:
        missing = sorted(set(record.rails) - self._rails)
        if missing:
            raise PermissionDenied(
                f"key {record.id!r} is only served where these rails run: {', '.join(record.rails)}; this gateway runs "
                f"no {', '.join(missing)}: add it to [pipeline] screen or moderate"
            )


class LimitsStage:
    """Refuses requests beyond the limits of a key or its team. Must come after the stage that identifies the caller.
    Needs `ledger` in the slot `record`, which returns reserved amounts that were not used."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def admit(self, request: Request, caller: Caller) -> Caller:
        await self._accounts.admit(request, caller)
        return caller


class Ledger:
    """Settles every request once, however it ended."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def record(self, outcome: Outcome) -> None:
        self._accounts.settle(outcome)
