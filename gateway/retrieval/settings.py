"""Settings of the built-in retrievers."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.plugins.addresses import check_address, check_redis_address
from sluicegate.plugins.contract.disk_paths import ReadFile
from sluicegate.plugins.settings import Count


@dataclass(frozen=True, slots=True)
class HttpRetrieverSettings:
    """A search service of your own: `{"query": ..., "top_k": ...}` in, `{"documents": [{"text", "source", "score"}]}`
    out."""

    url: str
    """URL to which questions are POSTed."""
    key_env: str = ""
    """Environment variable with the key, which is sent as a bearer token."""
    count: Count = 32
    """Documents to ask for."""
    max_bytes: Count = 4 * 1024 * 1024
    """A longer answer fails."""
    send_tenant: bool = False
    """Send the caller's tenant along, as `tenant`: for services that keep documents apart by it."""

    def __post_init__(self) -> None:
        check_address("url", self.url)


@dataclass(frozen=True, slots=True)
class VectorSetSettings:
    """A vector set in Redis 8 (VADD, VSIM) whose elements have a JSON attribute with `text` and `source`."""

    url: str = "redis://127.0.0.1:6379/0"
    """URL of the Redis."""
    key: str = "sluicegate:documents"
    """Name of the set; `{tenant}` in it is replaced by the caller's tenant, so that each tenant has its own set."""
    embedder: str = ""
    """As in the semantic cache: empty = hashed n-grams, `served:MODEL`, `folder:PATH`, a URL with its model."""
    embedder_key_env: str = ""
    """Environment variable with the key of that API."""
    count: Count = 32
    """Documents to ask for."""
    tls_ca_file: ReadFile | None = None
    """PEM file of the certificate authority, for `rediss://`."""

    def __post_init__(self) -> None:
        check_redis_address("url", self.url)
