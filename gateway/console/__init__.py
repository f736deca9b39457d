"""The page `/console`, and the data it draws: nothing is fetched from anywhere else, nothing has to be built."""

from sluicegate.gateway.console.views import ConsoleViews

__all__ = ["ConsoleViews"]
