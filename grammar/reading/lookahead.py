"""What threads can read, as sets of places: told from facts and put together, without a look at single tokens.

Masks were once named by what they look like, and gathered where the name was new. A set of places is both: it is
found by a few operations on whole numbers, most of them remembered, and a vocabulary turns it into tokens.

A string is told from before its opening quote on, so that all sets count from where a lexeme begins. What follows a
value may still be open: `ends` are the places where it begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.lexemes.base import BACKSLASH, QUOTE, DfaLexeme
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.literals import Literals
from sluicegate.grammar.reading.mask_builder import Guard, MaskBuilder
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.punctuation import HERE, PunctuationNode, PunctuationTrie, bits_of, numbers

if TYPE_CHECKING:
    from sluicegate.grammar.reading.continuations import Continuation
    from sluicegate.grammar.reading.readings import Reading
    from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

Doubtful = tuple[tuple[Guard, ...], bool, int, int]
"""(guards, do they guard the string told of, `read` and `ends` if all of them agree)."""
_ALPHANUMERIC = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NESTING = frozenset(b'{}[]"')
_MOST_WORDS = 100_000
_MOST_LEXEMES = 5_000


class Lookahead(NamedTuple):
    """Bit sets of places, see `punctuation`. `read`: the texts that can be read, the empty one if there is a way on;
    `ends`: where what follows a value begins, as long as that is not known."""

    read: int
    ends: int = 0
    doubtful: tuple[Doubtful, ...] = ()


NOTHING = Lookahead(0)
OVER = Lookahead(HERE)
"""Nothing more can be read, and nothing needs to be."""
HOLE = Lookahead(0, HERE)
"""All is still to be said."""


def joined(parts: Iterable[Lookahead]) -> Lookahead:
    """What any of `parts` can read."""
    read = ends = 0
    doubtful: tuple[Doubtful, ...] = ()
    for part in parts:
        read |= part.read
        ends |= part.ends
        if part.doubtful:
            doubtful += part.doubtful
    return Lookahead(read, ends, doubtful)


def under(guard: Guard | None, found: Lookahead, direct: bool = False) -> Lookahead:
    """`found`, if `guard` agrees."""
    if guard is None:
        return found
    doubtful: list[Doubtful] = [((guard,), direct, found.read, found.ends)]
    doubtful += [((guard, *guards), inner, read, ends) for guards, inner, read, ends in found.doubtful]
    return Lookahead(0, 0, tuple(doubtful))


def after_byte(place: PunctuationNode, found: Lookahead) -> Lookahead:
    """`found` behind `place`, which is a single byte."""
    if not found.ends and not found.doubtful:
        return Lookahead(place.lift(found.read))
    plain = place.path[0] not in _NESTING
    doubtful = [(g, d and plain, place.lift(read), place.lift(ends)) for g, d, read, ends in found.doubtful]
    return Lookahead(place.lift(found.read), place.lift(found.ends), _possible(doubtful))


def behind(punctuation: PunctuationTrie, ends: int, found: Lookahead) -> Lookahead:
    """`found` behind each of `ends`."""
    if not found.ends and not found.doubtful:
        return Lookahead(punctuation.behind(ends, found.read))
    doubtful = [(g, False, punctuation.behind(ends, r), punctuation.behind(ends, e)) for g, _, r, e in found.doubtful]
    return Lookahead(punctuation.behind(ends, found.read), punctuation.behind(ends, found.ends), _possible(doubtful))


def _possible(doubtful: list[Doubtful]) -> tuple[Doubtful, ...]:
    """Without what no token spells: few guards can be met in one token."""
    return tuple([each for each in doubtful if each[2] or each[3]])


def of_readings(readings: tuple[Reading, ...], at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
    """What `readings`, at `at`, can read behind it. The answer may hold more than stands there."""
    if len(readings) == 1:
        return readings[0].lookahead(at, vocabulary)
    return joined([reading.lookahead(at, vocabulary) for reading in readings])


def followed(
    value: Lookahead, follow: Continuation, outcome: int, at: PunctuationNode, vocabulary: Vocabulary
) -> Lookahead:
    """`value`, once it is known what follows its ends."""
    parts = [Lookahead(value.read)]
    if value.ends:
        parts += _following(value.ends, follow, outcome, at, vocabulary)
    for guards, direct, read, ends in value.doubtful:
        found = joined([Lookahead(read), *_following(ends, follow, outcome, at, vocabulary)])
        doubtful = [((*guards, *inner), False, r, e) for inner, _, r, e in found.doubtful]
        parts.append(Lookahead(0, 0, ((guards, direct, found.read, found.ends), *doubtful)))
    return parts[0] if len(parts) == 1 else joined(parts)


def _following(
    ends: int, follow: Continuation, outcome: int, at: PunctuationNode, vocabulary: Vocabulary, direct: bool = False
) -> list[Lookahead]:
    """What comes behind `ends` of a value at `at`, for each continuation."""
    tick()
    punctuation = vocabulary.punctuation
    if at is not punctuation.root:
        ends &= at.domain
    if not ends:
        return []
    return [
        under(branch.guard, _behind(punctuation, ends, branch, outcome, at, vocabulary), direct)
        for branch in follow.branches
    ]


def _behind(
    punctuation: PunctuationTrie,
    ends: int,
    follow: Continuation,
    outcome: int,
    at: PunctuationNode,
    vocabulary: Vocabulary,
) -> Lookahead:
    if at is punctuation.root or (follow.outward and not follow.is_asked(outcome)):
        return behind(punctuation, ends, follow.lookahead(outcome, punctuation.root, vocabulary))
    parts = []
    for number in numbers(ends):
        end = punctuation.all[number]
        parts.append(
            behind(
                punctuation, 1 << number, follow.lookahead(outcome, punctuation.by_path[at.path + end.path], vocabulary)
            )
        )
    return joined(parts)


def outside(follow: Continuation, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
    """What can be read after a closing bracket, at `at`. Those around it are asked from the outermost inwards, so that
    brackets may nest as deep as they like."""
    root = vocabulary.punctuation.root
    if follow.is_asked(0):
        return follow.lookahead(0, at, vocabulary)
    pending = [follow]
    found: dict[Continuation, None] = {}
    while pending:
        each = pending.pop()
        if not each.is_known():
            found.pop(each, None)
            found[each] = None
            outer = each.outer()
            pending += outer.branches if outer is not None else ()
    for each in reversed(found):
        each.lookahead(0, root, vocabulary)
    return follow.lookahead(0, root, vocabulary)


def of_lexeme(lexeme: Any, follow: Continuation, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
    """What `lexeme`, not begun, can read, and what follows it."""
    read, ended = _read_by(lexeme, vocabulary.punctuation)
    parts = [Lookahead(read)]
    for outcome, ends in ended:
        parts += _following(ends, follow, outcome, at, vocabulary, lexeme.is_string)
    return parts[0] if len(parts) == 1 else joined(parts)


def of_scalar(lexeme: Any, punctuation: PunctuationTrie) -> tuple[int, int]:
    """What `lexeme` reads from its beginning on, and where it may end, in whatever way."""
    read, ended = _read_by(lexeme, punctuation)
    if len(ended) == 1:
        return read, ended[0][1]
    ends = 0
    for _, some in ended:
        ends |= some
    return read, ends


_Read = tuple[int, tuple[tuple[int, int], ...]]
"""(places inside a lexeme, (outcome, places where it may end))."""


def _read_by(lexeme: Any, punctuation: PunctuationTrie) -> _Read:
    found: _Read | None = punctuation.lexemes.get(lexeme)
    if found is None:
        if type(lexeme) is Literals:
            return _spelled_names(lexeme, punctuation)
        start = punctuation.root.below(QUOTE) if lexeme.is_string else punctuation.root
        if start is None:
            found = HERE, ()
        elif type(lexeme) is DfaLexeme:
            found = _read_automaton(lexeme, start, punctuation)
        elif type(lexeme) is Counted and (uncounted := lexeme.uncounted(punctuation.longest_string)):
            read, ended = _read_by(uncounted[0], punctuation)
            found = read, ended if uncounted[1] else ()
        else:
            found = _read(lexeme, start)
        if len(punctuation.lexemes) >= _MOST_LEXEMES:
            punctuation.lexemes.clear()
        punctuation.lexemes[lexeme] = found
    return found


def _read_automaton(lexeme: DfaLexeme, start: PunctuationNode, punctuation: PunctuationTrie) -> _Read:
    flags = np.zeros((2, len(punctuation.all)), np.bool_)
    kernels.walk_punctuation(
        punctuation.byte,
        punctuation.depth,
        punctuation.skip,
        start.number,
        lexeme.table,
        lexeme.accepting,
        lexeme.start,
        *flags,
    )
    ends = bits_of(flags[1])
    return HERE | 1 << start.number | bits_of(flags[0]), ((0, ends),) if ends else ()


def _read(lexeme: Any, start: Any) -> _Read:
    inside = HERE | 1 << start.number
    ended: dict[int, int] = {}
    pending = [(lexeme.start, start)]
    while pending:
        at, place = pending.pop()
        for byte, below in place.children.items():
            after = lexeme.next(at, byte)
            if after is None:
                continue
            outcome = lexeme.outcome(after)
            if outcome is not None:
                ended[outcome] = ended.get(outcome, 0) | 1 << below.number
            if lexeme.grows(after):
                inside |= 1 << below.number
                if below.children:
                    pending.append((after, below))
    return inside, tuple(ended.items())


def _spelled_names(lexeme: Literals, punctuation: PunctuationTrie) -> _Read:
    """What each of several strings reads, whatever the others."""
    read = 0
    ended: list[tuple[int, int]] = []
    for word, outcome in zip(lexeme.words, lexeme.outcomes, strict=True):
        inside, ends = of_word(word, punctuation)
        read |= inside
        if ends:
            ended.append((outcome, ends))
    return read, tuple(ended)


def of_word(word: bytes, punctuation: PunctuationTrie) -> tuple[int, int]:
    """What one string reads, and where it ends."""
    found = punctuation.words.get(word)
    if found is None:
        start = punctuation.root.children.get(QUOTE)
        if start is None:
            found = (HERE, 0)
        else:
            found = _plainly(word, start) if word[0] in _ALPHANUMERIC and punctuation.simple else None
            if found is None:
                lexeme = Literals([(word, 0)])
                inside, ended = _read(lexeme, start)
                found = (inside, ended[0][1] if ended else 0)
        if len(punctuation.words) >= _MOST_WORDS:
            punctuation.words.clear()
        punctuation.words[word] = found
    return found


def _plainly(word: bytes, start: Any) -> tuple[int, int] | None:
    """The same without a look at escapes, of which a token spells at most the backslash. None where more escapes are
    met on the way."""
    inside = HERE | 1 << start.number
    node: Any = start.children.get(BACKSLASH)
    if node is not None:
        inside |= 1 << node.number
    node = start
    for byte in word:
        node = node.children.get(byte)
        if node is None:
            return inside, 0
        if byte == QUOTE:
            return inside, 1 << node.number
        if BACKSLASH in node.children:
            return None
        inside |= 1 << node.number
    raise AssertionError(word)


def by_walk(reading: Reading, vocabulary: Vocabulary) -> Lookahead:
    """The same by walking all places: what anything can be asked, whatever it is. Also how the rest is tested."""
    builder = MaskBuilder(vocabulary)
    start: Any = vocabulary.punctuation.root
    lexeme = getattr(reading, "lexeme", None)
    if lexeme is not None and lexeme.is_string:
        start = start.children.get(QUOTE)
        if start is None:
            return OVER
    reading.walk(start, builder)
    doubtful = [(guards, direct, _bits(found), 0) for (guards, direct), found in builder.doubtful.items()]
    return Lookahead(HERE | 1 << start.number | _bits(builder.sure), 0, tuple(doubtful))


def _bits(found: Iterable[Any]) -> int:
    bits = 0
    for part in found:
        for number in part.tolist():
            bits |= 1 << number
    return bits
