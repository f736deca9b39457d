"""A tape that is off in free text and starts afresh where a JSON region begins."""

from __future__ import annotations

from sluicegate.grammar.reading.tape import Tape, is_inert

_OFF = 3


class RegionTape(Tape):
    """Brackets and strings are followed from `restart` to the end of the value that begins there."""

    __slots__ = ()

    def __init__(self, on: bool = True) -> None:
        super().__init__()
        if not on:
            self.mode = _OFF

    @property
    def off(self) -> bool:
        return self.mode == _OFF

    def push(self, byte: int) -> None:
        if self.mode == _OFF:
            self.text.append(byte)
            return
        try:
            super().push(byte)
        except ValueError:  # not JSON: another reading than the one this tape follows
            self._turn_off()
            return
        if self.mode == 0 and self.open is None:
            self._turn_off()

    def _turn_off(self) -> None:
        self.mode, self.open, self.since, self._standing = _OFF, None, len(self.text), None

    def push_all(self, word: bytes) -> None:
        if self.mode == _OFF or (self.mode == 1 and is_inert(word)):
            self.text += word
            return
        for byte in word:  # one by one: the region may end inside
            self.push(byte)

    def restart(self, end_offset: int) -> None:
        """Begin a region here, or, with `end_offset` 1, at the last byte."""
        self.mode, self.open, self.since, self._standing = 0, None, len(self.text) - end_offset, None
        if end_offset:
            self.push(self.text.pop())
