"""What answers look like, for the OpenAPI document. Nothing is validated against these while serving; tests do that."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Open(BaseModel):
    """May have more fields than are named."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())


class ErrorDetail(Open):
    message: str = Field(description="what was found, where, and what to do")
    type: str
    param: str | None = Field(description="the field, by its path")
    code: str | None = Field(description="a stable name that clients may switch on")


class ErrorAnswer(Open):
    error: ErrorDetail


class MessageErrorDetail(Open):
    type: str
    message: str
    param: str | None = Field(default=None, description="the field, by its path")
    code: str | None = Field(default=None, description="a stable name that clients may switch on")


class MessageErrorAnswer(Open):
    type: Literal["error"]
    error: MessageErrorDetail


class Notes(Open):
    """`sluicegate`: what was not enforced, what was closed early, and, with `explain`, what each stage decided."""

    not_enforced: list[str] | None = None
    closed_on_length: list[int] | None = None
    ended_by_repetition: list[int] | None = None
    numbers_at_bound: list[int] | None = None
    stages: list[dict[str, Any]] | None = None


class TokenUsage(Open):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CalledFunctionAnswer(Open):
    name: str
    arguments: str = Field(description="JSON that satisfies the tool's schema")


class CalledTextAnswer(Open):
    name: str
    input: str = Field(description="A text that follows the tool's grammar, if it has one")


class ToolCallAnswer(Open):
    id: str
    type: Literal["function", "custom"]
    function: CalledFunctionAnswer | None = None
    custom: CalledTextAnswer | None = None


class ChatAnswerMessage(Open):
    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallAnswer] | None = None


class ChatChoice(Open):
    index: int
    message: ChatAnswerMessage
    logprobs: dict[str, Any] | None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter", "cancelled", "error"]


class ChatCompletion(Open):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokenUsage
    system_fingerprint: str
    sluicegate: Notes | None = None


class TextChoice(Open):
    index: int
    text: str
    logprobs: dict[str, Any] | None
    finish_reason: str
    refusal: str | None = None


class TextCompletion(Open):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: TokenUsage
    sluicegate: Notes | None = None


class ResponseUsage(Open):
    input_tokens: int
    output_tokens: int
    total_tokens: int


class OutputItem(Open):
    type: Literal["message", "function_call", "custom_tool_call", "reasoning"]
    id: str
    status: str


class ResponseAnswer(Open):
    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["completed", "incomplete", "in_progress"]
    model: str
    output: list[OutputItem]
    usage: ResponseUsage | None
    store: Literal[False]
    sluicegate: Notes | None = None


class MessageUsage(Open):
    input_tokens: int
    output_tokens: int


class AnswerBlock(Open):
    type: Literal["text", "tool_use", "thinking"]


class MessageAnswer(Open):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerBlock]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]
    usage: MessageUsage
    sluicegate: Notes | None = None


class EmbeddingUsage(Open):
    prompt_tokens: int
    total_tokens: int


class EmbeddingItem(Open):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingList(Open):
    object: Literal["list"]
    data: list[EmbeddingItem]
    model: str
    usage: EmbeddingUsage


class RankedDocument(Open):
    index: int
    relevance_score: float


class Ranking(Open):
    id: str
    model: str
    results: list[RankedDocument]
    usage: EmbeddingUsage


class RankingAsked(BaseModel):
    model: str
    query: str
    documents: list[str]
    top_n: int | None = None
    return_documents: bool | None = None


class ScoredPair(Open):
    object: Literal["score"]
    index: int
    score: float


class ScoreList(Open):
    id: str
    object: Literal["list"]
    data: list[ScoredPair]
    model: str
    usage: EmbeddingUsage


class ScoresAsked(BaseModel):
    model: str
    text_1: str
    text_2: str | list[str]


class ModerationResult(Open):
    flagged: bool
    categories: dict[str, bool]
    category_scores: dict[str, float]


class ModerationAnswer(Open):
    id: str
    model: str
    results: list[ModerationResult]
    sluicegate: Notes | None = None


class ModelCard(Open):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int | None
    version: str
    parent: str | None
    default_sampling: dict[str, float]
    notes: list[str]


class ModelList(Open):
    object: Literal["list"]
    data: list[ModelCard]


class FileAnswer(Open):
    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: str


class FileList(Open):
    object: Literal["list"]
    data: list[FileAnswer]
    has_more: bool


class FileDeleted(Open):
    id: str
    object: Literal["file"]
    deleted: bool


class BatchCounts(Open):
    total: int
    completed: int
    failed: int


class BatchAnswer(Open):
    id: str
    object: Literal["batch"]
    endpoint: str
    status: str
    input_file_id: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    expires_at: int
    request_counts: BatchCounts


class BatchList(Open):
    object: Literal["list"]
    data: list[BatchAnswer]
    has_more: bool


class MessageBatchCounts(Open):
    processing: int
    succeeded: int
    errored: int
    canceled: int
    expired: int


class MessageBatchAnswer(Open):
    id: str
    type: Literal["message_batch"]
    processing_status: Literal["in_progress", "canceling", "ended"]
    request_counts: MessageBatchCounts
    created_at: str
    expires_at: str
    ended_at: str | None
    cancel_initiated_at: str | None
    archived_at: str | None
    results_url: str | None


class MessageBatchList(Open):
    data: list[MessageBatchAnswer]
    has_more: bool
    first_id: str | None
    last_id: str | None


class MessageBatchDeleted(Open):
    id: str
    type: Literal["message_batch_deleted"]


class BatchedRequest(Open):
    custom_id: str
    params: dict[str, Any]


class MessageBatchAsked(Open):
    """`params`: the body of `/v1/messages`, without `stream`."""

    requests: list[BatchedRequest]


class Alive(Open):
    status: Literal["alive"]


class VersionAnswer(Open):
    version: str


class LoadAnswer(Open):
    server_load: int


class TokensAsked(Open):
    """The body that would be sent for an answer; `/tokenize` takes `messages` or a `prompt`."""

    model: str | None = None


class InputTokens(Open):
    input_tokens: int


class Tokenized(Open):
    """`tokens` as the model reads them, its chat template and special tokens among them; `token_strs` as the vocabulary
    writes them, null where a plug-in's does not say."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class TokensGiven(BaseModel):
    model: str | None = None
    tokens: list[int]


class Detokenized(Open):
    prompt: str


class Upload(BaseModel):
    """A multipart form."""

    purpose: Literal["batch", "user_data"]
    file: str = Field(json_schema_extra={"format": "binary"})
