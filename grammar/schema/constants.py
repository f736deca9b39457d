"""Constants of a schema as sets of one value."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.schema.containers import NEVER, Array, Constant, Items, Members, Object
from sluicegate.grammar.schema.numbers import WHOLE_DOUBLES, Numbers
from sluicegate.grammar.schema.strings import Strings
from sluicegate.grammar.schema.value_set import NOTHING, ValueSet, only


def json_text(value: Any) -> str:
    """Return the JSON text of a constant; the order of properties is kept. Decimals inside are spelled as floats."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)


@remembered(4_000)
def constant_set(text: str) -> ValueSet:
    """Return the set of the one value that `text` spells; the empty text spells none. Its parts are silent, because
    `const` and `enum` evaluate nothing for `unevaluatedProperties`."""
    if not text:
        return NOTHING
    value = json.loads(text, parse_float=_exact, parse_int=Fraction) if text[0] in "-0123456789" else json.loads(text)
    if text[0] in "-0123456789":
        return only(numbers=(Numbers(values=frozenset({value})),))
    if value is None or isinstance(value, bool):
        return only(null=True) if value is None else only(booleans=frozenset({value}))
    if isinstance(value, str):
        return only(strings=(Strings(words=frozenset({value})),))
    if isinstance(value, list):
        items = Items(tuple((Constant(json_text(item)),) for item in value), NEVER, silent=True)
        return only(arrays=(Array(parts=(items,), low=len(value), high=len(value)),))
    members = Members(
        tuple((name, (Constant(json_text(item)),)) for name, item in value.items()), (), NEVER, silent=True
    )
    return only(objects=(Object(parts=(members,), required=tuple(value)),))


def _exact(text: str) -> Fraction:
    """Return the number that `text` spells; see `assertions.exact`."""
    return Fraction(float(text)) if abs(Fraction(text)) >= WHOLE_DOUBLES else Fraction(text)


def canonical(value: Any) -> Any:
    """Return a key that is equal for equal JSON values and for these only: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, bool) or value is None:
        return (str(value),)
    if isinstance(value, list):
        return ("list", *map(canonical, value))
    if isinstance(value, dict):
        return ("dict", frozenset((key, canonical(item)) for key, item in value.items()))
    return value
