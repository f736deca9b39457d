"""Slot `screen`, stage `pseudonyms`: personal data leaves the prompt before a model sees it, and comes back in the
answer for the caller who may see it.

A value becomes `<EMAIL_7QK2M>`: its type and a keyed digest. Under one secret a tenant's value has the same placeholder
in every turn, and nothing is kept between requests: what a placeholder means is worked out anew from the messages.

Not covered: values that `pii` does not find (names, postal addresses); a model that writes a placeholder otherwise than
it read it, whose text then stays as it is; and, in a structured answer, places whose `format` or `pattern` admits no
placeholder, where a model can only invent.
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
"""Of a digest, 25 bits: short enough to be copied right by small models; longer where two values would share one."""


@dataclass(frozen=True, slots=True)
class Terms:
    """`restore`: for callers with `scope`, for everybody, or for nobody."""

    secret: bytes
    roles: frozenset[str]
    scope: str = "pii"
    restore: Restore = "scope"

    def may_see(self, caller: Caller) -> bool:
        return self.restore == "always" or (self.restore == "scope" and self.scope in caller.scopes)


class Pseudonyms:
    """Holds no state of requests."""

    inline_chars = LONG
    text_chars = 0

    def __init__(self, name: str, automaton: Automaton, terms: Terms) -> None:
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
        """Do what `screen` does in the thread that calls it. `texts`: those of `request`, as `texts_of` lists them."""
        book = _Book(hmac.digest(self._terms.secret, caller.tenant.encode(), "sha256"))
        read = [text for text in as_spelled(texts) if text.role is None or text.role in self._terms.roles]
        changes = [(text, new) for text in read if (new := self._without(text, book)) != text.text]
        if not book.values:
            return ScreenResult()
        reason = f"{self.name}: {len(book.values)} values"
        restore = book.values if self._terms.may_see(caller) else {}
        messages, others = in_two(changes, request)
        return ScreenResult("redact", reason, messages, texts=others, restore=restore, marks=tuple(book.marks))

    def _without(self, whole: Text, book: _Book) -> str:
        parts, at, text = [], 0, whole.text
        for match in find_spelled(self._automaton, text):
            if len(book.marks) < MOST_MARKS:
                book.marks.append(Mark(match.label, whole.path, match.start, match.end))
            parts += [text[at : match.start], book.placeholder(match.label, text[match.start : match.end])]
            at = match.end
        return "".join([*parts, text[at:]])


class _Book:
    """The placeholders of one request. `values`: what each stands for; `marks`: where they stood."""

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
    """Placeholders back to values in a text that comes in pieces; the same as `restored` of the whole."""

    def __init__(self, values: Mapping[str, str], *, in_json: bool = False) -> None:
        self._values = {name: _spelled(value) if in_json else value for name, value in values.items()}
        self._any = re.compile("|".join(map(re.escape, sorted(values, key=len, reverse=True))))
        self._held = ""

    def feed(self, text: str) -> str:
        """Return what may leave. The end that may still become a placeholder waits; a placeholder has one `<`, its
        first."""
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
