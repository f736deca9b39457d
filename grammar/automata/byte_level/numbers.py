"""Accept spellings of JSON numbers within bounds, by exact decimal arithmetic.

Plain and fractional spellings are exact for every bound and divisor. Spellings with an exponent are included where a
finite automaton can decide them without counting: with no bounds, or bounds of zero only. With any other bound, or
`multiple_of`, exponents are left out. Among integers, an exponent is allowed when it cannot leave a fraction: `12e3`,
`1.0E+2`, `7e-0`, but not `1.5e1`. An exponent has two digits, or three up to 307 behind a mantissa below ten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sluicegate.grammar.automata.byte_level.bytedfa import ByteDfa
from sluicegate.grammar.automata.byte_level.json_strings import utf8
from sluicegate.grammar.automata.chardfa import CharDfa
from sluicegate.grammar.automata.construction.table_of import compile_pattern
from sluicegate.grammar.automata.tables.algebra import concat, difference, intersection, union
from sluicegate.grammar.automata.tables.table import Row, Table, empty_table, minimal
from sluicegate.grammar.budget.meter import DEFAULT_BUDGET, Budget, WorkMeter
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar

Number = int | float | Decimal | Fraction
_MAX_DIGITS = 400  # of a bound: covers every double; a longer one costs a state a digit
_MAX_MODULUS = 5_000  # states of a remainder automaton

_FRACTION = r"(\.[0-9]+)?"
_ZERO_FRACTION = r"(\.0+)?"
_MAGNITUDE = "(0|[1-9][0-9]*)"
# Exponents end where doubles do: nearly every reader turns `1e999` into infinity, which no schema means. Two digits go
# with any mantissa, three with one digit before the point.
_SMALL = "0*[0-9]{1,2}"
_LARGE = "0*([12][0-9]{2}|30[0-7])"
_EXPONENTS = (f"[eE][+-]?{_SMALL}", f"[eE][+-]?{_LARGE}")
_WHOLE_EXPONENTS = (rf"[eE](\+?{_SMALL}|-0+)", rf"[eE]\+?{_LARGE}")


def number_dfa(
    minimum: Number | None = None,
    exclusive_minimum: Number | None = None,
    maximum: Number | None = None,
    exclusive_maximum: Number | None = None,
    integer: bool = False,
    multiple_of: Number | None = None,
    *,
    plain: bool = False,
    budget: Budget = DEFAULT_BUDGET,
) -> ByteDfa:
    """Accept the JSON spellings of the numbers that satisfy all of it; may be empty.

    Floats mean their shortest decimal (`0.1` is one tenth). `integer` takes `1.0` for an integer, as JSON Schema does.
    `plain` leaves out exponents, `-0`, and for integers also `.0`. Raises `GrammarLimit` for a bound of more than 400
    digits, or a `multiple_of` whose digits without the point exceed 5,000 once common factors of ten are gone.
    """
    exact = tuple(None if n is None else _exact(n) for n in (minimum, exclusive_minimum, maximum, exclusive_maximum))
    step = None if multiple_of is None else _exact(multiple_of)
    return _number_dfa(exact[0], exact[1], exact[2], exact[3], integer, step, plain, budget)


@remembered(512)
def _number_dfa(
    minimum: Fraction | None,
    exclusive_minimum: Fraction | None,
    maximum: Fraction | None,
    exclusive_maximum: Fraction | None,
    integer: bool,
    step: Fraction | None,
    plain: bool,
    budget: Budget,
) -> ByteDfa:
    meter = WorkMeter(budget, "number range")
    low = max([(b, s) for b, s in ((minimum, False), (exclusive_minimum, True)) if b is not None], default=None)
    high = min([(b, not s) for b, s in ((maximum, False), (exclusive_maximum, True)) if b is not None], default=None)
    upper = None if high is None else (high[0], not high[1])
    grammar = _grammar(integer, plain, exponents=step is None and not _needs_digits(low) and not _needs_digits(upper))
    if step is not None:
        grammar = intersection(grammar, _multiples(step, meter), meter)
    positive = _between(grammar, low, upper, meter)
    negative = _between(grammar, _mirror(upper), _mirror(low), meter)
    if plain:
        negative = intersection(negative, _above(Fraction(0), True, meter), meter)
    minus = concat(_pattern("^-$"), negative, meter)
    return utf8(CharDfa(union(positive, minus, meter)), budget=budget)


_Bound = tuple[Fraction, bool]  # value, strict?


def _exact(number: Number) -> Fraction:
    if isinstance(number, float):
        number = Decimal(repr(number))
    if isinstance(number, Decimal) and not number.is_finite():
        raise InvalidGrammar(f"the bound {number} is not a finite number")
    if isinstance(number, Decimal) and abs(number.adjusted()) > _MAX_DIGITS:
        raise GrammarLimit(f"the bound {number} has more than {_MAX_DIGITS} digits; use a smaller one")
    return Fraction(number)


def _needs_digits(bound: _Bound | None) -> bool:
    return bound is not None and bound[0] != 0


def _mirror(bound: _Bound | None) -> _Bound | None:
    return None if bound is None else (-bound[0], bound[1])


def _pattern(pattern: str) -> Table:
    return compile_pattern(pattern, "ecma", False, False, DEFAULT_BUDGET)


def _grammar(integer: bool, plain: bool, exponents: bool) -> Table:
    """Return the table of the unsigned spellings."""
    if integer:
        fraction = "" if plain else _ZERO_FRACTION
        small, large = _WHOLE_EXPONENTS
    else:
        fraction = _FRACTION
        small, large = _EXPONENTS
    if plain or not exponents:
        return _pattern(f"^{_MAGNITUDE}{fraction}$")
    return _pattern(f"^({_MAGNITUDE}{fraction}({small})?|[1-9]{fraction}{large})$")


def _between(grammar: Table, low: _Bound | None, high: _Bound | None, meter: WorkMeter) -> Table:
    """Restrict unsigned spellings to those within the bounds."""
    meter.renew()
    if high is not None and (high[0] < 0 or (high[0] == 0 and high[1])):
        return empty_table()
    if low is not None and (low[0] > 0 or (low[0] == 0 and low[1])):
        grammar = intersection(grammar, _above(low[0], low[1], meter), meter)
    if high is not None:
        grammar = difference(grammar, _above(high[0], not high[1], meter), meter)
    return grammar


# Digit automata. Classes: 0..9 the digits, 10 the point, 11 the rest of an exponent spelling.

_STARTS = [0, 0x2B, 0x2C, 0x2D, 0x2E, 0x2F, *range(0x30, 0x3A), 0x3A, 0x45, 0x46, 0x65, 0x66]
_CLASSES = [-1, 11, -1, 11, 10, -1, *range(10), -1, 11, -1, 11, -1]
_POINT = 10
_REST = range(12)


def _digits_of(bound: Fraction) -> tuple[str, str]:
    """Return the decimal digits before and after the point, without outer zeros. Raises `GrammarLimit`."""
    denominator, places = bound.denominator, 0
    for prime in (2, 5):
        power = 0
        while denominator % prime == 0:
            denominator //= prime
            power += 1
        places = max(places, power)
    if denominator != 1:
        raise GrammarLimit(f"the bound {bound} has no finite decimal form; round it")
    digits = str(bound.numerator * 10**places // bound.denominator).rjust(places + 1, "0")
    if len(digits) > _MAX_DIGITS:
        raise GrammarLimit(f"the bound has {len(digits)} digits, more than {_MAX_DIGITS}; use a smaller or rounder one")
    return digits[: len(digits) - places], digits[len(digits) - places :]


def _above(bound: Fraction, strict: bool, meter: WorkMeter) -> Table:
    """Accept unsigned spellings of at least `bound` (more than it if `strict`). Exact for spellings of the grammar
    only.

    With as many digits before the point as the bound, digits are compared one by one; with more, the number is larger.
    For zero, exponents do not matter: a spelling is positive when its mantissa has a digit that is not zero.
    """
    if bound == 0:
        row = {**dict.fromkeys(range(1, 10), 1), 0: 0, _POINT: 0} if strict else _onwards(1, _REST)
        return minimal(Table(_STARTS, _CLASSES, [row, _onwards(1, _REST)], [not strict, True]), meter)
    before, after = _digits_of(bound)
    draft = _Draft([_onwards(0, _REST)], [True], meter)
    behind_point = _fraction_above(draft, after, strict)
    less = draft.state(_onwards(0, range(10)), False)
    same = draft.state({**_onwards(0, range(10)), _POINT: behind_point}, not strict and not after)
    more = 0  # only the last place may end: an earlier end means fewer digits, a smaller number
    for digit in map(int, reversed(before)):
        compared = {d: less if d < digit else same if d == digit else more for d in range(10)}
        same = draft.state(compared, False)
        less = draft.state(_onwards(less, range(10)), False)
        more = draft.state(_onwards(more, range(10)), False)
    return minimal(Table(_STARTS, _CLASSES, draft.rows, draft.accepting, same), meter)


def _fraction_above(draft: _Draft, after: str, strict: bool) -> int:
    """Return the state behind the point where all digits before it equal the bound's; state 0 accepts all."""
    state = draft.state({**_onwards(0, range(10))}, not strict)
    if strict:
        draft.rows[state][0] = state
    for digit in map(int, reversed(after)):
        state = draft.state({d: state if d == digit else 0 for d in range(digit, 10)}, False)
    return state


