"""How much a request may use, told before anything is generated."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from gateway.accounts.meter import Need
from gateway.accounts.prices import Prices
from plugins import Request

ASSUMED_ANSWER_TOKENS = 1024
"""Counted against tokens a minute for an answer without `max_tokens`; the true number is settled afterwards."""
UNKNOWN_CONTEXT = 131_072
MESSAGE_TOKENS = 8
TEMPLATE_TOKENS = 256
CHARS_PER_TOKEN = 4

ContextLength = Callable[[str], int | None]


def need_of(request: Request, prices: Prices, context_of: ContextLength, *, budgeted: bool) -> Need:
    """`tokens` is a fair guess. `nanos`, only worked out where somebody has a budget, is never too low: no tokenizer
    makes more tokens of a text than it has bytes, and no answer outgrows the model's context."""
    asked = request.sampling.max_tokens
    context = context_of(request.model) or UNKNOWN_CONTEXT
    chars = sum(len(message.content) for message in request.messages)
    answers = request.n * min(asked or ASSUMED_ANSWER_TOKENS, context)
    tokens = chars // CHARS_PER_TOKEN + MESSAGE_TOKENS * len(request.messages) + answers
    if not budgeted:
        return Need(tokens, 0)
    model = request.model if prices.knows(request.model) else prices.dearest()
    most = request.n * min(asked or context, context)
    return Need(tokens, prices.most_nanos(model, min(_prompt_bytes(request), context), most))


def _prompt_bytes(request: Request) -> int:
    text = sum(len(message.content.encode("utf-8", "surrogatepass")) for message in request.messages)
    return text + _shown_bytes(request) + TEMPLATE_TOKENS + 2 * MESSAGE_TOKENS * len(request.messages)


def _shown_bytes(request: Request) -> int:
    """The schema, which the prompt may show."""
    constraint = request.constraint
    if constraint is None or constraint.kind != "json_schema":
        return 0
    return len(orjson.dumps(constraint.value, option=orjson.OPT_NON_STR_KEYS))
