"""Lexemes for sets of scalars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from sluicegate.grammar.automata import ByteDfa, CharDfa, format_dfa, string_table
from sluicegate.grammar.budget.meter import charge, look
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.lexemes.base import DfaLexeme, Lexeme
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.digits import NumberDigits, within_digits
from sluicegate.grammar.lexemes.doubles import as_read
from sluicegate.grammar.lexemes.literals import literals
from sluicegate.grammar.lexemes.number_supply import NumberSupply
from sluicegate.grammar.lexemes.string_supply import supply_of
from sluicegate.grammar.lexemes.without_given import without_given
from sluicegate.grammar.lexemes.words import Words
from sluicegate.grammar.schema import numbers, strings
from sluicegate.grammar.schema.numbers import Numbers, NumberSet
from sluicegate.grammar.schema.strings import Strings, StringSet
from sluicegate.plugins.errors import GrammarLimit

_LOOK_EVERY = 64
"""Constants between two checks of the clock."""
_TOO_LARGE, _WORD = 10**308, 2**64
_LISTED = 2_000
"""From this many constants on, a list is spelled without exponents."""
_OF_SPELLING = 25
"""Work charged for the spellings of a number."""
_SPELLED = 2_000


@remembered(1_000)
def string_automaton(dfa: CharDfa) -> DfaLexeme:
    """Make the lexeme of the strings of `dfa`, from after the opening quote. Strings of a large automaton are spelled
    without needless escapes, in a tenth of the states."""
    if dfa.state_count <= _SPELLED:
        try:
            return DfaLexeme(string_table(dfa))
        except GrammarLimit:
            pass
    return DfaLexeme(string_table(dfa, escapes=False))


@lru_cache(maxsize=1)
def every_string() -> DfaLexeme:
    return string_automaton(CharDfa.any_string())


@remembered(1_000)
def _string_lexeme(part: Strings) -> Lexeme | None:
    part = part.reduced
    if part.words is not None:
        return literals(sorted(part.words)) if part.words else None
    inner = every_string() if part.dfa is None else string_automaton(part.dfa)
    if part.low or part.high is not None:
        return Counted(inner, every_string(), part.low, part.high, part.dfa)
    return inner


def string_lexemes(parts: StringSet) -> tuple[Lexeme, ...]:
    """Return one lexeme for each part that is not empty, from after the opening quote."""
    if parts == strings.EVERY:
        return (every_string(),)
    found = (_string_lexeme(part) if part.given is None else _new_strings(part) for part in parts)
    return tuple(lexeme for lexeme in found if lexeme is not None)


def _new_strings(part: Strings) -> Lexeme | None:
    """Make the lexeme of `part` without the strings that were given."""
    every = replace(part, given=None)
    inner = _string_lexeme(every)
    assert part.given is not None
    return None if inner is None else without_given(inner, part.given, supply_of(every))


def number_lexemes(parts: NumberSet, digits: NumberDigits = NumberDigits()) -> tuple[Lexeme, ...]:
    """Return the lexemes of the numbers of `parts`, with no more digits than `digits` where the schema asks for no
    more."""
    if not parts or parts[0].given is None:
        return _number_lexemes(parts, digits)
    given = parts[0].given
    taken = {Fraction(text) for text in given.all()} if any(part.values is not None for part in parts) else set()
    listed = [replace(part, given=None, values=part.values - taken) for part in parts if part.values is not None]
    found: list[Lexeme] = [*_listed(numbers.simplified(tuple(listed)))]
    others = _plain_numbers(tuple([replace(part, given=None) for part in parts if part.values is None]), digits)
    if others is not None:
        left = without_given(others[0], given, others[1])
        found += [] if left is None else [left]
    return tuple(found)


def new_numbers(parts: NumberSet, digits: NumberDigits) -> None:
    """Build the automata for lexemes of these numbers with some excluded; takes milliseconds with bounds or steps."""
    _plain_numbers(tuple([part for part in parts if part.values is None]), digits)


@remembered(200)
def _plain_numbers(parts: NumberSet, digits: NumberDigits) -> tuple[DfaLexeme, NumberSupply] | None:
    """Return the lexeme of the spellings without exponents, and what counts them: the spellings of what is given can
    be told there."""
    for lexeme in _number_lexemes(parts, digits):
        assert isinstance(lexeme, DfaLexeme)
        assert isinstance(lexeme.dfa, ByteDfa)
        dfa = numbers.without_exponents(lexeme.dfa)
        if not dfa.is_empty():
            return lexeme if dfa.digest == lexeme.dfa.digest else DfaLexeme(dfa), NumberSupply(dfa)
    return None


@remembered(500)
def _number_lexemes(parts: NumberSet, digits: NumberDigits = NumberDigits()) -> tuple[Lexeme, ...]:
    if not parts:
        return ()
    others = tuple(part for part in parts if part.values is None)
    found: list[Lexeme] = list(_listed(tuple(part for part in parts if part.values is not None)))
    if others:
        dfa = numbers.automaton(others)
        if dfa is not None:
            found.append(DfaLexeme(as_read(within_digits(dfa, others, digits), others)))
    return tuple(found)


def _listed(parts: NumberSet) -> Iterator[Words]:
    for part in parts:
        assert part.values is not None
        words: list[tuple[bytes, int]] = []
        for k, value in enumerate(sorted(part.values)):
            if not k % _LOOK_EVERY:
                look()
            charge(_OF_SPELLING)
            words.extend((spelling, 0) for spelling in spellings(value, part.plain, len(part.values) > _LISTED))
        if words:
            yield Words(words)


def spellings(value: Fraction, only_plain: bool = False, few: bool = False) -> list[bytes]:
    """Return the usual JSON spellings of a constant: `1`, `1.0`; unless `few`: `0.001`, `1e-3`, `1e-03`. Trailing
    zeros, which have no end, are not among them."""
    plain = numbers.plain_text(value)
    if only_plain:
        return [plain.encode()]
    found = {plain}
    if abs(value) >= _TOO_LARGE:  # but for these digits readers would turn it into infinity
        return [plain.encode()]
    if abs(value) >= numbers.WHOLE_DOUBLES:
        return _of_large(value, plain, few)
    if value.denominator == 1:
        found.add(plain + ".0")
    if value == 0:
        found |= {"-0", "-0.0"}
    if value and not few and (len(plain) > 5 or abs(value) >= 1000 or value.denominator > 1):
        found |= _exponent_forms(value)
    return sorted(text.encode() for text in found)


def _of_large(value: Fraction, plain: str, few: bool) -> list[bytes]:
    """Return the spellings of a number so large that not all whole numbers near it are doubles: with a point or an
    exponent readers take it for one. `1e23` is 99999999999999991611392, which validators do not take for it."""
    if Fraction(float(value)) != value:
        return [plain.encode()]
    shortest = Fraction(repr(float(value)))
    found = {plain + ".0"}
    if shortest == value or abs(value) < _WORD:
        found.add(plain)
    found |= set() if few else _exponent_forms(shortest)
    return sorted(text.encode() for text in found)


def _exponent_forms(value: Fraction) -> set[str]:
    digits = numbers.plain_text(value).lstrip("-").replace(".", "").strip("0") or "0"
    sign = "-" if value < 0 else ""
    size = abs(value)
    if size >= 1:
        power = len(str(int(size))) - 1
    else:
        power = 0
        while size < 1:
            size, power = size * 10, power - 1
    heads = [digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"]
    if len(digits) == 1:
        heads.append(digits + ".0")
    mark = "-" if power < 0 else ""
    exponents = {f"{mark}{abs(power)}", f"{mark or '+'}{abs(power):02}", f"{mark or '+'}{abs(power)}"}
    return {f"{sign}{head}{e}{exponent}" for head in heads for e in "eE" for exponent in exponents}


@lru_cache(maxsize=1)
def shared_automata() -> tuple[DfaLexeme, ...]:
    """Return the automata that most schemas share, built once per process (a quarter of a second)."""
    whole = (Numbers(step=Fraction(1)),)
    shared = [every_string(), *number_lexemes(numbers.EVERY), *number_lexemes(whole)]
    for name in ("date-time", "date", "time", "email", "uri", "hostname", "ipv4", "ipv6", "uuid"):
        string_automaton(format_dfa(name))
    return tuple(lexeme for lexeme in shared if isinstance(lexeme, DfaLexeme))


@lru_cache(maxsize=32)
def word_lexeme(null: bool, booleans: frozenset[bool]) -> Words | None:
    words = [(b"null", 0)] if null else []
    words += [(b"true" if value else b"false", 0) for value in sorted(booleans)]
    return Words(words) if words else None
