"""Find answers whose numbers are as long as the grammar lets them be: the model may have meant more digits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sluicegate.grammar import GrammarOptions, most_zeros
from sluicegate.plugins import Answer, Request

_PART = re.compile(r'"(?:[^"\\]|\\.)*"?|(\d+)(?:\.(\d+))?')
"""A string, or the digits of a number before and after its point."""
_DEFAULTS = GrammarOptions()


def at_most_digits(request: Request, answer: Answer) -> bool:
    """Return whether a number of the answer has at least as many digits as `integer_digits` or `fraction_digits` allow.

    A schema that itself mentions longer numbers allows longer ones; those are reported too. Only answers under JSON
    constraints and the arguments of calls are judged."""
    if request.constraint is None and not answer.tool_calls:
        return False
    asked = request.constraint.options if request.constraint is not None else {}
    whole, fraction = _allowed(asked, "integer_digits"), _allowed(asked, "fraction_digits")
    return any(_reaches(text, whole, fraction) for text in _json_of(request, answer))


def _allowed(asked: Mapping[str, Any], name: str) -> int:
    found: int = asked.get(name, getattr(_DEFAULTS, name))
    return found


def _json_of(request: Request, answer: Answer) -> Iterator[str]:
    if request.constraint is not None and request.constraint.kind in ("json_schema", "json_object"):
        yield answer.text
    for call in answer.tool_calls:
        yield call.arguments


def _reaches(text: str, whole: int, fraction: int) -> bool:
    """Return whether a number in `text` has at least `whole` digits before the point or `fraction` behind it. 0 means
    that any number of digits is allowed."""
    zeros = most_zeros(fraction)
    least = min(filter(None, (whole, zeros)), default=0)
    if not least or re.search(rf"\d{{{least}}}", text) is None:
        return False
    for part in _PART.finditer(text):
        before, behind = part[1] or "", part[2] or ""
        most = zeros if behind.endswith("0") else fraction
        if (whole and len(before) >= whole) or (most and len(behind) >= most):
            return True
    return False
