"""What an operator may set of caches, and the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from sluicegate.plugins.settings import Count, Positive, Within


@dataclass(frozen=True, slots=True)
class SemanticSettings:
    """`[stages.recall.STORE.semantic]`: answers by meaning; an empty table will do."""

    embedder: str = ""
    """Empty = hashed n-grams; `folder:PATH`; `served` or `served:MODEL`; the URL of an embeddings API with its model
    after `#`; or `module:function` of one's own, called without arguments."""
    embedder_key_env: str = ""
    guard: Literal["words", "facts"] = "words"
    threshold: Annotated[float, Within(0, 1)] = 0.0
    """Cosine; 0 = the embedder's own."""
    error_bound: Annotated[float, Within(least=0, below=1)] = 0.0
    """0 = not in verified mode."""
    max_rows: Count = 100_000
    """Of one scope."""
    models: tuple[str, ...] = ()
    """Whose requests are answered by meaning without asking for it; "*" = all."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    budget_mb: Positive = 64.0
    ttl_s: Positive = 3600.0
    semantic: SemanticSettings | None = None


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    path: str = ""
    """Of the file, in a folder that exists."""
    budget_mb: Positive = 512.0
    ttl_s: Positive = 86400.0
    secret_env: str = ""
    semantic: SemanticSettings | None = None

    def __post_init__(self) -> None:
        if not self.path or not Path(self.path).parent.is_dir():
            raise ValueError(f"path must name a file in a folder that exists, found {self.path!r}")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class RedisSettings:
    url: str = field(default="redis://localhost:6379/0", repr=False)
    """See `redis_client`."""
    ttl_s: Positive = 3600.0
    prefix: str = "sluicegate"
    deadline_ms: Positive = 20.0
    search: Literal["process", "server"] = "process"
    """`server`: its vector sets."""
    tls: TlsSettings = TlsSettings()
    secret_env: str = ""
    semantic: SemanticSettings | None = None
