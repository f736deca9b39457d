"""Configurations: all readings of a text at one moment, and the mask and steps they imply, worked out once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from sluicegate.grammar.json.layout import Between
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.mask_builder import Gather, Guard, join
from sluicegate.grammar.reading.readings import AT_END, Choice, InLexeme, Run, Thread
from sluicegate.grammar.reading.text import Tape
from sluicegate.grammar.reading.value_start import Start
from sluicegate.grammar.vocabulary.trie import I32, Branch
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import GrammarLimit

_KEPT = 4_000
"""Configurations per grammar before it starts afresh; each holds a mask of a few hundred words beside a shared row."""


class Doubt(NamedTuple):
    """Tokens that are allowed if all of `guards` agree. `direct`: they guard the end of the open lexeme itself."""

    guards: tuple[Guard, ...]
    direct: bool
    ids: I32


class Mask(NamedTuple):
    """A bitmask: a row, most often a shared one, the tokens besides, and those that only the text can decide."""

    base: I32
    ids: I32
    doubts: tuple[Doubt, ...]
    empty: bool


class Config:
    """Immutable but for what it remembers. `threads` are distinct."""

    __slots__ = ("can_stop", "forced", "mask", "steps", "threads", "tokens")

    def __init__(self, threads: tuple[Thread, ...]) -> None:
        self.threads = threads
        self.can_stop = _may_stop(threads)
        self.forced: int | None = None
        """The only byte that may come next, -1 if there are several; None: nobody has asked yet."""
        self.mask: Mask | None = None
        self.steps: dict[int, Config | None] = {}
        self.tokens: dict[int, Config] = {}


def _may_stop(threads: tuple[Thread, ...]) -> bool:
    for thread in threads:
        if thread is AT_END:
            return True
        if isinstance(thread, InLexeme) and thread.follow.is_end and thread.lexeme.outcome(thread.state) is not None:
            return True
    return False


class Configs:
    """The configurations of one compiled grammar, interned. Shared by its matchers; races only repeat work."""

    def __init__(self, vocabulary: Vocabulary, thread_limit: int, beyond: Branch | None = None) -> None:
        self.vocabulary = vocabulary
        self.beyond = beyond
        """Tokens that may end a JSON value and go on with what is no JSON (structural tags)."""
        self.thread_limit = thread_limit
        self._known: dict[Any, Config] = {}

    @property
    def full(self) -> bool:
        """More is remembered than is worth it: whoever starts a new text should start afresh."""
        return len(self._known) > _KEPT

    def intern(self, threads: Iterable[Thread]) -> Config:
        distinct: dict[Any, Thread] = {}
        starts: list[Start] = []
        if type(threads) is tuple and len(threads) == 1:
            distinct[_key(threads[0])] = threads[0]
            threads = ()
        for thread in threads:
            if type(thread) is Start:
                starts.append(thread)
            else:
                distinct.setdefault(_key(thread), thread)
        for start in starts if len(starts) < 2 else _merged(starts):
            distinct.setdefault(id(start), start)
        key = tuple(distinct)
        found = self._known.get(key)
        if found is None:
            if len(distinct) > self.thread_limit:
                raise GrammarLimit(
                    f"one text has more than {self.thread_limit} readings at once; make the branches of anyOf and "
                    "oneOf easier to tell apart, or raise limits.threads in [stages.constrain.grammar]",
                    pointer=next(filter(None, map(_place, distinct.values())), ""),
                )
            found = self._known[key] = Config(tuple(distinct.values()))
        return found

    # --- stepping -----------------------------------------------------------------------------------------------

    def step(self, config: Config, byte: int, run: Run) -> Config | None:
        """After `byte`, which is on the tape already; None = refused. Remembered unless a guard was asked."""
        steps = config.steps
        if byte in steps:
            return steps[byte]
        outer, run.asked = run.asked, False
        threads: list[Thread] = []
        for thread in config.threads:
            threads.extend(thread.step(byte, run))
        after = self.intern(threads) if threads else None
        if not run.asked:
            steps[byte] = after
        run.asked = run.asked or outer
        return after

    def take(self, config: Config, word: bytes, tape: Tape | None) -> tuple[Config | None, bool]:
        """After all of `word`; and whether the outcome depends on the text. Pushes the bytes on `tape`."""
        if tape is None or tape.mode == 1:
            inside = self._stay(config, word)
            if inside is not None:
                if tape is not None:
                    tape.push_all(word)
                return inside, False
        run = Run(tape)
        at: Config | None = config
        for byte in word:
            if tape is not None:
                tape.push(byte)
            assert at is not None
            at = self.step(at, byte, run)
            if at is None:
                return None, run.asked
        return at, run.asked

    def _stay(self, config: Config, word: bytes) -> Config | None:
        """The common case: the word stays inside the one lexeme that is open, or inside all strings that may be."""
        threads = config.threads
        if len(threads) == 1:
            thread = threads[0]
            after = thread.run(word) if type(thread) is InLexeme else None
            return None if after is None else self.intern((after,))
        if QUOTE in word:
            return None
        found = []
        for thread in threads:
            if type(thread) is not InLexeme or not thread.lexeme.is_string:
                return None
            after = thread.run(word)
            if after is not None:  # else refused: nothing ends a string but a quote
                found.append(after)
        return self.intern(found) if found else None

    # --- masks --------------------------------------------------------------------------------------------------

    def mask_of(self, config: Config) -> Mask:
        found = config.mask
        if found is None:
            found = config.mask = self._mask(config)
        return found

    def _mask(self, config: Config) -> Mask:
        key = self._situation(config) if self.beyond is None else None
        if key is None:
            return self._gathered(config)
        masks = self.vocabulary.masks
        found: Mask | None = masks.get(key)
        if found is None:
            found = self._gathered(config)
            masks.put(key, found, found.ids.nbytes + (found.base is not self.vocabulary.blank) * found.base.nbytes)
        return found

    def _situation(self, config: Config) -> tuple[Any, int, int] | None:
        """What the mask hangs on where only punctuation can come, the same in every grammar: the blanks that may come,
        what can be read after them, and what without them. None where anything else may come, or a guard is asked."""
        vocabulary = self.vocabulary
        blank = None
        read = spaced = 0
        for thread in config.threads:
            if isinstance(thread, InLexeme):
                lexeme, follow = thread.lexeme, thread.follow
                if blank or not lexeme.is_blank or thread.state != lexeme.start or follow.guard is not None:
                    return None
                found = follow.reach(0, vocabulary.places.root, vocabulary)
                blank, spaced = lexeme, found.read
            elif isinstance(thread, Choice | Between) or (
                isinstance(thread, Start) and not thread.source.numbers(thread.terms)
            ):
                found = thread.situation(vocabulary)
                read |= found.read
            else:
                return None
            if found.doubtful:
                return None
        return blank, spaced, read

    def _gathered(self, config: Config) -> Mask:
        gather = Gather(self.vocabulary)
        for thread in config.threads:
            thread.root(gather)
        if self.beyond is not None:
            for thread in config.threads:
                if not (type(thread) is InLexeme and thread.lexeme.general):
                    thread.walk(self.beyond, gather)
        empty = not gather.rows and not gather.sure
        if config.can_stop:
            gather.sure.append(self.vocabulary.eos)
        doubts: tuple[Doubt, ...] = ()
        if gather.doubtful:
            doubts = tuple([Doubt(guards, direct, join(ids)) for (guards, direct), ids in gather.doubtful.items()])
        return Mask(self._base(gather.rows), join(gather.sure), doubts, empty)

    def _base(self, rows: list[I32]) -> I32:
        if len(rows) < 2:
            return rows[0] if rows else self.vocabulary.blank
        distinct = list({id(row): row for row in rows}.values())
        return distinct[0] if len(distinct) == 1 else np.bitwise_or.reduce(distinct)


def _merged(starts: list[Start]) -> list[Start]:
    """One start for each set of terms, with all that may follow."""
    groups: dict[int, list[Start]] = {}
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


def _place(thread: Thread) -> str:
    """Pointer to a schema that `thread` reads, where it knows of one."""
    if isinstance(thread, InLexeme):
        return thread.follow.place()
    return thread.source.place(thread.terms) if isinstance(thread, Start) else ""


def _key(thread: Thread) -> Any:
    if type(thread) is InLexeme:
        return (id(thread.lexeme), thread.state, id(thread.follow))
    return id(thread)
