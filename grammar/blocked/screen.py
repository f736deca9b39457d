"""A blocklist applied to one vocabulary: bits taken out of masks, tokens refused, by scan state.

Not covered: a phrase that spans two JSON strings, or a string and what is outside; numbers.
"""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.blocked.language.blocklist import Blocklist
from sluicegate.grammar.blocked.partial_characters import PartialCharacters, spelled_of
from sluicegate.grammar.blocked.refused import PatternRows, RefusedTokens, lexeme_of
from sluicegate.grammar.blocked.scanner import BlocklistScanner, ScanState, closing_quote
from sluicegate.grammar.token_ids import I32, NO_IDS
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins import Mask


class ScreenState:
    """A scan state, the tokens refused there, and where words lead from it. Shared by all texts in that state.

    `found`: a phrase or a pattern is whole. `bare`: nothing is refused, once that has been looked up. `known`: states
    by the word that leads there.
    """

    __slots__ = ("_allowed", "_refused", "bare", "found", "known", "screen", "standing")

    def __init__(self, screen: Screen, standing: ScanState) -> None:
        self.screen = screen
        self.standing = standing
        self.found = standing.found
        self.bare = False
        self.known: dict[bytes, ScreenState] = {}
        self._refused: I32 | None = None
        self._allowed: I32 | None = None

    def after(self, word: bytes) -> ScreenState:
        return self.screen.step(self, word)

    def refuse_phrases(self, row: Mask) -> None:
        """Clear the tokens in `row` that would complete a phrase or a pattern."""
        if self._refused is None:
            found = self.screen.refused(self.standing)
            if found is None:
                self.screen.refuse_by_trial(row, self.standing)
                return
            self._refused, self._allowed = found
            self.bare = not self._refused.size and self._allowed is None
        if self._refused.size:
            kernels.clear_bits(row, self._refused)
        if self._allowed is not None:
            np.bitwise_and(row, self._allowed, out=row)


class Screen:
    """For JSON (`json`) or for plain text. Shared by grammars; keeps what it works out by scan state."""

    def __init__(self, blocklist: Blocklist, vocabulary: Vocabulary, json: bool) -> None:
        self.vocabulary = vocabulary
        pattern = lexeme_of(blocklist.texts, json) if blocklist.texts is not None else None
        self.reader = BlocklistScanner(blocklist.machine, pattern, json)
        self._allowed = PatternRows(pattern, vocabulary) if pattern is not None else None
        self._outside, self._later = self._by_trial() if json else (NO_IDS, NO_IDS)
        machine, spelled = blocklist.machine, spelled_of(vocabulary, json)
        self._refused = None if machine is None else RefusedTokens(machine, spelled.whole, self._later)
        self._partial = PartialCharacters(machine, vocabulary, self.reader, spelled.behind)
        self._refused_by_state: dict[tuple[int, int], I32] = {}
        self._spots: dict[ScanState, ScreenState] = {}
        self._steps = 0
        blocklist.prepare()

    @property
    def start(self) -> ScreenState:
        """Return the scan state where texts begin."""
        return self._spot(self.reader.start)

    def _spot(self, standing: ScanState) -> ScreenState:
        found = self._spots.get(standing)
        if found is None:
            if len(self._spots) >= _SPOTS:
                self._forget()
            found = self._spots.setdefault(standing, ScreenState(self, standing))
        return found

    def step(self, spot: ScreenState, word: bytes) -> ScreenState:
        """Return the state after `word`, the same object while it is kept."""
        if self._steps >= _STEPS:
            self._forget()
        self._steps += 1
        found = spot.known[word] = self._spot(self.reader.after(spot.standing, word))
        return found

    def _forget(self) -> None:
        """Drop all states; those in use live on with their matchers, and lead to new ones."""
        spots, self._spots, self._steps = self._spots, {}, 0
        for spot in list(spots.values()):
            spot.known = {}

    def _by_trial(self) -> tuple[I32, I32]:
        """Return tokens that hold a blocked string, read outside strings, and read inside one behind its end."""
        outside, later = [], []
        for token, word in enumerate(self.vocabulary.words):
            if 0x22 not in word:
                continue
            if self.reader.after(self.reader.start, word).found:
                outside.append(token)
            end = closing_quote(b"", word)
            if end >= 0 and self.reader.after(self.reader.start, word[end + 1 :]).found:
                later.append(token)
        return np.array(outside, np.int32), np.array(later, np.int32)

    def blocks(self, at: ScanState, word: bytes) -> bool:
        return self.reader.after(at, word).found

    def refused(self, at: ScanState) -> tuple[I32, I32 | None] | None:
        """Return the refused tokens, and a row of those that the patterns allow (None: all); None where each must be
        tried."""
        if not at.inside:
            return self._outside, None
        allowed = None if self._allowed is None else self._allowed.row(at.pattern)
        if at.begun:
            halves = self._partial.refused(at)
            return None if halves is None else (halves, allowed)
        refused = self._refused_by_state.get((at.phrase, at.before))
        if refused is None:
            refused = self._remember(at.phrase, at.before)
        return refused, allowed

    def _remember(self, phrase: int, before: int) -> I32:
        if len(self._refused_by_state) > _KEPT:
            self._refused_by_state.clear()
        refused = self._later if self._refused is None else self._refused.ids(phrase, before)
        self._refused_by_state[phrase, before] = refused
        return refused

    def refuse_by_trial(self, row: Mask, at: ScanState) -> None:
        """Try each token of `row`. For states between the halves of a pair, where few tokens continue."""
        words = self.vocabulary.words
        bits = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: len(words)])
        struck = [token for token in bits.tolist() if self.blocks(at, words[token])]
        kernels.clear_bits(row, np.array(struck, np.int32))


_KEPT = 4_000
_SPOTS = 4_000
_STEPS = 100_000
"""Most words whose next state is cached, over all states; each takes about 100 bytes."""


def screen_of(blocklist: Blocklist, vocabulary: Vocabulary, json: bool) -> Screen:
    """Return the same object for the same arguments while the vocabulary keeps it."""
    key = ("screen", blocklist, json)
    known: Screen | None = vocabulary.screens.get(key)
    if known is None:
        with vocabulary.lock:
            while len(vocabulary.screens) >= 8:
                del vocabulary.screens[next(iter(vocabulary.screens))]
            known = vocabulary.screens[key] = Screen(blocklist, vocabulary, json)
    return known


def leaving(blocklist: Blocklist, vocabulary: Vocabulary) -> I32:
    """Return tokens that hold something blocked and might end a JSON value inside a tag."""
    key = ("leaving", blocklist)
    known: I32 | None = vocabulary.screens.get(key)
    if known is None:
        plain = screen_of(blocklist, vocabulary, False)
        words = enumerate(vocabulary.words)
        found = [
            t for t, word in words if any(end in word[:-1] for end in b'"}]') and plain.blocks(plain.reader.start, word)
        ]
        known = vocabulary.screens[key] = np.array(found, np.int32)
    return known
