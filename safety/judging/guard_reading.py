"""Judge an answer by a guard model that this gateway serves: each unit after the conversation and all earlier units.

A judgement asks the model to read `head + conversation + answer so far + tail`. The answer so far is tokenised unit by
unit and grows only at its end, so the engine finds the blocks of the previous judgement in its prefix cache and reads
only the new unit and the tail: an answer of n tokens costs O(n), not O(n^2).

Not covered: conversations longer than `context_chars` (their beginning is left out). Guards with heads that judge every
token are asked by `judging/token_guard.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sluicegate.plugins import Caller, Channel, Message, Request
from sluicegate.plugins.control_tokens import control_tokens, defused
from sluicegate.safety.detection.guards import GuardAnswer, GuardFormat, NoJudgement, Turn
from sluicegate.safety.judging.session import Assessment, JudgedReading
from sluicegate.safety.judging.stable_text import last_word

TOP_LOGPROBS = 20
"""Number of likeliest next tokens among which the two words of a choice are searched."""
BETWEEN = "\n\n"
"""Between messages that are one turn to a guard."""
LEFT_OUT = "[...]"
"""The user's turn before an assistant's with which a conversation begins, as far as a guard reads it."""


@dataclass(frozen=True, slots=True)
class GuardOutput:
    """The guard's answer. `top`: (token id, logprob) of its likeliest first tokens."""

    text: str
    top: Sequence[tuple[int, float]] = ()
    prompt_tokens: int = 0
    cached_tokens: int = 0
    is_cut: bool = False
    """Whether it had more to say than `max_tokens`."""


class GuardModelAccess(Protocol):
    """Access to the served guard model. Bound once the models are loaded."""

    @property
    def tokenizer(self) -> Any:
        """Return the guard's tokenizer, as `transformers` defines one."""

    async def answer(self, token_ids: tuple[int, ...], max_tokens: int, top: int | None, caller: Caller) -> GuardOutput:
        """Return the likeliest continuation of a prompt. Raises the engine's errors."""


class GuardAnswerJudge:
    """Asks a served guard model about each unit. `model`: its name. Shared by requests."""

    def __init__(
        self, model: str, form: GuardFormat, policy: str = "", context_chars: int = 8_000, max_new_tokens: int = 48
    ) -> None:
        self.model = model
        self._form = form
        self._policy = policy
        self._context_chars = context_chars
        self._max_new_tokens = max_new_tokens
        self._access: GuardModelAccess | None = None
        self._counts = {"judgements_total": 0.0, "prompt_tokens_total": 0.0, "cached_tokens_total": 0.0}

    def stats(self) -> Mapping[str, float]:
        return self._counts

    def bind(self, access: GuardModelAccess) -> None:
        """Use `access` for all later judgements."""
        self._access = access

    def read(self, request: Request, caller: Caller, channel: Channel, lead: str) -> JudgedReading:
        history, lead = judged_after(request, self._context_chars, lead)
        if self._access is None:
            raise RuntimeError(f"the guard model {self.model!r} is not bound to an engine yet")
        special = control_tokens(self._access.tokenizer)
        said = [(role, defused(text, special)) for role, text in history]
        before, behind = self._form.asked_by(self._access.tokenizer, said, "assistant", self._policy)
        at = last_word(lead)
        return _GuardReading(self, self._access, caller, before + defused(lead[:at], special), lead[at:], behind)

    async def ask(self, access: GuardModelAccess, token_ids: tuple[int, ...], caller: Caller) -> Assessment:
        """Ask the guard about the prompt `token_ids`. Raises `ValueError` for an answer that cannot be read."""
        choice = self._form.choice
        most, top = (self._max_new_tokens, None) if choice is None else (1, TOP_LOGPROBS)
        said = await access.answer(token_ids, most, top, caller)
        self._counts["judgements_total"] += 1
        self._counts["prompt_tokens_total"] += said.prompt_tokens
        self._counts["cached_tokens_total"] += said.cached_tokens
        if choice is None:
            return assessment(self._form.read(said.text, is_cut=said.is_cut))
        return Assessment({"unsafe": _share(said.top, *[_first(access.tokenizer, word) for word in choice])})


class _GuardReading:
    """The tokens of all judged text; they only grow at the end."""

    def __init__(
        self, judge: GuardAnswerJudge, access: GuardModelAccess, caller: Caller, before: str, word: str, behind: str
    ) -> None:
        """Open a text behind `before` and `word`, which it may go on with, so that the two are read as one."""
        self._judge = judge
        self._word = word
        self._access = access
        self._caller = caller
        self._ids = self._tokens(before)
        self._tail = self._tokens(behind)

    async def judge(self, unit: str) -> Assessment:
        self._ids += self._tokens(defused(self._word + unit, control_tokens(self._access.tokenizer)))
        self._word = ""
        return await self._judge.ask(self._access, tuple(self._ids + self._tail), self._caller)

    def _tokens(self, text: str) -> list[int]:
        return list(self._access.tokenizer(text, add_special_tokens=False)["input_ids"])


def conversation(request: Request, most_chars: int) -> list[Turn]:
    """Return the newest `most_chars` characters of the messages before the answer, in the guard's roles. Calls of tools
    are part of what the assistant said: `name(arguments)`."""
    turns: list[tuple[str, list[str]]] = []
    left = most_chars
    for message in reversed(request.messages):
        if not (said := _said(message)):
            continue
        role = "assistant" if message.role == "assistant" else "user"
        is_new = not turns or turns[-1][0] != role  # templates want turns that alternate
        left -= 0 if is_new else len(BETWEEN)
        if left <= 0:
            break
        if is_new:
            turns.append((role, []))
        turns[-1][1].append(said[-left:])
        left -= len(turns[-1][1][-1])
    return [(role, BETWEEN.join(reversed(texts))) for role, texts in reversed(turns)]


def _said(message: Message) -> str:
    if not message.tool_calls:
        return message.content
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join([message.content, *calls] if message.content else calls)


def judged_after(request: Request, most_chars: int, lead: str) -> tuple[list[Turn], str]:
    """Return the turns before the judged message, and how that begins: with `lead`, the end of what it continues, or
    with what the assistant said last. Turns alternate, and the first and the last are the user's: the templates of most
    guards refuse others, so that a long conversation, or one that ends with an answer, would get no judgement."""
    turns = conversation(request, most_chars)
    if not turns:
        return [], lead
    if turns[-1][0] == "assistant":
        said = turns.pop()[1]
        if not lead:
            lead = f"{said}{BETWEEN}"
        elif said.endswith(lead):
            lead = said
    if not turns or turns[0][0] == "assistant":
        turns.insert(0, ("user", LEFT_OUT))
    return turns, lead


def assessment(answer: GuardAnswer) -> Assessment:
    """Return a score for every category the guard named; `unsafe` if it named none."""
    categories = answer.categories or (("unsafe",) if answer.score else ())
    return Assessment(dict.fromkeys(categories, answer.score))


def _share(top: Sequence[tuple[int, float]], first: int, second: int) -> float:
    """Return the probability of `first` against `second`; the highest it can be where `top` lacks one of them. Raises
    `NoJudgement` if another token is likelier than both: what is left of them then is noise, of a model that says
    something else."""
    found = dict(top)
    if max(found, key=found.__getitem__, default=None) not in (first, second):
        raise NoJudgement("the guard's next token is neither of its two words")
    if second not in found:
        return 1.0
    return 1.0 / (1.0 + math.exp(found[second] - found.get(first, min(found.values()))))


def _first(tokenizer: Any, word: str) -> int:
    return int(tokenizer(word, add_special_tokens=False)["input_ids"][0])
