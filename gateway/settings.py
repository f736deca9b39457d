"""What an operator can set, as facts: one dataclass for each table of the configuration, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from sluicegate.gateway.mcp.settings import McpSettings
from sluicegate.plugins import SlotName, Within
from sluicegate.plugins.compiled.beside import CompileKind

Part = Annotated[float, Within(0, 1)]
MAX_LIMIT = 10**12
"""No limit is higher: what is more than this is a slip, and past what stores can add up."""
Number = Annotated[int, Within(0, MAX_LIMIT)]
Money = Annotated[float, Within(0, MAX_LIMIT)]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    host: str = "127.0.0.1"
    port: Annotated[int, Within(0, 65_535)] = 8000
    """0 = a free one."""
    max_body_bytes: int = 8 * 1024 * 1024
    tenant_bodies_bytes: int = 128 * 1024 * 1024
    """Of all bodies of one tenant (without keys: of one address) that are coming in or being answered."""
    all_bodies_bytes: int = 512 * 1024 * 1024
    """Of those of all tenants."""
    max_values: int = 100_000
    """Of JSON in one body: numbers, texts, lists and objects, however deep."""
    max_messages: int = 4096
    """Of one request; also items of `input` and prompts."""
    max_parts: int = 8192
    """Of content, in all messages of a request."""
    max_tools: int = 1024
    max_moderated_chars: int = 1_000_000
    """Of all texts of one request to `/v1/moderations`."""
    heartbeat_s: float = 15.0
    """A comment line is sent on a stream that was silent for so long, so that proxies keep it open."""
    lame_duck_s: Annotated[float, Within(0, 3600)] = 5.0
    """After SIGTERM, how long everything is still served while `/readyz` says 503, so that balancers stop sending."""
    drain_s: float = 10.0
    """How long open requests may go on after that."""
    min_free_bytes: int = 256 * 1024**2
    """What should stay free on every disk that is written to; below it `/readyz` says `degraded`."""
    deadline_s: Annotated[float, Within(0, 86_400)] = 600.0
    """Of requests that name none, batches aside; 0 = none."""
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    log_form: Literal["text", "json"] = "text"
    """`json`: one object a line."""
    compile: CompileKind = "background"
    """When loops that are not on the disk yet are compiled: `background`, beside a server that answers by slower code
    meanwhile; `first`, before it answers; `never`: what is not there is done without."""
    tls_cert: str = ""
    """PEM file of the certificate and its chain; with `tls_key` the gateway speaks HTTPS."""
    tls_key: str = ""
    tls_client_ca: str = ""
    """PEM file: only clients with a certificate of this authority are let in."""
    renew_s: Annotated[float, Within(0, 86_400)] = 10.0
    """How often certificates and files of secrets are looked at, and read again where they changed; 0 = never."""
    max_connections: int = 20_000
    """Further connections get a 503."""
    max_head_bytes: int = 65_536
    max_headers: int = 128
    head_s: float = 15.0
    """How long the head of a request may take."""
    body_s: float = 120.0
    """How long its body may take."""
    stall_s: float = 60.0
    """How long a client may take nothing of what was sent before its connection is dropped."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, with or without a port, that a gateway without keys answers to besides loopback's."""
    allowed_origins: tuple[str, ...] = ()
    """Origins (`https://NAME`) whose pages may use a gateway without keys, and open a socket to any."""
    shed_s: float = 0.0
    """Interactive requests that would wait longer than this for their first text get a 503 instead; 0 = all wait."""


