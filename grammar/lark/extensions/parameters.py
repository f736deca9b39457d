"""Expand llguidance's parametric rules: `list::_`, referred to as `list::incr([0:3])`, with alternatives under `%if`.

A parameter is a number of 64 bits. A rule is written once for each number that some text leads to.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.parsing.rules import Production, Symbol

MOST_RULES = 20_000
"""Rules for numbers, of all parametric rules together."""
_DEEPEST = 100
"""Conditions inside conditions."""
_ALL = (1 << 64) - 1
_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")
_WORD = re.compile(r"[A-Za-z_]\w*")
_BITS = re.compile(r"\[\s*(\d+)\s*:\s*(\d+)\s*\]")

Value = Callable[[int], int]
Condition = Callable[[int], bool]


class Misread(Exception):
    """What is wrong, and where in the text."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class Reference(NamedTuple):
    """`rule` with the number that `value` makes of the one around it; `is_fixed`: the same for each."""

    rule: str
    value: Value
    is_fixed: bool


@dataclass
class Parameters:
    """What a grammar says of parameters: `rules` that have one, `references` by the rule that stands for them, and
    `conditions` by the terminal that does."""

    rules: set[str]
    references: dict[str, Reference]
    conditions: dict[str, Condition]

    def __bool__(self) -> bool:
        return bool(self.rules or self.references or self.conditions)


