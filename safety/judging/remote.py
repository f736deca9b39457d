"""Judge an answer by a guard on another server: an OpenAI-compatible chat API, or `/v1/moderations`.

A chat API gets the conversation with the answer so far as its last message; the server applies the guard's template.
`/v1/moderations` gets the unit with the text before it. Anything but a verdict raises: another status, a redirect, a
response too long or of too many values, no JSON, no score. All requests share one connection pool, in which tenants
take turns: whose judgements take long has three quarters of it at most.

Not covered: DNS rebinding, batching of judgements, and a service that sends interim heads ("100 Continue") without end:
it takes the event loop, up to 0.3 s at a time, until the rail's time budget is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import orjson

from sluicegate.plugins import Caller, Channel, Request, UpstreamFailed
from sluicegate.plugins.concurrency.fair_places import FairPlaces
from sluicegate.safety.detection.guards import GuardFormat, NoJudgement, Turn
from sluicegate.safety.judging.guard_reading import assessment, judged_after
from sluicegate.safety.judging.session import Assessment, JudgedReading

MOST_BYTES = 1024 * 1024
"""Maximum size of a response."""
MOST_VALUES = 10_000
"""Maximum of lists, objects and commas in a response. A megabyte of empty objects takes 0.2 s of the event loop."""
MOST_CATEGORIES = 1_000
MOST_VERDICT_CHARS = 16_384
"""Maximum length of a verdict in words."""
MOST_NAME_CHARS = 100
"""Maximum length of a category's name: names get into traces, a service may put texts there."""
SAID_ALL = (None, "stop", "eos_token", "stop_sequence", "end_turn")
"""Reasons that services give when their model has said all. Any other: it may have been cut short."""


class GuardService:
    """One remote address. Used on the event loop that called `start`; connects at the first request."""

    def __init__(self, url: str, key: str, model: str, max_connections: int) -> None:
        self._url = url
        self._key = key
        self.model = model
        self._max_connections = max_connections
        self._places = FairPlaces(max_connections, max(1, max_connections - max_connections // 4))
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._max_connections),
            headers={**headers, "content-type": "application/json", "accept-encoding": "identity"},
            timeout=aiohttp.ClientTimeout(None),  # the rail's time budget applies instead
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, path: str, body: Mapping[str, Any], tenant: str) -> Any:
        """Return the service's JSON response, for a request of `tenant`. Raises `UpstreamFailed`."""
        if self._session is None:
            raise NoJudgement("the judge was not started")
        data = orjson.dumps(body)
        async with self._places.taken(tenant):
            try:
                async with self._session.post(self._url + path, data=data, allow_redirects=False) as answer:
                    if answer.status != 200:
                        raise _failed(f"the service answered with status {answer.status}")
                    said = await _read(answer)
            except (aiohttp.ClientError, OSError) as error:
                raise _failed(f"the service cannot be reached ({type(error).__name__})") from error
        if sum(map(said.count, (b"[", b"{", b","))) > MOST_VALUES:
            raise _failed(f"the service's answer has more than {MOST_VALUES} values")
        try:
            return orjson.loads(said)
        except orjson.JSONDecodeError:
            raise _failed("the service's answer is no JSON") from None


def _failed(cause: str) -> UpstreamFailed:
    """Return the error of a judgement that the service did not give. `cause` is for operators."""
    return UpstreamFailed("the service that judges answers gave no verdict", cause=cause)


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for part in answer.content.iter_any():
        data += part
        if len(data) > MOST_BYTES:
            raise _failed(f"the service's answer is longer than {MOST_BYTES} bytes")
    return bytes(data)


