"""Answers of an upstream, valid ones and what becomes of them: types, ranges, nesting, order, bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

MOST_BYTES = 4 * 1024 * 1024
PHRASE = "halberd"
"""What only leaves where it was in a text: never in a name, an id, an error or a field that nobody reads."""
WORDS = ["the ", "sea ", "is ", "wide", ", ", "x", "", "\n", "漢字", "😀", "\u0000", "é", '"', "{", "a b c ", "   "]
WHOLE_NUMBERS = [
    0,
    1,
    2,
    7,
    10,
    63,
    64,
    65,
    1000,
    2**31 - 1,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
    -1,
    -(2**63),
]
FRACTIONS = [0.0, -0.0, 0.5, -0.5, 1.0, 1e308, -1e308, 5e-324, -9999.0, 1e9]
ODD: list[Any] = [
    None,
    True,
    False,
    "",
    "0",
    PHRASE,
    [],
    {},
    [[]],
    {"a": {}},
    [PHRASE],
    "x" * 3000,
    *WHOLE_NUMBERS,
    *FRACTIONS,
]
REASONS = [
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "function_call",
    "end_turn",
    "error",
    "cancelled",
    PHRASE,
    "",
]
KEYS = [
    "choices",
    "usage",
    "delta",
    "message",
    "content",
    "index",
    "finish_reason",
    "logprobs",
    "tool_calls",
    "error",
    PHRASE,
]
GOOD = ['{"a": 1}', '{ "a" : -20 }', '{"a": 0}']
BAD = ['{"a": "one"}', '{"b": 1}', "{", "[1]", '{"a": 1}}', f'{{"{PHRASE}": 1}}', "{}", ""]


def token(pick: random.Random, text: str, top: int = 2) -> dict[str, Any]:
    likeliest = [token(pick, pick.choice(WORDS), 0) for _ in range(pick.randrange(top + 1))]
    found: dict[str, Any] = {"token": text, "logprob": -pick.random() * 9, "top_logprobs": likeliest}
    if pick.random() < 0.7:
        found["bytes"] = list(text.encode())
    if pick.random() < 0.02:
        found["bytes"] = pick.choice([[1.0], [256], [-1], [True], list(PHRASE.encode()), [0] * 5000, 3 * 10**8, "ok"])
    return found


def logprobs(pick: random.Random, text: str) -> dict[str, Any] | None:
    if pick.random() < 0.6:
        return None
    return {"content": [token(pick, text[at : at + 2]) for at in range(0, len(text), 2)]}


def call(pick: random.Random, index: int | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    found: dict[str, Any] = {"function": function}
    if index is not None:
        found["index"] = index
    if name is not None and pick.random() < 0.8:
        found |= {"id": f"call_{index}", "type": "function"}
    return found


def usage(pick: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {"prompt_tokens": pick.randrange(40), "completion_tokens": pick.randrange(64)}
    if pick.random() < 0.3:
        found["prompt_tokens_details"] = {"cached_tokens": pick.randrange(60)}
    if pick.random() < 0.3:
        found["completion_tokens_details"] = {"reasoning_tokens": pick.randrange(60)}
    return found


def deltas(pick: random.Random, *, constrained: bool, tools: bool) -> list[dict[str, Any]]:
    """Draw what one choice says, in order. Its end is another event."""
    made: list[dict[str, Any]] = [{"role": "assistant", "content": ""}] if pick.random() < 0.5 else []
    if pick.random() < 0.3:
        made += [
            {pick.choice(["reasoning", "reasoning_content"]): pick.choice(WORDS)} for _ in range(pick.randrange(4))
        ]
    if tools and pick.random() < 0.6:
        for index in range(pick.choice([1, 1, 2, 3])):
            made += _called(pick, index)
    elif constrained:
        text = pick.choice(GOOD if pick.random() < 0.9 else BAD)
        cut = pick.randrange(len(text) + 1)
        made += [{"content": text[:cut]}, {"content": text[cut:]}]
    else:
        made += [{"content": pick.choice(WORDS)} for _ in range(pick.choice([0, 1, 3, 8, 200]))]
    return made


def _called(pick: random.Random, index: int) -> list[dict[str, Any]]:
    name = pick.choice([*["look", "find"] * 5, "lo", PHRASE])
    text = pick.choice(GOOD if pick.random() < 0.9 else BAD)
    cut = pick.randrange(len(text) + 1)
    if pick.random() < 0.3:
        return [{"tool_calls": [call(pick, index, name, text)]}]
    parts = [call(pick, index, name, ""), call(pick, index, None, text[:cut]), call(pick, index, None, text[cut:])]
    return [{"tool_calls": [one]} for one in parts]


def events(pick: random.Random, n: int, *, constrained: bool, tools: bool) -> list[Any]:
    """Draw a streamed answer that might be honest."""
    queues = [deltas(pick, constrained=constrained, tools=tools) for _ in range(n)]
    found: list[Any] = []
    while any(queues):
        index = pick.choice([i for i, queue in enumerate(queues) if queue])
        delta = queues[index].pop(0)
        choice = {"index": index, "delta": delta, "finish_reason": None}
        choice["logprobs"] = logprobs(pick, str(delta.get("content") or ""))
        if not queues[index]:
            choice["finish_reason"] = "tool_calls" if "tool_calls" in delta else pick.choice(["stop", "stop", "length"])
        found.append({"id": PHRASE, "object": "chat.completion.chunk", "created": 1, "choices": [choice]})
    if pick.random() < 0.8:
        found.append({"choices": [], "usage": usage(pick)})
    return found


def whole(pick: random.Random, n: int, *, constrained: bool, tools: bool) -> Any:
    """Draw a whole answer that might be honest, not streamed."""
    choices = []
    for index in range(n):
        said = deltas(pick, constrained=constrained, tools=tools)
        text = "".join(part.get("content") or "" for part in said)
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        calls = [one for part in said for one in part.get("tool_calls", ())]
        if calls:
            message["tool_calls"] = calls
        made = {"index": index, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        choices.append(made | {"logprobs": logprobs(pick, text)})
    return {"id": PHRASE, "choices": choices, "usage": usage(pick)}


# --- damage to values -------------------------------------------------------------------------------------------


def damaged(pick: random.Random, given: Any) -> Any:
    """Return `given` with one place made otherwise, deep or shallow."""
    if isinstance(given, dict) and given and pick.random() < 0.85:
        name = pick.choice(list(given))
        kind = pick.random()
        if kind < 0.08:
            return {key: value for key, value in given.items() if key != name}
        if kind < 0.12:
            return {**given, pick.choice(KEYS): pick.choice(ODD)}
        return {**given, name: damaged(pick, given[name])}
    if isinstance(given, list) and given and pick.random() < 0.85:
        at = pick.randrange(len(given))
        kind = pick.random()
        if kind < 0.08:
            return [*given[:at], given[at], *given[at:]]
        if kind < 0.12:
            return [given[at]] * pick.choice([40, 200])
        return [*given[:at], damaged(pick, given[at]), *given[at + 1 :]]
    if isinstance(given, str) and pick.random() < 0.3:
        return pick.choice(REASONS) if pick.random() < 0.5 else given * pick.choice([2, 300])
    return pick.choice(ODD)


def reordered(pick: random.Random, given: list[Any]) -> list[Any]:
    """Events out of order, doubled or lost."""
    if not given:
        return given
    at, to = pick.randrange(len(given)), pick.randrange(len(given))
    kind = pick.randrange(4)
    if kind == 0:
        return [*given[:at], *given[at + 1 :]]
    if kind == 1:
        return [*given[:at], given[at], *given[at:]]
    if kind == 2:
        return [*given[:to], given[at], *given[to:]]
    return given[::-1] if len(given) < 20 else given[:at]


# --- damage to bytes --------------------------------------------------------------------------------------------

NESTS = [b"[" * 1100 + b"]" * 1100, b'{"a":' * 600 + b"1" + b"}" * 600, b'{"choices":' + b"[" * 500 + b"]" * 500 + b"}"]
LITERALS = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"9" * 400,
    b"0x10",
    b"\\ud800",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\\u0000",
]


def encoded(pick: random.Random, given: Any) -> bytes:
    """Write JSON, at times with keys twice, a literal that is none, or in another encoding."""
    text = json.dumps(given, ensure_ascii=pick.random() < 0.5)
    kind = pick.random()
    if kind < 0.02 and text.startswith("{"):
        text = text[:-1] + f', "{pick.choice(KEYS)}": {json.dumps(pick.choice(ODD))}' + "}"
    if kind > 0.99:
        return text.encode(pick.choice(["utf-16", "utf-8-sig", "utf-32"]), "surrogatepass")
    data = text.encode("utf-8", "surrogatepass")
    if 0.02 < kind < 0.05:
        at = pick.randrange(len(data) + 1)
        return data[:at] + pick.choice(LITERALS) + data[at + pick.randrange(3) :]
    return pick.choice(NESTS) if 0.05 < kind < 0.055 else data


def framed(pick: random.Random, given: list[Any]) -> bytes:
    """Write the stream, with line ends, comments and fields as servers write them, or nearly."""
    end = pick.choice([b"\n\n"] * 50 + [b"\r\n\r\n", b"\n", b"\r\r", b"\n\n\n"])
    begin = pick.choice([b"data: "] * 60 + [b"data:", b"data:  ", b"data", b" data: ", b"event: x\ndata: "])
    parts = []
    for one in given:
        if pick.random() < 0.03:
            parts.append(
                pick.choice([b": note\n", b"\n", b"id: 1\n", b"retry: 99999\n", b"data:\n", b"data: \n", b"\x00"])
            )
        parts.append(begin + encoded(pick, one) + end)
    if pick.random() < 0.97:
        parts.append(
            pick.choice([b"data: [DONE]\n\n"] * 60 + [b"data: [DONE]", b"data:[DONE]\n\n", b"data: [done]\n\n"])
        )
    return b"".join(parts)


def scarred(pick: random.Random, data: bytes) -> bytes:
    """Return the bytes cut, flipped, doubled or with others put in."""
    at, to = pick.randrange(len(data) + 1), pick.randrange(len(data) + 1)
    kind = pick.randrange(5)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([pick.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + pick.choice(LITERALS) + data[at:]
    if kind == 3:
        return data[: max(at, to)] + data[min(at, to) :]
    return data + data


def cut(pick: random.Random, data: bytes) -> list[bytes]:
    """Cut the bytes as a network might deliver them."""
    if pick.random() < 0.3:
        return [data]
    size = pick.choice([1, 3, 17, 200, 1000]) if len(data) < 20_000 else 5000
    return [data[at : at + size] for at in range(0, len(data), size)]


DAMAGE: list[Callable[[random.Random, list[Any]], list[Any]]] = [
    lambda pick, given: given,
    lambda pick, given: [damaged(pick, one) if pick.random() < 0.3 else one for one in given],
    lambda pick, given: damaged(pick, given) if given else given,
    reordered,
]


def answer(pick: random.Random, n: int, *, streamed: bool, constrained: bool, tools: bool) -> bytes:
    """Draw the body of one answer."""
    if streamed:
        given: Any = events(pick, n, constrained=constrained, tools=tools)
        for _ in range(pick.choice([0, 0, 1, 1, 2, 4])):
            given = pick.choice(DAMAGE)(pick, given)
            given = given if isinstance(given, list) else [given]
        data = framed(pick, given)
    else:
        given = whole(pick, n, constrained=constrained, tools=tools)
        for _ in range(pick.choice([0, 0, 1, 1, 2, 4])):
            given = damaged(pick, given)
        data = encoded(pick, given)
    data = scarred(pick, data) if pick.random() < 0.1 else data
    return data[:MOST_BYTES]
