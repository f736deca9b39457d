"""Guard models: how each kind wants to be asked, and how its answer is read. Pure functions on text.

Prompts, labels and categories are data: one file a kind in `formats/`, after the model cards of Llama Guard 3,
Qwen3Guard, ShieldGemma and Granite Guardian, and one for chat models that are no guards. A checkpoint that brings a
chat template is asked through it; the prompts of the files are for those that bring none, and what a chat model is
asked.

Not covered: pictures, and more than one risk a question for Granite Guardian and ShieldGemma.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, get_args

from sluicegate.safety.detection.settings import GuardForm

FORMS: tuple[GuardForm, ...] = get_args(GuardForm)
FOLDER = Path(__file__).parent / "formats"
Turn = tuple[str, str]
"""(role, text)."""
_GUIDELINE = re.compile(r"\bguideline\b")


class NoJudgement(ValueError):
    """Raised where a guard gave no verdict. The message quotes neither what was judged nor what the guard said."""


@dataclass(frozen=True, slots=True)
class GuardAnswer:
    """`score` from 0 (safe) to 1, the categories named, and the guard's own word for how bad it is."""

    score: float
    categories: tuple[str, ...] = ()
    severity: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Judged:
    """The prompt around the conversation where messages of one role are judged, and the guard's own `policy` for
    them."""

    begin: str
    end: str
    policy: str


@dataclass(frozen=True, slots=True)
class GuardFormat:
    """One kind of guard. `turns` spell a message by role, `{text}` in them stands for it. With `choice` the next token
    alone decides: the score is the share of the first word against the second, and nothing is generated. With
    `in_one_message` the prompt is one message of a user to a model that may be no guard."""

    name: str
    judged: Mapping[str, Judged]
    turns: Mapping[str, str]
    answer: re.Pattern[str]
    expected: str
    labels: Mapping[str, float]
    categories: Mapping[str, str]
    choice: tuple[str, str] | None = None
    in_one_message: bool = False

    def asked_by(self, tokenizer: Any, history: Sequence[Turn], role: str, policy: str = "") -> tuple[str, str]:
        """Return the prompt before and after the text of a message of `role`, judged after `history`: by the
        checkpoint's own template, if it renders that text exactly once and knows the policy."""
        if tokenizer.chat_template and (self.in_one_message or not policy):
            mark = f"\u2603{token_hex(16)}\u2603"  # random: no text can contain it
            messages = self.messages(history, role, mark, policy)
            more = self.template_variables(str(tokenizer.chat_template), role)
            rendered = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **more))
            before, found, behind = rendered.partition(mark)
            if found and mark not in behind:
                return before, behind
        return self.around(history, role, policy)

    def messages(self, history: Sequence[Turn], role: str, text: str, policy: str = "") -> list[dict[str, str]]:
        """Return what a chat template is shown to have the message `text` of `role` judged."""
        turns = [*history, (role, text)]
        if self.in_one_message:
            before, behind = self.around(history, role, policy)
            turns = [("user", f"{before}{text}{behind}")]
        return [{"role": said_by, "content": said} for said_by, said in turns]

    def around(self, history: Sequence[Turn], role: str, policy: str = "") -> tuple[str, str]:
        """Return the prompt before and after the text of a message of `role`, judged after `history`."""
        frame = self.judged[role]
        said = "".join(self._turn(*turn) for turn in history)
        before, _, behind = self.turns[role].partition("{text}")
        begin, end = (part.replace("{policy}", policy or frame.policy) for part in (frame.begin, frame.end))
        return begin + said + before, behind + end

    def template_variables(self, template: str, role: str) -> dict[str, Any]:
        """Return what a checkpoint's own chat template wants beside the messages. ShieldGemma's has no policy of its
        own, and would ask about none; a model that thinks would begin with its thoughts."""
        if self.in_one_message:
            return {"enable_thinking": False} if "enable_thinking" in template else {}
        return {"guideline": self.judged[role].policy.removeprefix("* ")} if _GUIDELINE.search(template) else {}

    def read(self, answer: str, *, is_cut: bool = False) -> GuardAnswer:
        """Read an answer. Raises `NoJudgement` where it is not one, or is a harmless verdict that `is_cut`: what the
        guard would have said next could contradict it."""
        found = self.answer.match(answer)
        if found is None:
            raise NoJudgement(f"expected {self.expected}, found {len(answer)} characters of something else")
        label = found["label"].lower()
        named = (found.groupdict().get("codes") or "").split(",")
        codes = [code.strip() for code in named if code.strip() not in ("", "None")]
        score = self.labels[label]
        if is_cut and not score:
            raise NoJudgement(f"expected {self.expected}, found a harmless verdict that was cut short")
        if codes and not score:
            raise NoJudgement(f"expected no categories beside {label!r}, found {len(codes)}")
        return GuardAnswer(score, tuple(self.categories.get(code, code) for code in codes) if score else (), label)

    def _turn(self, role: str, text: str) -> str:
        """Write a message as a turn; all roles but the assistant's become the user's, since a guard knows only two."""
        return self.turns["assistant" if role == "assistant" else "user"].replace("{text}", text)


@cache
def guard_format(name: str) -> GuardFormat:
    with (FOLDER / f"{name}.toml").open("rb") as file:
        return _format(name, tomllib.load(file))


def _format(name: str, table: Mapping[str, Any]) -> GuardFormat:
    categories = table.get("categories", {})
    listed = "\n".join(
        table.get("category_line", "{code}: {name}.").format(code=c, name=n) for c, n in categories.items()
    )
    policy, choice = table.get("policy", listed), table.get("choice")
    return GuardFormat(
        name=name,
        judged={
            role: Judged(one["begin"], one["end"], one.get("policy", policy)) for role, one in table["judged"].items()
        },
        turns=table["turns"],
        answer=re.compile(table["answer"], re.ASCII | (re.IGNORECASE if table.get("any_case") else 0)),
        expected=table["expected"],
        labels=table["labels"],
        categories=categories,
        choice=None if choice is None else (choice[0], choice[1]),
        in_one_message=table.get("in_one_message", False),
    )
