"""One text of an answer before its window: pieces are held until every judge has cleared them.

The outcome depends on the text alone: where an answer stops, and what has left by then, do not depend on how the text
was cut into pieces, nor on how long the judges took.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from time import perf_counter
from typing import Any

from sluicegate.gateway.rails.stage_calls import Unfinished, at_once, within
from sluicegate.plugins import AwaitedSession, Channel, Piece, Verdict
from sluicegate.plugins.contract.answers import join_pieces
from sluicegate.safety import Joined, JudgeSession, RailPolicy, Released, check_verdict, decoded_escape

LONG = 1024
"""Characters of a piece that goes on to the window, at most."""
PART = 64
"""Characters passed to judges at a time, so that a call takes the time of one or two judgements."""


@dataclass(frozen=True, slots=True)
class TextVerdict:
    """The judges' verdict on a text at this place, between its pieces."""

    index: int
    channel: Channel
    call: int
    released: Released


Step = Piece | TextVerdict


@dataclass(slots=True)
class ActiveJudge:
    """One judge at work on one text. Offsets are of the text as the client reads it."""

    name: str
    session: AwaitedSession
    rail_policy: RailPolicy
    budget_s: float
    reads_states: bool = False
    """Whether it judges by the model's states, which it receives through `add_log_odds`."""
    is_ours: bool = False
    """Whether it obeys its cancellation, so that it needs no task of its own to contain it."""
    clear_to: int = 0
    silent: bool = False
    """Whether it no longer judges: it blocked without ending the text, or it failed and is allowed to."""
    seconds: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)

    def hold(self, text: str) -> bool:
        """Have one of our own judges take `text` if its verdict stays the one before; else return False: `ask` it."""
        return self.is_ours and isinstance(self.session, JudgeSession) and self.session.hold(text)

    def add_log_odds(self, size: int, probed: Sequence[Mapping[str, float]], joined: Joined = ()) -> None:
        """Pass the probe scores of the next `size` characters to the judge, before it is asked about them."""
        if self.reads_states and isinstance(self.session, JudgeSession):
            self.session.add_log_odds(size, probed, joined)

    def is_calm(self, size: int) -> bool:
        """Return whether the judge may read the next `size` characters of a joined piece at once."""
        return not isinstance(self.session, JudgeSession) or self.session.is_calm(size)

    @property
    def part(self) -> int:
        """Return how many characters of a text that rings nowhere the judge is asked about at a time."""
        return LONG if isinstance(self.session, JudgeSession) and self.session.judges_at_once else PART

    async def ask(self, text: str | None, fed: int) -> Verdict:
        """Ask the judge about the next `text`; None means that the text is whole. `fed` counts the characters so far.
        Raises `TimeoutError`, `BadVerdict`, or what the judge raises."""
        began = perf_counter()
        call = self.session.close if text is None else partial(self.session.feed, text)
        try:
            verdict = await (
                _in_time(self.budget_s, call()) if self.is_ours else within(self.budget_s, call, "the judge")
            )
        finally:
            self.seconds += perf_counter() - began
        verdict = check_verdict(verdict, self.clear_to, fed, closing=text is None, redacts=False)
        self.clear_to = verdict.clear_to
        for category, score in verdict.scores:
            self.scores[category] = max(score, self.scores.get(category, 0.0))
        return verdict


async def _in_time(budget_s: float, call: Coroutine[Any, Any, Verdict]) -> Verdict:
    """Return the verdict of `call`, within `budget_s` seconds. Most calls only store a token and return without
    waiting, so the timer, which costs more than such a call, is made only once the call waits."""
    found = at_once(call)
    if not isinstance(found, Unfinished):
        return found
    async with asyncio.timeout(budget_s):
        return await found.rest()


async def _answers(asked: Sequence[Coroutine[Any, Any, Verdict]]) -> list[Verdict | BaseException]:
    """Await all of `asked` at the same time and return the verdicts, or what was raised instead."""
    if len(asked) != 1:
        return await asyncio.gather(*asked, return_exceptions=True)
    try:
        return [await asked[0]]
    except Exception as error:
        return [error]


