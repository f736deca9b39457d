"""PostgreSQL: what all gateways of one deployment share, and must not lose."""

from sluicegate.gateway.database.announcements import Announcements
from sluicegate.gateway.database.changes import Changes, note_change
from sluicegate.gateway.database.postgres import Connection, Database, DatabaseUnavailable, Rows, patient, unavailable
from sluicegate.gateway.database.sqlite_faults import fault_of, is_damaged
from sluicegate.gateway.database.tables import PostgresTables, SqliteTables, Tables, pull_back, tables_of

__all__ = [
    "Announcements",
    "Changes",
    "Connection",
    "Database",
    "DatabaseUnavailable",
    "PostgresTables",
    "Rows",
    "SqliteTables",
    "Tables",
    "fault_of",
    "is_damaged",
    "note_change",
    "patient",
    "pull_back",
    "tables_of",
    "unavailable",
]
