"""Estimate how much a request may use, before anything is generated."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from sluicegate.gateway.accounts.limits.meter import UsageEstimate
from sluicegate.gateway.accounts.limits.prices import Prices
from sluicegate.plugins import Message, Request, exact_json
from sluicegate.plugins.frozen import frozen_when_checked

ASSUMED_ANSWER_TOKENS = 1024
"""Tokens per minute reserved for an answer without `max_tokens`; the true number is settled afterwards."""
UNKNOWN_CONTEXT = 131_072
MESSAGE_TOKENS = 8
TEMPLATE_TOKENS = 256
TOOL_TOKENS = 64
"""Tokens that a chat template adds around a tool or a schema."""
CHARS_PER_TOKEN = 4


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class CandidateModels:
    """Models that may answer a request: versions of the one asked for, and its fallbacks. `models` None: any that is
    served. `context`: the longest of them, in tokens."""

    models: Collection[str] | None
    context: int = UNKNOWN_CONTEXT


ReachOf = Callable[[str], CandidateModels]


def need_of(request: Request, prices: Prices, reach_of: ReachOf, *, budgeted: bool) -> UsageEstimate:
    """Estimate a request. `tokens` is a fair guess. `nanos`, computed only if `budgeted`, is an upper bound: a text has
    at most as many tokens as bytes, an answer at most the context's length, and the dearest possible model counts."""
    if not request.n:  # a call that generates nothing
        return UsageEstimate(0, 0, seats=0)
    asked, reach = request.sampling.max_tokens, reach_of(request.model)
    context = reach.context
    choices = _choices(request)
    read = min(_prompt_chars(request) // CHARS_PER_TOKEN, context)
    tokens = read + MESSAGE_TOKENS * len(request.messages) + choices * min(asked or ASSUMED_ANSWER_TOKENS, context)
    if not budgeted:
        return UsageEstimate(tokens, 0)
    most = choices * min(asked or context, context)
    return UsageEstimate(tokens, prices.most_nanos(reach.models, most_read(request, context), most))


def most_read(request: Request, context: int) -> int:
    """Return an upper bound of the prompt's tokens."""
    return min(_prompt_bytes(request), context)


def fairly_read(request: Request) -> int:
    """Estimate the prompt's tokens; never more than `most_read`."""
    shown = _shown_bytes(request) if request.tools or request.constraint is not None else 0
    return -(-(_message_chars(request) + shown) // CHARS_PER_TOKEN)


def _choices(request: Request) -> int:
    """Count the choices that are generated, returned or not: `best_of` and beams cost as much."""
    return max(request.n, request.sampling.best_of or 0)


def _prompt_chars(request: Request) -> int:
    if request.parts is None:
        return _message_chars(request)
    return _message_chars(request) + sum(len(document.text) for document in request.parts.documents)


def _message_chars(request: Request) -> int:
    return sum([len(m.content) + _call_chars(m) for m in request.messages])


def _call_chars(message: Message) -> int:
    """Count the characters that a message shows besides its content: names, ids and calls with arguments."""
    if not (message.name or message.tool_call_id or message.tool_calls):
        return 0
    written = len(message.name or "") + len(message.tool_call_id or "")
    for call in message.tool_calls:
        written += len(call.id) + len(call.name) + len(call.arguments)
    return written


def _prompt_bytes(request: Request) -> int:
    """Return an upper bound of the prompt in bytes. What an operator's template adds is not known here: it counts as a
    whole context."""
    if request.parts is not None:
        return UNKNOWN_CONTEXT
    found = TEMPLATE_TOKENS + 2 * MESSAGE_TOKENS * len(request.messages) + _shown_bytes(request)
    for message in request.messages:
        text = message.content
        found += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        found += 4 * _call_chars(message) + TOOL_TOKENS * len(message.tool_calls)
    return found


def _shown_bytes(request: Request) -> int:
    """Count the bytes of the schema and the tools, which the prompt may show."""
    constraint = request.constraint
    if constraint is None and not request.tools:
        return 0
    shown: list[Any] = [[tool.name, tool.description, tool.parameters] for tool in request.callable_tools]
    if constraint is not None and constraint.kind == "json_schema":
        shown.append(constraint.value)
    return len(exact_json.write(shown)) + TOOL_TOKENS * len(shown) if shown else 0
