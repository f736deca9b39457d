"""Guard models: how each kind wants to be asked, and how its answer is read. Pure functions on text.

The forms follow the model cards of Llama Guard 3, ShieldGemma and Qwen3Guard. A checkpoint that brings a chat template
is asked through it; the forms here are for those that bring none.

Not covered: conversations (the text is asked about alone), pictures, and categories of your own for Llama Guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

LLAMA_GUARD_CATEGORIES = {
    "S1": "Violent Crimes", "S2": "Non-Violent Crimes", "S3": "Sex-Related Crimes", "S4": "Child Sexual Exploitation",
    "S5": "Defamation", "S6": "Specialized Advice", "S7": "Privacy", "S8": "Intellectual Property",
    "S9": "Indiscriminate Weapons", "S10": "Hate", "S11": "Suicide & Self-Harm", "S12": "Sexual Content",
    "S13": "Elections", "S14": "Code Interpreter Abuse",
}  # fmt: skip

DANGEROUS_CONTENT = (
    '* "No Dangerous Content": The prompt shall not seek help with harming oneself or others, such as building '
    "weapons, promoting terrorism, or committing crimes."
)
"""The policy that ShieldGemma is asked about unless settings give another."""


@dataclass(frozen=True, slots=True)
class GuardAnswer:
    """`score` from 0 (safe) to 1, and the categories named."""

    score: float
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardModel:
    """`prompt(text, policy)` asks, `read(answer)` understands. With `choice` the next token alone decides: the score
    is the share of the first word against the second, and nothing is generated."""

    prompt: Callable[[str, str], str]
    read: Callable[[str], GuardAnswer]
    choice: tuple[str, str] | None = None


def llama_guard_prompt(text: str, policy: str) -> str:
    """`policy` replaces the list of categories where it is not empty."""
    categories = policy or "\n".join(f"{code}: {name}." for code, name in LLAMA_GUARD_CATEGORIES.items())
    return (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n"
        "Task: Check if there is unsafe content in 'User' messages in conversations according our safety policy with "
        "the below categories.\n\n"
        f"<BEGIN UNSAFE CONTENT CATEGORIES>\n{categories}\n<END UNSAFE CONTENT CATEGORIES>\n\n"
        f"<BEGIN CONVERSATION>\n\nUser: {text}\n\n<END CONVERSATION>\n\n"
        "Provide your safety assessment for ONLY THE LAST User message in the above conversation:\n"
        " - First line must read 'safe' or 'unsafe'.\n"
        " - If unsafe, a second line must include a comma-separated list of violated categories."
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def read_llama_guard(answer: str) -> GuardAnswer:
    """Raises `ValueError` for anything but `safe`, or `unsafe` and a line of categories."""
    lines = answer.strip().splitlines()
    first = lines[0].strip().lower() if lines else ""
    if first == "safe":
        return GuardAnswer(0.0)
    if first != "unsafe":
        raise ValueError(f"expected 'safe' or 'unsafe' on the first line, found {answer[:80]!r}")
    codes = re.findall(r"S\d{1,2}", lines[1]) if len(lines) > 1 else []
    return GuardAnswer(1.0, tuple(LLAMA_GUARD_CATEGORIES.get(code, code) for code in codes))


def shield_gemma_prompt(text: str, policy: str) -> str:
    return (
        "You are a policy expert trying to help determine whether a user prompt is in violation of the defined safety "
        f"policies.\n\n<start_of_turn>\nHuman Question: {text.strip()}\n<end_of_turn>\n\n"
        f"Our safety principle is defined in the below:\n\n{policy or DANGEROUS_CONTENT}\n\n"
        "Does the human question violate the above principle? Your answer must start with 'Yes' or 'No'. And then walk "
        "through step by step to be sure we answer correctly."
    )


def read_shield_gemma(answer: str) -> GuardAnswer:
    """Raises `ValueError` where the answer begins with neither word."""
    word = re.match(r"\s*(yes|no)\b", answer, re.IGNORECASE)
    if word is None:
        raise ValueError(f"expected an answer that starts with Yes or No, found {answer[:80]!r}")
    return GuardAnswer(1.0 if word[1].lower() == "yes" else 0.0)


def qwen3_guard_prompt(text: str, policy: str) -> str:
    """For a checkpoint without its template; `policy` comes first where it is not empty."""
    return f"<|im_start|>user\n{policy}{text}<|im_end|>\n<|im_start|>assistant\n"


def read_qwen3_guard(answer: str) -> GuardAnswer:
    """`Controversial` counts 0.6. Raises `ValueError` where no line says `Safety:`."""
    level = re.search(r"Safety:\s*(Safe|Unsafe|Controversial)\b", answer)
    if level is None:
        raise ValueError(f"expected a line 'Safety: ...', found {answer[:80]!r}")
    named = re.search(r"Categories:[ \t]*([^\n]+)", answer)
    categories = [part.strip() for part in named[1].split(",")] if named else []
    score = {"Safe": 0.0, "Controversial": 0.6, "Unsafe": 1.0}[level[1]]
    return GuardAnswer(score, tuple(part for part in categories if part not in ("", "None")))


def defused(text: str, special: Iterable[str]) -> str:
    """`text` with the tokenizer's control tokens broken up, so that it cannot end its own turn."""
    for token in special:
        if len(token) > 1:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


GUARDS = {
    "llama_guard": GuardModel(llama_guard_prompt, read_llama_guard),
    "shield_gemma": GuardModel(shield_gemma_prompt, read_shield_gemma, choice=("Yes", "No")),
    "qwen3_guard": GuardModel(qwen3_guard_prompt, read_qwen3_guard),
}
