"""Slot `screen`, stage `pseudonyms`: replace personal data in the prompt by placeholders, and restore it in the answer
for callers who may see it.

A value becomes `<EMAIL_7QK2M>`: its type and a keyed digest. Under one secret a tenant's value has the same placeholder
in every turn. Nothing is stored between requests: the values of placeholders are computed again from the messages.

Not covered: values that `pii` does not find (names, postal addresses); a placeholder that the model misspells, which
stays in the answer; and, in a structured answer, strings whose `format` or `pattern` does not allow a placeholder, for
which a model can only invent a value.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sluicegate.plugins import Caller, Mark, RailProperties, Request, ScreenResult, Text, in_two, texts_of
from sluicegate.safety.matching.automaton import Automaton
from sluicegate.safety.matching.json_escapes import find_spelled
from sluicegate.safety.rails.match_rails import LONG, MOST_MARKS, MatchPolicy, as_spelled, version

Restore = Literal["scope", "always", "never"]
LETTERS = 5
"""Letters of a digest: 25 bits, short enough for small models to copy; more where two values would share them."""


@dataclass(frozen=True, slots=True)
class PseudonymPolicy:
    """Who gets values restored. `restore`: callers with `scope`, everybody, or nobody."""

    secret: bytes
    roles: frozenset[str]
    scope: str = "pii"
    restore: Restore = "scope"

    def may_see(self, caller: Caller) -> bool:
        return self.restore == "always" or (self.restore == "scope" and self.scope in caller.scopes)


class Pseudonyms:
    """A rail of slot `screen` that replaces personal data. Keeps no state of requests."""

    inline_chars = LONG
    text_chars = 0

    def __init__(self, name: str, automaton: Automaton, terms: PseudonymPolicy) -> None:
        self.name = name
        self.properties = RailProperties(version(automaton, MatchPolicy()), reads="texts")
        self._automaton = automaton
        self._terms = terms

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        texts = texts_of(request)
        if sum(len(text.text) for text in texts) > LONG:
            return await asyncio.to_thread(self.screen_now, request, texts, caller)
        return self.screen_now(request, texts, caller)

    def screen_now(self, request: Request, texts: Sequence[Text], caller: Caller) -> ScreenResult:
        """Do what `screen` does, in the calling thread. `texts`: those of `request`, as `texts_of` lists them."""
        book = _Placeholders(hmac.digest(self._terms.secret, caller.tenant.encode(), "sha256"))
        read = [text for text in as_spelled(texts) if text.role is None or text.role in self._terms.roles]
        changes = [(text, new) for text in read if (new := self._without(text, book)) != text.text]
        if not book.values:
            return ScreenResult()
        reason = f"{self.name}: {len(book.values)} values"
        restore = book.values if self._terms.may_see(caller) else {}
        messages, others = in_two(changes, request)
        return ScreenResult("redact", reason, messages, texts=others, restore=restore, marks=tuple(book.marks))

    def _without(self, whole: Text, book: _Placeholders) -> str:
        parts, at, text = [], 0, whole.text
        for match in find_spelled(self._automaton, text):
            if len(book.marks) < MOST_MARKS:
                book.marks.append(Mark(match.label, whole.path, match.start, match.end))
            parts += [text[at : match.start], book.placeholder(match.label, text[match.start : match.end])]
            at = match.end
        return "".join([*parts, text[at:]])


class _Placeholders:
    """The placeholders of one request. Mutable. `values`: by placeholder; `marks`: where the values stood."""

    def __init__(self, key: bytes) -> None:
        self.values: dict[str, str] = {}
        self.marks: list[Mark] = []
        self._key = key

    def placeholder(self, label: str, value: str) -> str:
        digest = hmac.digest(self._key, f"{label}\0{value}".encode("utf-8", "surrogatepass"), "sha256")
        letters = base64.b32encode(digest).decode()
        kind = re.sub(r"[^A-Z0-9]", "_", label.upper())
        size = LETTERS
        while self.values.setdefault(f"<{kind}_{letters[:size]}>", value) != value:
            size += 1
        return f"<{kind}_{letters[:size]}>"


class Restorer:
    """Replaces placeholders by their values in a text that comes in pieces; same as `restored` of the whole."""

    def __init__(self, values: Mapping[str, str], *, in_json: bool = False) -> None:
        self._values = {name: _spelled(value) if in_json else value for name, value in values.items()}
        self._any = re.compile("|".join(map(re.escape, sorted(values, key=len, reverse=True))))
        self._held = ""

    def feed(self, text: str) -> str:
        """Return the text to release. An end that may still become a placeholder is held; a placeholder has one `<`,
        its first character."""
        whole = self._any.sub(lambda match: self._values[match[0]], self._held + text)
        begun = whole.rfind("<")
        held = whole[begun:] if begun >= 0 else ""
        if not any(name.startswith(held) for name in self._values):
            held = ""
        self._held = held
        return whole[: len(whole) - len(held)]

    def close(self) -> str:
        held, self._held = self._held, ""
        return held


def restored(text: str, values: Mapping[str, str], *, in_json: bool = False) -> str:
    restorer = Restorer(values, in_json=in_json)
    return restorer.feed(text) + restorer.close()


def _spelled(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]
