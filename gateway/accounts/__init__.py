"""Keys, limits, budgets and usage."""

from gateway.accounts.accounts import Accounts
from gateway.accounts.stages import Ledger, LimitsStage

__all__ = ["Accounts", "Ledger", "LimitsStage"]
