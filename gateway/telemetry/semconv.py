"""Every attribute and metric name that leaves this process, in one place.

GenAI names follow the OpenTelemetry GenAI semantic conventions as of November 2026 (all of them still in status
"Development"); they are spelt out here because the constants of the published package are deprecated. What those
conventions have no name for is under `sluicegate.`.
"""

from __future__ import annotations

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_SEED = "gen_ai.request.seed"
REQUEST_CHOICE_COUNT = "gen_ai.request.choice.count"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_TOP_K = "gen_ai.request.top_k"
REQUEST_TOP_P = "gen_ai.request.top_p"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_FREQUENCY_PENALTY = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY = "gen_ai.request.presence_penalty"
OUTPUT_TYPE = "gen_ai.output.type"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
"""Content: opt-in, and only after the rails."""
LATENCY_IN_QUEUE = "gen_ai.latency.time_in_queue"
"""Not part of any convention; vLLM's spans have it, so its dashboards look for it."""

ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
STATUS_CODE = "http.response.status_code"
RESEND_COUNT = "http.request.resend_count"
TRY_OUTCOME = "sluicegate.try.outcome"
"""`answered`, or why another attempt followed or the request failed."""
TRY_CHOSEN_BY = "sluicegate.try.chosen_by"
"""Why this server was chosen of several: `load` or `prefix`."""
TRY_SAID = "sluicegate.try.said"
"""Why the server refused: its message where the operator opted in to content, else its code."""

MCP_METHOD = "mcp.method.name"
MCP_PROTOCOL = "mcp.protocol.version"
MCP_SERVER = "sluicegate.mcp.server"
JSONRPC_REQUEST_ID = "jsonrpc.request.id"
TOOL_NAME = "gen_ai.tool.name"
CALL_TOOL = "tools/call"
RUN = "sluicegate.run"
"""The run of an agent, by the name it gave."""

SPAN_KIND = "openinference.span.kind"
"""Lets back ends that know OpenInference show rails as guardrails; they recognise the root as an LLM call by
`gen_ai.*`."""
INPUT_VALUE = "input.value"
OUTPUT_VALUE = "output.value"

DATA_SOURCE_ID = "gen_ai.data_source.id"
RETRIEVAL_DOCUMENTS = "sluicegate.retrieval.documents"
"""How many documents a retriever found, or the reranker ranked."""
STAGE_SLOT = "sluicegate.stage.slot"
STAGE_NAME = "sluicegate.stage.name"
STAGE_OUTCOME = "sluicegate.stage.outcome"
GUARD_NAME = "sluicegate.guard.name"
GUARD_VERDICT = "sluicegate.guard.verdict"
GUARD_REASON = "sluicegate.guard.reason"
GUARD_SCORE = "sluicegate.guard.score"
GUARD_REDACTED = "sluicegate.guard.redacted"
GUARD_TARGET = "sluicegate.guard.target"
SCHEMA_KIND = "sluicegate.schema.kind"
TOKENS_FORCED = "sluicegate.decode.forced_tokens"
MASK_SECONDS = "sluicegate.decode.mask_seconds"
FORWARD = "sluicegate.forward"
ACCEPT_RATE = "sluicegate.speculation.accept_rate"
HOLD_EVENT = "sluicegate.hold"
HOLD_SECONDS = "sluicegate.hold.seconds"
HOLD_CHARACTERS = "sluicegate.hold.characters"
FIRST_TOKEN_EVENT = "first_token"
PREEMPTED_EVENT = "preempted"
REPETITION_EVENT = "repetition_detected"
POLICY = "sluicegate.policy"
MODEL_VERSION = "sluicegate.model.version"
TEMPLATE_VERSION = "sluicegate.template.version"
"""`name@version` of the prompt's template, and a digest of its text."""
RAILS = "sluicegate.rails"
"""The rails that the request passed, by slot and name."""
RAILS_VERSION = "sluicegate.rails.version"
"""Digest of the rails' settings and rules, and of the policy: what a cached answer depends on."""
NOT_ENFORCED = "sluicegate.not_enforced"
"""Rails that did not act on the request: slot, name and reason."""
REVIEW_ID = "sluicegate.review.id"
CACHE_HIT = "sluicegate.cache.hit"
CACHE_DETAIL = {
    "kind": "sluicegate.cache.kind",
    "score": "sluicegate.cache.score",
    "age_s": "sluicegate.cache.age",
    "saved_tokens": "sluicegate.cache.saved_tokens",
}
TENANT = "sluicegate.tenant"