def _onwards(target: int, classes: Iterable[int]) -> Row:
    return dict.fromkeys(classes, target)


@dataclass(slots=True)
class _Draft:
    """A table under construction."""

    rows: list[Row]
    accepting: list[bool]
    meter: WorkMeter

    def state(self, row: Row, accepts: bool) -> int:
        self.meter.states()
        self.rows.append(row)
        self.accepting.append(accepts)
        return len(self.rows) - 1


def _multiples(step: Fraction, meter: WorkMeter) -> Table:
    """Accept unsigned plain spellings of the multiples of `step`, by the remainder of the digits so far.

    Raises `InvalidGrammar` for a step that is not positive, `GrammarLimit` for too many remainders.
    """
    if step <= 0:
        raise InvalidGrammar(f"multipleOf must be more than 0, not {step}")
    places = 0 if step.denominator == 1 else len(_digits_of(step)[1])
    modulus = int(step * 10**places)
    zeros = 0
    while modulus % 10 == 0:
        modulus //= 10
        zeros += 1
    if modulus * (places + 1) > _MAX_MODULUS:
        raise GrammarLimit(
            f"multipleOf {float(step):g} needs a remainder automaton of {modulus * (places + 1)} states, more than "
            f"{_MAX_MODULUS}; use a smaller or rounder divisor"
        )
    if not zeros:
        return _remainders(modulus, places, meter)
    whole = difference(_remainders(modulus, 0, meter), _pattern(r"[^0-9]"), meter)
    padded = concat(whole, _pattern(f"^0{{{zeros}}}$"), meter)
    return concat(union(padded, _pattern("^0$"), meter), _pattern(r"^(\.0+)?$"), meter)


def _remainders(modulus: int, places: int, meter: WorkMeter) -> Table:
    """Make states `(digits behind the point or -1, remainder)`; behind `places` digits only zeros may follow."""
    queue = [(-1, 0)]
    number = {queue[0]: 0}
    rows: list[Row] = []
    accepting = []
    for behind, rest in queue:
        row: Row = {}
        if behind < places:
            steps = {d: (behind + (behind >= 0), (rest * 10 + d) % modulus) for d in range(10)}
        else:
            steps = {0: (behind, rest)}
        if behind < 0:
            steps[_POINT] = (0, rest)
        for c, target in steps.items():
            if target not in number:
                meter.states()
                number[target] = len(queue)
                queue.append(target)
            row[c] = number[target]
        rows.append(row)
        accepting.append(rest * 10 ** (places - max(behind, 0)) % modulus == 0)
    return minimal(Table(_STARTS, _CLASSES, rows, accepting), meter)
