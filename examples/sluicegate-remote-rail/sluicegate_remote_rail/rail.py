"""The rail. Everything that is not a well-formed verdict raises, and the gateway then refuses the request.

Not covered: a service whose name is made to resolve to another address.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx

from sluicegate.plugins import Caller, Message, RailProperties, Request, ScreenResult
from sluicegate_remote_rail.settings import RemoteSettings

MAX_ANSWER_BYTES = 1024 * 1024


class NoVerdict(Exception):
    """The service did not say what to do. The message holds nothing of the request's text."""


class RemoteRail:
    """Slot `screen`. One client for all requests; it is made in the loop that uses it."""

    def __init__(
        self, settings: RemoteSettings, token: str = "", transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.settings = settings
        self._token = token
        self.properties = RailProperties(version="1", budget_s=settings.timeout_s, failure_mode="closed")
        self._transport = transport
        self._client: httpx.AsyncClient | None = None

    async def start(self) -> None:
        self._client = httpx.AsyncClient(
            transport=self._transport,
            headers={"authorization": f"Bearer {self._token}"} if self._token else {},
            timeout=self.settings.timeout_s,
            follow_redirects=False,
            trust_env=False,
        )

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        asked = [i for i, message in enumerate(request.messages) if message.role in self.settings.roles]
        if not asked:
            return ScreenResult()
        sent = [request.messages[i] for i in asked]
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                verdict = await self._ask(sent)
        except TimeoutError as error:
            raise NoVerdict(f"the service took longer than {self.settings.timeout_s:g} s") from error
        return _result(verdict, request, asked, sent)

    async def _ask(self, messages: Sequence[Message]) -> Any:
        if self._client is None:
            raise NoVerdict("the rail was not started")
        body = {"messages": [{"role": message.role, "content": message.content} for message in messages]}
        async with self._client.stream("POST", self.settings.url, json=body) as answer:
            if answer.status_code != 200:
                raise NoVerdict(f"the service answered with status {answer.status_code}")
            return json.loads(await _read(answer))


async def _read(answer: httpx.Response) -> bytes:
    data = bytearray()
    async for part in answer.aiter_bytes():
        data += part
        if len(data) > MAX_ANSWER_BYTES:
            raise NoVerdict(f"the service's answer is longer than {MAX_ANSWER_BYTES} bytes")
    return bytes(data)


def _result(verdict: Any, request: Request, asked: Sequence[int], sent: Sequence[Message]) -> ScreenResult:
    action = verdict.get("action") if isinstance(verdict, dict) else None
    reason = str(verdict.get("reason", "")) if isinstance(verdict, dict) else ""
    if action == "pass":
        return ScreenResult()
    if action == "block":
        return ScreenResult("block", reason or "no reason given")
    if action != "redact":
        raise NoVerdict(f"the service's action is {action!r}; expected pass, block or redact")
    return ScreenResult("redact", reason, _redacted(verdict.get("messages"), request, asked, sent))


def _redacted(found: Any, request: Request, asked: Sequence[int], sent: Sequence[Message]) -> tuple[Message, ...]:
    """Return the request's messages with those that were sent replaced. The service may change texts, never roles."""
    parts = [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []
    texts = [part["content"] for part in parts if isinstance(part.get("content"), str)]
    if [part.get("role") for part in parts] != [message.role for message in sent] or len(texts) != len(sent):
        raise NoVerdict("the service's redacted messages are not those that it was sent")
    messages = list(request.messages)
    for i, text in zip(asked, texts, strict=True):
        messages[i] = replace(messages[i], content=text)
    return tuple(messages)