PROVIDER = "sluicegate"
OPERATION_CHAT = "chat"
OPERATION_TEXT = "text_completion"
OPERATION_EMBEDDINGS = "embeddings"
OPERATION_MODERATION = "moderation"
OPERATION_RERANK = "rerank"
OPERATION_COUNT = "count_tokens"
"""Moderation, reranking and token counting are not part of any convention."""
OPERATION_RETRIEVAL = "retrieval"
OPERATION_TOOL = "execute_tool"
OPERATION_GUARDRAIL = "run_guardrail"
"""Proposed for the conventions (August 2026), not merged; so is the name of the span below."""
GUARDRAIL_SPAN = "run_guardrail {name}"

METRIC_REQUEST_DURATION = "gen_ai_server_request_duration_seconds"
METRIC_TIME_TO_FIRST_TOKEN = "gen_ai_server_time_to_first_token_seconds"
METRIC_TOKEN_USAGE = "gen_ai_client_token_usage"
METRIC_TIME_PER_OUTPUT_TOKEN = "gen_ai_server_time_per_output_token_seconds"
METRIC_INTER_TOKEN = "sluicegate_inter_token_seconds"
METRIC_QUEUE_TIME = "sluicegate_queue_seconds"
METRIC_PREFILL_TIME = "sluicegate_prefill_seconds"
METRIC_HOLD_TIME = "sluicegate_holdback_seconds"
METRIC_CACHED_TOKENS = "sluicegate_cached_prompt_tokens_total"
METRIC_GOODPUT = "sluicegate_goodput_requests_total"
METRIC_REFUSALS = "sluicegate_refusals_total"
METRIC_LOOP_LAG = "sluicegate_event_loop_lag_seconds"
METRIC_HTTP_RESPONSES = "sluicegate_http_responses_total"
METRIC_REQUESTS = "sluicegate_requests_total"
METRIC_STAGE_DURATION = "sluicegate_stage_duration_seconds"
METRIC_VERDICTS = "sluicegate_verdicts_total"
METRIC_CACHE_LOOKUPS = "sluicegate_cache_lookups_total"
METRIC_USAGE_REQUESTS = "sluicegate_usage_requests_total"
METRIC_USAGE_TOKENS = "sluicegate_usage_tokens_total"
METRIC_USAGE_COST = "sluicegate_usage_cost_total"
METRIC_CACHE_SAVED_TOKENS = "sluicegate_cache_saved_tokens_total"
METRIC_CACHE_SAVED_COST = "sluicegate_cache_saved_cost_total"
METRIC_LIMIT_REFUSALS = "sluicegate_limit_refusals_total"
METRIC_BOOKS_EVENTS = "sluicegate_books_events_total"
METRIC_BOOKS_TROUBLE = "sluicegate_books_trouble"
METRIC_CERTIFICATE_ENDS = "sluicegate_certificate_ends_seconds"
METRIC_SERVER_CERTIFICATE_ENDS = "sluicegate_server_certificate_ends_seconds"
METRIC_READY = "sluicegate_ready"
METRIC_TROUBLE = "sluicegate_trouble"
METRIC_DISK_FREE = "sluicegate_disk_free_bytes"
METRIC_FALSE_POSITIVES = "sluicegate_false_positives_total"
METRIC_INVALID_ANSWERS = "sluicegate_invalid_answers_total"

DURATION_BUCKETS_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
FIRST_TOKEN_BUCKETS_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
STAGE_BUCKETS_S = (0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144)
TOKEN_TIME_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)

OTLP_METRICS = {
    METRIC_REQUEST_DURATION: ("gen_ai.server.request.duration", "s"),
    METRIC_TIME_TO_FIRST_TOKEN: ("gen_ai.server.time_to_first_token", "s"),
    METRIC_TIME_PER_OUTPUT_TOKEN: ("gen_ai.server.time_per_output_token", "s"),
    METRIC_TOKEN_USAGE: ("gen_ai.client.token.usage", "{token}"),
}
"""Metrics' names and units in OTLP; Prometheus puts the unit into the name."""
OTLP_LABELS = {"gen_ai_request_model": REQUEST_MODEL, "gen_ai_token_type": "gen_ai.token.type"}
