"""What the tests of the stores ask and answer."""

from __future__ import annotations

from typing import Any

from sluicegate.cache import CacheQuestion, question_of
from sluicegate.plugins import Answer, Caller, Message, Request, Sampling, TokenLogprob

LOGPROBS = (TokenLogprob(5, "hé", "hé".encode(), -0.5, ((5, "hé", "hé".encode(), -0.5), (6, "", b"\xc3", -1.25))),)
ANSWERS = (Answer(0, "héllo \u2028 \x00", "stop", LOGPROBS),)
GREEDY = Sampling(temperature=0)


def asked(text: str = "How do I reset my password?", tenant: str = "acme", **named: Any) -> CacheQuestion:
    """Make a question. `named` may hold `system`, `semantic`, `tags`, `threshold` and all that `question_of` takes by
    name."""
    messages = (Message("system", named.pop("system", "be brief")), Message("user", text))
    request = Request(id="r", model="alias", messages=messages, sampling=GREEDY)
    return question_of(request, Caller(tenant), **({"model": "m", "model_version": "1"} | named))


def answer(text: str) -> tuple[Answer, ...]:
    return (Answer(0, text, "stop"),)
