"""Judge an answer token by token with a guard that has heads on tokens (Qwen3Guard-Stream).

The guard reads the conversation once, and its question heads judge it. Then it reads the answer in its own tokens, one
decode step each over its KV cache, and its answer heads judge every token: an answer of n tokens costs n steps. Held
back are the word that is being written, and a run of bad tokens that is still too short to stop the answer. An answer
is stopped at the beginning of the word in which the run began.

Not covered: text that left the guard's context. When an answer fills it, the guard goes on with the conversation and
the newest quarter of its context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Protocol

from sluicegate.plugins import Caller, Channel, ContextLengthExceeded, JudgingTerms, Request, TokenReading, Verdict
from sluicegate.plugins.control_tokens import control_tokens, defused
from sluicegate.safety.detection.guards import Turn
from sluicegate.safety.judging.guard_reading import judged_after
from sluicegate.safety.judging.session import Assessment, JudgingPolicy
from sluicegate.safety.judging.stable_text import StableCutter, Words, words_of

QUESTION_PREFIX = "question/"
"""Begins the category of a score of the question."""
LEVEL_SCORES: Mapping[str, float] = {"safe": 0.0, "controversial": 0.6, "unsafe": 1.0}
"""Scores of the guard's levels, on the scale of the other guards."""


class TokenGuardAccess(Protocol):
    """Access to the served guard. Bound once the models are loaded."""

    @property
    def tokenizer(self) -> Any:
        """Return the guard's tokenizer, with a chat template."""

    def open(self, caller: Caller) -> TokenReading: ...


class TokenGuardJudge:
    """Asks a served guard about every token. `model`: its name; `in_a_row`: consecutive bad tokens that stop an answer.
    Shared by requests."""

    def __init__(
        self, model: str, in_a_row: int = 1, context_chars: int = 8_000, *, judges_question: bool = True
    ) -> None:
        self.model = model
        self.in_a_row = in_a_row
        self.judges_question = judges_question
        self._context_chars = context_chars
        self._access: TokenGuardAccess | None = None
        self.words: Words = words_of(None)
        self.counts = {"tokens_total": 0.0, "questions_total": 0.0, "begun_again_total": 0.0}

    def stats(self) -> Mapping[str, float]:
        """Return counters: `tokens_total` answer tokens judged, `begun_again_total` texts that exceeded the guard's
        context."""
        return self.counts

    def bind(self, access: TokenGuardAccess) -> None:
        """Use `access` for all later judgements."""
        self._access, self.words = access, words_of(access.tokenizer)

    def begin(
        self, request: Request, caller: Caller, channel: Channel, terms: JudgingTerms, policy: JudgingPolicy
    ) -> TokenGuardSession:
        """Open a text of the answer to `request`. Raises `ContextLengthExceeded` if it does not fit into the guard's
        context."""
        if self._access is None:
            raise RuntimeError(f"the guard {self.model!r} is not bound to an engine yet")
        reading = self._access.open(caller)
        cutter = StableCutter(self.words, terms.lead)
        opening = self._opening(request, terms.lead, cutter.of_lead, reading.room)
        text = _GuardedText(self, self._access, caller, opening, reading)
        return TokenGuardSession(text, cutter, policy, terms, self.in_a_row, _judged=-cutter.of_lead)

    def _opening(self, request: Request, lead: str, left_out: int, room: int) -> _PromptTokens:
        """Return the tokens before the answer, cut to the newest that fit half of `room`, without the last `left_out`
        characters of `lead`. Raises `ContextLengthExceeded`."""
        assert self._access is not None
        tokenizer, chars = self._access.tokenizer, self._context_chars
        while True:
            history, before = judged_after(request, chars, lead[-chars:])
            opening = _opening(tokenizer, history, before[: max(0, len(before) - left_out)])
            if 2 * len(opening) <= room:
                return opening
            if chars < 16:
                raise ContextLengthExceeded(
                    f"the guard's template takes {len(opening)} of the {room} tokens that {self.model!r} reads"
                )
            chars //= 2


@dataclass(frozen=True, slots=True)
class _PromptTokens:
    """The guard's prompt: tokens up to the end of the question (empty without one), and from there to the answer."""

    question: list[int]
    header: list[int]

    def __len__(self) -> int:
        return len(self.question) + len(self.header)


def _opening(tokenizer: Any, history: Sequence[Turn], lead: str) -> _PromptTokens:
    """Render a conversation in the checkpoint's own chat template. The token after the user's last message ends the
    question."""
    special = control_tokens(tokenizer)
    safe = [(role, defused(text, special)) for role, text in history]
    answer, question = (f"\u2603{token_hex(16)}\u2603" for _ in range(2))  # random: no text can contain them
    asks = bool(safe) and safe[-1][0] == "user"
    messages = [{"role": role, "content": text} for role, text in safe]
    if asks:
        messages[-1]["content"] += question
    messages.append({"role": "assistant", "content": answer})
    before, _, _ = str(tokenizer.apply_chat_template(messages, tokenize=False)).partition(answer)
    asked, mark, behind = before.partition(question)
    header = _ids(tokenizer, (behind if mark else before) + defused(lead, special))
    return _PromptTokens([*_ids(tokenizer, asked), *header[:1]], header[1:]) if mark else _PromptTokens([], header)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


