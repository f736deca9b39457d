"""Match a text of another server against its grammar on the event loop, within a CPU budget."""

from __future__ import annotations

import time

from sluicegate.gateway.upstream.events import Broken
from sluicegate.plugins import CompiledGrammar, GrammarTooCostly, TokenRejected

CALL_S = 0.05
"""CPU time of one byte. Of 337 instances of real schemas the dearest byte takes 12 ms."""
SPARE_S, BYTE_S = 0.1, 30e-6
"""CPU time of one choice: so much, and so much for each byte. The same instances take 2 us for most bytes, and at most
70 ms in all for 3,800 of them."""
_LOOK_EVERY = 8


class SpareTime:
    """CPU seconds that the texts of one choice may still use beyond their allowance per byte."""

    __slots__ = ("left_s",)

    def __init__(self) -> None:
        self.left_s = SPARE_S


class Following:
    """Not covered: a plug-in's matcher that takes long for one byte; its time is checked between bytes only."""

    def __init__(self, grammar: CompiledGrammar, spare: SpareTime) -> None:
        self._matcher = grammar.matcher()
        self._matcher.bound(CALL_S)
        self._spare = spare

    @property
    def can_stop(self) -> bool:
        return self._matcher.can_stop

    def take(self, text: str, complaint: str) -> None:
        """Follow `text` byte by byte. Raises `Broken` with `complaint` at the first byte that the grammar refuses, or
        `GrammarTooCostly`."""
        accept, read = self._matcher.accept, text.encode()
        ends_s = time.thread_time() + self._spare.left_s + BYTE_S * len(read)
        try:
            for at, byte in enumerate(read):
                accept(byte)
                if at % _LOOK_EVERY == 0 and time.thread_time() > ends_s:
                    raise GrammarTooCostly(
                        f"following the grammar takes more than {SPARE_S:g} s of CPU time, and "
                        f"{BYTE_S * 1e6:g} us for each byte, for an answer of another server; make it less ambiguous: "
                        "end words where the next begins, and repeat by `+` or from the left"
                    )
        except TokenRejected:
            raise Broken(complaint) from None
        finally:
            self._spare.left_s = min(ends_s - time.thread_time(), SPARE_S)
