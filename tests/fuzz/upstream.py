"""Fuzz what the gateway believes of another server: random answers go through its reader, some through HTTP.

    python -m tests.fuzz.upstream [--answers 100000] [--seed 0] [--served 0.01]

Every case has a seed of its own and is printed with it if it fails: `--case 123` runs one again. A case fails if
anything but a typed error is raised; if a choice goes on after its end, or a whole answer lacks one; if a choice is
longer than `max_tokens` can be, what is charged is more than was reserved, or text is free; if a tool is called that
was not offered, or arguments break their schema; if log probabilities leave that were not asked for, or are none; if an
error quotes the server; or if memory grows past a bound. `--served` is the part that also goes through sockets.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import math
import random
import resource
import time
import traceback
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import jsonschema_rs

from sluicegate.gateway.accounts.limits.estimates import most_read
from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.testing import TestApp
from sluicegate.gateway.upstream.bounds import CHARS_A_TOKEN, SPARE_CHARS
from sluicegate.gateway.upstream.generation import UpstreamCall, UpstreamGeneration
from sluicegate.gateway.upstream.reading.tool_calls import OfferedTools
from sluicegate.gateway.upstream.transport.client import Client
from sluicegate.grammar import GrammarOptions, LazyGrammar, compile_json_schema
from sluicegate.plugins import (
    Constraint,
    Job,
    Piece,
    Prompt,
    Request,
    Sampling,
    SluicegateError,
    Tool,
    ToolChoice,
    UpstreamFailed,
    Usage,
)
from sluicegate.plugins.testing import make_request
from tests.fuzz import answers
from tests.fuzz.cases import Finding
from tests.gateway.upstream.servers import Act, ScriptedServer, Send, running
from tests.grammar.grammar_checks import byte_vocabulary

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
TOOLS = (Tool("look", parameters=SCHEMA), Tool("find", parameters=SCHEMA))
CONTEXT = 4096
LIMIT_BYTES = 256 * 1024 * 1024
"""Of the whole process, the making of the answers included."""
FREE = GrammarOptions(whitespace=r"[ \t\r\n]{0,200}", property_order="any")
JUDGE = jsonschema_rs.validator_for(SCHEMA)


@dataclass(frozen=True)
class Case:
    """What is asked, and what the server says to it."""

    request: Request
    streamed: bool
    data: bytes
    parts: list[bytes]

    @property
    def constrained(self) -> bool:
        return self.request.constraint is not None


def case_of(seed: int) -> Case:
    pick = random.Random(f"upstream:{seed}")
    tools, constrained = pick.random() < 0.4, pick.random() < 0.3
    request = make_request(
        "Tell me of the sea.",
        model="far",
        n=pick.choice([1, 1, 1, 2, 4]),
        stream=pick.random() < 0.6,
        sampling=Sampling(max_tokens=pick.choice([1, 5, 64, 1000]), logprobs=pick.choice([None, None, 0, 2])),
        constraint=Constraint("json_schema", SCHEMA) if constrained else None,
        tools=TOOLS if tools else (),
        tool_choice=ToolChoice(
            pick.choice(["auto"] * 6 + ["required", "none"]),
            None if pick.random() < 0.8 else frozenset({"find"}),
            pick.random() < 0.7,
        ),
    )
    streamed = request.stream if pick.random() < 0.95 else not request.stream
    data = answers.answer(
        pick, request.n, streamed=streamed, constrained=constrained, tools=tools or pick.random() < 0.1
    )
    if pick.random() < 0.03:
        streamed = not streamed  # it says that it is the other thing
    return Case(request, streamed, data, answers.cut(pick, data))


# --- straight into the reader -----------------------------------------------------------------------------------


class Said:
    """A `Reply` whose bytes are at hand."""

    def __init__(self, case: Case) -> None:
        self.is_stream = case.streamed
        self._parts = case.parts

    async def pieces(self, until: float | None, most_unused: int) -> AsyncGenerator[bytes, None]:
        for part in self._parts:
            yield part

    server = 0

    def progressed(self) -> None: ...

    def failed(self, why: str) -> None: ...

    async def finish(self) -> None: ...

    def drop(self) -> None: ...


@dataclass
class Asking:
    """A `Client` that answers every time the same."""

    case: Case
    broken: int = 0
    cut: int = 0
    disbelieved: int = 0

    def disbelieve(self, request_id: str) -> None:
        self.disbelieved += 1

    async def ask(self, body: Any, tries: Any, traceparent: str = "", until: float | None = None) -> Said:
        tries.read += 1
        return Said(self.case)


def generation(case: Case, grammar: LazyGrammar) -> UpstreamGeneration:
    request = case.request
    grammars = {tool.name: grammar for tool in request.callable_tools} if request.stream else {}
    job = Job(
        request.id,
        "far",
        Prompt("", ()),
        request.sampling,
        grammar=grammar if case.constrained else None,
        n=request.n,
        request=request,
        tool_grammars=grammars,
    )
    offered = OfferedTools(request, grammars, Validator())
    body: dict[str, Any] = {"messages": []}
    return UpstreamGeneration(UpstreamCall(job, cast(Client, Asking(case)), body, offered, 2, CONTEXT))


@dataclass
class Heard:
    """What came of one choice."""

    texts: dict[str, str] = field(default_factory=dict)
    calls: dict[int, list[str]] = field(default_factory=dict)
    ended: str | None = None


async def read(case: Case, grammar: LazyGrammar) -> str:
    """Read an answer. Return what came of it: "whole", or the code of the error that ended it. Raises `Finding`."""
    made = generation(case, grammar)
    heard = [Heard() for _ in range(case.request.n)]
    outcome = "whole"
    try:
        async for piece in made:
            hear(case, heard[piece.index], piece)
    except UpstreamFailed as error:
        outcome = "upstream_failed"
        if answers.PHRASE in error.message or len(error.message) > 300:
            raise Finding(f"the error quotes the server: {error.message!r}") from None
    except SluicegateError as error:
        raise Finding(f"another error than of the upstream: {error!r}") from None
    for one in heard:
        settle(case, one, whole=outcome == "whole")
    charge(case, made.usage, heard)
    return outcome


def hear(case: Case, heard: Heard, piece: Piece) -> None:
    if heard.ended is not None:
        raise Finding("a choice went on after its end")
    heard.ended = piece.finish_reason
    if piece.channel == "tool_arguments":
        if piece.call != len(heard.calls) - (piece.call in heard.calls):
            raise Finding(f"call {piece.call} comes after {len(heard.calls)}")
        if piece.call not in heard.calls and piece.tool not in [tool.name for tool in case.request.callable_tools]:
            raise Finding(f"the tool {piece.tool!r} was not offered")
        heard.calls.setdefault(piece.call, []).append(piece.text)
    heard.texts[piece.channel] = heard.texts.get(piece.channel, "") + piece.text
    for entry in piece.logprobs:
        likeliest = [(token, data, logprob) for _, token, data, logprob in entry.top]
        for token, data, logprob in [(entry.token, entry.data, entry.logprob), *likeliest]:
            spelled = (data.decode("utf-8", "replace"), data.decode("utf-8", "backslashreplace"))
            if (
                case.request.sampling.logprobs is None
                or token not in spelled
                or not (logprob <= 0 and math.isfinite(logprob))
            ):
                raise Finding(f"a log probability that is none: {entry}")
        if len(entry.top) > (case.request.sampling.logprobs or 0):
            raise Finding("more of the likeliest than were asked for")


def settle(case: Case, heard: Heard, *, whole: bool) -> None:
    if whole and heard.ended is None:
        raise Finding("a choice never ended")
    tokens = case.request.sampling.max_tokens or CONTEXT
    said = "".join(heard.texts.values())
    if len(said) > tokens * CHARS_A_TOKEN + SPARE_CHARS:
        raise Finding(f"{len(said)} characters at max_tokens {tokens}")
    by_channel = sum(len(text.split()) for text in heard.texts.values())
    if by_channel > tokens + tokens // 8 + 2 + len(heard.calls):  # a word may be cut by a border of channels
        raise Finding(f"{by_channel} words at max_tokens {tokens}")
    if heard.ended in ("stop", "tool_calls"):
        for parts in heard.calls.values():
            if not JUDGE.is_valid(json.loads("".join(parts))):
                raise Finding("arguments break their schema")
        if len(heard.calls) > 1 and not case.request.tool_choice.parallel:
            raise Finding("more calls than one")
        if case.constrained and not heard.calls and not JUDGE.is_valid(json.loads(heard.texts.get("content", ""))):
            raise Finding("the answer breaks its schema")


def charge(case: Case, usage: Usage, heard: list[Heard]) -> None:
    request, tokens = case.request, case.request.sampling.max_tokens or CONTEXT
    chars = sum(len(text) for one in heard for text in one.texts.values())
    numbers = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    if any(type(number) is not int or number < 0 for number in numbers):
        raise Finding(f"not a count: {usage}")
    if usage.prompt_tokens > most_read(request, CONTEXT) or usage.completion_tokens > request.n * tokens:
        raise Finding(f"more than was reserved: {usage}")
    if usage.cached_tokens > usage.prompt_tokens or usage.prompt_tokens == 0:
        raise Finding(f"the prompt is free: {usage}")
    if usage.completion_tokens < min(chars // CHARS_A_TOKEN, request.n * tokens):
        raise Finding(f"{chars} characters for {usage.completion_tokens} tokens")


async def case(seed: int, grammar: LazyGrammar) -> str:
    try:
        return await read(case_of(seed), grammar)
    except Finding as error:
        return f"FINDING {error}"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"FINDING {type(error).__name__}: {str(error)[:200]} ({last.filename.split('/')[-1]}:{last.lineno})"


# --- through a gateway ------------------------------------------------------------------------------------------


def acts(case: Case) -> Act:
    async def act(server: ScriptedServer, send: Send) -> None:
        kind = b"text/event-stream" if case.streamed else b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        for part in case.parts[:200]:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"".join(case.parts[200:])})

    return act


@contextlib.contextmanager
def gateway() -> Any:
    """Run a gateway and its server; yield (app, server). The gateway belongs to nobody's books."""
    server = ScriptedServer(acts(case_of(0)))
    with running(server) as url:
        model = {"url": url, "allow_private": True, "dialect": "vllm", "retries": 0, "attempts": 1, "idle_s": 5.0}
        stages = {"generate": {"upstream": {"models": {"far": {**model, "failures_to_open": 10**9}}}}}
        with TestApp(pipeline={"generate": ["upstream"], "constrain": ["grammar"]}, stages=stages) as app:
            yield app, server


