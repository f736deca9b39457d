"""What an operator may set of caches, and the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from sluicegate.plugins.addresses import check_redis_address
from sluicegate.plugins.settings import Count, Positive, Within


@dataclass(frozen=True, slots=True)
class SemanticSettings:
    """`[stages.recall.STORE.semantic]`: answers by meaning; an empty table will do."""

    embedder: str = ""
    """Empty = hashed n-grams; `folder:PATH`; `served` or `served:MODEL`; the URL of an embeddings API with its model
    after `#`; or `module:function` of one's own, called without arguments."""
    embedder_key_env: str = ""
    """The variable that holds the key of that API."""
    guard: Literal["words", "facts"] = "words"
    """What must agree between two questions: every word that matters, or only facts (numbers, names, negation)."""
    threshold: Annotated[float, Within(0, 1)] = 0.0
    """Cosine; 0 = the embedder's own."""
    error_bound: Annotated[float, Within(least=0, below=1)] = 0.0
    """0 = not in verified mode."""
    judge: str = ""
    """Of questions that the guard does not take for the same: `served` or `served:MODEL`, or the address of an
    OpenAI-compatible chat with its model after `#`; empty = the guard alone decides."""
    judge_key_env: str = ""
    """The variable that holds the key of that address."""
    judge_budget_ms: Positive = 2000.0
    """Of one verdict; a judge that takes longer costs the hit."""
    max_rows: Count = 100_000
    """Of one scope."""
    models: tuple[str, ...] = ()
    """Whose requests are answered by meaning without asking for it; "*" = all."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    budget_mb: Positive = 64.0
    """MB of memory; what was not used longest goes first."""
    ttl_s: Positive = 3600.0
    """How long an answer is served again."""
    semantic: SemanticSettings | None = None
    """Answers by meaning; none = only by the same request."""


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    path: str = ""
    """Of the file, in a folder that exists."""
    budget_mb: Positive = 512.0
    """MB of the file; what was not used longest goes first."""
    ttl_s: Positive = 86400.0
    """How long an answer is served again."""
    secret_env: str = ""
    """The variable with a secret under which entries are encrypted; empty = they are not."""
    semantic: SemanticSettings | None = None
    """Answers by meaning; none = only by the same request."""

    def __post_init__(self) -> None:
        if not self.path or not Path(self.path).parent.is_dir():
            raise ValueError(f"path must name a file in a folder that exists, found {self.path!r}")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    ca_file: str = ""
    """PEM file of the authority that signed the server's certificate; empty = the system's."""
    cert_file: str = ""
    """PEM file of our certificate, where the server asks for one."""
    key_file: str = ""
    """PEM file of its key."""
    check_hostname: bool = True
    """Refuse a certificate for another name."""


@dataclass(frozen=True, slots=True)
class RedisSettings:
    url: str = field(default="redis://localhost:6379/0", repr=False)
    """See `redis_client`."""
    ttl_s: Positive = 3600.0
    """How long an answer is served again."""
    prefix: str = "sluicegate"
    """Of all keys in Redis."""
    deadline_ms: Positive = 20.0
    """How long a look-up may take; a slower one counts as a miss."""
    search: Literal["process", "server"] = "process"
    """`server`: its vector sets."""
    tls: TlsSettings = TlsSettings()
    """For `rediss://`."""
    secret_env: str = ""
    """The variable with a secret under which entries are encrypted; empty = they are not."""
    semantic: SemanticSettings | None = None
    """Answers by meaning; none = only by the same request."""

    def __post_init__(self) -> None:
        check_redis_address("url", self.url)
