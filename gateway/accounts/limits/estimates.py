"""How much a request may use, told before anything is generated."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import orjson

from sluicegate.gateway.accounts.limits.meter import Need
from sluicegate.gateway.accounts.limits.prices import Prices
from sluicegate.plugins import Message, Request

ASSUMED_ANSWER_TOKENS = 1024
"""Counted against tokens a minute for an answer without `max_tokens`; the true number is settled afterwards."""
UNKNOWN_CONTEXT = 131_072
MESSAGE_TOKENS = 8
TEMPLATE_TOKENS = 256
TOOL_TOKENS = 64
"""What a chat template writes around a tool or a schema."""
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Reach:
    """Who may come to answer a request: versions of the model that was asked for, and what answers in their place.
    `models` None: any that is served. `context`: the longest of them."""

    models: Collection[str] | None
    context: int = UNKNOWN_CONTEXT


ReachOf = Callable[[str], Reach]


def need_of(request: Request, prices: Prices, reach_of: ReachOf, *, budgeted: bool) -> Need:
    """`tokens` is a fair guess. `nanos`, only worked out where somebody has a budget, is never too low: no tokenizer
    makes more tokens of a text than it has bytes, no answer outgrows the model's context, and no model that may come to
    answer costs more."""
    if not request.n:  # a call that generates nothing
        return Need(0, 0, seats=0)
    asked, reach = request.sampling.max_tokens, reach_of(request.model)
    context = reach.context
    choices = _choices(request)
    read = min(_prompt_chars(request) // CHARS_PER_TOKEN, context)
    tokens = read + MESSAGE_TOKENS * len(request.messages) + choices * min(asked or ASSUMED_ANSWER_TOKENS, context)
    if not budgeted:
        return Need(tokens, 0)
    most = choices * min(asked or context, context)
    return Need(tokens, prices.most_nanos(reach.models, most_read(request, context), most))


def most_read(request: Request, context: int) -> int:
    """Tokens of the prompt, never too few."""
    return min(_prompt_bytes(request), context)


def fairly_read(request: Request) -> int:
    """Tokens of the prompt where nobody has counted them, never more than `most_read`."""
    shown = _shown_bytes(request) if request.tools or request.constraint is not None else 0
    return -(-(_message_chars(request) + shown) // CHARS_PER_TOKEN)


def _choices(request: Request) -> int:
    """All that are generated, given or not: `best_of` and beams cost as much as choices do."""
    return max(request.n, request.sampling.best_of or 0)


def _prompt_chars(request: Request) -> int:
    documents = request.parts.documents if request.parts is not None else ()
    return _message_chars(request) + sum(len(document.text) for document in documents)


def _message_chars(request: Request) -> int:
    return sum(len(m.content) + _call_chars(m) for m in request.messages)


def _call_chars(message: Message) -> int:
    """Of what a message shows besides its content: names, ids, and calls with their arguments."""
    written = sum(len(c.id) + len(c.name) + len(c.arguments) for c in message.tool_calls)
    return written + len(message.name or "") + len(message.tool_call_id or "")


def _prompt_bytes(request: Request) -> int:
    """At most. What a template of the operator's adds is not known here: the prompt may then be as long as it can."""
    if request.parts is not None:
        return UNKNOWN_CONTEXT
    text = sum(len(m.content.encode("utf-8", "surrogatepass")) + 4 * _call_chars(m) for m in request.messages)
    calls = TOOL_TOKENS * sum(len(message.tool_calls) for message in request.messages)
    return text + calls + _shown_bytes(request) + TEMPLATE_TOKENS + 2 * MESSAGE_TOKENS * len(request.messages)


def _shown_bytes(request: Request) -> int:
    """The schema and the tools, which the prompt may show."""
    constraint = request.constraint
    shown: list[Any] = [[tool.name, tool.description, tool.parameters] for tool in request.callable_tools]
    if constraint is not None and constraint.kind == "json_schema":
        shown.append(constraint.value)
    return len(orjson.dumps(shown, option=orjson.OPT_NON_STR_KEYS)) + TOOL_TOKENS * len(shown) if shown else 0