class ChatGuardJudge:
    """A guard behind a chat API: the server applies its chat template, and the guard answers in words. One that is
    asked in one message is told the `policy`."""

    def __init__(
        self, service: GuardService, form: GuardFormat, policy: str, context_chars: int, max_new_tokens: int
    ) -> None:
        self.service = service
        self._form = form
        self._policy = policy
        self._context_chars = context_chars
        self._max_new_tokens = max_new_tokens

    async def start(self) -> None:
        await self.service.start()

    async def close(self) -> None:
        await self.service.close()

    def read(self, request: Request, caller: Caller, channel: Channel, lead: str) -> JudgedReading:
        history, lead = judged_after(request, self._context_chars, lead)
        return _ChatReading(self, history, lead, caller.tenant)

    async def ask(self, history: Sequence[Turn], answer: str, tenant: str) -> Assessment:
        """Ask about `answer`, given after `history`. Raises as `GuardService.ask`."""
        body = {
            "model": self.service.model,
            "messages": self._form.messages(history, "assistant", answer, self._policy),
            "max_tokens": self._max_new_tokens,
            "temperature": 0,
        }
        found = await self.service.ask("/chat/completions", body, tenant)
        try:
            choice = found["choices"][0]
            said, is_cut = choice["message"]["content"], choice.get("finish_reason") not in SAID_ALL
            if len(said) > MOST_VERDICT_CHARS:
                raise ValueError("too long for a verdict")
            return assessment(self._form.read(said, is_cut=is_cut))
        except (TypeError, KeyError, IndexError, ValueError, AttributeError):
            raise _failed(f"the service's answer is none of a {self._form.name}") from None


class _ChatReading:
    def __init__(self, judge: ChatGuardJudge, history: Sequence[Turn], answer: str, tenant: str) -> None:
        self._judge = judge
        self._history = history
        self._answer = answer
        self._tenant = tenant

    async def judge(self, unit: str) -> Assessment:
        self._answer += unit
        return await self._judge.ask(self._history, self._answer, self._tenant)


class ModerationsJudge:
    """A service that scores a text by category."""

    def __init__(self, service: GuardService, window_chars: int) -> None:
        self.service = service
        self._window_chars = window_chars

    async def start(self) -> None:
        await self.service.start()

    async def close(self) -> None:
        await self.service.close()

    def read(self, request: Request, caller: Caller, channel: Channel, lead: str) -> JudgedReading:
        return _ScoredReading(self, lead, self._window_chars, caller.tenant)

    async def ask(self, text: str, tenant: str) -> Assessment:
        model = {"model": self.service.model} if self.service.model else {}
        found = await self.service.ask("/moderations", {"input": text, **model}, tenant)
        try:
            [result] = found["results"]
            return _scored(result)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise _failed("the service's answer is none of /v1/moderations") from None


def _scored(result: Any) -> Assessment:
    """Return the scores of a result; a flagged category scores 1, whatever its score, and without one. Raises
    `ValueError` without scores."""
    scores, flags = dict(result["category_scores"]), dict(result.get("categories") or {})
    if max(len(scores), len(flags)) > MOST_CATEGORIES or not isinstance(result["flagged"], bool):
        raise ValueError("no result")
    if not all(map(_is_name, (*scores, *flags))):
        raise ValueError("no category")
    found: dict[str, float] = {}
    for name, score in scores.items():
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0.0 <= score <= 1.0:
            raise ValueError("no score")
        found[str(name)] = float(score)
    if any(flag is not None and not isinstance(flag, bool) for flag in flags.values()):
        raise ValueError("no flag")
    found |= {str(name): 1.0 for name, flag in flags.items() if flag is True}
    if result["flagged"] and 1.0 not in found.values():
        found["flagged"] = 1.0
    if not found:
        raise ValueError("no scores")
    return Assessment(found)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MOST_NAME_CHARS and name.isprintable()


class _ScoredReading:
    def __init__(self, judge: ModerationsJudge, before: str, window: int, tenant: str) -> None:
        self._judge = judge
        self._before = before
        self._window = window
        self._tenant = tenant

    async def judge(self, unit: str) -> Assessment:
        together = self._before[-self._window :] + unit
        self._before = together
        return await self._judge.ask(together, self._tenant)
