"""websockets, over the socket of chat."""

import json

from features import CLARA, REAL, SAID, SCHEMA, feature, run
from websockets.asyncio.client import connect

FORM = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}


async def told(body: dict) -> list[dict]:
    found = []
    async with connect(f"{REAL.replace('http', 'ws', 1)}/v1/chat/completions/ws") as socket:
        await socket.send(json.dumps(body))
        async for message in socket:
            found.append(json.loads(message))
            if found[-1].get("type") == "done" or "error" in found[-1]:
                break
            choices = found[-1].get("choices")
            if choices and choices[0].get("finish_reason"):
                break
    return found


@feature("schema, streamed")
async def schema() -> None:
    chunks = await told({"model": "bundled", "messages": SAID, "temperature": 0, "response_format": FORM})
    said = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c.get("choices"))
    assert json.loads(said) == CLARA, chunks


@feature("errors", raises="no model 'nope'")
async def errors() -> None:
    raise RuntimeError(str(await told({"model": "nope", "messages": SAID})))


run()
