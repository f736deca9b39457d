"""How patterns are read, as which tree and between which borders, or why not: kept, so that no change goes unseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sluicegate.plugins import ConfigurationError
from sluicegate.safety.matching.charset import CharSet
from sluicegate.safety.matching.regex import Concat, RegexRepeat, longest, nullable, parse
from tests.golden import assert_golden

PATTERNS = [
    "a",
    "ab",
    "a|b",
    "a|b|cd",
    "(a|b)c",
    "(?:a|b)c",
    "((a))",
    "a*b",
    "a+",
    "a?b",
    "a{2}",
    "a{2,}",
    "a{2,3}",
    "a{0,1}b",
    "(ab)+",
    "(a|bc){2,3}",
    "[abc]",
    "[a-c]",
    "[^a-c]",
    "[a-]",
    "[-a]",
    "[]a]",
    "[^]a]",
    "[a\\]b]",
    "[\\d\\s]",
    "[\\w-]",
    "[a-c-e]",
    "[a\\-c]",
    ".",
    ".+x",
    "\\d+",
    "\\D",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
    "\\n",
    "\\t\\r\\f\\v",
    "\\x41",
    "\\u0041",
    "\\.",
    "\\\\",
    "\\^\\$",
    "(?i)ab",
    "(?i)[a-c]",
    "(?i)\\x41",
    "^a",
    "\\Aa",
    "a$",
    "a\\Z",
    "\\ba",
    "a\\b",
    "^a$",
    "\\ba\\b",
    "^(?:a|b)$",
    "a\\\\b",
    "a\\$",
    "é",
    "É",
    "ß",
    "ﬁ",
    "a{,3}",
    "a{x}",
    "{",
    "a{1",
    "}",
    "a,b",
    "a-b",
    "]",
    "(?i)^a",
    "a{1}{2}"[:4],
    # refused
    "",
    "a*",
    "a?",
    "()",
    "(a",
    "a)",
    "[a",
    "[",
    "a**",
    "a+?",
    "a*+",
    "a??",
    "a{2}{3}",
    "*a",
    "+a",
    "?a",
    "a^b",
    "a$b",
    "a|^b",
    "^a|b",
    "a|b$",
    "\\",
    "\\q",
    "a\\bb",
    "\\1",
    "\\p{L}",
    "\\x4",
    "\\xZZ",
    "\\u12",
    "(?=a)",
    "(?P<x>a)",
    "(?!a)",
    "[c-a]",
    "[a-\\d]",
    "[\\d-a]",
    "a{3,2}",
    "a{1001}",
    "a{1,1001}",
    "a{1000}",
    "\u200b",
    "a{2,x}",
    "a{2x}",
    "[\\b]",
    "(a|)",
    "(|a)b",
]
SAMPLES = "aAbBcCdDeEfFgGxXzZ019 _-\n\t.\\]^é$q,{}"


def tree(node: Any) -> Any:
    """Return the pattern as plain values, sets as the samples they hold."""
    if isinstance(node, CharSet):
        return "".join(char for char in SAMPLES if char in node)
    if isinstance(node, RegexRepeat):
        return [node.low, node.high, tree(node.part)]
    return ["cat" if isinstance(node, Concat) else "alt", *map(tree, node.parts)]


def read(pattern: str) -> Any:
    try:
        found = parse(pattern)
    except ConfigurationError as error:
        return str(error)
    return [tree(found.node), found.left, found.right, longest(found.node), nullable(found.node)]


def test_patterns_are_read_as_they_were() -> None:
    assert_golden(Path(__file__).parent / "golden" / "patterns.jsonl", {pattern: read(pattern) for pattern in PATTERNS})
