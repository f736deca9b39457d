"""Collecting the tokens of a mask: those that are sure, and those that hang on guards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from grammar.trie import I32

if TYPE_CHECKING:
    from grammar.seams import Ending
    from grammar.tape import Tape
    from grammar.threads import Thread
    from grammar.vocabulary import Vocabulary

_NONE = np.empty(0, np.int32)


class Guard(Protocol):
    """A condition that needs the text: asked when a value ends, before what follows is allowed."""

    def allows(self, tape: Tape, end: int) -> bool:
        """`end` = offset just after the value that ends."""

    def refused(self, tape: Tape) -> frozenset[str] | None:
        """What the open string must not go on to spell before it is closed; where none is open, what the next string
        must not be. None = ask for each token."""


class Gather:
    """Collects the tokens of a mask: `sure` ones, and those that hang on guards."""

    __slots__ = ("direct", "doubtful", "guards", "rows", "sure", "vocabulary")

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.rows: list[I32] = []
        self.sure: list[I32] = []
        self.doubtful: dict[tuple[tuple[Guard, ...], bool], list[I32]] = {}
        """By guards, and whether these are asked about the open string, or about the next one if none is open."""
        self.guards: tuple[Guard, ...] = ()
        self.direct = False

    def add(self, ids: I32 | None) -> None:
        if ids is not None and ids.size:
            if self.guards:
                self.doubtful.setdefault((self.guards, self.direct), []).append(ids)
            else:
                self.sure.append(ids)

    def add_remainders(self, viable: Viable, ending: Ending, in_string: bool) -> None:
        """Those tokens of `ending` that go on as `viable` says."""
        if viable.sure is not None:
            self.add(ending.tokens[viable.sure[ending.numbers]])
        outer = self.guards
        for guards, direct, flags in viable.doubtful:
            self.guards = (*outer, *guards)
            self.direct = direct and not in_string
            self.add(ending.tokens[flags[ending.numbers]])
        self.guards = outer
        self.direct = False


class Viable(NamedTuple):
    """Remainders that some threads can read: `sure` bool[remainders] (None: none can), `doubtful` by guards."""

    sure: Any
    doubtful: list[tuple[tuple[Guard, ...], bool, Any]]

    @classmethod
    def of(cls, threads: tuple[Thread, ...], vocabulary: Vocabulary) -> Viable:
        gather = Gather(vocabulary)
        for thread in threads:
            thread.walk(vocabulary.remainders, gather)
        return cls(
            _flags(gather.sure, vocabulary),
            [(guards, direct, _flags(ids, vocabulary)) for (guards, direct), ids in gather.doubtful.items()],
        )


def _flags(numbers: list[I32], vocabulary: Vocabulary) -> Any:
    if not numbers:
        return None
    flags = np.zeros(vocabulary.remainder_count, np.bool_)
    flags[join(numbers)] = True
    return flags


def join(parts: list[I32]) -> I32:
    """All of `parts` in one array."""
    if not parts:
        return _NONE
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
