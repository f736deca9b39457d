"""Find stop strings in the answer text only, where an output also holds thoughts or tool calls.

The engine reads the whole output, so these strings are not passed to it, but searched for behind
`gateway/answer/regions.py`. A choice that was stopped here may go on generating; its further text is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sluicegate.engine import StopChecker
from sluicegate.plugins import Piece, Sampling, TokenLogOdds, TokenLogprob
from sluicegate.plugins.contract.token_scores import join_scores


class ContentStops:
    """One choice. A stop string does not reach across a call of a tool: text before a call leaves before it."""

    def __init__(self, asked: Sampling) -> None:
        self._asked = asked
        self._watch = StopChecker(asked.stop, included=asked.include_stop_str_in_output)
        self._entries: tuple[TokenLogprob, ...] = ()
        self._probed: TokenLogOdds = ()
        """Probe scores of tokens whose text has not been released completely."""
        self._called = False
        self._done = False

    def feed(self, piece: Piece) -> Iterator[Piece]:
        """Yield the rest of a piece; the last one ends the choice where `piece` does, or at a stop string."""
        if self._done:
            return
        if piece.channel != "content":
            self._called = self._called or piece.channel == "tool_arguments"
            yield from self._rest(piece.index)
            yield piece
            return
        text, found = self._watch.feed(piece.text)
        self._probed = join_scores((self._probed, piece.probed))
        self._entries += piece.logprobs
        if found:
            self._done = True
            ended = replace(piece, text=text, stopped_by=self._watch.found)
            yield self._told(replace(ended, finish_reason="tool_calls" if self._called else "stop"))
        elif piece.finish_reason is not None:
            yield self._told(replace(piece, text=text + self._watch.close()))
        elif text:
            yield self._told(replace(piece, text=text))

    def _rest(self, index: int) -> Iterator[Piece]:
        text = self._watch.close()
        if text:
            yield self._told(Piece(index, text))

    def _told(self, piece: Piece) -> Piece:
        """Add the log probabilities of all tokens so far; `TokenProbabilities` selects those that spell released
        text."""
        entries, self._entries = self._entries, ()
        probed, self._probed = self._probed, self._probed[-1:]
        return replace(piece, logprobs=entries, probed=probed, joined=())
