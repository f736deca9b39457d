"""What an operator may set of caches, and the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from sluicegate.plugins.addresses import check_redis_address
from sluicegate.plugins.contract.disk_paths import PlacedDatabase, ReadFile
from sluicegate.plugins.settings import Count, Positive, Within


@dataclass(frozen=True, slots=True)
class SemanticSettings:
    """`[stages.recall.STORE.semantic]`: answers by meaning; an empty table will do."""

    embedder: str = ""
    """Empty = hashed n-grams; `folder:PATH`; `served` or `served:MODEL`; the URL of an embeddings API with its model
    after `#`; or `module:function`, called without arguments."""
    embedder_key_env: str = ""
    """Environment variable with the key of that API."""
    guard: Literal["words", "facts"] = "words"
    """What must agree between two questions: every word that matters, or only facts (numbers, names, negation)."""
    threshold: Annotated[float, Within(0, 1)] = 0.0
    """Least cosine; 0 = the embedder's own default."""
    error_bound: Annotated[float, Within(least=0, below=1)] = 0.0
    """Share of wrong answers that verified mode allows; 0 = not in verified mode."""
    judge: str = ""
    """Judge of questions that the guard does not consider the same: `served` or `served:MODEL`, `folder:PATH` of
    all-MiniLM-L6-v2, or the URL of an OpenAI-compatible chat API with its model after `#`; empty = the guard alone
    decides."""
    judge_key_env: str = ""
    """Environment variable with the key of that API."""
    judge_budget_ms: Positive = 2000.0
    """Time limit of one verdict; a slower one costs the hit."""
    max_rows: Count = 100_000
    """Most rows of one scope."""
    models: tuple[str, ...] = ()
    """Models whose requests use the semantic cache by default; "*" = all."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    budget_mb: Positive = 64.0
    """MB of memory; the least recently used entries are dropped first."""
    ttl_s: Positive = 3600.0
    """How long an answer stays valid."""
    semantic: SemanticSettings | None = None
    """Answers to similar questions; none = only to identical requests."""


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    path: PlacedDatabase = ""
    """Path of the file, in an existing folder."""
    budget_mb: Positive = 512.0
    """MB of the file; the least recently used entries are dropped first."""
    ttl_s: Positive = 86400.0
    """How long an answer stays valid."""
    secret_env: str = ""
    """Environment variable with a secret by which entries are encrypted; empty = unencrypted."""
    semantic: SemanticSettings | None = None
    """Answers to similar questions; none = only to identical requests."""

    def __post_init__(self) -> None:
        if not self.path or not Path(self.path).parent.is_dir():
            raise ValueError(f"path must name a file in a folder that exists, found {self.path!r}")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    ca_file: ReadFile = ""
    """PEM file of the authority that signed the server's certificate; empty = the system's."""
    cert_file: ReadFile = ""
    """PEM file of the client certificate, if the server asks for one."""
    key_file: ReadFile = ""
    """PEM file of its key."""
    check_hostname: bool = True
    """Refuse a certificate for another host name."""


@dataclass(frozen=True, slots=True)
class RedisSettings:
    url: str = field(default="redis://localhost:6379/0", repr=False)
    """URL of the server, see `redis_client`."""
    ttl_s: Positive = 3600.0
    """How long an answer stays valid."""
    prefix: str = "sluicegate"
    """Prefix of all keys in Redis."""
    deadline_ms: Positive = 20.0
    """How long a look-up may take; a slower one counts as a miss."""
    search: Literal["process", "server"] = "process"
    """Where vectors are searched: in this `process`, or by the `server`'s vector sets."""
    tls: TlsSettings = TlsSettings()
    """For `rediss://`."""
    secret_env: str = ""
    """Environment variable with a secret by which entries are encrypted; empty = unencrypted."""
    semantic: SemanticSettings | None = None
    """Answers to similar questions; none = only to identical requests."""

    def __post_init__(self) -> None:
        check_redis_address("url", self.url)