def served(seed: int, app: TestApp, server: ScriptedServer) -> str:
    """Do as `case`, through sockets; the gateway must be there afterwards."""
    found = case_of(seed)
    server._acts[:] = [acts(found)]
    try:
        answer = app.client.post("/v1/chat/completions", json=_body(found.request))
        outcome = _outcome(found.request, answer)
        alive = app.client.get("/healthz").status_code == 200
    except httpx.HTTPError as error:
        return f"FINDING through HTTP: {type(error).__name__}"
    except Finding as error:
        return f"FINDING through HTTP: {error}"
    return outcome if alive else "FINDING through HTTP: the gateway is gone"


def _body(request: Request) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": "far",
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "n": request.n,
        "stream": request.stream,
        "max_tokens": request.sampling.max_tokens,
    }
    if request.sampling.logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": request.sampling.logprobs}
    if request.constraint is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    if request.tools:
        functions = [{"name": tool.name, "parameters": dict(tool.parameters)} for tool in request.tools]
        choice, names = request.tool_choice, request.tool_choice.names
        mode: Any = choice.mode if names is None else {"type": "function", "function": {"name": "find"}}
        body["tools"] = [{"type": "function", "function": one} for one in functions]
        body |= {"tool_choice": mode, "parallel_tool_calls": choice.parallel}
    return body


