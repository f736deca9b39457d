"""Requests that have ended, for the console: in memory, or in a SQLite file that outlives the process."""

from sluicegate.gateway.history.details import details_of
from sluicegate.gateway.history.history import History
from sluicegate.gateway.history.request_filter import HistoryFilter
from sluicegate.gateway.history.rows import RequestLine, row_of

__all__ = ["History", "HistoryFilter", "RequestLine", "details_of", "row_of"]
