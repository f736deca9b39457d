"""What is kept beyond a request: reviews, feedback, recordings, batches, the database, changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from sluicegate.gateway.settings.numbers import Part
from sluicegate.plugins import Within
from sluicegate.plugins.addresses import POSTGRES, check_address
from sluicegate.plugins.contract.disk_paths import OnDisk, ReadFile, WrittenDatabase, WrittenFolder
from sluicegate.plugins.settings import Count

LOG_FILE = OnDisk("file", "write", makes_folders=False, beside=False)
"""Beside an audit log a file is made where the folder takes one."""


@dataclass(frozen=True, slots=True)
class ReviewSettings:
    """The queue of what rails want a person to look at."""

    enabled: bool = True
    """False: what would be escalated to a person is blocked."""
    path: WrittenDatabase = ""
    """SQLite file; by default `sluicegate/reviews.sqlite3` in the user's state folder."""
    secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: held texts are encrypted under it."""
    ttl_s: float = 86_400.0
    """What is undecided for this long is denied."""
    keep_s: float = 604_800.0
    """How long a decided item can be fetched."""
    max_pending: int = 10_000
    """Most undecided items; requests that would add another one are refused."""
    max_reports: int = 1000
    """Most false positives kept per tenant; 0 = any number."""
    max_report_bytes: int = 16 * 1024**2
    """Most bytes of their texts."""


@dataclass(frozen=True, slots=True)
class FeedbackSettings:
    """What callers say of answers: `/v1/feedback`."""

    enabled: bool = True
    """Accept feedback; otherwise the path is unknown."""
    path: WrittenDatabase = ""
    """SQLite file; empty = in memory, or in the shared database."""
    secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: comments are encrypted under it. Without it no comment is kept."""
    max_requests: int = 10_000
    """Most answered requests of a key that can still get feedback."""
    keep_s: float = 604_800.0
    """How long requests and their feedback are kept."""
    max_comment_chars: Annotated[int, Within(0, 100_000)] = 4096
    """Most characters of one comment; 0 = no comments."""


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """Requests that are kept with their answers, to be asked again: `sluicegate replay`."""

    enabled: bool = False
    """Record requests."""
    path: WrittenDatabase = ""
    """SQLite file, if no database is shared."""
    secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: recordings are encrypted under a key of each caller, and those keys under this
    one."""
    texts: Literal["screened", "received"] = "screened"
    """`screened`: after the input rails, without refused requests; `received`: as received."""
    share: Part = 1.0
    """Share of requests that are recorded, drawn at random."""
    keep_s: float = 604_800.0
    """How long a request is kept."""
    max_bytes: int = 1024**3
    """Most bytes of all recordings; the oldest are removed first."""
    max_request_bytes: int = 1024**2
    """Most bytes of one request; a longer one is not kept."""

    def __post_init__(self) -> None:
        if self.enabled and not self.secret:
            raise ValueError("secret is needed: recorded requests are never kept in the clear; `openssl rand -hex 32`")


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Files and batches: `/v1/files`, `/v1/batches`."""

    path: WrittenFolder = ""
    """Folder for uploads and results; empty = both are refused."""
    concurrency: Count = 8
    """Most requests of all batches that run at the same time."""
    keep_days: Annotated[int, Within(0, 36_500)] = 30
    """Files and ended batches older than this are removed, unless an open batch still reads them."""
    max_files: int = 1000
    """Most files of a tenant, uploads and results together; 0 = any number."""
    max_bytes: int = 1024**3
    """Most bytes of its files."""
    max_open: int = 100
    """Most open batches of a tenant."""
    min_free_bytes: int = 256 * 1024**2
    """Space that must stay free on the disk: below it nothing is uploaded and no batch is started."""


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """One PostgreSQL for all gateways of a deployment: keys, usage, records of files and batches, reviews, weights of
    routes, models that operators added."""

    url: str = field(default="", repr=False)
    """`postgresql://...`; empty = files of this machine."""
    connections: Annotated[int, Within(1, 1000)] = 8
    """Most connections of one gateway."""
    patience_s: float = 5.0
    """How long a call waits for a connection."""
    look_s: Annotated[float, Within(0.05, 60)] = 0.3
    """How often a gateway checks for changes by others: weights of routes, models, reloads, purges."""
    lease_s: Annotated[float, Within(2, 3600)] = 10.0
    """How long after a gateway's last sign of life others take over its batches."""

    def __post_init__(self) -> None:
        if self.url:
            check_address("url", self.url, POSTGRES)


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Who changed what."""

    path: Annotated[str, LOG_FILE] = ""
    """File that gets two lines of JSON for each change by an operator; empty = none is written."""
    secret_file: ReadFile = ""
    """File with at least 32 bytes that key the digests of the lines; empty = plain hashes."""
