"""Chunks of the other server become pieces, each judged by its choice's grammar before it goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from gateway.upstream.events import Broken
from plugins import CompiledGrammar, FinishReason, Job, Matcher, Piece, TokenLogprob, TokenRejected, Usage

CHARS_PER_TOKEN = 4
REASONS: Mapping[str, FinishReason] = {r: r for r in get_args(FinishReason)} | {"function_call": "tool_calls"}


class Choice:
    """One choice: its text so far, and how its grammar stands."""

    def __init__(self, grammar: CompiledGrammar | None) -> None:
        self.text = ""
        self.ended = False
        self.called = False
        self._matcher: Matcher | None = grammar.matcher() if grammar is not None else None

    def take(self, text: str) -> None:
        """Raises `Broken` at the first byte that no valid answer has there."""
        self.text += text
        if self._matcher is None:
            return
        try:
            for byte in text.encode("utf-8", "surrogatepass"):
                self._matcher.accept(byte)
        except TokenRejected:
            raise Broken("it does not follow the schema that was asked for") from None

    def end(self, reason: FinishReason) -> None:
        """Raises `Broken` for an answer that says it is whole and is not."""
        if self.ended:
            raise Broken("a choice ended twice")
        self.ended = True
        if reason == "stop" and not self.called and self._matcher is not None and not self._matcher.can_stop:
            raise Broken("it ends before it is whole")


class Reading:
    """One answer of the server to one job."""

    def __init__(self, job: Job) -> None:
        self.choices = [Choice(job.grammar) for _ in range(job.n)]
        self.usage: Usage | None = None

    @property
    def whole(self) -> bool:
        return all(choice.ended for choice in self.choices)

    def feed(self, chunk: Mapping[str, Any], *, whole: bool = False) -> Iterator[Piece]:
        """`whole`: nothing follows. Raises `Broken`."""
        try:
            if isinstance(chunk.get("usage"), Mapping):
                self.usage = _usage(chunk["usage"])
            for choice in chunk.get("choices") or ():
                yield from self._choice(choice, whole)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise Broken("the server sent an event of a shape that no chat completion has") from error

    def estimated(self, job: Job) -> Usage:
        """What was used, as the server said or else as long as the texts are."""
        if self.usage is not None:
            return self.usage
        asked = sum(len(m.content) for m in job.request.messages) if job.request is not None else 0
        written = sum(len(choice.text) for choice in self.choices)
        return Usage(-(-asked // CHARS_PER_TOKEN), -(-written // CHARS_PER_TOKEN))

    def _choice(self, sent: Mapping[str, Any], whole: bool) -> Iterator[Piece]:
        index = int(sent.get("index", 0))
        if not 0 <= index < len(self.choices):
            raise Broken(f"the server answered choice {index}, {len(self.choices)} were asked for")
        choice, delta = self.choices[index], sent.get("delta") or {}
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning:
            yield Piece(index, str(reasoning), channel="reasoning")
        text = delta.get("content") or delta.get("refusal")
        if text and whole and sent.get("finish_reason") and not delta.get("tool_calls"):
            yield self._at_once(choice, index, str(text), sent)
            return
        if text:
            choice.take(str(text))
            yield Piece(index, str(text), logprobs=_logprobs(sent.get("logprobs")))
        for call in delta.get("tool_calls") or ():
            choice.called = True
            yield _call(index, call)
        if sent.get("finish_reason"):
            reason = REASONS.get(sent["finish_reason"], "error")
            choice.end(reason)
            yield Piece(index, finish_reason=reason, **_where(choice, delta))

    def _at_once(self, choice: Choice, index: int, text: str, sent: Mapping[str, Any]) -> Piece:
        """Rails judge a text that they get as a whole with less effort than one in two parts."""
        reason = REASONS.get(sent["finish_reason"], "error")
        choice.take(text)
        choice.end(reason)
        return Piece(index, text, logprobs=_logprobs(sent.get("logprobs")), finish_reason=reason)


def _where(choice: Choice, delta: Mapping[str, Any]) -> dict[str, Any]:
    """The last piece stays in the region where the choice stands."""
    calls = delta.get("tool_calls")
    return {"channel": "tool_arguments", "call": int(calls[-1].get("index", 0))} if calls else {}


def _call(index: int, sent: Mapping[str, Any]) -> Piece:
    function = sent.get("function") or {}
    return Piece(
        index,
        str(function.get("arguments") or ""),
        channel="tool_arguments",
        call=int(sent.get("index", 0)),
        tool=function.get("name") or None,
    )


def _usage(sent: Mapping[str, Any]) -> Usage:
    details = sent.get("prompt_tokens_details") or {}
    return Usage(
        max(0, int(sent.get("prompt_tokens") or 0)),
        max(0, int(sent.get("completion_tokens") or 0)),
        max(0, int(details.get("cached_tokens") or 0)),
    )


def _logprobs(sent: Mapping[str, Any] | None) -> tuple[TokenLogprob, ...]:
    """Token ids of another server's tokenizer are not told: -1."""
    found = []
    for entry in (sent or {}).get("content") or ():
        top = tuple((-1, t["token"], _bytes(t), float(t["logprob"])) for t in entry.get("top_logprobs") or ())
        found.append(TokenLogprob(-1, entry["token"], _bytes(entry), float(entry["logprob"]), top))
    return tuple(found)


def _bytes(entry: Mapping[str, Any]) -> bytes:
    given = entry.get("bytes")
    return bytes(given) if given is not None else str(entry["token"]).encode()
