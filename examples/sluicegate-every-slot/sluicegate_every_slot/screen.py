"""Slot `screen`: refuses requests that are too long to be meant."""

from __future__ import annotations

from sluicegate.plugins import Caller, RailExample, RailProperties, Request, ScreenResult


class TooLong:
    def __init__(self, characters: int) -> None:
        self._characters = characters
        long = "word " * (characters // 5 + 1)
        examples = (RailExample(long, forbidden=(long,)), RailExample("word"))
        self.properties = RailProperties(version="1", budget_s=0.1, examples=examples)

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        found = sum(len(message.content) for message in request.messages)
        if found <= self._characters:
            return ScreenResult()
        return ScreenResult("block", f"{found} characters, at most {self._characters} are taken; send less text")
