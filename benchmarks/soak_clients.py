"""The clients of `benchmarks.service_soak`, and what they count as lost."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from benchmarks.soak_gateway import FRAIL, KEY, POISON, TRIP, Gateway

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "total": {"type": "number"}},
    "required": ["name", "total"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
COLOURS = ["red", "green", "blue"]
RUBBISH = (b"{", b"\xff\xfe", b'{"a":' * 5000, b"[]", b'{"model": 1}', b"")
CHAT = "/v1/chat/completions"
BATCH_LINES = 40


@dataclass
class Waits:
    """Seconds that answers of well-behaved clients took, in quiet and hostile periods."""

    hostile: bool = False
    seconds: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})
    healths: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})

    def add(self, took_s: float) -> None:
        self.seconds[self.hostile].append(took_s)

    def health(self, took_s: float) -> None:
        """Note how long `/healthz` took."""
        self.healths[self.hostile].append(took_s)

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for hostile, name in ((False, "quiet"), (True, "hostile")):
            ordered = sorted(self.seconds[hostile])
            if ordered:
                found[name] = {"n": len(ordered), "p50_s": _part(ordered, 0.5), "p99_s": _part(ordered, 0.99)}
            if health := sorted(self.healths[hostile]):
                found[f"healthz, {name}"] = {
                    "n": len(health),
                    "p99_s": _part(health, 0.99),
                    "worst_s": _part(health, 1),
                }
        return found


def _part(ordered: list[float], part: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3)


class Soak:
    def __init__(self, gateway: Gateway, session: aiohttp.ClientSession) -> None:
        self.gateway = gateway
        self.session = session
        self.did: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.tokens = 0
        """Of answers that came whole, as they said themselves."""
        self.ends_s = 0.0
        self.waits = Waits()
        self._acts = (
            *(self.whole, self.whole, self.stream, self.stream, self.again),
            *(self.leave, self.stall, self.rubbish, self.trip, self.poison, self.beside_the_poisoned),
        )

    async def worker(self) -> None:
        while time.monotonic() < self.ends_s:
            if not self.gateway.up:
                await asyncio.sleep(0.1)
                continue
            started, starts, act = time.monotonic(), self.gateway.starts, random.choice(self._acts)
            try:
                await act()
                if act == self.whole and self.gateway.starts == starts:
                    self.waits.add(time.monotonic() - started)
            except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
                if self.gateway.up and self.gateway.starts == starts:
                    self.lost[f"{act.__name__}: {type(error).__name__} after {time.monotonic() - started:.0f} s"] += 1
                self.did["cut by a kill"] += 1

    async def ask(self, text: str = "", **fields: Any) -> Any:
        text = text or f"Invoice {random.random()} from Harbour Tools, total {random.randint(1, 999)} EUR."
        body = {"model": "bundled", "messages": [{"role": "user", "content": text}], "max_tokens": 120, **fields}
        return self.session.post(self.gateway.url + CHAT, json=body, headers=_key())

    # --- what they do -------------------------------------------------------------------------------------------

    async def whole(self, text: str = "", **fields: Any) -> None:
        async with await self.ask(text, response_format=FORMAT, **fields) as answer:
            body = await answer.json()
            if self._refused(answer.status):
                return
            self._judge(body["choices"][0]["message"]["content"], body["choices"][0]["finish_reason"])
            self._used(body["usage"], body)

    async def again(self) -> None:
        """Ask what the cache may know already. With Redis gone it knows nothing, and that is all."""
        await self.whole(f"Invoice {random.randint(1, 20)} from Harbour Tools, total 5 EUR.", temperature=0)

    async def stream(self) -> None:
        asked: dict[str, Any] = {"response_format": FORMAT, "stream": True, "stream_options": {"include_usage": True}}
        async with await self.ask(**asked) as answer:
            lines = [line.strip() async for line in answer.content]
            if self._refused(answer.status):
                return
            events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]
            choices = [choice for event in events for choice in event["choices"]]
            if b"data: [DONE]" not in lines:
                raise aiohttp.ClientPayloadError("cut")
            reason = next((c["finish_reason"] for c in choices if c["finish_reason"]), None)
            self._judge("".join(c["delta"].get("content") or "" for c in choices), reason)
            self._used(events[-1]["usage"], *events)

    async def leave(self) -> None:
        async with await self.ask(stream=True) as answer:
            await answer.content.readany()
        self.did["left half way"] += 1

    async def stall(self) -> None:
        """Open a stream and read nothing for a moment."""
        async with await self.ask(stream=True):
            await asyncio.sleep(random.random())
        self.did["stalled"] += 1

    async def rubbish(self) -> None:
        async with self.session.post(self.gateway.url + CHAT, data=random.choice(RUBBISH), headers=_key()) as answer:
            await answer.read()
            if answer.status != 400:
                self.lost[f"rubbish answered with {answer.status}"] += 1
        self.did["rubbish refused"] += 1

    async def trip(self) -> None:
        """Make the plug-in throw: nothing may be answered, since nobody looked."""
        async with await self.ask(f"Mind the {TRIP}.") as answer:
            found = (await answer.json())["error"]["code"]
            if answer.status < 500 or found not in ("stage_failed", "overloaded"):
                self.lost[f"a rail that threw: {answer.status} {found}"] += 1
        self.did["refused since a rail threw"] += 1

    async def poison(self) -> None:
        async with await self.ask(f"Paragraph {POISON} {random.random()}", model=FRAIL) as answer:
            report = await answer.json()
            if answer.status == 503:
                self.did["refused with 503"] += 1
            elif answer.status != 500 or report["error"]["code"] != "generation_failed":
                self.lost[f"a poisoned request: {answer.status}"] += 1
            else:
                self.did["poisoned, and report so"] += 1

    async def beside_the_poisoned(self) -> None:
        """Ask in the same steps of the same model as the poisoned requests, whose numbers must not reach this one."""
        choice = {"choice": COLOURS}
        async with await self.ask(f"Colour {random.random()}?", model=FRAIL, structured_outputs=choice) as answer:
            report = await answer.json()
            if self._refused(answer.status):
                return
            self.did["answers"] += 1
            if report["choices"][0]["message"]["content"] not in COLOURS:
                self.lost["answer outside its choice"] += 1
            self._used(report["usage"], report)

    async def batches(self) -> None:
        """Run one batch after the other, through kills. Each line is answered once, or said to have failed."""
        while time.monotonic() < self.ends_s - 5:
            try:
                await self._batch()
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                await asyncio.sleep(0.5)

    async def _batch(self) -> None:
        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", "\n".join(map(_line, range(BATCH_LINES))).encode(), filename="in.jsonl")
        file = await self._call_json("post", "/v1/files", data=form)
        asked = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
        batch = await self._call_json("post", "/v1/batches", json=asked)
        while batch["status"] not in ("completed", "failed", "expired"):
            if time.monotonic() > self.ends_s + 60:
                self.lost["batch that does not end"] += 1
                return
            await asyncio.sleep(0.5)
            try:
                batch = await self._call_json("get", f"/v1/batches/{batch['id']}")
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                continue
        await self._check_batch(batch)

    async def _check_batch(self, batch: dict[str, Any]) -> None:
        found: Counter[str] = Counter()
        for file_id in filter(None, (batch["output_file_id"], batch["error_file_id"])):
            async with self.session.get(f"{self.gateway.url}/v1/files/{file_id}/content", headers=_key()) as answer:
                rows = [json.loads(row) for row in (await answer.read()).splitlines()]
            found.update(row["custom_id"] for row in rows)
            for body in (row["response"]["body"] for row in rows if (row["response"] or {}).get("status_code") == 200):
                self._used(body["usage"], body)
        if batch["status"] != "completed" or found != Counter(f"line-{i}" for i in range(BATCH_LINES)):
            self.lost[f"lines of a batch ({batch['status']})"] += 1
        self.did["batches"] += 1

    async def _call_json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        async with self.session.request(method, self.gateway.url + path, headers=_key(), **options) as answer:
            if answer.status != 200:
                raise aiohttp.ClientPayloadError(f"{path}: {answer.status}")
            return dict(await answer.json())

    # --- what they think of it ----------------------------------------------------------------------------------

    def _refused(self, status: int) -> bool:
        if status == 200:
            return False
        self.did[f"refused with {status}"] += 1
        if status not in (429, 503):
            self.lost[f"status {status}"] += 1
        return True

    def _judge(self, text: str, reason: str | None) -> None:
        self.did["answers"] += 1
        if reason == "length":
            self.did["out of tokens"] += 1
            return
        try:
            value = json.loads(text)
            if reason != "stop" or set(value) != {"name", "total"}:
                raise ValueError
        except ValueError:
            self.lost["answer that breaks its schema"] += 1

    def _used(self, usage: dict[str, Any], *report: dict[str, Any]) -> None:
        """Count the tokens used. A kept answer says how long it is and costs nothing."""
        if not any(one.get("sluicegate", {}).get("cached") for one in report):
            self.tokens += usage["prompt_tokens"] + usage["completion_tokens"]


def _key() -> dict[str, str]:
    return {"authorization": f"Bearer {KEY}"}


def _line(number: int) -> str:
    body = {"model": "bundled", "messages": [{"role": "user", "content": f"City {number}?"}], "max_tokens": 8}
    return json.dumps({"custom_id": f"line-{number}", "method": "POST", "url": CHAT, "body": body})
