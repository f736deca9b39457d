"""What every stream keeps, by dialect, and what its parts say when a client joins them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
PARTS = {"output_text": "text", "reasoning_text": "text", "refusal": "refusal"}


@dataclass
class Joined:
    """`calls`: (name, arguments) in their order. `ended`: the reason; empty where the stream ended as an error."""

    content: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    ended: str = ""


def sse(raw: str) -> tuple[list[Event], bool]:
    """Return the events, and whether `[DONE]` was the last. Asserts that an `event:` line says what its data says."""
    frames = [frame for frame in raw.split("\n\n") if frame.strip() and not frame.startswith(":")]
    events, done = [], False
    for frame in frames:
        lines = dict(line.split(": ", 1) for line in frame.splitlines())
        assert not done, "nothing follows [DONE]"
        done = lines["data"] == "[DONE]"
        if not done:
            events.append(json.loads(lines["data"]))
            assert lines.get("event", events[-1].get("type")) == events[-1].get("type")
    return events, done


def of_chat(raw: str) -> Joined:
    events, done = sse(raw)
    assert done
    failed = "error" in events[-1]
    chunks = events[:-1] if failed else events
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    joined, calls = Joined(), defaultdict[int, list[str]](list)
    for chunk in chunks:
        for choice in chunk["choices"]:
            assert not joined.ended, "nothing follows the end of a choice"
            delta = choice["delta"]
            assert set(delta) <= {"role", "content", "reasoning_content", "reasoning", "refusal", "tool_calls"}
            joined.content += delta.get("content") or ""
            joined.reasoning += delta.get("reasoning_content") or ""
            joined.refusal += delta.get("refusal") or ""
            for call in delta.get("tool_calls") or ():
                begins = call["index"] not in calls
                assert begins == ("id" in call) == ("name" in call["function"]), "named once, when it begins"
                assert not begins or call["index"] == len(calls)
                calls[call["index"]] += [call["function"]["name"]] if begins else []
                calls[call["index"]].append(call["function"].get("arguments") or "")
            joined.ended = choice["finish_reason"] or ""
    assert chunks[0]["choices"][0]["delta"].get("role") == "assistant"
    assert bool(joined.ended) != failed, "a stream ends once, by a reason or as an error"
    joined.calls = [(name, "".join(parts)) for name, *parts in calls.values()]
    return joined


def of_completions(raw: str) -> Joined:
    events, done = sse(raw)
    assert done
    failed = "error" in events[-1]
    joined = Joined()
    for chunk in events[:-1] if failed else events:
        for choice in chunk["choices"]:
            assert not joined.ended
            joined.content += choice["text"]
            joined.ended = choice["finish_reason"] or ""
    assert bool(joined.ended) != failed
    return joined


def of_responses(raw: str) -> Joined:
    events, done = sse(raw)
    assert not done
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1]
    items: dict[int, _Item] = {}
    for event in events[2:-1]:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert event["output_index"] == len(items), "items are numbered in the order in which they begin"
            items[len(items)] = _Item(event["item"])
        else:
            items[event["output_index"]].take(kind, event)
    assert len({item.id for item in items.values()}) == len(items)
    if last["type"] == "error":
        return Joined()
    response = last["response"]
    assert last["type"] == f"response.{response['status']}"
    assert response["output"] == [item.done for item in items.values()], "the last event repeats what was said"
    assert {event["response"]["id"] for event in (*events[:2], last)} == {response["id"]}
    check_response(response)
    return of_response(response)


class _Item:
    def __init__(self, item: Event) -> None:
        self.added, self.id = item, item["id"]
        assert item["status"] == "in_progress"
        self.text = ""
        self.done: Event | None = None
        self._stage = "added"
        self._cut = False

    def take(self, kind: str, event: Event) -> None:
        """Take an event, in this order: part added, deltas, text done, part done, item done; of calls without the
        part."""
        assert self.done is None, "an item that is done does not change"
        name, _, step = kind.rpartition(".")
        call = self.added["type"] in ("function_call", "custom_tool_call")
        if kind == "output_item.done":
            assert self._stage == ("text done" if call else "part done")
            self._finish(event["item"])
            return
        assert event["item_id"] == self.id
        assert call or event["content_index"] == 0
        before, self._stage = self._stage, self._next(name, step)
        allowed = {
            "part added": ("added",),
            "growing": ("added", "growing") if call else ("part added", "growing"),
            "text done": ("added", "growing") if call else ("part added", "growing"),
            "part done": ("text done", "growing"),
        }
        assert before in allowed[self._stage], (before, kind)
        self._cut |= (before, self._stage) == ("growing", "part done")
        if self._stage == "growing":
            self.text += event["delta"]
        if self._stage == "text done":
            said = event[
                {"function_call_arguments": "arguments", "custom_tool_call_input": "input"}.get(name) or PARTS[name]
            ]
            assert said == self.text, "what is done is the sum of its deltas"

    def _next(self, name: str, step: str) -> str:
        if name == "content_part":
            return f"part {step}"
        return "growing" if step == "delta" else "text done"

    def _finish(self, item: Event) -> None:
        self.done = item
        assert (item["id"], item["type"]) == (self.id, self.added["type"])
        assert item["status"] in ("completed", "incomplete")
        assert item["status"] == "incomplete" or not self._cut, "only a text that was cut ends without its own event"
        said = item.get("arguments", item.get("input"))
        if said is None:
            said = "".join(part[PARTS[part["type"]]] for part in item["content"])
        assert said == self.text


def of_response(response: Event) -> Joined:
    """Join a whole response."""
    reason = (response["incomplete_details"] or {}).get("reason")
    joined = Joined(ended={None: "stop", "max_output_tokens": "length"}.get(reason, str(reason)))
    for item in response["output"]:
        if item["type"] == "function_call":
            joined.calls.append((item["name"], item["arguments"]))
        for part in item.get("content", ()):
            said = part[PARTS[part["type"]]]
            if part["type"] == "refusal":
                joined.refusal += said
            elif item["type"] == "reasoning":
                joined.reasoning += said
            else:
                joined.content += said
    if joined.calls and joined.ended == "stop":
        joined.ended = "tool_calls"
    return joined


NUMBER, TEXT = (int, float), (str,)
RESPONSE: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("id", "object", "status", "model", "truncation", "service_tier"), TEXT),
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), NUMBER),
    **dict.fromkeys(("created_at", "top_logprobs"), (int,)),
    **dict.fromkeys(("completed_at", "max_output_tokens", "max_tool_calls"), (int, type(None))),
    **dict.fromkeys(
        ("previous_response_id", "instructions", "safety_identifier", "prompt_cache_key"), (str, type(None))
    ),
    **dict.fromkeys(("incomplete_details", "error", "reasoning", "usage"), (dict, type(None))),
    **dict.fromkeys(("output", "tools"), (list,)),
    **dict.fromkeys(("parallel_tool_calls", "store", "background"), (bool,)),
    **dict.fromkeys(("metadata", "text"), (dict,)),
    "tool_choice": (str, dict),
}
"""Fields that openresponses.org's schema of a response requires, and their types."""
ITEMS = {
    "message": {"id", "type", "status", "role", "content"},
    "function_call": {"id", "type", "status", "call_id", "name", "arguments"},
    "custom_tool_call": {"id", "type", "status", "call_id", "name", "input"},
    "reasoning": {"id", "type", "summary", "content"},
}


