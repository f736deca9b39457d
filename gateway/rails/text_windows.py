"""Make the windows of an answer's texts: how the rails read each, and how parts of it may be replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.gateway.answer.custom_text import custom_parameters
from sluicegate.plugins import Caller, Channel, ClearingSession, JudgedChannel, OutputRail, Request, ToolCall, offers
from sluicegate.safety import (
    RAIL_FAILURES,
    HoldbackWindow,
    JsonWindow,
    UnchangedWindow,
    UnescapedSession,
    WindowLimits,
    redactor_for,
)

OF_A_FORM = custom_parameters({"pattern": ""})
"""For arguments whose text follows a grammar: it is unknown what the grammar would accept in place of a part."""


def read_as(channel: Channel) -> JudgedChannel:
    """Return the channel as which rails read a text of `channel`."""
    return "content" if channel == "refusal" else channel


class Windows:
    """Of one request. Each window opens a session of every rail."""

    def __init__(
        self,
        rails: Sequence[OutputRail],
        request: Request,
        caller: Caller,
        limits: WindowLimits,
        lead: str = "",
        *,
        whole: bool = False,
    ) -> None:
        """Prepare the windows. `lead` is the text that content and thoughts continue, which the client has already.
        `whole`: a judge acts in front of the windows, so no text passes that it has not read."""
        self._whole = whole
        self._rails = rails
        self._request = request
        self._caller = caller
        self._limits = limits
        self._lead = lead

    def of(self, channel: Channel, call: ToolCall | None) -> HoldbackWindow | JsonWindow:
        """Open the window for a channel. Rails see the strings of JSON decoded, and what replaces one still satisfies
        the schema."""
        opened = self._opened(read_as(channel))
        if call is not None:
            tool = next((tool for tool in self._request.tools if tool.name == call.name), None)
            schema: Any = {} if tool is None else tool.parameters if tool.form is None else OF_A_FORM
            return JsonWindow(*opened, redactor=redactor_for(schema), tool=call.name)
        constraint = self._request.constraint
        if constraint is None or channel in ("reasoning", "refusal"):
            return HoldbackWindow(*opened, self._lead)
        if constraint.kind not in ("json_schema", "json_object"):
            return UnchangedWindow(*opened, self._lead)
        schema = constraint.value if constraint.kind == "json_schema" else {}
        return JsonWindow(*opened, redactor=redactor_for(schema), lead=self._lead)

    def of_name(self) -> HoldbackWindow:
        """Open the window for the name of a call, which is released unchanged or not at all."""
        return UnchangedWindow(*self._opened("tool_name"))

    def passes(self, text: str) -> bool:
        """Return whether all rails let `text` through untouched, as a whole and as content."""
        if self._whole:
            return False
        window = UnchangedWindow(*self._opened("content"), self._lead)
        steps = window.whole(text)
        return window.blocked is None and "".join([step.text for step in steps]) == text

    def clearing(self, channel: Channel) -> Callable[[str], bool] | None:
        """Return a predicate: whether every enforcing rail clears a text. None: no rail enforces."""
        if self._whole:
            return lambda text: False
        acting = [rail for rail in self._rails if self._limits.rail_policy(rail.name).mode == "enforce"]
        asked = [self._clears(rail, channel) for rail in acting]
        return (lambda text: all(clears(text) for clears in asked)) if asked else None

    def _clears(self, rail: OutputRail, channel: Channel) -> Callable[[str], bool]:
        """Return a predicate: whether the rail clears a text. It is False where the rail has no `clears` or fails;
        failures are dealt with where the text itself is read."""
        try:
            session = rail.open(self._request, self._caller, channel)
        except RAIL_FAILURES:
            return lambda text: False

        decoded = UnescapedSession(lambda: session)

        def clears(text: str) -> bool:
            try:
                return offers(session, ClearingSession) and session.clears(text) is True and decoded.clears(text)
            except RAIL_FAILURES:
                return False

        return clears

    def _opened(self, channel: Channel) -> tuple[Sequence[OutputRail], Request, Caller, Channel, WindowLimits]:
        return self._rails, self._request, self._caller, channel, self._limits
