"""Check the tool calls of an upstream choice: names must be offered, arguments follow their schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sluicegate.gateway.answer.custom_text import text_of
from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.upstream.bounds import MOST_CALLS
from sluicegate.gateway.upstream.events import Broken, Malformed
from sluicegate.gateway.upstream.reading.following import Following, SpareTime
from sluicegate.gateway.upstream.reading.reader import CallPart
from sluicegate.plugins import Answer, CompiledGrammar, Request, ToolCall
from sluicegate.plugins.frozen import frozen_when_checked


@dataclass(slots=True)
class _Call:
    """`index` as the server numbers it. `held`: arguments that cannot be judged before they are whole."""

    index: int
    name: str = ""
    opened: bool = False
    matcher: Following | None = None
    held: list[str] = field(default_factory=list)


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class OfferedTools:
    """Tools that the request offers. Arguments for a tool without a grammar are held until whole, then validated."""

    request: Request
    grammars: Mapping[str, CompiledGrammar]
    validator: Validator

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.request.callable_tools]

    @property
    def forms(self) -> frozenset[str]:
        """Return the names of custom tools whose text follows a grammar of its own. Such a text is judged when it is
        whole."""
        return frozenset(tool.name for tool in self.request.callable_tools if tool.form is not None)


class ToolCallReader:
    """Takes parts of calls, yields (number, name or None, arguments) for pieces. A call ends when the next begins.

    Same as validating all calls at the end, but incremental."""

    def __init__(self, offered: OfferedTools, spare: SpareTime) -> None:
        self._offered = offered
        self._spare = spare
        self._seen: set[int] = set()
        self._now: _Call | None = None

    def __len__(self) -> int:
        return len(self._seen)

    def take(self, part: CallPart) -> Iterator[tuple[int, str | None, str]]:
        """Yield what `part` adds to the calls. Raises `Broken` for a tool that is not offered or arguments against the
        schema."""
        if self._now is None or part.index != self._now.index:
            yield from self.close(whole=True)
            self._now = self._next(part.index)
        call = self._now
        if part.name:
            self._name(call, part.name)
        if part.arguments:
            yield from self._arguments(call, part.arguments)

    def close(self, *, whole: bool) -> Iterator[tuple[int, str | None, str]]:
        """Yield what was held of the ended call. `whole`: it must be complete; else drop what cannot be validated."""
        call, self._now = self._now, None
        if call is None:
            return
        if whole and (call.matcher is None or not call.matcher.can_stop):
            self._judge(call)
        if call.held and whole:
            yield len(self._seen) - 1, call.name, "".join(call.held)

    def _next(self, index: int) -> _Call:
        choice = self._offered.request.tool_choice
        if not self._offered.request.callable_tools:
            raise Malformed("it calls a tool, and none was offered")
        if index in self._seen:
            raise Malformed("it goes on with a call after the next one began")
        if self._seen and not choice.parallel:
            raise Broken("it calls more than one tool, and one was allowed")
        if len(self._seen) >= MOST_CALLS:
            raise Malformed(f"it calls more than {MOST_CALLS} tools")
        self._seen.add(index)
        return _Call(index)

    def _name(self, call: _Call, part: str) -> None:
        """Add to the name: some servers repeat it in each chunk, a few send it in parts."""
        names = self._offered.names
        if part == call.name and call.name in names:
            return
        if call.opened:
            raise Malformed("it names one call twice")
        call.name += part
        if not any(name.startswith(call.name) for name in names):
            raise Broken("it calls a tool that was not offered")

    def _arguments(self, call: _Call, text: str) -> Iterator[tuple[int, str | None, str]]:
        first = not call.opened
        if first:
            self._open(call)
        if call.matcher is None:
            call.held.append(text)
            return
        call.matcher.take(text, "the arguments of a call do not follow its schema")
        yield len(self._seen) - 1, call.name if first else None, text

    def _open(self, call: _Call) -> None:
        if call.name not in self._offered.names:
            raise Broken("it calls a tool that was not offered")
        call.opened = True
        grammar = self._offered.grammars.get(call.name)
        is_judged_whole = grammar is None or call.name in self._offered.forms
        call.matcher = None if is_judged_whole or grammar is None else Following(grammar, self._spare)

    def _judge(self, call: _Call) -> None:
        """Validate a call that was held, or whose grammar allows no end; the complaint quotes names of the schema."""
        if call.matcher is None and call.name in self._offered.names:
            whole = ToolCall("", call.name, "".join(call.held))
            if (
                self._offered.validator.complaint(
                    self._offered.request, Answer(0, "", "tool_calls", tool_calls=(whole,))
                )
                is None
            ) and self._follows_form(call.name, whole.arguments):
                return
        raise Broken("the arguments of a call do not follow its schema, or end before they are whole")

    def _follows_form(self, name: str, arguments: str) -> bool:
        """Return whether the text of a custom tool is whole under its form, if it has one. Raises `Broken` at the first
        byte that does not follow it, `GrammarTooCostly`."""
        if name not in self._offered.forms:
            return True
        text = Following(self._offered.grammars[name], self._spare)
        text.take(text_of(arguments), "the text for a custom tool does not follow its grammar")
        return text.can_stop