def check_response(response: Event) -> None:
    for name, kinds in RESPONSE.items():
        assert name in response, f"{name} is missing"
        value = response[name]
        assert isinstance(value, kinds), f"{name} is {value!r}"
        assert not isinstance(value, bool) or bool in kinds, f"{name} is {value!r}"
    for tool in response["tools"]:
        if tool["type"] == "function":
            assert {"name", "description", "parameters", "strict"} <= set(tool)
    for item in response["output"]:
        assert ITEMS[item["type"]] <= set(item)
        for part in item["content"] if item["type"] == "message" else ():
            assert part["type"] == "refusal" or {"text", "annotations", "logprobs"} <= set(part)
    unfinished = [item["status"] == "incomplete" for item in response["output"]]
    assert response["status"] == "incomplete" or not any(unfinished)
    if response["incomplete_details"] == {"reason": "max_output_tokens"}:
        assert not any(unfinished[:-1]), "what was cut is the last item"
        assert all(unfinished[-1:])
    if response["status"] != "in_progress":
        assert {"input_tokens", "output_tokens", "total_tokens"} <= set(response["usage"])
        assert "cached_tokens" in response["usage"]["input_tokens_details"]
        assert "reasoning_tokens" in response["usage"]["output_tokens_details"]


def of_messages(raw: str) -> Joined:
    events, done = sse(raw)
    assert not done
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[0] == "message_start"
    joined, blocks, stopped = Joined(), list[Event](), set[int]()
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append({**event["content_block"], "said": ""})
        if event["type"] == "content_block_delta":
            assert event["index"] < len(blocks)
            assert event["index"] not in stopped
            delta = event["delta"]
            [said] = [delta[name] for name in ("text", "thinking", "partial_json", "signature") if name in delta]
            blocks[event["index"]]["said"] += said if "signature" not in delta else ""
        if event["type"] == "content_block_stop":
            assert event["index"] not in stopped
            stopped.add(event["index"])
        if event["type"] == "message_delta":
            joined.ended = _REASONS[event["delta"]["stop_reason"]]
    if kinds[-1] == "error":
        assert not joined.ended
        return Joined()
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert stopped == set(range(len(blocks))), "every block that begins ends"
    for block in blocks:
        _add_block(joined, block, block["said"])
    return joined


