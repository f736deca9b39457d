"""Slot `assemble`: the house's rules come before every conversation; another stage renders it."""

from __future__ import annotations

from dataclasses import replace

from sluicegate.plugins import Assembler, Message, Prompt, Request, ServedModel
from sluicegate_every_slot.wrapping import Wrapping


class HouseRules(Wrapping[Assembler]):
    """A conversation that begins with a system message of its own keeps it, behind the rules: many chat templates
    take only one."""

    def __init__(self, inner: Assembler, text: str) -> None:
        super().__init__(inner)
        self._text = text

    async def assemble(self, request: Request, model: ServedModel) -> Prompt:
        return await self.inner.assemble(replace(request, messages=self._ruled(request.messages)), model)

    def _ruled(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        if messages and messages[0].role == "system":
            return (replace(messages[0], content=f"{self._text}\n\n{messages[0].content}"), *messages[1:])
        return (Message("system", self._text), *messages)
