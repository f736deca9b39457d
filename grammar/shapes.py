"""Names for what threads can read, so that masks worked out for one schema serve every other that goes on alike.

Most places of most schemas are alike: a string is open, after it comes a comma and a name, or the bracket that closes
the object. A shape says this and nothing else: two places with equal shapes let the same tokens through, and their
guards sit in the same places. Shapes are made from the small tries of a vocabulary, so they look exactly as far ahead
as some token does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from grammar import classify
from grammar.gather import Guard, Viable
from grammar.lexemes import BACKSLASH, Words
from grammar.literals import Literals
from grammar.remembered import Remembered
from grammar.trie import Branch

if TYPE_CHECKING:
    from grammar.threads import Choice, Continuation, InLexeme, Thread
    from grammar.vocabulary import Vocabulary

Shape = tuple[int, tuple[Guard, ...], tuple[Branch, ...]]
"""(name, guards in the order in which they are met, places where what follows the value is still to be said)."""
NOTHING: Shape = (0, (), ())
_MOST_NAMES = 100_000
_FEW = 1
"""Masks of longer lists of words are hardly ever asked for by two schemas."""
_ALPHANUMERIC = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_MOST_BYTES = 64 << 20


class Shapes:
    """The shapes of one vocabulary, and what is known about them. `kept`: masks and sets of remainders, by shape."""

    def __init__(self) -> None:
        self.literals: dict[tuple[Branch, bytes], _Literal] = {}
        self.leaves: dict[Any, Shape | None] = {}
        self._names: dict[Any, int] = {}
        self._last = 0
        self.kept = Remembered(_MOST_BYTES)

    def name(self, description: Any) -> int:
        """The same number for the same description. Forgotten ones get a new number, never one that was used."""
        found = self._names.get(description)
        if found is None:
            if len(self._names) >= _MOST_NAMES:
                self._names = {}
            self._last += 1
            found = self._names[description] = self._last
        return found

    def fresh(self) -> int:
        """A name that nothing has."""
        self._last += 1
        return self._last

    def viable(self, shape: Shape | None, make: Callable[[], Viable]) -> Viable:
        """`make()`, or what it gave for this shape before, with the guards of this one."""
        if shape is None:
            return make()
        guards = shape[1]
        key = (shape[0], pattern(guards))
        known: tuple[Viable, list[tuple[int, ...]]] | None = self.kept.get(key)
        if known is None:
            made = make()
            size = sum(flags.nbytes for flags in [made.sure, *(d[2] for d in made.doubtful)] if flags is not None)
            plain = Viable(made.sure, [((), direct, flags) for _, direct, flags in made.doubtful])
            self.kept.put(key, (plain, places([d[0] for d in made.doubtful], guards)), size)
            return made
        viable, asked = known
        if not asked:
            return viable
        doubtful = [
            (tuple([guards[place] for place in places]), direct, flags)
            for (_, direct, flags), places in zip(viable.doubtful, asked, strict=True)
        ]
        return Viable(viable.sure, doubtful)


def places(asked: list[tuple[Guard, ...]], guards: tuple[Guard, ...]) -> list[tuple[int, ...]]:
    """Where in `guards` those stand that are asked."""
    first = {id(guard): place for place, guard in reversed(list(enumerate(guards)))}
    return [tuple([first[id(guard)] for guard in some]) for some in asked]


def pattern(guards: tuple[Guard, ...]) -> tuple[int, ...]:
    """Which of `guards` are the same one: tokens that hang on the same guards are collected together."""
    if len(guards) < 2:
        return ()
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(guard), place) for place, guard in enumerate(guards)])


def together(threads: tuple[Thread, ...], branch: Branch, vocabulary: Vocabulary) -> Shape | None:
    """Shape of all of `threads` at `branch`."""
    if len(threads) == 1:
        return threads[0].shape(branch, vocabulary)
    names: list[int] = []
    guards: tuple[Guard, ...] = ()
    holes: tuple[Branch, ...] = ()
    for thread in threads:
        part = thread.shape(branch, vocabulary)
        if part is None:
            return None
        if part[0]:
            names.append(part[0])
            guards += part[1]
            holes += part[2]
    if len(names) < 2:
        return (names[0], guards, holes) if names else NOTHING
    return vocabulary.shapes.name(tuple(names)), guards, holes


class _Description:
    """A shape in the making."""

    __slots__ = ("guards", "holes", "parts", "vocabulary")

    def __init__(self, vocabulary: Vocabulary, *parts: Any) -> None:
        self.vocabulary = vocabulary
        self.parts = list(parts)
        self.guards: tuple[Guard, ...] = ()
        self.holes: tuple[Branch, ...] = ()

    def add(self, part: Shape | None) -> bool:
        """False: there is no shape."""
        if part is None:
            return False
        self.parts.append(part[0])
        self.guards += part[1]
        self.holes += part[2]
        return True

    def follow(self, follow: Continuation, places: Iterable[tuple[int, Branch]]) -> bool:
        """`follow` after each outcome, at each place."""
        guard = follow.guard
        if guard is not None:
            self.parts.append(True)
            self.guards = (*self.guards, guard)
        return all(self.add(follow.shape(outcome, place, self.vocabulary)) for outcome, place in places)

    def shape(self) -> Shape:
        return self.vocabulary.shapes.name(tuple(self.parts)), self.guards, self.holes


def filled(shape: Shape, follow: Continuation, vocabulary: Vocabulary) -> Shape | None:
    """`shape`, a value's with holes and without guards, once it is known what follows the value."""
    if not shape[2]:
        return shape
    places = _places(follow, tuple(dict.fromkeys(shape[2])), vocabulary)
    made = _Description(vocabulary, "filled", shape[0], places)
    return made.shape() if all(made.add(follow.shape(0, place, vocabulary)) for place in places) else None