_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"} | {
    "refusal": "content_filter"
}


def _add_block(joined: Joined, block: Event, said: str) -> None:
    if block["type"] == "tool_use":
        joined.calls.append((block["name"], said))
    elif block["type"] == "thinking":
        joined.reasoning += said
    else:
        joined.content += said


def of_message(message: Event) -> Joined:
    """Join a whole message."""
    joined = Joined(ended=_REASONS[message["stop_reason"]])
    for block in message["content"]:
        said = json.dumps(block["input"]) if "input" in block else block.get("text", block.get("thinking", ""))
        _add_block(joined, block, said)
    return joined


def of_grpc(events: Sequence[Any]) -> Joined:
    """Events of a call that ended well."""
    assert events[0].HasField("opening")
    assert events[-1].HasField("closing")
    assert not any(event.HasField("opening") for event in events[1:])
    assert not any(event.HasField("closing") for event in events[:-1])
    joined, calls = Joined(), defaultdict[int, list[str]](list)
    for event in events:
        for delta in event.deltas:
            assert not joined.ended
            joined.content += delta.content
            joined.reasoning += delta.reasoning
            joined.refusal += delta.refusal
            if delta.HasField("call"):
                assert (delta.call.index not in calls) == bool(delta.call.id) == bool(delta.call.name)
                calls[delta.call.index] += [delta.call.name] if delta.call.id else []
                calls[delta.call.index].append(delta.call.arguments)
            joined.ended = delta.finish_reason
    assert joined.ended
    joined.calls = [(name, "".join(parts)) for name, *parts in calls.values()]
    return joined


def plain(calls: Iterable[tuple[str, str]]) -> list[tuple[str, Any]]:
    """Arguments as values, so that dialects that write them anew compare equal; as they are where they were cut."""
    found = []
    for name, arguments in calls:
        try:
            found.append((name, json.loads(arguments)))
        except ValueError:
            found.append((name, arguments))
    return found
