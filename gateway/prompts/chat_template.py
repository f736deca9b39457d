"""Slot `assemble`, stage `chat-template`: render messages, and the schema where that helps, as the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.engine import LongRendering, render_chat, written_schema
from sluicegate.gateway.prompts.lengths import Lengths
from sluicegate.plugins import InvalidGrammar, Message, Prompt, Request, RequestError, ServedModel, read_settings


@dataclass(frozen=True, slots=True)
class ChatTemplateSettings:
    show_schema: bool = True
    """Let the model read the JSON schema it has to fill; it answers better than under masks alone. A template that
    takes a sketch shows a schema that stands in a message in that form, too."""


def chat_template(table: Mapping[str, Any]) -> ChatTemplate:
    """Make the stage of its table. Raises `ConfigurationError`."""
    return ChatTemplate(read_settings(ChatTemplateSettings, table, "stages.assemble.chat-template"))


class ChatTemplate:
    def __init__(self, settings: ChatTemplateSettings) -> None:
        self._show_schema = settings.show_schema
        self._lengths = Lengths()

    async def assemble(self, request: Request, model: ServedModel) -> Prompt:
        return self.assembled(request, model)

    def assembled(self, request: Request, model: ServedModel) -> Prompt:
        """Assemble the prompt in a thread; otherwise as `assemble`. Neither rendering nor tokenising waits for
        anything. Raises `LongRendering` within `FewSteps`."""
        if request.raw:
            return self._raw(request, model)
        if model.remote:
            return Prompt("", ())
        self._lengths.check(request.messages, (model,))
        shown = request.callable_tools  # what it may not call, it need not read
        tools = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in shown]
        turns = [_turn(message) for message in request.messages]
        try:
            text = render_chat(
                model.tokenizer,
                turns,
                schema=self._schema(request, turns, model),
                tools=tools,
                reasoning=request.reasoning,
                add_generation_prompt=request.add_generation_prompt,
                continue_final_message=request.continue_final_message,
                variables=request.chat_template_kwargs,
            )
        except (RequestError, LongRendering):
            raise
        except Exception as error:  # templates raise what they like about roles they do not know
            raise RequestError(
                f"the chat template of model {model.name!r} refused the messages: {error}", param="messages"
            ) from error
        return self._prompt(text, model, special=False)

    def _raw(self, request: Request, model: ServedModel) -> Prompt:
        """Return the text as it is, with the special tokens that the tokenizer puts around any text."""
        if model.remote:
            raise RequestError(
                f"model {model.name!r} is served elsewhere, through chat; send messages to /v1/chat/completions",
                param="model",
                code="unsupported_model",
            )
        return self._prompt(request.messages[0].content, model, special=True)

    def _prompt(self, text: str, model: ServedModel, *, special: bool) -> Prompt:
        ids = self._lengths.token_ids(text, model, special=special)
        if not ids:
            raise RequestError("the prompt has no tokens; write something", param="messages")
        return Prompt(text, tuple(ids))

    def _schema(self, request: Request, turns: list[dict[str, Any]], model: ServedModel) -> dict[str, Any] | None:
        """Return the schema of the request; where it asks for any object or for nothing, the one that its messages
        tell."""
        constraint = request.constraint
        if not self._show_schema:
            return None
        if constraint is None or constraint.kind == "json_object":
            return None if request.callable_tools else written_schema(turns, model.tokenizer)
        if constraint.kind != "json_schema" or isinstance(constraint.value, bool):
            return None
        if not isinstance(constraint.value, dict):
            raise InvalidGrammar(f"a JSON schema is an object or a boolean, found {type(constraint.value).__name__}")
        return constraint.value


def _turn(message: Message) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        turn["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
    return turn