def _places(follow: Continuation, ends: tuple[Branch, ...], vocabulary: Vocabulary) -> tuple[Branch, ...]:
    """Where to ask what `follow` can read: once for all, if that does not go round in circles."""
    if len(ends) < 2 or follow.is_asked(vocabulary.places):
        return ends
    return (vocabulary.places,)


def of_choice(choice: Choice, branch: Branch, vocabulary: Vocabulary) -> Shape | None:
    """By each byte that is possible: is it guarded, and what comes below."""
    described: list[Any] = [branch]
    guards: tuple[Guard, ...] = ()
    holes: tuple[Branch, ...] = ()
    children, asked = branch.children, choice.guards
    for byte in choice.moves:
        below = children.get(byte)
        if below is None:
            continue
        described.append(byte)
        if asked is not None and byte in asked:
            described.append(True)
            guards = (*guards, asked[byte])
        if below.children:
            part = choice.shape_after(byte, below, vocabulary)
            if part is None:
                return None
            described.append(part[0])
            guards += part[1]
            holes += part[2]
    if len(described) == 1:
        return NOTHING
    return vocabulary.shapes.name(tuple(described)), guards, holes


def of_lexeme(thread: InLexeme, branch: Branch, vocabulary: Vocabulary) -> Shape | None:
    """What of the lexeme is in the subtree, and what follows where it may end there."""
    lexeme, state = thread.lexeme, thread.state
    if lexeme.general:
        return None
    if branch is vocabulary.places:
        return _at_root(thread, vocabulary)
    if type(lexeme) is Literals and state is lexeme.start:
        return _of_names(thread, branch, vocabulary)
    if not isinstance(lexeme, Literals | Words) and lexeme.outcome(state) is None and not thread.follow.after_name:
        return _of_value(thread, branch, vocabulary)
    return _looked_at(thread, branch, vocabulary)


def _of_value(thread: InLexeme, branch: Branch, vocabulary: Vocabulary) -> Shape | None:
    """By the lexeme itself, without a look at what it reads, and, if any lexeme may end in the subtree, all that may
    follow."""
    lexeme, state, follow = thread.lexeme, thread.state, thread.follow
    ends = branch.string_ends if lexeme.is_string else branch.scalar_ends
    if ends and follow.is_asked(vocabulary.places):
        return _looked_at(thread, branch, vocabulary)
    if not lexeme.is_string and branch.children.keys().isdisjoint(lexeme.heads):
        return NOTHING
    made = _Description(vocabulary, branch, lexeme, state)
    places = ((0, vocabulary.places),) if ends else ()
    return made.shape() if all(made.follow(each, places) for each in follow.branches) else None