@dataclass(frozen=True, slots=True)
class GrpcSettings:
    """gRPC beside HTTP, with the certificates and bounds of `[server]`; needs the extra `grpc`."""

    enabled: bool = False
    host: str = ""
    """Empty = that of `[server]`."""
    port: Annotated[int, Within(0, 65_535)] = 50051
    """0 = a free one."""
    calls_per_connection: Annotated[int, Within(1, 100_000)] = 256
    """That run at a time on one connection; further ones wait at the client."""
    ping_s: Annotated[float, Within(1, 3600)] = 10.0
    """A client that pings more often than this is disconnected."""
    reflection: bool = True
    """Tell clients which methods and messages there are; where there are keys, those with a key."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a key, or all keys of a team together, may use; None = as much as they like."""

    requests_per_minute: Number | None = None
    tokens_per_minute: Number | None = None
    """Prompt and answer together."""
    concurrency: Number | None = None
    """Requests that run at the same time."""
    budget_day: Money | None = None
    """Money of one day (UTC), in the currency of the prices."""
    budget_month: Money | None = None
    run_calls: Number | None = None
    """Requests and calls of tools of one run of an agent."""
    run_tokens: Number | None = None
    """Of one run, prompts, answers, arguments and results together."""
    run_cost: Money | None = None
    run_s: Number | None = None
    """Seconds from the first request of a run to its last."""
    run_depth: Number | None = None
    """Agents that may have called each other above a request."""


@dataclass(frozen=True, slots=True)
class PriceSettings:
    """What a million tokens of a model cost."""

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None
    """Prompt tokens whose KV blocks were reused; None = as `input`."""
    call: float = 0.0
    """Of an MCP server, which is named `mcp/SERVER`: what one call costs besides."""


