"""Slot `admit`, stage `limits`, and slot `record`, stage `ledger`: reserve before, settle after."""

from __future__ import annotations

from sluicegate.gateway.accounts.accounts import Accounts
from sluicegate.plugins import Caller, Outcome, Request


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
