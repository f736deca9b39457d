"""Keys, limits, prices, and where they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.gateway.settings.numbers import Money, Number
from sluicegate.plugins.addresses import check_redis_address
from sluicegate.plugins.contract.disk_paths import WrittenDatabase, WrittenFolder


@dataclass(frozen=True, slots=True)
class Limits:
    """What a key, or all keys of a team together, may use; None = as much as they like."""

    requests_per_minute: Number | None = None
    """Requests of every kind."""
    tokens_per_minute: Number | None = None
    """Prompt and answer together."""
    concurrency: Number | None = None
    """Requests that run at the same time."""
    budget_day: Money | None = None
    """Money of one day (UTC), in the currency of the prices."""
    budget_month: Money | None = None
    """Money of one calendar month (UTC), in the same currency."""
    run_calls: Number | None = None
    """Requests and tool calls of one run of an agent."""
    run_tokens: Number | None = None
    """Tokens of one run: prompts, answers, tool arguments and results together."""
    run_cost: Money | None = None
    """Money of one run."""
    run_s: Number | None = None
    """Seconds from the first request of a run to its last."""
    run_depth: Number | None = None
    """How many agents may have called each other above a request."""


@dataclass(frozen=True, slots=True)
class PriceSettings:
    """What a million tokens of a model cost."""

    input: float = 0.0
    """Price of prompt tokens."""
    output: float = 0.0
    """Price of answer tokens."""
    cached_input: float | None = None
    """Price of prompt tokens whose KV blocks were reused; None = as `input`."""
    call: float = 0.0
    """For an MCP server, named `mcp/SERVER`: price of one call, in addition to its tokens."""


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """Where keys, usage and shared limits are kept, and what tokens cost."""

    path: WrittenDatabase = ""
    """SQLite file with keys and usage; empty = only `[[keys]]`, and usage is lost when the process ends."""
    url: str = field(default="", repr=False)
    """URL of a Redis that several gateways share instead: keys, usage, limits."""
    journal: WrittenFolder = ""
    """Folder for what is not in the store yet, so that a killed gateway loses nothing; empty = beside `path`."""
    flush_s: float = 1.0
    """How often the journal is moved into the store, and how soon a key changed elsewhere takes effect."""
    keep_keys_s: float = 3600.0
    """How long the last known keys are served when the store has lost them or cannot be read."""
    sync: bool = False
    """Make the disk confirm every line of the journal; otherwise a power failure may lose the last `flush_s`."""
    currency: str = "USD"
    """Currency of all prices and budgets; only shown, never converted."""
    prices: Mapping[str, PriceSettings] = field(default_factory=dict)
    """Prices by model; `*` = every other model."""
    teams: Mapping[str, Limits] = field(default_factory=dict)
    """Limits by team."""

    def __post_init__(self) -> None:
        if self.url:
            check_redis_address("url", self.url)


ALLOW_LISTS = ("models", "tools", "mcp", "routes")
"""Fields of a key that allow everything where they are absent."""
EMPTY_LIST = "{} is an empty list, which may mean none or all; leave it out for all, or name what the key may use"


@dataclass(frozen=True, slots=True)
class KeySettings:
    """One API key; exactly one of `sha256` (hex of the key's UTF-8 bytes) and `key` is set."""

    id: str
    """Name of the key in logs, metrics and usage."""
    sha256: str = ""
    """Digest of the key, so that the file does not hold it."""
    key: str = field(default="", repr=False)
    """The key itself, in the clear."""
    tenant: str = ""
    """Owner of its data: caches, files and batches of other tenants are never visible."""
    team: str = ""
    """The team whose limits and budget also apply."""
    scopes: tuple[str, ...] = ()
    """`admin` opens everything under `/admin`."""
    models: tuple[str, ...] | None = None
    """Models this key may use; None = all."""
    tools: tuple[str, ...] | None = None
    """Tools this key may let a model call; None = all."""
    mcp: tuple[str, ...] | None = None
    """Tools of MCP servers this key may call: `SERVER` or `SERVER/TOOL`, `*` for any characters; None = those of all
    servers that are `open`."""
    routes: tuple[str, ...] | None = None
    """Paths this key may call, `*` at the end for all below; None = all."""
    rails: tuple[str, ...] = ()
    """Rails that must run for this key; without them it is refused."""
    expires: str = ""
    """Date or time (ISO 8601, UTC unless it says otherwise) from which the key is refused."""
    limits: Limits = Limits()
    """Limits of this key alone."""

    def __post_init__(self) -> None:
        for name in ALLOW_LISTS:
            if getattr(self, name) == ():
                raise ValueError(EMPTY_LIST.format(name))
