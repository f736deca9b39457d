"""What a matcher keeps of a blocklist: where its text stands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grammar import kernels
from grammar.blocked.blocklist import Blocklist
from grammar.blocked.reading import Reader, Standing
from grammar.blocked.screen import Screen, leaving, screen_of
from grammar.tape import Tape
from grammar.trie import I32
from grammar.vocabulary import Vocabulary
from plugins.contract import Mask


@dataclass(frozen=True, slots=True)
class Screens:
    """`json` for JSON, `plain` for other text; both for structural tags. `leaving`: tokens that hold a phrase and might
    end a JSON value inside a tag."""

    json: Screen | None
    plain: Screen | None
    leaving: I32

    @classmethod
    def of(cls, blocklist: Blocklist | None, vocabulary: Vocabulary, *, json: bool, plain: bool) -> Screens | None:
        if blocklist is None:
            return None
        in_json = screen_of(blocklist, vocabulary, True) if json else None
        in_text = screen_of(blocklist, vocabulary, False) if plain else None
        both = leaving(blocklist, vocabulary) if json and plain else _NONE
        return cls(in_json, in_text, both)


_NONE = np.empty(0, np.int32)


class Watch:
    """Mutable, one per matcher; its tape tells which text is JSON. `standing` is all there is to save."""

    __slots__ = ("screens", "standing")

    def __init__(self, screens: Screens, tape: Tape) -> None:
        self.screens = screens
        self.standing = self._begin(tape)

    def _screen(self, tape: Tape) -> Screen:
        found = self.screens.plain if tape.off or self.screens.json is None else self.screens.json
        assert found is not None
        return found

    def _begin(self, tape: Tape) -> tuple[bool, int, Standing]:
        """(is it free text, where it began, how far it is)."""
        screen = self._screen(tape)
        standing = screen.reader.after(screen.reader.start, bytes(tape.text[tape.since :]))
        return (screen is self.screens.plain, tape.since, standing)

    def strike(self, row: Mask) -> None:
        plain, _, standing = self.standing
        screen = self.screens.plain if plain else self.screens.json
        assert screen is not None
        screen.strike(row, standing)
        if not plain and self.screens.leaving.size:
            kernels.clear_bits(row, self.screens.leaving)

    def move(self, word: bytes, tape: Tape) -> bool:
        """After `word`, which is on the tape already; False (and nothing has moved) where it is blocked."""
        plain, since, standing = self.standing
        ahead = self._reader_of(plain).after(standing, word)
        if ahead.found:
            return False
        screen = self._screen(tape)
        if (screen is self.screens.plain) == plain and tape.since == since:
            self.standing = (plain, since, ahead)
            return True
        found = self._begin(tape)
        if found[2].found:
            return False
        self.standing = found
        return True

    def _reader_of(self, plain: bool) -> Reader:
        screen = self.screens.plain if plain else self.screens.json
        assert screen is not None
        return screen.reader

    def is_clear(self, text: bytes) -> bool:
        """Nothing is blocked in `text`, which is not on the tape yet and is read as what is there now."""
        return not self._reader_of(self.standing[0]).after(self.standing[2], text).found
