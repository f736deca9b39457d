"""What is kept beyond a request: reviews, feedback, recordings, batches, the database, changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from sluicegate.gateway.settings.numbers import Part
from sluicegate.plugins import Within
from sluicegate.plugins.addresses import POSTGRES, check_address


@dataclass(frozen=True, slots=True)
class ReviewSettings:
    """The queue of what rails want a person to look at."""

    enabled: bool = True
    """False: what would be escalated is blocked."""
    path: str = ""
    """The SQLite file; by default `sluicegate/reviews.sqlite3` in the user's folder for state."""
    secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: held texts are encrypted under it."""
    ttl_s: float = 86_400.0
    """What nobody decided for so long is denied."""
    keep_s: float = 604_800.0
    """How long a decided item can be fetched."""
    max_pending: int = 10_000
    """Items that wait for a decision; beyond, requests that would add one are refused."""
    max_reports: int = 1000
    """False positives of a tenant that are kept; 0 = any number."""
    max_report_bytes: int = 16 * 1024**2
    """And the bytes of their texts."""


@dataclass(frozen=True, slots=True)
class FeedbackSettings:
    """What callers say of answers: `/v1/feedback`."""

    enabled: bool = True
    """Take it; otherwise the path is unknown."""
    path: str = ""
    """SQLite file; empty = in memory, or the database where one is shared."""
    secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: comments are encrypted under it. Without, none is kept."""
    max_requests: int = 10_000
    """Answered requests of a key that feedback can still be given on."""
    keep_s: float = 604_800.0
    """How long they, and the feedback, are kept."""
    max_comment_chars: Annotated[int, Within(0, 100_000)] = 4096
    """Of one comment; 0 = no comments."""


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """Requests that are kept with their answers, to be asked again: `sluicegate replay`."""

    enabled: bool = False
    """Record; otherwise nothing is kept."""
    path: str = ""
    """SQLite file, where no database is shared."""
    secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: what is kept is encrypted under a key of each caller's, and those under this."""
    texts: Literal["screened", "received"] = "screened"
    """`screened`: as the input rails left them, refused requests not at all; `received`: as they came."""
    share: Part = 1.0
    """Of the requests, drawn at random."""
    keep_s: float = 604_800.0
    """How long a request is kept."""
    max_bytes: int = 1024**3
    """Of all that is kept; the oldest goes first."""
    max_request_bytes: int = 1024**2
    """Of one; a longer one is not kept."""

    def __post_init__(self) -> None:
        if self.enabled and not self.secret:
            raise ValueError("secret is needed: recorded requests are never kept in the clear; `openssl rand -hex 32`")


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Files and batches: `/v1/files`, `/v1/batches`."""

    path: str = ""
    """A folder for what is uploaded and answered; without one both are refused."""
    concurrency: int = 8
    """Requests of all batches together that run at a time."""
    keep_days: int = 30
    """Files and ended batches older than this are removed, unless an open batch still reads them."""
    max_files: int = 1000
    """Files that a tenant may keep, uploads and results together; 0 = any number."""
    max_bytes: int = 1024**3
    """And their bytes."""
    max_open: int = 100
    """Batches of a tenant that are open at the same time."""
    min_free_bytes: int = 256 * 1024**2
    """What has to stay free on the disk: below it nothing is uploaded and no batch begun."""


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """One PostgreSQL for all gateways of a deployment: keys, usage, records of files and batches, reviews, weights of
    routes, models that operators added."""

    url: str = field(default="", repr=False)
    """`postgresql://...`; empty = files of this machine."""
    connections: Annotated[int, Within(1, 1000)] = 8
    """That one gateway holds at most."""
    patience_s: float = 5.0
    """How long a call waits for a connection."""
    look_s: Annotated[float, Within(0.05, 60)] = 0.3
    """How often a gateway looks for what others changed: weights of routes, models, reloads, purges."""
    lease_s: Annotated[float, Within(2, 3600)] = 10.0
    """How long after a gateway was last heard of others take over its batches."""

    def __post_init__(self) -> None:
        if self.url:
            check_address("url", self.url, POSTGRES)


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Who changed what."""

    path: str = ""
    """File that gets two lines of JSON for each change by an operator; empty = none is written."""
    secret_file: str = ""
    """File with at least 32 bytes under which the lines are sealed; empty = by a plain hash."""
