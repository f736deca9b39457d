"""Turn upstream chunks into pieces, each checked by its choice's grammar before it is passed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sluicegate.gateway.upstream.bounds import Bounds
from sluicegate.gateway.upstream.events import Broken, Malformed
from sluicegate.gateway.upstream.reading.counting import Length, Written, used
from sluicegate.gateway.upstream.reading.following import Following, SpareTime
from sluicegate.gateway.upstream.reading.reader import CallPart, ChunkPart, ReportedUsage, claim, said
from sluicegate.gateway.upstream.reading.tool_calls import OfferedTools, ToolCallReader
from sluicegate.plugins import CompiledGrammar, FinishReason, Job, Piece, Usage

WHOLE = ("stop", "tool_calls")


class UpstreamChoice:
    """One choice: its text so far, the state of its grammar and calls, and its remaining length."""

    def __init__(self, grammar: CompiledGrammar | None, offered: OfferedTools, bounds: Bounds) -> None:
        self.ended = False
        self.cut = False
        """`max_tokens` were over before the server stopped; what it still says is not looked at."""
        self.refused = False
        """The server says why it does not answer. That is no answer, so that no schema and no tool judges it."""
        spare = SpareTime()
        self.calls = ToolCallReader(offered, spare)
        self._must_call = offered.request.tool_choice.mode == "required" and bool(offered.request.callable_tools)
        self._texts: list[str] = []
        self._others: list[str] = []
        self._following = Following(grammar, spare) if grammar is not None else None
        self._length = Length(bounds)
        self._where: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """Return the answer's text, without thoughts and calls."""
        return "".join(self._texts)

    @property
    def chars(self) -> int:
        return self._length.chars

    @property
    def size(self) -> int:
        """Return the bytes of all that was said."""
        return sum([len(text.encode()) for text in (*self._texts, *self._others)])

    def feed(self, sent: ChunkPart, *, whole: bool) -> Iterator[Piece]:
        """Yield the pieces of what was sent. Raises `Broken` at the first byte that no valid answer has there."""
        if self.cut:
            return
        if self.ended:
            if not sent.is_empty:
                raise Malformed("a choice went on after its end")
            return
        index = sent.index
        if sent.reasoning:
            yield Piece(index, self._fit(sent.reasoning, self._others), channel="reasoning")
        if sent.refusal and not self.cut:
            self.refused = True
            yield Piece(index, self._fit(sent.refusal, self._others), channel="refusal")
        if sent.text and not self.cut:
            text = self._take(sent.text)
            logprobs = () if self.cut else sent.logprobs
            if whole and sent.reason and not sent.calls and not self.cut and not self.refused:
                self._end(sent.reason)  # rails judge a text that they get as a whole with less effort
                yield Piece(index, text, logprobs=logprobs, finish_reason=sent.reason)
                return
            yield Piece(index, text, logprobs=logprobs)
        for call in sent.calls:
            if not self.cut:
                yield from self._call(index, call)
        if self.cut:
            yield from self._finish(index, "length")
        elif sent.reason:
            yield from self._finish(index, sent.reason)

    def _take(self, text: str) -> str:
        fitting = self._fit(text, self._texts)
        if self._following is not None:
            self._following.take(fitting, "it does not follow the schema that was asked for")
        return fitting

    def _fit(self, text: str, kept: list[str]) -> str:
        fitting = self._length.fit(text)
        self.cut = len(fitting) < len(text)
        kept.append(fitting)
        return fitting

    def _call(self, index: int, call: CallPart) -> Iterator[Piece]:
        if call.arguments:
            call.arguments = self._fit(call.arguments, self._others)
        yield from self._pieces(index, self.calls.take(call))

    def _pieces(self, index: int, parts: Iterator[tuple[int, str | None, str]]) -> Iterator[Piece]:
        for number, name, text in parts:
            self._where = {"channel": "tool_arguments", "call": number}
            yield Piece(index, text, channel="tool_arguments", call=number, tool=name)

    def _finish(self, index: int, reason: FinishReason) -> Iterator[Piece]:
        """Yield the last pieces, in the region of the open call if there is one."""
        yield from self._pieces(index, self.calls.close(whole=reason in WHOLE and not self.refused))
        self._end(reason)
        yield Piece(index, finish_reason=reason, **self._where)

    def _end(self, reason: FinishReason) -> None:
        """Raise `Broken` for an answer that claims to be whole and is not."""
        self.ended = True
        if reason not in WHOLE or self.refused:
            return
        called = len(self.calls) > 0
        if not called and (self._must_call or reason == "tool_calls"):
            raise Broken("no tool was called")
        if not called and self._following is not None and not self._following.can_stop:
            raise Broken("it ends before it is whole")


class UpstreamReading:
    """One answer of the server to one job."""

    def __init__(self, job: Job, offered: OfferedTools, context: int) -> None:
        self._request = offered.request
        self._context = context
        self._bounds = Bounds.of(offered.request, context)
        self.choices = [UpstreamChoice(job.grammar, offered, self._bounds) for _ in range(job.n)]
        self.claim: ReportedUsage | None = None
        self._used: tuple[Usage, bool] | None = None
        """`usage` of what was fed so far, which is asked for some six times."""

    @property
    def bounds(self) -> Bounds:
        return self._bounds

    @property
    def whole(self) -> bool:
        return all(choice.ended for choice in self.choices)

    @property
    def cut(self) -> bool:
        """Return whether every choice has ended and one was cut: then nothing more is read."""
        for choice in self.choices:  # asked at each chunk: half the time of a generator
            if choice.cut:
                return self.whole
        return False

    def feed(self, chunk: Mapping[str, Any], *, whole: bool = False) -> Iterator[Piece]:
        """Yield the pieces that `chunk` adds. `whole`: nothing follows. Raises `Broken`."""
        self.claim = claim(chunk) or self.claim
        try:
            for sent in said(chunk, self._bounds):
                for piece in self.choices[sent.index].feed(sent, whole=whole):
                    self._used = None
                    yield piece
        finally:
            self._used = None

    def usage(self) -> tuple[Usage, bool]:
        """Return (usage so far, whether the server's report was rejected). A cut choice counts as `max_tokens`."""
        if self._used is None:
            written = Written(sum([c.chars for c in self.choices]), sum([c.size for c in self.choices]))
            self._used = used(self._request, self._context, self._bounds, written, self.claim)
        return self._used
