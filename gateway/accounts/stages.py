"""Slot `admit`, stages `api-keys` and `limits`, and slot `record`, stage `ledger`: who asks, reserve, settle."""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.gateway.accounts.accounts import Accounts
from sluicegate.gateway.accounts.keyring import Keyring
from sluicegate.gateway.accounts.records import KeyRecord
from sluicegate.plugins import Caller, Outcome, PermissionDenied, Request


class ApiKeys:
    """Finds who asks. Without keys everyone is the anonymous tenant, and the server refuses to bind anything but
    loopback. `rails` are the names of those that run: a key that asks for others is not served."""

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
    """Refuses what a key or its team may not use any more. Comes after the stage that finds the caller.

    Needs `ledger` in the slot `record`, which gives back what was reserved and not used.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def admit(self, request: Request, caller: Caller) -> Caller:
        await self._accounts.admit(request, caller)
        return caller


class Ledger:
    """Every request is settled once, however it ended."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def record(self, outcome: Outcome) -> None:
        self._accounts.settle(outcome)