def _looked_at(thread: InLexeme, branch: Branch, vocabulary: Vocabulary) -> Shape | None:
    """By the tokens that the lexeme reads in the subtree, and what follows at each place where it ends there."""
    lexeme, state = thread.lexeme, thread.state
    found = classify.in_branch(lexeme, state, branch)
    ended = lexeme.outcome(state)
    if not (found.ids.size or found.closers or found.ends or ended is not None):
        return NOTHING
    own: Any = (lexeme, state)
    if isinstance(lexeme, Literals | Words):
        own = (found.ids.tobytes(), tuple([(outcome, ids.tobytes()) for outcome, ids in found.closers]))
    made = _Description(vocabulary, branch, own, found.ends)
    places = [*found.ends, (ended, branch)] if ended is not None else found.ends
    return made.shape() if all(made.follow(follow, places) for follow in thread.follow.branches) else None


def _of_names(thread: InLexeme, branch: Branch, vocabulary: Vocabulary) -> Shape | None:
    """At the beginning of one of several strings: what each of them reads, whatever the others."""
    lexeme: Literals = thread.lexeme  # type: ignore[assignment]
    simple = branch.find(b"\\u") is None
    read: set[Any] = set()
    closed: list[tuple[int, Branch]] = []
    for word, outcome in zip(lexeme.words, lexeme.outcomes, strict=True):
        found = _spelled(word, branch) if simple and word[0] in _ALPHANUMERIC else None
        if found is None:
            found = _of_literal(word, branch, vocabulary)
        read.add(found[0])
        if found[1]:
            closed += [(outcome, end) for end in found[1]]
    read.discard(0)
    if not read:
        return NOTHING
    made = _Description(vocabulary, branch, frozenset(read))
    for follow in thread.follow.branches if closed else ():
        if not made.follow(follow, closed):
            return None
    return made.shape()


_Literal = tuple[Any, tuple[Branch, ...]]
"""(name of what one string reads in a subtree, where it is over)."""


def _spelled(word: bytes, branch: Branch) -> _Literal | None:
    """The same without a look at escapes, of which a token spells at most the backslash: the deepest place reached.
    None where more escapes are met on the way."""
    deepest: Any = BACKSLASH in branch.children
    node = branch
    for byte in word:
        below = node.children.get(byte)
        if below is None:
            return deepest, ()
        node = below
        if node.ids is not None:
            deepest = node
        if BACKSLASH in node.children:
            return None
    return node, (node,)


def _of_literal(word: bytes, branch: Branch, vocabulary: Vocabulary) -> _Literal:
    known = vocabulary.shapes.literals
    found = known.get((branch, word))
    if found is None:
        lexeme = Literals([(word, 0)])
        read = classify.in_branch(lexeme, lexeme.start, branch)
        closers = tuple([ids.tobytes() for _, ids in read.closers])
        ends = tuple([end for _, end in read.ends])
        name = 0
        if read.ids.size or closers or ends:
            name = vocabulary.shapes.name(("literal", branch, read.ids.tobytes(), closers, ends))
        if len(known) >= _MOST_NAMES:
            known.clear()
        found = known[branch, word] = (name, ends)
    return found


def _at_root(thread: InLexeme, vocabulary: Vocabulary) -> Shape | None:
    """The class of the state, what follows a lexeme that ends inside a token, and what follows if it ends here."""
    lexeme, state = thread.lexeme, thread.state
    key = lexeme.key(state)
    if key is None:
        return _of_rests(thread, vocabulary)
    ended = lexeme.outcome(state)
    made = _Description(vocabulary, key, ended is None)
    for follow in thread.follow.branches:
        if not made.follow(follow, ((0, vocabulary.places),)):
            return None
    return made.shape()


def _of_rests(thread: InLexeme, vocabulary: Vocabulary) -> Shape | None:
    """For a list of words: the class of what is left of each, and what follows those that a token can end."""
    lexeme: Any = thread.lexeme
    rests = classify.rests(vocabulary, lexeme, thread.state, _FEW)
    if rests is None or lexeme.outcome(thread.state) is not None:
        return None
    made = _Description(vocabulary, "rests")
    for word, rest in rests:
        made.parts.append(rest.number)
        if rest.ending is not None:
            places = ((lexeme.outcome_of(word), vocabulary.places),) if rest.ending.numbers.size else ()
            if not all(made.follow(follow, places) for follow in thread.follow.branches):
                return None
    return made.shape()
