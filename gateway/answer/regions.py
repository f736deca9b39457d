"""Split a model's output under a `Shape` into regions: thoughts, the answer, tool calls.

The texts do not depend on how the output was cut into pieces. Only text that may begin a mark is held. Blanks around
calls and after thoughts are dropped.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sluicegate.gateway.answer.shape import CALL, CALLED, THINK, THOUGHT, Shape
from sluicegate.gateway.answer.written_calls import CallFinder, CallJudge
from sluicegate.plugins import Channel, GenerationFailed, Piece, TokenLogOdds, TokenLogprob, ToolCall
from sluicegate.plugins.contract.answers import join_pieces
from sluicegate.plugins.contract.token_scores import join_scores

_HEAD = re.compile(r'\s*\{"name": "([^"\\]+)", "arguments":\s*(?=\S)')
_LONGEST_HEAD = 256
Region = Literal["start", "opened", "thoughts", "gap", "answer", "head", "arguments", "over"]


@dataclass(frozen=True, slots=True)
class _Sent:
    """A piece whose scores have not come: its characters and tokens, and the parts of texts that left with it."""

    size: int
    tokens: int
    parts: tuple[Piece, ...]

    @property
    def is_bare(self) -> bool:
        """Return whether it had neither text nor tokens, so that no scores come for it."""
        return not self.size and not self.tokens

    def scored(self, joined: deque[tuple[int, int]]) -> list[tuple[int | None, int]]:
        """Take from `joined`, the characters and scores of texts, what belongs to this piece. Return it one by one
        where the piece left as one text; else all scores as one, which every part has (None = its own size)."""
        if self.is_bare:
            return [(None, 0)]
        taken = [joined.popleft()]
        size, count = taken[0]
        while joined and (size < self.size or (count < self.tokens and not joined[0][0])):
            taken.append(joined.popleft())
            size, count = size + taken[-1][0], count + taken[-1][1]
        if len(taken) > 1 and len(self.parts) == 1 and len(self.parts[0].text) == size:
            return list(taken)
        return [(None, count)]


class Regions:
    """The regions of one choice. Mutable; fed from the event loop."""

    def __init__(
        self, shape: Shape, *, logprobs: bool = False, scores_behind: bool = False, judge: CallJudge | None = None
    ) -> None:
        """Begin at the start of an output. `logprobs`: pieces carry them, and those of the answer's tokens are passed
        on. `scores_behind`: probe scores come after their text. `judge`: of calls without marks, where they are
        read."""
        self._calls, self._must_call, self._at_most_one = shape.calls, shape.must_call, shape.at_most_one_call
        self._judge, self._is_last = judge, False
        self._finder = self._new_finder()
        self._place: Region = {"none": "answer", "asked": "start", "begun": "opened"}[shape.thoughts]  # type: ignore[assignment]
        self._call = -1
        self._held = ""
        self._entries: deque[tuple[int, TokenLogprob]] | None = deque() if logprobs else None
        """Offset in the output, in bytes, at which each token begins."""
        self._fed = self._spelled = 0  # bytes of text, and of tokens with an entry
        self._fresh: TokenLogOdds = ()
        """Probe scores of tokens of which no text was released."""
        self._newest: TokenLogOdds = ()
        self._sent: deque[_Sent] | None = deque() if scores_behind else None
        """The pieces whose scores have not come."""
        self.thought_tokens = 0
        """Tokens that ended inside the reasoning."""

    def feed(self, piece: Piece) -> list[Piece]:
        """Return the text by region; the last piece ends the choice where `piece` does. Raises `GenerationFailed` for a
        call that is not spelled as the grammar demands, as only a model without grammar can write."""
        if piece.probed and not piece.behind:
            self._sent = None  # a generator that brings scores with their text
        if self._sent is not None:
            found = self._feed(replace(piece, probed=(), joined=(), behind=False) if piece.behind else piece)
            parts = tuple([part for part in found if part.text])
            self._sent.append(_Sent(len(piece.text), len(piece.token_ids), parts))
            return [*self._settle(piece, self._sent), *found] if piece.behind else found
        if not piece.joined:
            return self._feed(piece)
        return list(_joined([part for single in _apart(piece) for part in self._feed(single)]))

    def _feed(self, piece: Piece) -> list[Piece]:
        if self._place in ("start", "opened", "thoughts"):
            self.thought_tokens += len(piece.token_ids)
        if self._entries is not None:
            self._note(piece, self._entries)
        self._held += piece.text
        self._is_last = piece.finish_reason is not None
        found = [part for part in self._parts(piece.index) if part.text or part.tool or part.ends]
        is_released = any(part.text for part in found)
        probed = self._seen(piece.probed, is_released=is_released) if self._sent is None else ()
        if probed:
            found = [replace(part, probed=probed) if part.text else part for part in found]
        if piece.finish_reason is None:
            return found
        ending = "tool_calls" if piece.finish_reason == "stop" and self._call >= 0 else piece.finish_reason
        if piece.finish_reason == "stop" and self._place in ("opened", "thoughts", "head", "arguments"):
            raise GenerationFailed(f"the model stopped in the middle of its {self._place}; nothing of it is usable")
        last = self._piece(piece.index, self._rest(), finish_reason=ending)
        return [*found, replace(last, closed=piece.closed, probed=probed if last.text else ())]

    def _seen(self, scores: TokenLogOdds, *, is_released: bool) -> TokenLogOdds:
        """Return the probe scores of tokens whose text may leave with a piece that brings `scores`: its own, and those
        since text last left. With none of these, return the newest."""
        self._newest = scores or self._newest
        found = join_scores((self._fresh, scores)) or self._newest
        self._fresh = () if is_released else found
        return found

    def _settle(self, piece: Piece, sent: deque[_Sent]) -> Iterator[Piece]:
        """Yield, for each text, the scores that `piece` brings of its parts that were released before."""
        settled: dict[tuple[Channel, int], list[tuple[int, TokenLogOdds]]] = {}
        joined, at = deque([part for part in piece.joined if part != (0, 0)]), 0
        while sent and (joined or sent[0].is_bare):
            before = sent.popleft()
            for size, count in before.scored(joined):
                scores = self._seen(piece.probed[at : at + count], is_released=bool(before.parts))
                at += count
                for part in before.parts:
                    released = len(part.text) if size is None else size
                    settled.setdefault((part.channel, part.call), []).append((released, scores))
        for (channel, call), theirs in settled.items():
            probed = join_scores([scores for _, scores in theirs])
            parts = tuple([(size, len(scores)) for size, scores in theirs])
            yield Piece(piece.index, channel=channel, call=call, probed=probed, joined=parts, behind=True)

    def _note(self, piece: Piece, entries: deque[tuple[int, TokenLogprob]]) -> None:
        """Place each entry: with its piece, where the tokens spell it, else behind the token before."""
        text = _bytes(piece.text)
        if b"".join(entry.data for entry in piece.logprobs) == text:
            self._spelled = self._fed
        for entry in piece.logprobs:
            entries.append((self._spelled, entry))
            self._spelled += len(entry.data)
        self._fed += len(text)

    def _entries_of(self, text: str) -> tuple[TokenLogprob, ...]:
        """Take the log probabilities of tokens that begin in `text`, which is the beginning of the held text."""
        if not self._entries or not text:
            return ()
        start = self._fed - len(_bytes(self._held))
        end, found = start + len(_bytes(text)), []
        while self._entries and self._entries[0][0] < end:
            at, entry = self._entries.popleft()
            if at >= start:
                found.append(entry)
        return tuple(found)

    def _rest(self) -> str:
        """Return the remaining text at the end of the output, without an unfinished mark. A call whose name is
        incomplete never opens, and leaves no text."""
        if self._place == "thoughts":
            return self._held[: _open_end(self._held, THOUGHT)].rstrip()
        if self._place == "arguments":
            end = _open_end(self._held, CALLED)
            return self._held if end == len(self._held) else self._held[:end].rstrip().removesuffix("}")
        return self._held if self._place == "answer" and not self._must_call else ""

    def _parts(self, index: int) -> Iterator[Piece]:
        """Yield settled pieces: each step enters another region, or waits for more text."""
        before: tuple[Region, str] | None = None
        while before != (self._place, self._held):
            before = (self._place, self._held)
            yield from getattr(self, f"_in_{self._place}")(index)

    def _in_start(self, index: int) -> Iterator[Piece]:
        text = self._held.lstrip()
        if text.startswith(THINK):
            self._place, self._held = "opened", text[len(THINK) :]
        elif not THINK.startswith(text):
            self._place = "answer"
        yield from ()

    def _in_opened(self, index: int) -> Iterator[Piece]:
        self._held = self._held.lstrip()
        if self._held:
            self._place = "thoughts"
        yield from ()

    def _in_thoughts(self, index: int) -> Iterator[Piece]:
        thoughts, mark, rest = self._held.partition(THOUGHT)
        if mark:
            yield self._piece(index, thoughts.rstrip(), ends=True)
            self._place, self._held = "gap", rest
            return
        yield from self._settled(index, _open_end(self._held, THOUGHT))

    def _in_gap(self, index: int) -> Iterator[Piece]:
        self._held = self._held.lstrip()
        if self._held:
            self._place = "answer"
        yield from ()

    def _in_answer(self, index: int) -> Iterator[Piece]:
        if not self._calls:
            yield from self._settled(index, len(self._held))
            return
        text, mark, rest = self._held.partition(CALL)
        end = len(text) if mark else _open_end(text, CALL)
        if self._finder is not None:
            is_last = self._is_last and not mark
            end = min(end, self._finder.find(text + mark, is_last=is_last, is_marked=bool(mark)))
        if self._finder is not None and self._finder.calls:
            yield from self._found_calls(index, self._finder)
        elif mark:
            yield self._piece(index, text.rstrip())
            self._place, self._held, self._call = "head", rest, self._call + 1
            self._finder = self._new_finder()
        else:
            yield from self._settled(index, end)

    def _found_calls(self, index: int, found: CallFinder) -> Iterator[Piece]:
        """Yield the text before calls without marks, and the calls."""
        yield self._piece(index, self._held[: found.begin].rstrip())
        self._place, self._held = "arguments", self._held[found.end :]
        for call in found.calls[:1] if self._at_most_one else found.calls:
            yield from self._whole_call(index, call)
        self._place, self._finder = "over" if self._at_most_one else "gap", self._new_finder()

    def _new_finder(self) -> CallFinder | None:
        return None if self._judge is None else CallFinder(self._judge)

    def _whole_call(self, index: int, call: ToolCall) -> Iterator[Piece]:
        self._call += 1
        yield self._piece(index, "", tool=call.name)
        yield self._piece(index, call.arguments, ends=True)

    def _in_over(self, index: int) -> Iterator[Piece]:
        # Where one call is allowed, no more tokens come behind one with marks either.
        self._held = ""
        yield from ()

    def _in_head(self, index: int) -> Iterator[Piece]:
        found = _HEAD.match(self._held)
        if found:
            self._place, self._held = "arguments", self._held[found.end() :]
            yield self._piece(index, "", tool=found[1])
        elif len(self._held) > _LONGEST_HEAD:
            raise GenerationFailed("the model began a tool call that names no tool")

    def _in_arguments(self, index: int) -> Iterator[Piece]:
        # A raw line break cannot stand inside a JSON string, nor `<` outside one: the first mark is the end.
        text, mark, rest = self._held.partition(CALLED)
        if mark:
            text = text.rstrip()
            if not text.endswith("}"):
                raise GenerationFailed("the model ended a tool call that is not whole")
            yield self._piece(index, text[:-1].rstrip(), ends=True)
            self._place, self._held = "gap", rest
            return
        settled = text[: _open_end(text, CALLED)].rstrip().removesuffix("}")
        yield from self._settled(index, len(settled))

    def _settled(self, index: int, end: int) -> Iterator[Piece]:
        """Yield text up to `end`; blanks there wait, since they may come before a mark."""
        if self._place != "answer" or self._calls:
            end = len(self._held[:end].rstrip())
        piece = self._piece(index, self._held[:end])
        self._held = self._held[end:]
        if self._place == "answer" and self._finder is not None:
            self._finder.left(end)
        yield piece

    def _piece(
        self,
        index: int,
        text: str,
        *,
        tool: str | None = None,
        finish_reason: str | None = None,
        ends: bool = False,
    ) -> Piece:
        channels: dict[Region, Channel] = {
            "start": "reasoning", "opened": "reasoning", "thoughts": "reasoning",
            "arguments": "tool_arguments",
        }  # fmt: skip
        channel = channels.get(self._place, "content")
        call = max(0, self._call) if channel == "tool_arguments" else 0
        return Piece(
            index,
            text,
            logprobs=self._entries_of(text) if channel == "content" else (),
            finish_reason=finish_reason,  # type: ignore[arg-type]
            channel=channel,
            call=call,
            tool=tool,
            ends=ends,
        )


def _apart(piece: Piece) -> Iterator[Piece]:
    """Yield the pieces that a piece was joined of. Each has as many tokens as scores; the last one has the rest."""
    text, tokens = 0, 0
    for size, count in piece.joined[:-1]:
        end, to = text + size, tokens + count
        yield Piece(
            piece.index,
            piece.text[text:end],
            piece.token_ids[tokens:to],
            piece.logprobs[tokens:to],
            probed=piece.probed[tokens:to],
        )
        text, tokens = end, to
    rest = piece.token_ids[tokens:], piece.logprobs[tokens:], piece.probed[tokens:]
    yield replace(piece, text=piece.text[text:], token_ids=rest[0], logprobs=rest[1], probed=rest[2], joined=())


def _joined(parts: Sequence[Piece]) -> Iterator[Piece]:
    """Yield successive parts of one text as one, up to its end; the one that opens a call stays by itself."""
    run: list[Piece] = []
    for part in parts:
        if run and (part.channel, part.call, None) != (run[-1].channel, run[-1].call, part.tool or run[-1].tool):
            yield join_pieces(run, run[-1])
            run = []
        run.append(part)
        if part.ends:
            yield join_pieces(run, part)
            run = []
    if run:
        yield join_pieces(run, run[-1])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _open_end(text: str, mark: str) -> int:
    """Return where the longest suffix of `text` begins that is a prefix of `mark`."""
    for size in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:size]):
            return len(text) - size
    return len(text)