def _outcome(request: Request, answer: httpx.Response) -> str:
    if answer.status_code not in (200, 400, 502):
        raise Finding(f"status {answer.status_code}: {answer.text[:200]}")
    if '"code":"' in answer.text and '"upstream_failed"' in answer.text:
        return "upstream_failed"
    if answer.status_code != 200:
        return "refused"
    if request.stream and not answer.text.rstrip().endswith("[DONE]"):
        raise Finding("the stream has no end")
    ends = answer.text.count('"finish_reason":"')
    if ends != request.n:
        raise Finding(f"{ends} ends of {request.n} choices")
    return "whole"


# --- all of it --------------------------------------------------------------------------------------------------


def run(count: int, seed: int, served_part: float = 0.0) -> tuple[Counter[str], list[str]]:
    """Try cases. Count how often which outcome was met, and return what was found."""
    grammar = compile_json_schema(SCHEMA, byte_vocabulary(), options=FREE)
    counts: Counter[str] = Counter()
    found: list[str] = []

    def note(number: int, outcome: str) -> None:
        counts[outcome.split(" ")[0]] += 1
        if outcome.startswith("FINDING"):
            found.append(f"case {number}: {outcome}")
            print(found[-1], flush=True)

    async def all_of_them() -> None:
        for number in range(seed, seed + count):
            note(number, await case(number, grammar))

    before = _peak()
    asyncio.run(all_of_them())
    if _peak() - before > LIMIT_BYTES:
        found.append(f"{_peak() - before} bytes more at once than before")
        print(found[-1], flush=True)
    through = range(seed, seed + int(count * served_part))
    if through:
        with gateway() as (app, server):
            for number in through:
                outcome = served(number, app, server)
                note(number, outcome if outcome.startswith("FINDING") else f"served:{outcome}")
    return counts, found


def _peak() -> int:
    """Return the most bytes that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--served", type=float, default=0.01)
    parser.add_argument("--case", type=int, help="run one again, and show its bytes")
    asked = parser.parse_args()
    logging.disable(logging.ERROR)
    if asked.case is not None:
        print(case_of(asked.case))
        print(asyncio.run(case(asked.case, compile_json_schema(SCHEMA, byte_vocabulary(), options=FREE))))
        return
    began = time.monotonic()
    counts, found = run(asked.answers, asked.seed, asked.served)
    print(json.dumps(dict(sorted(counts.items()))), f"{len(found)} findings in {time.monotonic() - began:.0f} s")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