class ReadableJson:
    """A JSON text as the client reads it, with escapes decoded."""

    def __init__(self) -> None:
        self._escape = ""
        self._read = 0
        self._ends: list[int] = []
        self._longer: list[int] = []  # by how much the spelling is longer than the text up to that end

    def feed(self, spelled: str) -> str:
        if not self._escape and "\\" not in spelled:
            self._read += len(spelled)
            return spelled
        found: list[str] = []
        for char in spelled:
            found.extend(self._next(char))
        return "".join(found)

    def spelled_to(self, read: int) -> int:
        """Return where the spelling of the first `read` characters ends."""
        before = bisect_right(self._ends, read)
        return read + (self._longer[before - 1] if before else 0)

    def _next(self, char: str) -> Iterator[str]:
        if self._escape and len(self._escape) == 6 and char != "\\":  # half a pair, and no other half
            yield self._decoded("\ufffd", 6)
        if not self._escape and char != "\\":
            self._read += 1
            yield char
            return
        self._escape += char
        while (found := decoded_escape(self._escape)) is not None:
            yield self._decoded(*found)

    def _decoded(self, char: str, size: int) -> str:
        self._escape = self._escape[size:]
        self._read += 1
        self._ends.append(self._read)
        self._longer.append((self._longer[-1] if self._longer else 0) + size - 1)
        return char


def as_read(spelling: ReadableJson | None, text: str, joined: Joined) -> tuple[str, Joined]:
    """Return a text as its reader has it, and the parts of that if it was joined of several. `spelling` None: as
    written."""
    if spelling is None or not joined:
        return text if spelling is None else spelling.feed(text), joined
    ends = list(accumulate([size for size, _ in joined]))
    parts = [spelling.feed(text[end - size : end]) for end, (size, _) in zip(ends, joined, strict=True)]
    return "".join(parts), [(len(part), tokens) for part, (_, tokens) in zip(parts, joined, strict=True)]


