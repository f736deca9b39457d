"""The scan state of one matcher under a blocklist."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.grammar.blocked.language.blocklist import Blocklist
from sluicegate.grammar.blocked.screen import Screen, ScreenState, leaving, screen_of
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.token_ids import I32, NO_IDS
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins import Mask


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
        both = leaving(blocklist, vocabulary) if json and plain else NO_IDS
        return cls(in_json, in_text, both)

    def now(self, tape: Tape) -> Screen:
        found = self.plain if tape.off or self.json is None else self.json
        assert found is not None
        return found


class Watch:
    """Mutable, one per matcher; its tape knows which text is JSON.

    `spot`: all there is to save and put back where the tape is rolled back. `both`: the text may go from JSON to other
    text.
    """

    __slots__ = ("both", "screens", "spot")

    def __init__(self, screens: Screens, tape: Tape) -> None:
        self.screens = screens
        self.both = screens.json is not None and screens.plain is not None
        self.spot = self._begin(tape)

    def _begin(self, tape: Tape) -> ScreenState:
        """Scan the present value from its beginning."""
        return self.screens.now(tape).start.after(bytes(tape.text[tape.since :]))

    def refuse_phrases(self, row: Mask) -> None:
        spot = self.spot
        spot.refuse_phrases(row)
        if spot.screen is self.screens.json and self.screens.leaving.size:
            kernels.clear_bits(row, self.screens.leaving)

    def move(self, word: bytes, tape: Tape, since: int) -> bool:
        """Move past `word`, which is on the tape already; False, and no move, where it is blocked.

        `since`: where the present value began before it.
        """
        spot = self.spot
        ahead = spot.known.get(word) or spot.after(word)
        if ahead.found:
            return False
        if self.both and (tape.since != since or self.screens.now(tape) is not spot.screen):
            ahead = self._begin(tape)
            if ahead.found:
                return False
        self.spot = ahead
        return True

    def is_clear(self, text: bytes) -> bool:
        """Return whether nothing is blocked in `text`, which is not on the tape yet."""
        spot = self.spot
        return not spot.screen.reader.after(spot.standing, text).found
