"""A row of the table of fields: what a field means, and how each dialect treats it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["served", "refused", "reported"]
ELSEWHERE = "it has no effect in this dialect"

OWN_NAMES: Mapping[str, Mapping[str, str]] = {
    "chat": {"input": "messages", "max_output_tokens": "max_completion_tokens", "stop_sequences": "stop"},
    "responses": {
        "messages": "input", "max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens",
        "response_format": "text.format", "reasoning_effort": "reasoning.effort", "system": "instructions",
    },
    "messages": {
        "input": "messages", "max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens",
        "stop": "stop_sequences", "response_format": "output_config.format", "instructions": "system",
    },
    "completions": {
        "messages": "prompt", "input": "prompt", "stop_sequences": "stop",
        "max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens",
    },
}  # fmt: skip
"""By dialect: its own names for fields that other dialects name differently."""


@dataclass(frozen=True, slots=True)
class Support:
    """How dialects treat a field: those named, and all others (None: the field cannot occur there)."""

    named: Mapping[str, Status]
    otherwise: Status | None = None

    def of(self, dialect: str) -> Status | None:
        return self.named.get(dialect, self.otherwise)


def says(served: str = "", refused: str = "", reported: str = "", *, otherwise: Status | None = None) -> Support:
    """Return how each dialect treats a field. Each argument names dialects, separated by blanks."""
    given: Mapping[Status, str] = {"served": served, "refused": refused, "reported": reported}
    return Support({name: status for status, names in given.items() for name in names.split()}, otherwise)


@dataclass(frozen=True, slots=True)
class Row:
    """`path`: the field's name, or inside another field `messages[].name`; the places of a list are `[]`."""

    path: str
    about: str
    """What the field asks for; shown in the OpenAPI document and in docs/fields.md."""
    support: Support
    why: str = ""
    """Why the field is not served, and what to send instead; '' = it is served."""
    neutral: tuple[Any, ...] = ()
    """Values besides null that ask for nothing."""
    by: str = "OpenAI"
    """Where the field comes from."""

    @property
    def reason(self) -> str:
        return self.why or ELSEWHERE

    def reason_in(self, dialect: str) -> str:
        """Return the reason, with the name of the field in that dialect where it has another there."""
        own = None if self.why else OWN_NAMES.get(dialect, {}).get(self.path)
        return self.reason if own is None else f"{self.reason}; send `{own}`"


@dataclass(frozen=True, slots=True)
class SamplingRow(Row):
    """A field that becomes an attribute of `Sampling`. To add one: the attribute, this row, and the engine."""

    attribute: str = ""
    type: Any = None
    """Type of the value on the wire; None where a model of the dialect says more than a type and bounds can."""
    bounds: Mapping[str, Any] | None = None
    """`ge`, `gt`, `le`, `lt`, `max_length`, as in pydantic."""
    fact: Callable[[Any], Any] | None = None
    """Converts the value on the wire to the attribute's; None = unchanged."""
    upstream: tuple[str, ...] | None = None
    """The dialects of other servers to which it is sent on under this row's name (`every`; empty: none). None: another
    row of the same attribute decides."""
    sent: Callable[[Any], Mapping[str, Any]] | None = None
    """Converts the attribute to the fields that are sent on; None = the value under the row's name."""
    by_hand: bool = False
    """Whether the attribute depends on more than this field, so that a dialect's parser sets it."""
    needs: str = ""
    """The field without which this one has no effect."""

    def is_known_to(self, dialect: str) -> bool:
        """Return whether servers of that dialect know the field."""
        return self.upstream is not None and ("every" in self.upstream or dialect in self.upstream)


def asks(row: Row | None, value: Any) -> bool:
    """Return whether a value requests anything. 1 and 1.0 are the same, 1 and true are not."""
    if value is None:
        return False
    return row is None or not any(
        value == one and isinstance(value, bool) == isinstance(one, bool) for one in row.neutral
    )
