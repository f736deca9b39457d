"""Keys, limits, budgets and usage."""

from sluicegate.gateway.accounts.accounts import Accounts
from sluicegate.gateway.accounts.stages import Ledger, LimitsStage

__all__ = ["Accounts", "Ledger", "LimitsStage"]