class _GuardedText:
    """The guard's state for one text: the question, and the newest tokens of the answer."""

    def __init__(
        self,
        judge: TokenGuardJudge,
        access: TokenGuardAccess,
        caller: Caller,
        opening: _PromptTokens,
        reading: TokenReading,
    ) -> None:
        self._judge = judge
        self._access = access
        self._caller = caller
        self._opening = opening
        self._reading = reading
        self._room = reading.room
        self._newest: list[int] = []
        self._before = [*opening.question, *opening.header]  # not read yet: goes before the next token
        self._used = 0

    async def question(self) -> Assessment:
        """Judge the conversation that led to the answer."""
        opening = self._opening
        if not opening.question or not self._judge.judges_question:
            return Assessment()
        [found] = await self._reading.judge(opening.question, 1, asked=True)
        self._judge.counts["questions_total"] += 1
        self._used, self._before = len(opening.question), list(opening.header)
        return Assessment({f"{QUESTION_PREFIX}{found.category}": LEVEL_SCORES[found.level.lower()]})

    async def tokens(self, parts: Sequence[str]) -> list[list[Assessment]]:
        """Judge the tokens of parts of the answer, each in the context of all tokens before it."""
        special = control_tokens(self._access.tokenizer)
        ids = [_ids(self._access.tokenizer, defused(part, special)) for part in parts]
        if any(part.strip() and not each for part, each in zip(parts, ids, strict=True)):
            raise ValueError("the guard's tokenizer has no token for a part of the answer")
        found = await self._judged([token for each in ids for token in each])
        self._judge.counts["tokens_total"] += len(found)
        ends = iter(found)
        return [[next(ends) for _ in each] for each in ids]

    async def _judged(self, ids: list[int]) -> list[Assessment]:
        found: list[Assessment] = []
        while ids:
            room = self._room - self._used - len(self._before)
            if room <= 0:
                self._begin_again()
                continue
            now, ids = ids[:room], ids[room:]
            given = [*self._before, *now]
            said = await self._reading.judge(given, len(now))
            self._used, self._before = self._used + len(given), []
            self._newest = [*self._newest, *now][-(self._room // 4) :]
            found += [Assessment({one.category: LEVEL_SCORES[one.level.lower()]}) for one in said]
        return found

    def _begin_again(self) -> None:
        self._judge.counts["begun_again_total"] += 1
        self._reading = self._access.open(self._caller)
        self._used = 0
        self._before = [*self._opening.question, *self._opening.header, *self._newest]


@dataclass(slots=True)
class _BadTokenRun:
    """The current run of consecutive bad tokens. Mutable."""

    size: int = 0
    start: int = 0
    """Offset of the part that holds the first token of the run."""

    def add(self, start: int, *, bad: bool) -> int:
        """Extend the run by a bad token, or end it (`bad` False); return its length. `start`: offset of the token."""
        if not bad:
            self.size = 0
            return 0
        self.start = self.start if self.size else start
        self.size += 1
        return self.size


@dataclass(slots=True)
class TokenGuardSession:
    """An `AwaitedSession` for one text. Mutable."""

    text: _GuardedText
    cutter: StableCutter
    policy: JudgingPolicy
    terms: JudgingTerms
    in_a_row: int
    _begun: bool = False
    _fed: int = 0
    _judged: int = 0  # characters whose tokens were judged; negative: the next part begins in the text continued
    _clear_to: int = 0
    _blocked: str | None = None
    _bad: _BadTokenRun = field(default_factory=_BadTokenRun)
    _doubtful: _BadTokenRun = field(default_factory=_BadTokenRun)
    _has_asked: bool = False
    _asked: tuple[str, int] | None = None
    _scores: dict[str, float] = field(default_factory=dict)

    async def feed(self, text: str) -> Verdict:
        self._fed += len(text)
        parts = self.cutter.feed(text) if self._blocked is None else ()
        return await self._next(list(parts), ends=False)

    async def close(self) -> Verdict:
        return await self._next(list(self.cutter.close()) if self._fed else [], ends=True)

    async def _next(self, parts: Sequence[str], *, ends: bool) -> Verdict:
        self._asked, self._scores = None, {}
        if self._blocked is None and self._fed and not self._begun:
            self._begun = True
            self._judge_question(await self.text.question())
        if self._blocked is None and parts:
            self._judge_parts(parts, await self.text.tokens(parts))
        if self._blocked is None:
            self._clear_to = self._fed if ends else self._settled()
        reason, at = self._asked or (None, None)
        return Verdict(self._clear_to, (), self._blocked, reason, at, tuple(self._scores.items()))

    def _settled(self) -> int:
        """Return the offset up to which text may leave: the end of judged text, or the start of a run of bad tokens."""
        rows = [row for row in (self._bad, self._doubtful) if 0 < row.size < self.in_a_row]
        return min([max(0, self._judged), *(row.start for row in rows)])

    def _judge_question(self, assessment: Assessment) -> None:
        action, category = self._note(assessment)
        if action == "block":
            self._blocked = category
        elif action == "escalate":
            self._ask(category, 0)

    def _judge_parts(self, parts: Sequence[str], judged: Sequence[Sequence[Assessment]]) -> None:
        """Check tokens in order, up to the one that completes a blocking run."""
        for part, tokens in zip(parts, judged, strict=True):
            is_lead, start = self._judged + len(part) <= 0, max(0, self._judged)
            for assessment in () if is_lead else tokens:
                action, category = self._note(assessment)
                bad = self._bad.add(start, bad=action == "block")
                if self._doubtful.add(start, bad=action != "pass") == self.in_a_row and bad < self.in_a_row:
                    self._ask(category, self._doubtful.start)
                if bad == self.in_a_row:
                    self._blocked, self._clear_to = category, self._bad.start
                    return
            self._judged += len(part)

    def _ask(self, category: str, start: int) -> None:
        """Escalate to a person, once per text: everything after it waits anyway."""
        if not self._has_asked:
            self._has_asked, self._asked = True, (category, start)

    def _note(self, assessment: Assessment) -> tuple[str, str]:
        for category, score in assessment.scores.items():
            if score:
                self._scores[category] = max(score, self._scores.get(category, 0.0))
        return self.policy.worst(assessment, self.terms)
