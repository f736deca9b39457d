"""Measure the gateway's own cost: CPU per request, per cache hit and per streamed chunk, without a model.

    python -m benchmarks.gateway --limit 2000

The application is called through its ASGI interface with keys, two rails and metrics on; a scripted model answers at
once, so what is left is ours: routing, parsing, the pipeline, rails, framing. HTTP parser and socket are not in it.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import orjson

from benchmarks import common
from sluicegate.gateway.testing import TestApp

WORDS = ["The ", "order ", "was ", "shipped ", "on ", "Tuesday ", "with ", "two ", "boxes. "]
PIPELINE = {
    "admit": ["api-keys"],
    "screen": ["secrets"],
    "moderate": ["secrets", "blocklist"],
    "record": ["metrics"],
    "recall": ["memory"],
}
STAGES = {"moderate": {"blocklist": {"phrases": [f"project nightingale {i}" for i in range(100)]}}}


async def call(app: Any, body: bytes) -> int:
    """Send one request through ASGI. Return the number of body messages that came back."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/chat/completions",
        "raw_path": b"/v1/chat/completions",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"authorization", b"Bearer x")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "root_path": "",
    }
    pending = [{"type": "http.request", "body": body, "more_body": False}]
    frames = 0
    left = asyncio.Event()

    async def receive() -> Any:
        if pending:
            return pending.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal frames
        assert message.get("status", 200) == 200, message
        frames += message["type"] == "http.response.body"

    await app(scope, receive, send)
    return frames


async def measure(requests: int, chunks: int) -> dict[str, float]:
    """Measure the microseconds of process CPU, as the median of five rounds."""
    script = [WORDS[i % len(WORDS)] for i in range(chunks)]
    body: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "Where is it?"}]}
    async with TestApp(pipeline=PIPELINE, stages=STAGES, script=script) as app:
        body["model"] = next(iter(app.runtime.models))
        long = await _rounds(app.app, {**body, "stream": True}, requests)
    async with TestApp(pipeline=PIPELINE, stages=STAGES, script=["Tuesday."]) as app:
        short = await _rounds(app.app, {**body, "stream": True}, requests)
        whole = await _rounds(app.app, body, requests)
        hit = await _rounds(app.app, {**body, "temperature": 0}, requests)
        assert app.runtime.caches[0][1].stats()["exact_hits_total"] >= requests
    return {
        "us_per_request": round(whole, 1),
        "us_per_exact_cache_hit": round(hit, 1),
        "us_per_streamed_request": round(short, 1),
        "us_per_chunk": round((long - short) / (chunks - 1), 2),
    }


async def _rounds(app: Any, body: dict[str, Any], requests: int) -> float:
    raw = orjson.dumps(body)
    for _ in range(20):
        await call(app, raw)
    found = []
    for _ in range(5):
        gc.collect()
        started = time.process_time()
        for _ in range(max(1, requests // 5)):
            await call(app, raw)
        found.append((time.process_time() - started) / max(1, requests // 5) * 1e6)
    return sorted(found)[2]


def main() -> None:
    made = common.parser(__doc__, None, 500, "requests in each of the three measurements")
    made.add_argument("--chunks", type=int, default=64, help="chunks of a streamed answer")
    arguments = made.parse_args()
    found = asyncio.run(measure(arguments.limit, arguments.chunks))
    print(common.machine())
    for name, value in found.items():
        print(f"{name:28} {value:10.1f}")
    common.report(arguments, found)


if __name__ == "__main__":
    main()
