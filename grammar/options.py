"""What a caller may choose about a grammar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from sluicegate.grammar.blocked.language.blocklist import Blocklist, blocklist
from sluicegate.grammar.limits import GrammarLimits, lowered
from sluicegate.plugins.errors import InvalidGrammar

MOST_DIGITS = 400
"""Most digits of a number that an option may allow: every double, written without an exponent."""
_USUAL_DIGITS = 20
PropertyOrder = Literal["schema", "required_first", "any"]


@dataclass(frozen=True, slots=True)
class GrammarOptions:
    """`whitespace`: "compact" (none), "flexible" (one space, or one line break and a bounded indent, where
    pretty-printers put them) or a regular expression for what may stand after `{ [ , :` and before `} ]`.

    `property_order`: "schema" (as listed, unlisted ones last; any order where `allOf`, `anyOf`, `$ref` and the like put
    several lists together), "required_first" (required ones, in schema order, then the others) or "any".

    `close_objects`: objects whose schema lists `properties` and says nothing of others have no others.

    `integer_digits`, `fraction_digits`: the most digits that a number has before and behind the point, unless the
    schema itself mentions longer numbers; 0 = any number. See `most_zeros`.

    `blocklist`: phrases, and `blocklist_patterns`: regular expressions, that no string and no free text may hold, see
    `blocked`.
    """

    whitespace: str = "flexible"
    blocklist: tuple[str, ...] = ()
    blocklist_patterns: tuple[str, ...] = ()
    property_order: PropertyOrder = "schema"
    close_objects: bool = False
    integer_digits: int = 80
    fraction_digits: int = 40
    limits: GrammarLimits = GrammarLimits()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        if self.property_order not in ("schema", "required_first", "any"):
            raise InvalidGrammar(
                f"property_order is {self.property_order!r}; use 'schema', 'required_first' or 'any'",
                param="property_order",
            )
        if not isinstance(self.close_objects, bool):
            raise InvalidGrammar(f"close_objects is {self.close_objects!r}; use true or false", param="close_objects")
        for name in ("integer_digits", "fraction_digits"):
            digits = getattr(self, name)
            if isinstance(digits, bool) or not isinstance(digits, int) or not (0 <= digits <= MOST_DIGITS):
                raise InvalidGrammar(
                    f"{name} is {digits!r}; use a whole number up to {MOST_DIGITS}, or 0 for any number of digits",
                    param=name,
                )
        if not isinstance(self.whitespace, str):
            raise InvalidGrammar("whitespace must be 'compact', 'flexible' or a pattern", param="whitespace")
        _ = self.blocked

    @property
    def blocked(self) -> Blocklist | None:
        return blocklist(self.blocklist, self.blocklist_patterns)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], limits: GrammarLimits | None = None) -> GrammarOptions:
        """Read options by name. `limits` are the most that `given` may ask for.

        Raises `InvalidGrammar` for an unknown name, listing the valid ones, and for a limit above the most.
        """
        valid = [f.name for f in fields(cls)]
        most = limits or GrammarLimits()
        for name in given:
            if name not in valid:
                raise InvalidGrammar(
                    f"unknown grammar option {name!r}; the options are {', '.join(valid)}", param=str(name)
                )
        values = {name: _listed(name, value) for name, value in given.items() if name != "limits"}
        return cls(**values, limits=lowered(most, given["limits"]) if "limits" in given else most)


def _listed(name: str, value: Any) -> Any:
    if not name.startswith("blocklist"):
        return value
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidGrammar(f"{name} must be a list of texts", param=name)
    return tuple(value)


def most_zeros(fraction_digits: int) -> int:
    """Return the most zeros that end a number of so many digits behind the point: the last of more than 20 is no 0, so
    that the next of some unique numbers can always differ from one before it."""
    return fraction_digits - (fraction_digits > _USUAL_DIGITS)
