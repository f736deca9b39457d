"""Configurations: all readings of a text at one moment, and the mask and steps they imply, worked out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import le
from typing import Any, Final

import numpy as np

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.lexemes.base import BACKSLASH, QUOTE, Lexeme
from sluicegate.grammar.lexemes.scalars import every_string
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import DistinctItem, DistinctKey, Guard
from sluicegate.grammar.reading.mask_builder import LearnedTables, MaskBuilder
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import InLexeme
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.reading.value_start import ValueStart
from sluicegate.grammar.token_ids import I32, join
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import GrammarLimit

_KEPT: Final = 4_000
"""Most parser states of a grammar before the cache is emptied; each holds a mask of a few hundred words beside a shared
row."""


_OF_STATE: Final = 3_000
"""Bytes of a parser state with its readings and steps: 1.3 to 2.7 kB, measured for drawn schemas."""
_OF_NEW_STEP: Final = 1.5
"""Work charged for a step over a byte that is not known."""
_PARTS = 500
"""Most readings whose part of a mask is cached."""
_FEW: Final = 4
"""With at most this many readings, none is searched for that another one dominates."""


class GuardedTokens:
    """Tokens that are allowed if all of `guards` agree. `direct`: they guard the end of the open lexeme itself."""

    __slots__ = ("direct", "guards", "ids")

    def __init__(self, guards: tuple[Guard, ...], direct: bool, ids: I32) -> None:
        self.guards = guards
        self.direct = direct
        self.ids = ids


class Mask:
    """A bitmask: a row, most often a shared one, the tokens besides, and those that only the text can decide.
    Immutable."""

    __slots__ = ("base", "doubts", "empty", "ids")

    def __init__(self, base: I32, ids: I32, doubts: tuple[GuardedTokens, ...], empty: bool) -> None:
        self.base = base
        self.ids = ids
        self.doubts = doubts
        self.empty = empty


class ParserState:
    """Immutable but for what it remembers. `readings` are distinct."""

    __slots__ = ("answered", "can_stop", "counts", "forced", "mask", "plain", "readings", "steps", "tokens")

    def __init__(self, readings: tuple[Reading, ...]) -> None:
        self.readings = readings
        # Asked here, where the lock is held: what follows in tags makes readings for it.
        can_stop = counts = False
        for reading in readings:
            can_stop = can_stop or reading.can_stop
            counts = counts or reading.counts
        self.can_stop = can_stop
        self.counts = counts
        """Whether tokens are counted in some reading."""
        self.forced: int | None = None
        """The only byte that may come next; -1 = there are several, None = not computed yet."""
        self.mask: Mask | None = None
        self.plain = False
        """Whether this state is known to be that of any string, at the beginning of a character: all tokens of
        `Vocabulary.plain` lead back to it."""
        # read alone: most states of a long text have only one of the two, and none once they are forgotten
        self.steps: dict[int, ParserState | None] = _NO_STEPS  # type: ignore[assignment]
        self.tokens: dict[int, ParserState] = _NO_TOKENS  # type: ignore[assignment]
        self.answered: dict[int, AskedToken] | None = None
        """For tokens on which new property names are checked."""

    def forget(self) -> None:
        """Drop what can be worked out again: the mask, and the states behind bytes and tokens."""
        self.mask, self.answered = None, None
        self.steps, self.tokens = _NO_STEPS, _NO_TOKENS  # type: ignore[assignment]

    def keep_step(self, byte: int, after: ParserState | None) -> None:
        if self.steps is _NO_STEPS:
            self.steps = {}
        self.steps[byte] = after

    def keep_token(self, token_id: int, after: ParserState) -> None:
        if self.tokens is _NO_TOKENS:
            self.tokens = {}
        self.tokens[token_id] = after


_NO_STEPS: Mapping[int, ParserState | None] = {}
_NO_TOKENS: Mapping[int, ParserState] = {}
"""Of states that have none; nothing is written to them, see `ParserState.keep_step`."""


class AskedToken:
    """The state after a token where guards answer as they did: each of `asked` is (bytes of the token up to there,
    guard, `end_offset` as in `Run.passes`, what it answered); `rest` are the bytes behind the last."""

    __slots__ = ("after", "asked", "rest")

    def __init__(self, asked: tuple[tuple[bytes, Guard, int, bool], ...], rest: bytes, after: ParserState) -> None:
        self.asked = asked
        self.rest = rest
        self.after = after

    def again(self, tape: Tape) -> bool:
        """Push the token on `tape`, and return whether all guards answer as they did; else some of it was pushed."""
        for piece, guard, end_offset, passed in self.asked:
            tape.push_all(piece)
            if guard.allows(tape, len(tape.text) - end_offset) != passed:
                return False
        tape.push_all(self.rest)
        return True


class ParserStates:
    """The configurations of one compiled grammar, interned. Shared by its matchers; races only repeat work."""

    def __init__(self, vocabulary: Vocabulary, reading_limit: int, trailing: TrieNode | None = None) -> None:
        self.vocabulary = vocabulary
        self.trailing = trailing
        """Tokens that may end a JSON value and continue with other text (structural tags)."""
        self.reading_limit = reading_limit
        self._counts = vocabulary.longest > 1
        """Whose tokens are all bytes judges texts of which nobody knows the tokens."""
        self._known: dict[Any, ParserState] = {}
        self._alone: dict[Any, ParserState] = {}
        """Parser states of one reading, by its key."""
        self._parts: dict[Any, tuple[InLexeme, Mask]] = {}
        """What one reading adds to masks; stored with the reading, whose key is valid only while it lives."""
        self._mask_bytes = 0
        self._tables: dict[int, LearnedTables] = {}
        """Parsers and lexemes whose readings were asked, by their ids."""

    @property
    def full(self) -> bool:
        """Return whether the cache is full, so that a new text should start with a new one."""
        return len(self._known) + len(self._alone) > _KEPT

    @property
    def bytes_kept(self) -> int:
        """Return about how many bytes matchers have worked out so far. Takes a microsecond."""
        states = len(self._known) + len(self._alone) + len(self._parts)
        return _OF_STATE * states + self._mask_bytes + sum([one.learned_bytes for one in list(self._tables.values())])

    def _forget(self) -> None:
        """Empty the cache in the middle of a text, whose matcher keeps the state before each token to go back to. In
        an object of thousands of properties every place has states of its own."""
        for states in (self._known, self._alone):
            for state in states.values():
                state.forget()
            states.clear()
        self._mask_bytes = 0

    def intern(self, readings: Sequence[Reading]) -> ParserState:
        if len(readings) == 1:
            return self._lone(readings[0])
        if len(readings) > _FEW:
            charge(len(readings))
            readings = _undominated(readings)
        distinct: dict[Any, Reading] = {}
        starts: list[ValueStart] = []
        for reading in readings:
            kind = type(reading)
            if kind is InLexeme:
                distinct.setdefault((id(reading.lexeme), reading.state, id(reading.follow)), reading)  # type: ignore[attr-defined]
            elif kind is ValueStart:
                starts.append(reading)  # type: ignore[arg-type]
            else:
                distinct.setdefault(id(reading), reading)
        for start in starts if len(starts) < 2 else _merged(starts):
            distinct.setdefault(id(start), start)
        if len(distinct) == 1:
            return self._lone(*distinct.values())
        key = tuple(distinct)
        found = self._known.get(key)
        if found is None:
            if len(distinct) > self.reading_limit:
                raise GrammarLimit(
                    f"one text has more than {self.reading_limit} readings at once; make the branches of anyOf and "
                    "oneOf easier to tell apart, or raise limits.readings in [stages.constrain.grammar]",
                    pointer=next(filter(None, (reading.pointer() for reading in distinct.values())), ""),
                )
            found = self._known[key] = ParserState(tuple(distinct.values()))
        return found

    def _lone(self, reading: Reading) -> ParserState:
        """Do `intern` for one reading, the common case."""
        if type(reading) is InLexeme:
            key: Any = (id(reading.lexeme), reading.state, id(reading.follow))
        else:
            key = id(reading)
        found = self._alone.get(key)
        if found is None:
            found = self._alone[key] = ParserState((reading,))
        return found

    # --- stepping -----------------------------------------------------------------------------------------------

    def step(self, state: ParserState, byte: int, run: Run) -> ParserState | None:
        """Return the state after `byte`, which is on the tape already; None = refused. Remembered unless a guard was
        asked."""
        steps = state.steps
        return steps[byte] if byte in steps else self._step_new(state, byte, run)

    def _step_new(self, state: ParserState, byte: int, run: Run) -> ParserState | None:
        """Compute `step` where it is not cached, or where guards decide."""
        charge(_OF_NEW_STEP)
        outer, run.asked = run.asked, False
        if len(state.readings) == 1:
            readings: Sequence[Reading] = state.readings[0].step(byte, run)
        else:
            readings = [after for reading in state.readings for after in reading.step(byte, run)]
        after = self.intern(readings) if readings else None
        if not run.asked:
            state.keep_step(byte, after)
        run.asked = run.asked or outer
        return after

    def accept(self, state: ParserState, token_id: int, tape: Tape | None) -> ParserState | None:
        """Return the state after a token (None = refused) and remember it. Pushes its bytes on `tape`."""
        if self.full:
            self._forget()
        word = self.vocabulary.words[token_id]
        begun = 0 if tape is None else len(tape.text)
        after, run = self._taken(state, word, tape)
        if after is None:
            return None
        after = self.after_token(after)
        if run is None or not run.asked:
            state.keep_token(token_id, after)
        elif not run.by_text and all(type(answer.guard) is DistinctKey for answer in run.answers):
            known = state.answered
            if known is None:
                known = state.answered = {}
            known[token_id] = _answered(run, word, begun, after)
        return after

    def after_token(self, state: ParserState) -> ParserState:
        """Return the state where another token ends in `state`."""
        if not (state.counts and self._counts):
            return state
        return self.intern([after for reading in state.readings for after in reading.after_token()])

    def take(self, state: ParserState, word: bytes, tape: Tape | None) -> ParserState | None:
        """Return the state after all of `word` (None = refused). Pushes the bytes on `tape`."""
        return self._taken(state, word, tape)[0]

    def _taken(self, state: ParserState, word: bytes, tape: Tape | None) -> tuple[ParserState | None, Run | None]:
        """Compute `take`; also return the run with the guards asked, or None if none could be."""
        if tape is None or (tape.mode == 1 and not ends_string(word, tape)):
            inside = self.stay(state, word)
            if inside is not None:
                if tape is not None:
                    tape.push_all(word)
                return inside, None
        run = Run(tape)
        at = state
        for byte in word:
            if tape is not None:
                tape.push(byte)
            after = at.steps.get(byte)
            if after is None:
                after = None if byte in at.steps else self._step_new(at, byte, run)
                if after is None:
                    return None, run
            at = after
        return at, run

    def stay(self, state: ParserState, word: bytes) -> ParserState | None:
        """Return the state in the common case: the word stays inside the one lexeme that is open, or inside all strings
        that may be. Otherwise None."""
        readings = state.readings
        if len(readings) == 1:
            after = readings[0].run(word)
            if after is None:
                return None
            found = state if after is readings[0] else self._lone(after)
            if found is state and type(after) is InLexeme and after.lexeme is every_string():
                state.plain = after.state == after.lexeme.start
            return found
        if QUOTE in word:
            return None
        charge(len(readings))
        left, moved = [], False
        for reading in readings:
            if type(reading) is not InLexeme or not reading.lexeme.is_string:
                return None
            after = reading.run(word)
            moved = moved or after is not reading
            if after is not None:  # else refused: nothing ends a string but a quote
                left.append(after)
        if not moved:
            return state
        return self.intern(left) if left else None

    # --- masks --------------------------------------------------------------------------------------------------

    def mask_of(self, state: ParserState) -> Mask:
        found = state.mask
        if found is None:
            found = state.mask = self._mask(state)
        return found

    def _mask(self, state: ParserState) -> Mask:
        if state.counts:
            return self.mask_of(self.intern([reading.uncounted() for reading in state.readings]))
        key = self._situation(state) if self.trailing is None else None
        if key is None:
            return self._built(state)
        masks = self.vocabulary.masks
        found: Mask | None = masks.get(key)
        if found is None:
            found = self._built(state)
            masks.put(key, found, found.ids.nbytes + (found.base is not self.vocabulary.blank) * found.base.nbytes)
        return found

    def _situation(self, state: ParserState) -> tuple[Lexeme | None, int, int] | None:
        """Return what the mask depends on where only punctuation can come, the same in every grammar: the whitespace
        that may come, what can be read after it, and what without it. None where anything else may come, or a guard is
        asked."""
        blank = None
        read = spaced = 0
        for reading in state.readings:
            found = reading.situation(self.vocabulary)
            if found is None or found[1].doubtful:
                return None
            if found[0] is None:
                read |= found[1].read
            elif blank is None:
                blank, spaced = found[0], found[1].read
            else:
                return None
        return blank, spaced, read

    def _built(self, state: ParserState) -> Mask:
        builder = MaskBuilder(self.vocabulary, self._tables)
        parts = []
        for reading in state.readings:
            if type(reading) is InLexeme:
                self._tables[id(reading.lexeme)] = reading.lexeme
            if type(reading) is InLexeme and reading.follow.guard is not None:
                parts.append(self._part(reading))
            else:
                reading.root(builder)
        if self.trailing is not None:
            for reading in state.readings:
                if not (type(reading) is InLexeme and reading.lexeme.general):
                    reading.walk(self.trailing, builder)
        for part in parts:
            if part.base is not self.vocabulary.blank:
                builder.rows.append(part.base)
            if part.ids.size:
                builder.sure.append(part.ids)
        empty = not builder.rows and not builder.sure
        if state.can_stop:
            builder.sure.append(self.vocabulary.eos)
        doubts = self._doubts(builder) if builder.doubtful else ()
        for part in parts:
            doubts += part.doubts
        ids = join(builder.sure)
        self._mask_bytes += ids.nbytes
        return Mask(self._base(builder.rows), ids, doubts, empty)

    def _part(self, reading: InLexeme) -> Mask:
        """Return the part of a mask that a reading of a new name adds. It stays the same from letter to letter, while
        the set of listed names still possible changes."""
        key = _key(reading)
        found = self._parts.get(key)
        if found is None:
            builder = MaskBuilder(self.vocabulary, self._tables)
            reading.root(builder)
            doubts = self._doubts(builder)
            mask = Mask(self._base(builder.rows), join(builder.sure), doubts, not builder.rows and not builder.sure)
            if len(self._parts) >= _PARTS:
                self._parts.clear()
            found = self._parts[key] = (reading, mask)
        return found[1]

    def _doubts(self, builder: MaskBuilder) -> tuple[GuardedTokens, ...]:
        """Return the tokens that guards must decide on. Those that hold a second string are asked for one by one:
        `refused` knows what the first one may be."""
        found: list[GuardedTokens] = []
        for (guards, direct), parts in builder.doubtful.items():
            ids = join(parts)
            reaching = any(isinstance(guard, DistinctItem) and guard.reaching for guard in guards)
            strings = self.vocabulary.strings
            table = strings.is_reaching if reaching else strings.is_crossing
            crossing = table[ids] if direct else None
            if crossing is not None and 1 in crossing.tobytes():  # a fifth of the time of `any`
                found.append(GuardedTokens(guards, False, ids[crossing]))
                ids = ids[~crossing]
            found.append(GuardedTokens(guards, direct, ids))
        return tuple(found)

    def _base(self, rows: list[I32]) -> I32:
        if len(rows) < 2:
            return rows[0] if rows else self.vocabulary.blank
        distinct = list({id(row): row for row in rows}.values())
        if len(distinct) == 1:
            return distinct[0]
        self._mask_bytes += self.vocabulary.blank.nbytes
        return np.bitwise_or.reduce(distinct)  # type: ignore[no-any-return]


def ends_string(word: bytes, tape: Tape | None) -> bool:
    """Return whether `word` surely ends the JSON string in which it begins, if it begins in one."""
    return QUOTE in word and BACKSLASH not in word and tape is not None and not tape.off


def _answered(run: Run, word: bytes, begun: int, after: ParserState) -> AskedToken:
    asked, done = [], 0
    for answer in run.answers:
        until = answer.size - begun
        asked.append((word[done:until], answer.guard, answer.end_offset, answer.passed))
        done = until
    return AskedToken(tuple(asked), word[done:], after)


def _undominated(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings that no other reading dominates, see `Place`.

    The counts of an array with `contains` multiply with its items, as an item that may count may also be passed over.
    """
    kept: list[Reading] = []
    groups: dict[Any, list[tuple[tuple[int, ...], Reading]]] = {}
    for reading in readings:
        place = reading.place()
        if place is None:
            kept.append(reading)
        else:
            groups.setdefault(place[0], []).append((place[1], reading))
    for group in groups.values():
        best: list[tuple[int, ...]] = []
        for counts, reading in sorted(group, key=lambda each: -sum(each[0])):
            if not any(counts != more and all(map(le, counts, more)) for more in best):
                best.append(counts)
                kept.append(reading)
    return kept


def _merged(starts: list[ValueStart]) -> list[ValueStart]:
    """Return one start for each set of terms, with all that may follow."""
    groups: dict[int, list[ValueStart]] = {}
    for start in starts:
        groups.setdefault(id(start.terms), []).append(start)
    found = []
    for group in groups.values():
        follows: dict[Continuation, None] = {}
        for start in group:
            follows.update(dict.fromkeys(start.follow.branches))
        source = group[0].source
        found.append(group[0] if len(group) == 1 else source.start(group[0].terms, source.many(tuple(follows))))
    return found


def _key(reading: Reading) -> Any:
    if type(reading) is InLexeme:
        return (id(reading.lexeme), reading.state, id(reading.follow))
    return id(reading)