class ParameterText:
    """Reads an expression or a condition at `at` of `text`. Raises `Misread`."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self._depth = 0

    def value(self) -> tuple[Value, bool]:
        """Return the function of an expression, and whether it is a number."""
        self._blank()
        number = self._found(_NUMBER)
        if number is not None:
            fixed = self._checked(number)
            return lambda _: fixed, True
        at = self.at
        word = self._found(_WORD)
        if word == "_":
            return lambda p: p, False
        if word not in ("set_bit", "clear_bit", "bit_and", "bit_or", "incr", "decr"):
            names = "_, set_bit(k), clear_bit(k), bit_and(v), bit_or(v), incr([x:y]) and decr([x:y])"
            raise Misread(f"a parameter stands after ::, one of a number, {names}", at)
        self._takes("(")
        found = self._moved(word) if word in ("incr", "decr") else self._combined(word)
        self._takes(")")
        return found, False

    def _moved(self, word: str) -> Value:
        low, high = self._bits()
        most, one = (1 << high - low) - 1, 1 << low
        if word == "incr":
            return lambda p: p if p >> low & most == most else p + one
        return lambda p: p - one if p >> low & most else p

    def _combined(self, word: str) -> Value:
        if word in ("set_bit", "clear_bit"):
            bit = 1 << self._bit()
            return (lambda p: p | bit) if word == "set_bit" else (lambda p: p & ~bit)
        value = self._number()
        return (lambda p: p & value) if word == "bit_and" else (lambda p: p | value)

    def condition(self) -> Condition:
        self._blank()
        at = self.at
        word = self._found(_WORD) or ""
        if word == "true":
            if self._is_next("("):
                self._takes("(")
                self._takes(")")
            return lambda _: True
        read = self._conditions.get(word.removeprefix("bit_count_") if word.startswith("bit_count_") else word)
        if read is None:
            names = ", ".join(["true", *self._conditions, "bit_count_eq and the like"])
            raise Misread(f"unknown condition {word!r}; known are {names}", at)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Misread(f"conditions are nested more than {_DEEPEST} deep; nest them less", at)
        self._takes("(")
        found = read(self, word)
        self._takes(")")
        self._depth -= 1
        return found

    def _of_bit(self, word: str) -> Condition:
        bit = self._bit()
        return lambda p: (p >> bit & 1 == 1) == (word == "bit_set")

    def _of_range(self, word: str) -> Condition:
        low, high = self._bits()
        most = (1 << high - low) - 1
        wanted = most if word == "is_ones" else 0
        return lambda p: p >> low & most == wanted

    def _compared(self, word: str) -> Condition:
        low, high = self._bits()
        self._takes(",")
        number, most = self._number(), (1 << high - low) - 1
        compare = _COMPARED[word[-2:]]
        if word.startswith("bit_count_"):
            return lambda p: compare((p >> low & most).bit_count(), number)
        return lambda p: compare(p >> low & most, number)

    def _joined(self, word: str) -> Condition:
        first = self.condition()
        self._takes(",")
        second = self.condition()
        return (lambda p: first(p) and second(p)) if word == "and" else (lambda p: first(p) or second(p))

    def _negated(self, word: str) -> Condition:
        inner = self.condition()
        return lambda p: not inner(p)

    _conditions: Mapping[str, Callable[[ParameterText, str], Condition]] = {
        "bit_clear": _of_bit,
        "bit_set": _of_bit,
        "is_ones": _of_range,
        "is_zeros": _of_range,
        **dict.fromkeys(_COMPARED, _compared),
        "and": _joined,
        "or": _joined,
        "not": _negated,
    }

    # --- pieces ---

    def _blank(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t", "\r", "\n"):
            self.at += 1

    def _found(self, pattern: re.Pattern[str]) -> str | None:
        self._blank()
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[0]

    def _is_next(self, mark: str) -> bool:
        self._blank()
        return self.text.startswith(mark, self.at)

    def _takes(self, mark: str) -> None:
        if not self._is_next(mark):
            raise Misread(f"{mark!r} is missing", self.at)
        self.at += len(mark)

    def _number(self) -> int:
        number = self._found(_NUMBER)
        if number is None:
            raise Misread("a number is missing", self.at)
        return self._checked(number)

    def _checked(self, number: str) -> int:
        value = int(number, 16 if number[:2] in ("0x", "0X") else 10) if len(number) < 40 else _ALL + 1
        if value > _ALL:
            raise Misread("the number needs more than 64 bits", self.at - len(number))
        return value

    def _bit(self) -> int:
        at = self.at
        bit = self._number()
        if bit > 63:
            raise Misread(f"there is no bit {bit}; the last one is 63", at)
        return bit

    def _bits(self) -> tuple[int, int]:
        self._blank()
        if self._is_next("_"):
            self.at += 1
            return 0, 64
        found = _BITS.match(self.text, self.at)
        if found is None:
            raise Misread("bits are missing: _ for all, or [first:behind the last]", self.at)
        low, high = int(found[1][:9]), int(found[2][:9])
        if not low < high <= 64:
            raise Misread(f"the bits [{low}:{high}] are none; they go from 0 to 64, the first below the last", self.at)
        self.at = found.end()
        return low, high


def expanded(
    rules: Iterable[Production], parameters: Parameters, start: str, too_many: Callable[[str, str], NoReturn]
) -> list[Production]:
    """Return rules without parameters. `too_many`: raises for a rule that takes too many numbers, with the reason."""
    ways: dict[str, list[Production]] = {}
    for rule in rules:
        ways.setdefault(rule.origin, []).append(rule)
    inherits = _inheriting(ways, parameters)
    found: list[Production] = []
    pending = [(start, -1)]
    seen = set(pending)
    while pending:
        name, number = pending.pop()
        for way in ways.get(name, ()):
            tick()
            conditions = [parameters.conditions[s] for _, s in way.expansion if s in parameters.conditions]
            if not all(condition(number) for condition in conditions):
                continue
            symbols: list[Symbol] = []
            for is_terminal, symbol in way.expansion:
                if is_terminal:
                    symbols += [(True, symbol)] if symbol not in parameters.conditions else []
                    continue
                after = _instance(symbol, number, parameters, inherits)
                symbols.append((False, _named(*after)))
                if after not in seen:
                    seen.add(after)
                    pending.append(after)
            found.append(Production(_named(name, number), tuple(symbols)))
        if len(seen) > MOST_RULES:
            most, _ = Counter(rule for rule, number in seen if number >= 0).most_common(1)[0]
            too_many(most, f"parameters take more than {MOST_RULES} values; count fewer things at once, or less far")
    return found


def _instance(symbol: str, number: int, parameters: Parameters, inherits: set[str]) -> tuple[str, int]:
    """Return rule and number that `symbol` stands for in a rule for `number`; -1: none."""
    reference = parameters.references.get(symbol)
    if reference is not None:
        return reference.rule, reference.value(number)
    return symbol, number if symbol in inherits else -1


def _named(name: str, number: int) -> str:
    return name if number < 0 else f"{name}::{number:#x}"


def _inheriting(ways: Mapping[str, list[Production]], parameters: Parameters) -> set[str]:
    """Return the rules without a parameter of their own, made for groups and repetitions, that use the one around
    them."""
    found: set[str] = set()
    candidates = [name for name in ways if name.startswith("__")]
    while True:
        more = {
            name
            for name in candidates
            if name not in found
            and any(
                symbol in parameters.conditions
                if is_terminal
                else symbol in found or (symbol in parameters.references and not parameters.references[symbol].is_fixed)
                for way in ways[name]
                for is_terminal, symbol in way.expansion
            )
        }
        if not more:
            return found
        found |= more
