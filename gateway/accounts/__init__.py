"""Keys, limits, budgets and usage."""

from sluicegate.gateway.accounts.accounts import Accounts
from sluicegate.gateway.accounts.stages import ApiKeys, Ledger, LimitsStage

__all__ = ["Accounts", "ApiKeys", "Ledger", "LimitsStage"]