@dataclass(frozen=True, slots=True)
class AccountSettings:
    """Where keys, usage and shared limits are kept, and what tokens cost."""

    path: str = ""
    """SQLite file with keys and usage; empty = only `[[keys]]`, and usage is forgotten at the end."""
    url: str = field(default="", repr=False)
    """Redis that several gateways share instead: keys, usage, limits."""
    journal: str = ""
    """Folder of what is not in the store yet, so that a killed gateway loses nothing; empty = beside `path`."""
    flush_s: float = 1.0
    """How often the journal moves into the store, and how soon a key changed elsewhere counts."""
    keep_keys_s: float = 3600.0
    """How long the last known keys are served when the store has lost them or cannot be read."""
    sync: bool = False
    """Have the disk confirm every line of the journal; without, a power failure may lose the last `flush_s`."""
    currency: str = "USD"
    prices: Mapping[str, PriceSettings] = field(default_factory=dict)
    """By model; `*` = every other."""
    teams: Mapping[str, Limits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeySettings:
    """One API key; exactly one of `sha256` (hex of the key's UTF-8 bytes) and `key` is set."""

    id: str
    sha256: str = ""
    key: str = field(default="", repr=False)
    tenant: str = ""
    team: str = ""
    scopes: tuple[str, ...] = ()
    """`admin` opens everything under `/admin`."""
    models: tuple[str, ...] = ()
    """Models this key may ask; none named = all."""
    tools: tuple[str, ...] = ()
    """Tools this key may let a model call; none named = all."""
    mcp: tuple[str, ...] = ()
    """Tools of MCP servers this key may call: `SERVER` or `SERVER/TOOL`, `*` for any characters; none named = those of
    all servers that are `open`."""
    routes: tuple[str, ...] = ()
    """Paths this key may call, `*` at the end for all below; none named = all."""
    rails: tuple[str, ...] = ()
    """Rails without which this key is not served."""
    expires: str = ""
    """Date or time (ISO 8601, UTC where nothing else is said) from which the key is refused."""
    limits: Limits = Limits()


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
    max_reports: int = 1000
    """False positives of a tenant that are kept; 0 = any number."""
    max_report_bytes: int = 16 * 1024**2
    """And the bytes of their texts."""


RolloutMetric = Literal["failures", "validity", "safety", "latency", "checks", "judge", "feedback"]


@dataclass(frozen=True, slots=True)
class OnlineChecks:
    """What holds of every good answer, whatever was asked."""

    must_match: tuple[str, ...] = ()
    """Regular expressions (RE2), each to be found in the answer's text."""
    must_not_match: tuple[str, ...] = ()
    min_chars: int = 0
    max_chars: int = 0
    """0 = any number."""


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """How a new version takes over a public name by itself, or does not."""

    canary: str
    """The served model that is new."""
    baseline: str
    """The one that it is to replace."""
    steps: tuple[float, ...] = (0.05, 0.25, 0.5)
    """Shares of the canary, rising, each below 1; after the last it gets all."""
    hold_s: float = 600.0
    """The least time at each step."""
    hold_requests: int = 50
    """The fewest requests that the canary answers at each step."""
    alpha: Annotated[float, Within(above=0, below=1)] = 0.05
    """Probability, at most, that a canary which is no worse is ever stopped; shared out by `weights`."""
    beta: Annotated[float, Within(above=0, below=1)] = 0.05
    """Probability, at most, that a canary which is worse by more than `tolerance` in a metric of `prove` gets all."""
    tolerance: Mapping[RolloutMetric, Part] = field(default_factory=dict)
    """By metric, how much worse counts as no worse, on its scale from 0 to 1; 0.1 where nothing is said."""
    weights: Mapping[RolloutMetric, Money] = field(default_factory=dict)
    """Parts of `alpha` by metric; 1 where nothing is said, 0 = the metric stops nothing."""
    prove: tuple[RolloutMetric, ...] = ("failures", "validity", "safety", "latency", "checks", "judge")
    """Metrics that have to show the canary fine before it gets all; those without any observation are named instead."""
    checks: OnlineChecks = OnlineChecks()
    judge: str = ""
    """A served model that marks answers; empty = none does."""
    judge_share: Part = 0.1
    """Of the answers, drawn at random."""
    rubric: str = ""
    """What the judge marks by; empty = whether the answer does what was asked."""

    def __post_init__(self) -> None:
        shares = (0.0, *self.steps)
        if not self.steps or any(not low < high < 1 for low, high in zip(shares, self.steps, strict=False)):
            raise ValueError(f"steps must be rising shares between 0 and 1, found {list(self.steps)}")
        if self.canary == self.baseline:
            raise ValueError(f"canary and baseline are both {self.canary!r}; name two served models")
        if self.weights and not any(self.weight(metric) for metric in get_args(RolloutMetric)):
            raise ValueError("weights are 0 for every metric, so that nothing could stop the canary")

    def weight(self, metric: RolloutMetric) -> float:
        return self.weights.get(metric, 1.0)

    def tolerated(self, metric: RolloutMetric) -> float:
        return self.tolerance.get(metric, 0.1)


@dataclass(frozen=True, slots=True)
class FeedbackSettings:
    """What callers say of answers: `/v1/feedback`."""

    enabled: bool = True
    path: str = ""
    """SQLite file; empty = in memory, or the database where one is shared."""
    secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: comments are encrypted under it. Without, none is kept."""
    max_requests: int = 10_000
    """Answered requests of a key that feedback can still be given on."""
    keep_s: float = 604_800.0
    """How long they, and the feedback, are kept."""
    max_comment_chars: Annotated[int, Within(0, 100_000)] = 4096


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """Requests that are kept with their answers, to be asked again: `sluicegate replay`."""

    enabled: bool = False
    path: str = ""
    """SQLite file, where no database is shared."""
    secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: what is kept is encrypted under a key of each caller's, and those under this."""
    texts: Literal["screened", "received"] = "screened"
    """`screened`: as the input rails left them, refused requests not at all; `received`: as they came."""
    share: Part = 1.0
    """Of the requests, drawn at random."""
    keep_s: float = 604_800.0
    max_bytes: int = 1024**3
    """Of all that is kept; the oldest goes first."""
    max_request_bytes: int = 1024**2
    """Of one; a longer one is not kept."""

    def __post_init__(self) -> None:
        if self.enabled and not self.secret:
            raise ValueError("secret is needed: recorded requests are never kept in the clear; `openssl rand -hex 32`")


@dataclass(frozen=True, slots=True)
class RouteSettings:
    """What one public name stands for."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """Versions (names of served models) and their shares; empty = the model of that name."""
    sticky: Literal["user", "tenant", "none"] = "user"
    """Who always gets the same version: `user` (of a tenant), `tenant`, or `none`."""
    fallback: tuple[str, ...] = ()
    """Models that are asked, in order, where this one is overloaded or fails before anything has left."""
    shadow: str = ""
    """A model that gets a copy of some requests; its answers are only recorded."""
    shadow_share: Part = 1.0
    rollout: RolloutSettings | None = None
    """A canary that is to take over by itself; `weights` are then its own."""

    def __post_init__(self) -> None:
        if self.rollout is not None and self.weights:
            raise ValueError("a route with a rollout takes its weights from it; leave out `weights`")
        if self.rollout is not None and self.sticky != "none":
            raise ValueError('a rollout compares requests that are drawn one by one; set sticky = "none" beside it')


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Places of one model, whoever asks."""

    max_running: int
    max_waiting: int = 64
    wait_s: float = 30.0


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    models: Mapping[str, RouteSettings] = field(default_factory=dict)
    """By public name."""
    queues: Mapping[str, QueueSettings] = field(default_factory=dict)
    """By served model."""
    state: str = ""
    """File that keeps changes of weights over a restart; empty = the configuration counts again. What rollouts have
    seen lies beside it, in `FILE.rollouts`."""


@dataclass(frozen=True, slots=True)
class WorkSettings:
    """Reading, tokenising and judging of large requests, in threads beside the event loop."""

    threads: int = 0
    """0 = half of the processors, at least 2 and at most 8."""
    per_tenant: int = 0
    """Threads that one tenant may have; 0 = half of `threads`."""
    inline_bytes: int = 4096
    """What is no larger runs on the event loop at once."""
    tenant_waiting: int = 64
    """Large pieces of one tenant that may wait; further ones get a 429."""
    tenant_bytes: int = 64 * 1024 * 1024
    """Bytes of one tenant that may wait or run."""
    all_bytes: int = 512 * 1024 * 1024
    """Of all tenants; beyond, a 503."""


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """Templates and context documents."""

    folder: str = ""
    """Files `NAME@VERSION.toml`."""
    templates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By `NAME@VERSION`, as in those files."""
    order: Literal["edges", "score", "given"] = "edges"
    """Of documents: `edges` (best first and last), `score` (best first), `given`."""
    context_share: Part = 0.5
    """Share of a model's context that documents get where nobody says more."""
    summarise: str = ""
    """Of what does not fit: `extractive`, or `module:function`; empty = left out."""


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """Documents that retrievers find for a question."""

    always: bool = False
    """For every question, unless the request says `retrieve: false`; otherwise for requests that say
    `retrieve: true`."""
    documents: Annotated[int, Within(1, 1000)] = 8
    """That a model reads at most."""
    candidates: Annotated[int, Within(1, 1024)] = 32
    """The best of all retrievers together, which are reranked and screened."""
    max_chars: Annotated[int, Within(1, 10_000_000)] = 40_000
    """Of all documents together; what does not fit is dropped."""
    max_document_chars: Annotated[int, Within(1, 10_000_000)] = 8000
    """Of one document; its end is cut."""
    timeout_s: Annotated[float, Within(0.001, 3600)] = 2.0
    """For each retriever; they are asked at the same time."""
    rerank: str = ""
    """A cross-encoder that is served here, or the URL of an API in Jina's shape, with its model behind `#`."""
    rerank_key_env: str = ""
    """The variable that holds the key of that API."""
    rerank_timeout_s: Annotated[float, Within(0.001, 3600)] = 5.0
    min_score: float | None = None
    """Documents below it are left out: the reranker's score, else the retriever's."""
    on_failure: Literal["refuse", "without"] = "refuse"
    """What becomes of a request when a retriever or the reranker fails: a 502, or an answer without, which says so."""
    on_blocked: Literal["drop", "refuse"] = "drop"
    """What becomes of a document that a rail refuses: it is left out, or the request is refused."""
    citations: bool = True
    """Say in the answer which of its spans stand in which document."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Which stages run in each slot, in order."""

    admit: tuple[str, ...] = ("api-keys", "limits")
    screen: tuple[str, ...] = ("secrets",)
    route: tuple[str, ...] = ("by-name",)
    retrieve: tuple[str, ...] = ()
    assemble: tuple[str, ...] = ("chat-template",)
    recall: tuple[str, ...] = ("memory",)
    constrain: tuple[str, ...] = ("grammar",)
    generate: tuple[str, ...] = ("engine",)
    moderate: tuple[str, ...] = ("secrets",)
    record: tuple[str, ...] = ("ledger", "metrics", "log")


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Where traces and metrics go is said by the standard `OTEL_...` variables."""

    console: bool = True
    """Serve the page `/console`."""
    content: bool = False
    """Put prompts and answers, after the rails, into traces and the console."""
    recent: int = 500
    """Finished requests that the console can show in full from memory."""
    history: str = ""
    """A folder for what the console shows, which then outlives the process; empty = it is gone at the end."""
    history_rows: Annotated[int, Within(1, 10_000_000)] = 100_000
    """Requests in it; without a folder, lines of the newest 10,000 are kept."""
    history_bytes: Annotated[int, Within(1_000_000, 10**13)] = 256 * 1024**2
    """And their bytes; the oldest go first."""
    history_days: Annotated[float, Within(0.001, 3650)] = 30.0
    """And how long each is kept."""
    history_secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: requests in full are encrypted under it, and only then texts that a rail
    withheld are kept in the folder."""
    evaluations: str = ""
    """A folder of reports that `sluicegate eval --save` wrote, for the console; empty = none."""
    label_values: int = 100
    """Values that one label of a metric may have; all others are counted as `other`."""
    slo_first_s: float = 1.0
    """A request counts as goodput when its first text left within this,"""
    slo_token_s: float = 0.1
    """every further token took no longer than this on average,"""
    slo_total_s: float = 30.0
    """and it was whole within this."""


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


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Who changed what."""

    path: str = ""
    """File that gets two lines of JSON for each change by an operator; empty = none is written."""
    secret_file: str = ""
    """File with at least 32 bytes under which the lines are sealed; empty = by a plain hash."""


@dataclass(frozen=True, slots=True)
class Settings:
    server: ServerSettings = ServerSettings()
    pipeline: PipelineSettings = PipelineSettings()
    keys: tuple[KeySettings, ...] = ()
    accounts: AccountSettings = AccountSettings()
    routing: RoutingSettings = RoutingSettings()
    batches: BatchSettings = BatchSettings()
    database: DatabaseSettings = DatabaseSettings()
    prompts: PromptSettings = PromptSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    work: WorkSettings = WorkSettings()
    grpc: GrpcSettings = GrpcSettings()
    stages: Mapping[SlotName, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Settings of stages by slot and name; each stage checks its own."""
    telemetry: TelemetrySettings = TelemetrySettings()
    review: ReviewSettings = ReviewSettings()
    audit: AuditSettings = AuditSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    recording: RecordingSettings = RecordingSettings()
    mcp: McpSettings = McpSettings()  # noqa: RUF009 - frozen
    policies: Mapping[str, Any] = field(default_factory=dict)
    """Policies by name; `gateway/rails/policy.py` checks them."""
    policy_file: str = ""
    """More policies, in a TOML file of their own."""

    def __post_init__(self) -> None:
        alone = {
            "[accounts] path": self.accounts.path,
            "[review] path": self.review.path,
            "[routing] state": self.routing.state,
            "[feedback] path": self.feedback.path,
            "[recording] path": self.recording.path,
        }
        named = [name for name, value in alone.items() if value]
        if self.database.url and named:
            raise ValueError(
                f"[database] url keeps what {named[0]} would keep on this machine alone; set one of the two"
            )
        if self.recording.enabled and not self.recording.path and not self.database.url:
            raise ValueError("[recording] needs a path, or a [database] url, to keep requests in")

    @property
    def keeps_keys(self) -> bool:
        """Whether keys can be made and revoked while the gateway runs."""
        return bool(self.accounts.path or self.accounts.url or self.database.url)

    def of_stage(self, slot: SlotName, name: str) -> Mapping[str, Any]:
        return self.stages.get(slot, {}).get(name, {})
