"""Read tool calls that a model writes as JSON of its own accord, in place of the marks that it was trained on.

    ```json
    {"name": "get_weather", "arguments": {"city": "Oslo"}}
    ```

at the beginning of a line, fenced or bare; in a fence several calls, below each other or as an array. It is read as
calls only where it is nothing else, to the end of its line, and every call in it may be made. Not covered: other keys,
keys in another order, calls inside a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal

from sluicegate.plugins import ToolCall

FENCE = "```"
_LINE = re.compile(r"\n[ \t]*(?=[`{\[])")
_FENCE_LINE = re.compile(r"\n[ \t]*(?=`)")
_FIRST_LINE = re.compile(r"[ \t]*(?=[`{\[])")
_BLANKS = re.compile(r"\s*")
_INDENT = re.compile(r"[ \t]*")
_INFORMATION = ("json\n", "tool_call\n", "\n")
"""What may stand behind the marks that open a fence."""
_OUTSIDE, _INSIDE = re.compile(r'[^"{}\[\]]*'), re.compile(r'[^"\\]*')
Steps = Generator[None, None, None]


@dataclass(frozen=True, slots=True)
class CallJudge:
    """What calls may be made: `names` of tools, and whether a call satisfies the schema of its tool."""

    names: tuple[str, ...]
    allows: Callable[[ToolCall], bool]


class _NoCall(Exception):
    """The text is something else."""


class CallFinder:
    """Finds calls in the text of an answer, which is fed whole each time, without what has left. `calls` are those it
    found, in `text[begin:end]`. In a fence around anything else there are none."""

    def __init__(self, judge: CallJudge) -> None:
        self.calls: tuple[ToolCall, ...] = ()
        self.begin = self.end = 0
        self._judge = judge
        self._reading: WrittenCalls | None = None
        self._at = 0
        """Where to look on; where `_reading` began."""
        self._begins_line, self._in_fence = True, False

    def find(self, text: str, *, is_last: bool, is_marked: bool) -> int:
        """Read on, and return up to where `text` holds no beginning of a call. `is_last`: the output ends behind it;
        `is_marked`: it ends with the mark of a call, so that nothing that began before goes on."""
        while (begin := self._next(text)) is not None:
            if self._in_fence:
                marks = text[begin : begin + 3]
                if len(marks) < 3 and not is_last:
                    return begin
                self._in_fence, self._at = marks != FENCE, begin + len(marks)
                continue
            self._reading, self._at = self._reading or WrittenCalls(self._judge), begin
            self._reading.feed(text[begin + self._reading.size :], is_last=is_last and not is_marked)
            if self._reading.state == "calls":
                self.calls, self.begin, self.end = tuple(self._reading.calls), begin, begin + self._reading.end
                return begin
            if self._reading.state == "open" and not is_marked:
                return begin
            self._reading, self._at, self._in_fence = None, begin + 1, text.startswith(FENCE, begin)
        return len(text)

    def left(self, size: int) -> None:
        """Forget the first characters of the text: they have left."""
        self._at, self._begins_line = max(0, self._at - size), self._begins_line and not size

    def _next(self, text: str) -> int | None:
        """Return where the next line begins that can open a call or end a fence; None = nowhere yet."""
        if self._reading is not None:
            return self._at
        is_first = self._begins_line and not self._at
        line = _FENCE_LINE if self._in_fence else _LINE
        found = (_FIRST_LINE.match(text) if is_first else None) or line.search(text, self._at)
        return None if found is None else found.end()


class WrittenCalls:
    """Reads calls at the beginning of a text that is fed in pieces of any size. `state`: whether it is still open what
    the text is; where it is calls, `calls` are they, and `end` is where they end."""

    def __init__(self, judge: CallJudge) -> None:
        self.state: Literal["open", "calls", "text"] = "open"
        self.calls: list[ToolCall] = []
        self.end = 0
        self._judge = judge
        self._names = {f'"{name}"': name for name in judge.names}
        self._text, self._is_whole = "", False
        self._steps = self._read()

    @property
    def size(self) -> int:
        """Return how many characters it has been fed."""
        return len(self._text)

    def feed(self, text: str, *, is_last: bool = False) -> None:
        """Read on. `is_last`: the output ends behind `text`."""
        if self.state != "open":
            return
        self._text, self._is_whole = self._text + text, is_last
        try:
            next(self._steps)
        except StopIteration:
            self.state = "calls" if all(map(self._judge.allows, self.calls)) else "text"
        except _NoCall:
            self.state = "text"

    def _read(self) -> Steps:
        is_fenced = False
        if self._text[:1] == "`":
            is_fenced = True
            yield from self._take(FENCE)
            yield from self._take(*_INFORMATION)
            yield from self._blanks()
        yield from self._take("{", "[")
        opened = self._text[self.end - 1]
        if opened == "[":
            yield from self._take_next("{")
        yield from self._call()
        while is_fenced or opened == "[":
            yield from self._take_next(*((",", "]") if opened == "[" else ("{", FENCE)))
            last = self._text[self.end - 1]
            if last in "]`":
                break
            if last == ",":
                yield from self._take_next("{")
            yield from self._call()
        if is_fenced and opened == "[":
            yield from self._take_next(FENCE)
        yield from self._skip(_INDENT)
        if self.end < len(self._text):
            yield from self._take("\n")

    def _call(self) -> Steps:
        """Read a call behind its first brace."""
        yield from self._take_next('"name"')
        yield from self._take_next(":")
        yield from self._blanks()
        start = self.end
        yield from self._take(*self._names)
        name = self._names[self._text[start : self.end]]
        for mark in (",", '"arguments"', ":"):
            yield from self._take_next(mark)
        yield from self._blanks()
        start = self.end
        yield from self._take("{")
        yield from self._rest_of_object()
        self.calls.append(ToolCall("", name, self._text[start : self.end]))
        yield from self._take_next("}")

    def _rest_of_object(self) -> Steps:
        """Read to the brace that closes the object. What is no JSON is found by the judge of the call."""
        depth = 1
        while depth:
            yield from self._skip(_OUTSIDE)
            yield from self._some()
            mark = self._text[self.end]
            self.end += 1
            if mark == '"':
                yield from self._rest_of_string()
            depth += (mark in "{[") - (mark in "}]")

    def _rest_of_string(self) -> Steps:
        while True:
            yield from self._skip(_INSIDE)
            yield from self._some()
            mark = self._text[self.end]
            self.end += 1
            if mark == '"':
                return
            yield from self._some()
            self.end += 1

    def _take_next(self, *marks: str) -> Steps:
        yield from self._blanks()
        yield from self._take(*marks)

    def _take(self, *marks: str) -> Steps:
        """Read one of `marks`, none of which begins another. Raises `_NoCall` where something else stands there."""
        longest = max(map(len, marks))
        while True:
            found = next((mark for mark in marks if self._text.startswith(mark, self.end)), None)
            if found is not None:
                self.end += len(found)
                return
            rest = self._text[self.end : self.end + longest]
            if self._is_whole or not any(mark.startswith(rest) for mark in marks):
                raise _NoCall
            yield

    def _blanks(self) -> Steps:
        yield from self._skip(_BLANKS)

    def _skip(self, run: re.Pattern[str]) -> Steps:
        """Read characters of a kind to the last one."""
        while True:
            found = run.match(self._text, self.end)
            assert found is not None
            self.end = found.end()
            if self.end < len(self._text) or self._is_whole:
                return
            yield

    def _some(self) -> Steps:
        """Wait for a character. Raises `_NoCall` where none comes."""
        while self.end >= len(self._text):
            if self._is_whole:
                raise _NoCall
            yield
