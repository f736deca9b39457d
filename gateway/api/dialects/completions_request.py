"""Read bodies of `/v1/completions`: prompts as they are, without a chat template."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from sluicegate.gateway.api.body.constraint_fields import ConstrainedFields, constraint_of
from sluicegate.gateway.api.body.parsing import Parsed, Tree, read_body
from sluicegate.gateway.api.body.shared_fields import (
    Extension,
    check_combination,
    check_extension,
    sampling_of,
    wishes_of,
    without_effect,
)
from sluicegate.gateway.api.body.unknown_fields import BodyFields
from sluicegate.gateway.fields import asks
from sluicegate.gateway.prompts.places import BodyPlaces
from sluicegate.plugins import Constraint, Message, Request, RequestError
from sluicegate.plugins.json_names import Path

MAX_PROMPTS = 32
DEFAULT_MAX_TOKENS = 16
OF_MESSAGES = ("reasoning", "template", "variables", "context", "context_tokens", "retrieve")
"""Our own fields that act on messages, of which there are none here."""
Text = Annotated[str, Field(min_length=1)]


class CompletionRequest(ConstrainedFields):
    prompt: Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_PROMPTS)]
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    best_of: Annotated[int, Field(ge=1)] | None = None


FIELDS = BodyFields(CompletionRequest, "completions")
NAMES = {"messages": "prompt"}


@dataclass(frozen=True, slots=True)
class PromptPlaces(BodyPlaces):
    """`number`: which prompt of several."""

    number: int | None = None

    def message(self, request: Request, at: int, rest: Path) -> Path:
        return ("prompt",) if self.number is None else ("prompt", self.number)


@dataclass(frozen=True, slots=True)
class ParsedPrompts(Parsed):
    """A body of one prompt or several."""

    def at(self, number: int) -> ParsedPrompts:
        assert isinstance(self.places, PromptPlaces)
        request = self.others[number - 1] if number else self.request
        return replace(self, request=request, places=replace(self.places, number=number))


def parse_completions(body: bytes | Tree, api_key: str | None = None) -> ParsedPrompts:
    """Read a request for completions. Raises `RequestError` that names the field by path."""
    wire, ignored = read_body(body, FIELDS)
    prompts = [wire.prompt] if isinstance(wire.prompt, str) else wire.prompt
    _check_raw(wire.sluicegate)
    if wire.stream and len(prompts) > 1:
        raise RequestError("only one prompt can be streamed; send one request for each", param="prompt")
    place, constraint = constraint_of(wire)
    first = _request(wire, constraint, prompts[0], api_key)
    others = (replace(first, id=f"{first.id}-{i}", messages=_said(text)) for i, text in enumerate(prompts[1:], 1))
    return ParsedPrompts(
        first,
        explain=wire.sluicegate.explain,
        include_usage=wire.include_usage,
        ignored=(*ignored, *without_effect(first)),
        others=tuple(others),
        places=PromptPlaces(NAMES, place),
    )


def _check_raw(asked: Extension) -> None:
    for name in OF_MESSAGES:
        if asks(FIELDS.rows[f"sluicegate.{name}"], getattr(asked, name)):
            raise RequestError(
                f"`sluicegate.{name}` needs messages; a prompt is read as it is: use /v1/chat/completions",
                param=f"sluicegate.{name}",
                code="unsupported_parameter",
            )


def _said(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def _request(wire: CompletionRequest, constraint: Constraint | None, prompt: str, api_key: str | None) -> Request:
    check_combination(wire, FIELDS)
    check_extension(wire.sluicegate, constraint, shaped=False)
    return Request(
        id=f"cmpl-{os.urandom(16).hex()}",
        model=wire.model,
        messages=_said(prompt),
        sampling=sampling_of(
            wire,
            FIELDS,
            on_length=wire.sluicegate.on_length,
            logprobs=wire.logprobs,
            max_tokens=DEFAULT_MAX_TOKENS,
        ),
        constraint=constraint,
        n=wire.n or 1,
        stream=bool(wire.stream),
        user=wire.user,
        api_key=api_key,
        metadata=wire.metadata or {},
        **wishes_of(wire.sluicegate),
        raw=True,
    )