@dataclass(slots=True)
class JudgedText:
    """Mutable, for one text; used by one task. `spelling` None: the text is judged as written."""

    index: int
    channel: Channel
    call: int
    judges: Sequence[ActiveJudge]
    max_hold: int
    spelling: ReadableJson | None = None
    closed: bool = False
    stopped: bool = False
    failed: tuple[str, Exception] | None = None
    """The judge whose failure must end the answer, and its error."""
    _counting: list[ActiveJudge] = field(init=False)
    _pieces: deque[Piece] = field(default_factory=deque)
    _fed: int = 0  # characters that judges were given
    _at: int = 0  # characters of pieces that went on
    _came: int = 0  # characters of pieces that came
    _marks: list[tuple[int, str]] = field(default_factory=list)  # where a person is to look, and why
    _told: list[Released] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._counting = [judge for judge in self.judges if not judge.silent]

    @property
    def held(self) -> int:
        return self._came - self._at

    async def feed(self, piece: Piece) -> list[Step]:
        """Return the pieces that may go on to the window, in order, and the judges' verdicts. Nothing goes on behind
        a block or a judge's failure, whatever it would say of what comes later."""
        if self.stopped or self.failed:
            return []
        self._pieces.append(piece)
        self._came += len(piece.text)
        read, joined = as_read(self.spelling, piece.text, piece.joined)
        steps: list[Step] = []
        for judge in self._counting if piece.text or piece.probed else ():
            judge.add_log_odds(len(read), piece.probed, joined)
        if read and self._is_held(read):
            return steps
        for part in self._parts(read, joined):
            self._fed += len(part)
            steps += await self._ask_all(part)
            if self.stopped or self.failed:
                return steps
        return steps if read else self._release(self._clear, None)

    async def close(self) -> list[Step]:
        """Close the judges' sessions, as the text is complete. Return the rest of it, or a block."""
        self.closed = True
        steps = await self._ask_all(None)
        return steps if self.stopped or self.failed else [*steps, *self._rest()]

    def _is_held(self, read: str) -> bool:
        """Have an only judge take `read` without a judgement; return False where it has to be asked."""
        if len(self._counting) != 1:
            return False
        judge, fed = self._counting[0], self._fed + len(read)
        if fed - judge.clear_to > self.max_hold or not judge.hold(read):
            return False
        self._fed = fed
        return True

    def _parts(self, text: str, joined: Joined) -> Iterator[str]:
        """Yield the parts in which the judges read `text`. Several judges are asked by character: what leaves before a
        block depends on how far each of them was."""
        if joined and len(self._counting) == 1 and not self._counting[0].is_calm(len(text)):
            at = 0
            for size, _ in joined:
                yield from self._parts(text[at : at + size], ())
                at += size
            return
        size = PART if len(self._counting) < 2 else 1
        at = 0
        while at < len(text):
            room = max(1, min(size, self.max_hold - (self._fed - self._clear)))
            yield text[at : at + room]
            at += room

    @property
    def _clear(self) -> int:
        return min([judge.clear_to for judge in self._counting], default=self._fed)

    def _silence(self, judge: ActiveJudge) -> None:
        judge.silent = True
        self._counting = [one for one in self._counting if one is not judge]

    async def _ask_all(self, part: str | None) -> list[Step]:
        judges = self._counting
        before = [judge.clear_to for judge in judges]
        found = await _answers([judge.ask(part, self._fed) for judge in judges])
        stop: Released | None = None
        for judge, seen, verdict in zip(judges, before, found, strict=True):
            if isinstance(verdict, BaseException):
                self._failure(judge, verdict)
            else:
                stop = stop or self._said(judge, seen, verdict)
        clear = self._clear
        if self.failed is None and stop is None and self._fed - clear > self.max_hold:
            stop = Released(blocked="max_hold", rail=min(self._counting, key=lambda one: one.clear_to).name)
        return self._release(clear, stop)

    def _said(self, judge: ActiveJudge, seen: int, verdict: Verdict) -> Released | None:
        if verdict.escalate:
            at = seen if verdict.escalate_at is None else verdict.escalate_at
            self._marks.append((at, f"{judge.name}: {verdict.escalate}"))
        if verdict.block is None:
            return None
        if judge.rail_policy.on_block == "block":
            return Released(blocked=verdict.block, rail=judge.name)
        self._silence(judge)
        self._marks.append((judge.clear_to, f"{judge.name}: {verdict.block}"))
        return None

    def _failure(self, judge: ActiveJudge, error: BaseException) -> None:
        if not isinstance(error, Exception):
            raise error
        self._told.append(Released(failures=(f"{judge.name}: {type(error).__name__}",)))
        if judge.rail_policy.may_fail:
            self._silence(judge)
        else:
            self.failed = self.failed or (judge.name, error)

    def _release(self, clear: int, stop: Released | None) -> list[Step]:
        steps: list[Step] = [self._telling(verdict) for verdict in self._told]
        self._told = []
        self._marks.sort(key=lambda mark: mark[0])
        while self._marks and self._marks[0][0] <= clear:
            at, line = self._marks.pop(0)
            steps += self._pieces_to(at)
            steps.append(self._telling(Released(escalations=(line,))))
        steps += self._pieces_to(clear)
        if stop is not None and self.failed is None:
            self.stopped = True
            steps.append(self._telling(stop))
        return steps

    def _telling(self, released: Released) -> TextVerdict:
        return TextVerdict(self.index, self.channel, self.call, released)

    def _pieces_to(self, read: int) -> Iterator[Piece]:
        """Take the pieces of the first `read` characters as one, the last of them cut in two where it goes on."""
        end = read if self.spelling is None else self.spelling.spelled_to(read)
        found: list[Piece] = []
        while self._pieces:
            piece, size = self._pieces[0], end - self._at
            if len(piece.text) <= size:
                self._at += len(piece.text)
                found.append(self._pieces.popleft())
                continue
            if size > 0:
                self._pieces[0] = replace(piece, text=piece.text[size:], logprobs=(), token_ids=(), tool=None)
                self._at = end
                found.append(replace(piece, text=piece.text[:size]))
            break
        return _joined(found)

    def _rest(self) -> Iterator[Piece]:
        found, self._pieces = self._pieces, deque()
        self._at += sum([len(piece.text) for piece in found])
        return _joined(found)


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield pieces that leave at the same time as one, in parts of at most `LONG` characters: each costs its own way
    through the windows and to the client."""
    run: list[Piece] = []
    size = 0
    for piece in pieces:
        if run and size + len(piece.text) > LONG:
            yield join_pieces(run, run[0])
            run, size = [], 0
        run.append(piece)
        size += len(piece.text)
    if run:
        yield join_pieces(run, run[0])
