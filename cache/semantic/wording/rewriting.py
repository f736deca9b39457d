"""Lists of rules that rewrite a text, each tried where its first letters allow it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Becomes = str | Callable[[re.Match[str]], str]
_LITERAL = re.compile(r"\^([a-z][a-z -]*)")
_CHOICE = re.compile(r"\^\((?:\?:)?([a-z -]+(?:\|[a-z -]+)*)\)")


class Rewriting:
    """Apply rules in their order, each at most once.

    What a text must begin with is looked at before a rule is tried: of some hundred, few begin as the text does."""

    def __init__(self, rules: Iterable[tuple[str, Becomes]]) -> None:
        self._rules = [(_begins(pattern), re.compile(pattern), becomes) for pattern, becomes in rules]

    def __call__(self, text: str) -> str:
        """Return the rewritten text. A rule that would leave nothing is skipped."""
        for begins, pattern, becomes in self._rules:
            if text.startswith(begins):
                text = pattern.sub(becomes, text, count=1) or text
        return text


def _begins(pattern: str) -> tuple[str, ...]:
    """Return the literal prefixes that a match of the pattern must have; `("",)` where they cannot be derived."""
    if _alternates(pattern):
        return ("",)
    choice, literal = _CHOICE.match(pattern), _LITERAL.match(pattern)
    if choice and pattern[choice.end() :][:1] not in tuple("?*{"):
        return tuple(choice[1].split("|"))
    if literal is None:
        return ("",)
    known = literal[1]
    return (known[:-1] if pattern[literal.end() :][:1] in ("?", "*", "{") else known,)


def _alternates(pattern: str) -> bool:
    """Return whether a pattern has alternatives outside all groups."""
    depth, place = 0, 0
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 1
        elif sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
        elif sign == "|" and depth == 0:
            return True
        place += 1
    return False
