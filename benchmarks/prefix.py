"""Measure the effect of a template's order: prompt tokens whose KV blocks are reused, with stable parts first or not.

The same instructions, examples, documents and questions, asked of the bundled model in two ways: `mixed` puts the
question first and the instructions after the documents, as prompts grow by hand; `template` lets the gateway do it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from benchmarks.common import machine, parser, report
from sluicegate.gateway import create_app
from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import load
from sluicegate.gateway.lifecycle import close, start

SYSTEM = "You answer questions about parcels from the documents alone. Say the status first, then the reason. " * 3
EXAMPLES = [
    {"user": f"Where is parcel {number}?", "assistant": f"In transit: parcel {number} left the depot on Monday."}
    for number in range(4)
]


def main() -> None:
    given = parser(__doc__, None, 40, "questions of each kind").parse_args()
    print(machine())
    found = {
        name: asyncio.run(measure(make, given.limit)) for name, make in (("mixed", mixed), ("template", templated))
    }
    for name, one in found.items():
        print(f"{name:9} {one['rate']:.1%} of {one['asked']:.0f} prompt tokens reused")
    report(given, found)


async def measure(make: Any, limit: int) -> dict[str, float]:
    templates = {"parcel@1": {"system": SYSTEM, "examples": EXAMPLES}}
    runtime = compose(load(overrides={"prompts": {"templates": templates}, "pipeline": {"screen": []}}), {})
    await start(runtime)
    transport = httpx.ASGITransport(create_app(runtime.settings, runtime=runtime))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        for number in range(limit):
            body = {"model": "bundled", "max_tokens": 4, "temperature": 0, **make(number)}
            answer = await client.post("/v1/chat/completions", json=body)
            answer.raise_for_status()
    stats = runtime.pipeline.stages.generate[1].stats()
    await close(runtime)
    asked, hit = stats["prefix_cache_asked_tokens_total"], stats["prefix_cache_hit_tokens_total"]
    return {"asked": asked, "hit": hit, "rate": hit / asked}


def document(number: int) -> str:
    return f"Parcel {number} was seen at depot {number % 7} on day {number}. It waits for customs papers."


def mixed(number: int) -> dict[str, Any]:
    shown = "\n".join(f"{one['user']} {one['assistant']}" for one in EXAMPLES)
    text = f"Where is parcel {number}?\n\n{document(number)}\n\n{SYSTEM}\n\n{shown}"
    return {"messages": [{"role": "user", "content": text}]}


def templated(number: int) -> dict[str, Any]:
    extension = {"template": "parcel", "context": [{"text": document(number)}]}
    return {"messages": [{"role": "user", "content": f"Where is parcel {number}?"}], "sluicegate": extension}


if __name__ == "__main__":
    main()
