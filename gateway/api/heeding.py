"""What a body says that changes nothing here: refused where it would change the answer, told where it would not.

Nothing that a caller sends is dropped in silence. What the dialect has no field for is named in the answer
(`sluicegate.ignored`, header `x-sluicegate-ignored`), unless another dialect served here knows it and it would change
what comes back: then it is refused, since the caller means something by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from plugins import RequestError

HARMLESS = frozenset(
    {
        "model",
        "stream",
        "stream_options",
        "user",
        "metadata",
        "store",
        "truncation",
        "include",
        "modalities",
        "encoding_format",
    }
)
"""Fields of some dialect that say nothing about the answer itself."""
SHAPING = frozenset(
    {"messages", "prompt", "input", "instructions", "system", "tools", "tool_choice", "parallel_tool_calls"}
    | {"max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens", "stop", "stop_sequences", "ignore_eos"}
    | {"temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "logit_bias", "bad_words", "n", "best_of"}
    | {"repetition_penalty", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "dimensions"}
    | {"use_beam_search", "length_penalty", "early_stopping", "num_beam_groups", "diversity_penalty"}
    | {"response_format", "structured_outputs", "text", "output_config", "output_format"}
    | {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_whitespace_pattern"}
    | {"reasoning", "reasoning_effort", "thinking", "sluicegate", "audio", "prediction", "web_search_options"}
    | {"functions", "function_call", "mcp_servers", "container", "background", "conversation", "previous_response_id"}
    | {"echo", "suffix"}
)
"""Fields of some dialect that say what the answer is to be. A test holds both sets against the dialects' models."""
MOST_TOLD = 50
NEUTRAL: Mapping[str, Any] = {
    "n": 1,
    "best_of": 1,
    "num_beam_groups": 1,
    "temperature": 1,
    "top_p": 1,
    "typical_p": 1,
    "repetition_penalty": 1,
    "length_penalty": 1,
    "parallel_tool_calls": True,
    **dict.fromkeys(("top_k", "min_p", "min_tokens", "frequency_penalty", "presence_penalty", "diversity_penalty"), 0),
}
"""Values that ask for nothing."""
_PLAIN = frozenset({str, int, float, bool, dict, type(None)})


class Wire(BaseModel):
    """Part of a body. What it has no field for is kept, to be told of; a subclass with a field that is read and has no
    effect names it in `UNHEEDED`, one that takes whatever comes says so by `takes_all`."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    UNHEEDED: ClassVar[frozenset[str]] = frozenset()

    @property
    def takes_all(self) -> bool:
        return False


def refuse_strangers(tree: Mapping[str, Any], kind: type[BaseModel]) -> None:
    """Raises `RequestError` for a field that shapes answers in another dialect and would shape none here."""
    known = kind.__pydantic_fields__
    for name, value in tree.items():
        if name not in known and name in SHAPING and asks(name, value):
            raise RequestError(
                f"`{name}` belongs to another of the dialects that are served here and has no effect in this one; "
                "docs/api.md says what each of them takes",
                param=name,
                code="unsupported_parameter",
            )


def asks(name: str, value: Any) -> bool:
    """Whether anything is wanted by it."""
    if value is None or value is False or value == "" or value == [] or value == {}:
        return False
    return not (name in NEUTRAL and value == NEUTRAL[name])


def ignored_in(wire: Wire) -> tuple[str, ...]:
    """Paths of what is not heeded, without the places in lists: `messages[].annotations`."""
    found: set[str] = set()
    _walk(wire, "", found)
    return tuple(sorted(found)[:MOST_TOLD])


def _walk(model: Wire, path: str, found: set[str]) -> None:
    """Run for every request: plain values are passed over at the cost of one look at their type."""
    extra, values = model.__pydantic_extra__, model.__dict__
    if extra and not model.takes_all:
        found.update(f"{path}{name}" for name, value in extra.items() if asks(name, value))
    if model.UNHEEDED:
        found.update(f"{path}{name}" for name in model.UNHEEDED if asks(name, values.get(name)))
    for name in model.__pydantic_fields_set__:
        value = values.get(name)
        if type(value) in _PLAIN:
            continue
        for part in value if type(value) is list else (value,):
            if isinstance(part, Wire):
                _walk(part, f"{path}{name}." if part is value else f"{path}{name}[].", found)
