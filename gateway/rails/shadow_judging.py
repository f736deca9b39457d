"""Judges in shadow mode: they read beside the stream and hold nothing.

Text is collected and read some of it at a time, so that a judge costs no work for each token; its verdicts are those
that it would give of single pieces. A judge of the model's states reads text once the scores have come, which may be
later: text that never gets any is not judged.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from sluicegate.gateway.rails.judged_text import PART, ActiveJudge, ReadableJson, as_read
from sluicegate.plugins import Piece, TokenLogOdds, Verdict
from sluicegate.plugins.contract.token_scores import join_scores
from sluicegate.safety import Joined, Released

ScoredText = tuple[str, TokenLogOdds, list[tuple[int, int]]]
"""A text, the probes' scores of its tokens, and the parts that it was joined of; none = not scored."""


@dataclass(slots=True)
class UnreadText:
    """What a judge has not read yet of one text, and the scores of its beginning. Mutable, for one task."""

    needs_scores: bool
    misses_scores: bool = False
    """Whether text came without the scores that belong to it: what follows cannot be judged."""
    size: int = 0
    scored: int = 0
    """Characters that scores have come for."""
    _texts: list[str] = field(default_factory=list)
    _probed: TokenLogOdds = ()
    _parts: list[tuple[int, int]] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        if piece.text:
            self._texts.append(piece.text)
            self.size += len(piece.text)
        if piece.probed and self.needs_scores:
            self.add_scores(piece)

    def add_scores(self, piece: Piece) -> None:
        """Add the scores that `piece` brings, and none of its text."""
        parts = piece.parts
        self._probed = join_scores((self._probed, piece.probed))
        self._parts += parts
        self.scored += sum([size for size, _ in parts])
        if not piece.behind and self.scored != self.size:
            self.misses_scores = True

    @property
    def is_worth_reading(self) -> bool:
        return (self.scored if self.needs_scores else self.size) >= PART

    def take(self) -> ScoredText:
        """Take the text that can be judged: all of it, or the parts that have come whole and have scores."""
        text, parts, probed = "".join(self._texts), self._parts, self._probed
        if self.needs_scores and (self.misses_scores or self.scored > self.size):
            count = 0 if self.misses_scores else bisect_right(list(accumulate([part[0] for part in parts])), self.size)
            parts, self._parts = parts[:count], parts[count:]
            size, tokens = (sum([part[at] for part in parts]) for at in (0, 1))
            probed, self._probed = probed[:tokens], probed[tokens:]
        else:  # all that has scores has come
            size = self.scored if self.needs_scores else self.size
            self._parts, self._probed = [], ()
        self._texts = [text[size:]] if size < len(text) else []
        self.size, self.scored = self.size - size, self.scored - size
        return text[:size], probed, parts


@dataclass(slots=True)
class ShadowJudge:
    """One judge at work on one text, in a task of its own."""

    judge: ActiveJudge
    spelling: ReadableJson | None
    unread: UnreadText = field(init=False)
    _texts: asyncio.Queue[ScoredText | None] = field(default_factory=asyncio.Queue)
    _task: asyncio.Task[list[Released]] = field(init=False)

    def __post_init__(self) -> None:
        self.unread = UnreadText(self.judge.reads_states)
        self._task = asyncio.create_task(self._watch())

    def show(self, piece: Piece, *, ends: bool) -> None:
        """Have the judge read `piece`, now or with later ones."""
        self.unread.add(piece)
        if self.unread.is_worth_reading:
            self._texts.put_nowait(self.unread.take())
        if ends and not self.judge.reads_states:
            self._end()

    @property
    def awaits_scores(self) -> bool:
        return self.judge.reads_states and self.unread.size > self.unread.scored

    def show_scores(self, piece: Piece) -> None:
        """Add the scores that `piece` brings of text that the judge was shown before; none of its text."""
        if piece.behind and self.judge.reads_states:
            self.unread.add_scores(piece)

    async def verdicts(self) -> list[Released]:
        """Return the steps that the judge would have taken, once it has read all."""
        self._end()
        return await self._task

    def cancel(self) -> None:
        self._task.cancel()

    def _end(self) -> None:
        if (rest := self.unread.take())[0]:
            self._texts.put_nowait(rest)
        self._texts.put_nowait(None)

    async def _watch(self) -> list[Released]:
        judge, fed = self.judge, 0
        found: list[Released] = []
        try:
            while (shown := await self._texts.get()) is not None:
                text, probed, joined = shown
                read, parts = as_read(self.spelling, text, joined)
                judge.add_log_odds(len(read), probed, parts)
                for part in _asked(judge, read, parts):
                    fed += len(part)
                    if judge.hold(part):
                        continue
                    found += _would(judge, await judge.ask(part, fed))
                    if judge.silent:
                        return found
            found += _would(judge, await judge.ask(None, fed))
        except Exception as error:
            found.append(Released(failures=(f"{judge.name}: {type(error).__name__}",)))
        return found


def _asked(judge: ActiveJudge, text: str, joined: Joined) -> Iterator[str]:
    """Yield the parts in which a judge is asked about `text`: those that it was joined of, where a token rings."""
    most = PART
    if not joined or judge.is_calm(len(text)):
        joined, most = ((len(text), 0),), judge.part
    begin = 0
    for size, _ in joined:
        for at in range(begin, begin + size, most):
            yield text[at : min(at + most, begin + size)]
        begin += size


def _would(judge: ActiveJudge, verdict: Verdict) -> list[Released]:
    found: list[Released] = []
    if verdict.escalate:
        found.append(Released(shadow=(f"{judge.name}: escalate: {verdict.escalate}",)))
    if verdict.block is not None:
        judge.silent = True
        found.append(Released(shadow=(f"{judge.name}: {judge.rail_policy.on_block}: {verdict.block}",)))
    return found
