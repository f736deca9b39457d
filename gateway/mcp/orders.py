"""Find instructions to the model in a tool's definition that no honest description needs, by English patterns.

Not covered: other languages and wordings, and instructions that an honest description may give (`call this first`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import re2


def _compiled(pattern: str) -> Any:
    return re2.compile(f"(?i){pattern}")


_NEAR = r"[^.!?\n]{0,80}?"
_FILE = (
    r"(?:~/\.\w|\bid_(?:rsa|ed25519|ecdsa)\b|\.(?:ssh|aws|kube|gnupg|cursor|netrc|npmrc|pypirc|git-credentials)\b"
    r"|(?:^|\W)\.env\b|\bmcp\.json\b|/etc/(?:passwd|shadow)\b|\b(?:keychain|cookies?|login) (?:file|data|database)\b)"
)
_TAKE = r"\b(?:read|open|load|cat|fetch|pass|include|send|attach|append|copy|put|upload)\b"
_SAY = r"(?:tell|mention|inform|notify|reveal|show|say|alert|warn|disclose|report|ask|let)(?:ing)?"
ORDERS: dict[str, Any] = {
    "keeps something from the user": _compiled(
        rf"\b(?:do not|don['’]t|never|must not|should not|without|avoid|no need to)\b{_NEAR}\b{_SAY}\b{_NEAR}"
        r"\b(?:users?|humans?|person|people|them|anyone|anybody|operator)\b"
        rf"|\b(?:secretly|silently|covertly|discreetly)\b{_NEAR}\b(?:call|send|pass|read|include|use|add|forward|run)\b"
        rf"|\bkeep (?:this|it|that)\b{_NEAR}\b(?:secret|private|hidden|to yourself)\b",
    ),
    "asks for a file of keys": _compiled(rf"{_TAKE}{_NEAR}{_FILE}|{_FILE}{_NEAR}{_TAKE}"),
    "asks for what was said before": _compiled(
        rf"\b(?:pass|include|send|put|attach|append|copy|add|write)\b{_NEAR}"
        r"\b(?:whole|entire|full|complete|all|every|previous)\b"
        rf"{_NEAR}\b(?:conversation|chat|history|system (?:prompt|message)|instructions|messages so far)\b",
    ),
    "asks for credentials": _compiled(
        rf"\b(?:pass|include|send|put|attach|append|copy|forward)\b{_NEAR}\b(?:user['’]?s?|your|their|any|all)\b{_NEAR}"
        r"\b(?:passwords?|credentials|api[ _-]?keys?|access tokens?|private keys?|secrets)\b",
    ),
    "puts itself before others": _compiled(
        r"\binstead of (?:any|all|every|other|another|the other)\b|\b(?:ignore|do not use|never use|avoid)\b"
        rf"{_NEAR}\b(?:other|all|any) tools?\b"
        r"|\bbefore (?:using |calling |you (?:use|call) )?(?:any|every|all) other tools?\b",
    ),
    "has a tag for models": _compiled(
        r"</?\s*(?:important|system|secret|hidden|instructions?|admin|critical|priority|override)\s*>"
    ),
}
"""Patterns by the name of the instruction."""


def orders_in(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each kind of instruction with its first place. `texts`: (place, text)."""
    texts = list(texts)
    for kind, pattern in ORDERS.items():
        place = next((place for place, text in texts if pattern.search(text)), None)
        if place is not None:
            yield f"orders: {place} {kind}"
