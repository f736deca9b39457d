"""Every field of an answer that a client can read, with the rule by which it leaves. A field without a rule stops the
start.

- `screened`: a text that went through a hold-back window.
- `derived`: made of screened text alone (`gateway.rails.token_probabilities`, `Exchange.withholds_tokens`).
- `ours`: made by the gateway: counts, times, ids, fixed sentences, names of stages and rails.
- `asked`: the caller's own words, or the operator's names, returned.
- `dropped`: never sent to a client.

`FIELDS` holds the facts that answers are made of, `KEYS` the keys of every body and event that leaves.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import BaseModel

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.api.openapi import schemas as documents
from sluicegate.gateway.request.guarding.judge import Judgement
from sluicegate.gateway.review.items import ReviewItem
from sluicegate.plugins import Answer, Decision, Piece, TokenLogprob, TokenStep, ToolCall, Usage

Law = Literal["screened", "derived", "ours", "asked", "dropped"]
Table = Mapping[Law, str]
"""Names by law, with blanks between them."""

FIELDS: Mapping[type, Table] = {
    Piece: {
        "screened": "text tool",
        "derived": "logprobs",
        "ours": "index finish_reason channel call closed ends",
        "asked": "stopped_by",
        "dropped": "token_ids probed joined behind",
    },
    Delta: {
        "screened": "text opened",
        "derived": "logprobs",
        "ours": "index finish_reason refusal channel call",
    },
    Answer: {
        "screened": "text reasoning tool_calls",
        "derived": "logprobs",
        "ours": "index finish_reason refusal closed",
        "asked": "stopped_by",
    },
    ToolCall: {"screened": "name arguments", "ours": "id"},
    TokenLogprob: {"derived": "token data top", "ours": "logprob", "dropped": "token_id"},
    TokenStep: {
        "derived": "text data likely",
        "ours": "choice at_s forced masked_share logprob law",
        "dropped": "token_id",
    },
    Usage: {"ours": "prompt_tokens completion_tokens cached_tokens"},
    Decision: {"ours": "slot stage outcome duration_s detail began_s"},
    Judgement: {"ours": "flagged scores hits not_enforced"},
    ReviewItem: {
        "asked": "model note",
        "ours": "id tenant key_id kind rail reason request_id created_s expires_s status decided_s decided_by",
    },
}

KEYS: Table = {
    "screened": """
        content text reasoning reasoning_content thinking summary message delta name arguments partial_json input
        custom content_block output result part item function tool_calls tool_use
    """,
    "derived": "logprobs logprob token bytes top_logprobs tokens token_logprobs text_offset confidence alternatives",
    "ours": """
        id object created created_at completed_at status index type role finish_reason refusal system_fingerprint
        choices usage prompt_tokens completion_tokens total_tokens prompt_tokens_details cached_tokens
        completion_tokens_details reasoning_tokens input_tokens output_tokens input_tokens_details
        output_tokens_details cache_write_tokens
        cache_creation_input_tokens cache_read_input_tokens call_id annotations citations signature
        incomplete_details reason error output_index content_index item_id sequence_number response store
        stop_reason stop_sequence stop_details category explanation error param code pointer request_id review url
        sluicegate not_enforced closed_on_length ended_by_repetition numbers_at_bound
        repetitions ignored stages slot stage outcome at_ms ms cached engine
        queue_ms prefill_ms decode_ms mask_ms forced_tokens drafted_tokens accepted_tokens preemptions choice forced
        masked tokens_withheld prompts results flagged data embedding has_more deleted owned_by max_model_len version
        server_load
        parent kind expires_at note total completed failed request_counts input_file_id output_file_id error_file_id
        probability rest confidence_missing call partial complete value values
        custom_id status_code body completion_window in_progress_at finalizing_at failed_at expired_at cancelling_at
        cancelled_at errors first_id last_id characters texts released counts count default_sampling notes top_k min_p
        repetition_penalty relevance_score score truncated unreadable
        processing_status processing succeeded errored canceled expired ended_at cancel_initiated_at
        archived_at results_url details error_code unsupported
        retrieval dropped failed retriever rail cut start end document_start document_end
    """,
    "asked": """
        model endpoint filename purpose file metadata detail categories category_scores category_applied_input_types
        background conversation instructions max_output_tokens max_tool_calls parallel_tool_calls previous_response_id
        prompt prompt_cache_key safety_identifier service_tier temperature tool_choice tools top_p truncation user
        format verbosity effort generate_summary token_strs description parameters strict prompt_cache_retention
        frequency_penalty presence_penalty
        syntax definition query documents document text_1 text_2 source top_n return_documents requests params
    """,
}
FREE = frozenset(
    ("input", "metadata", "detail", "categories", "category_scores", "category_applied_input_types", "parameters")
)
"""Below these stand keys of somebody else: of arguments, which were screened, of the caller, of rails."""


def uncovered() -> Iterator[str]:
    """Yield fields without a rule, and rules without a field."""
    for kind, table in FIELDS.items():
        known, there = set(_names(table)), set(fields_of(kind))
        yield from (f"{kind.__name__}.{name}" for name in sorted(known ^ there))
    keys = set(_names(KEYS))
    for name, kind in inspect.getmembers(documents, inspect.isclass):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            yield from (f"{name}.{field}" for field in kind.model_fields if field not in keys)


def strange_keys(body: object) -> Iterator[str]:
    """Yield the keys of a body that have no rule."""
    keys = set(_names(KEYS))
    if isinstance(body, dict):
        for key, value in body.items():
            if key not in keys:
                yield str(key)
            elif key not in FREE:
                yield from strange_keys(value)
    if isinstance(body, list):
        for value in body:
            yield from strange_keys(value)


def check() -> None:
    """Check that every field that can leave has a rule. Raises `RuntimeError`."""
    found = list(uncovered())
    if found:
        raise RuntimeError(
            f"no law says how these leave, or they are not there (gateway/api/disclosure.py): {', '.join(found)}"
        )


def fields_of(kind: type) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(getattr(kind, "_fields", ()))


def _names(table: Table) -> Iterator[str]:
    for names in table.values():
        yield from names.split()
