"""Parse a regular expression into a tree: the regular subset of the usual notation.

    alternation |   groups ( ) (?: )   classes [a-z] [^...] \\d \\w \\s \\D \\W \\S   . (not line feed)
    * + ? {m} {m,} {m,n}   escapes \\n \\t \\r \\f \\v \\xHH \\uHHHH   (?i) at the start
    ^ or \\A and \\b at the start of the whole pattern, $ or \\Z and \\b at its end

The text is folded first (`safety.matching.symbols.narrow`): `e` in a pattern also matches `é`, and a literal `é` in a
pattern means `e`. `^a|b` is refused, since the anchor's scope is ambiguous: write `^(?:a|b)`.

`\\b` matches between a letter or digit and anything else; the underscore is a word character in `\\w` only.

Not covered, and refused with its offset: look-around, backreferences, lazy and possessive quantifiers (a match is
always the longest), anchors inside a pattern, named groups, Unicode properties. Nothing backtracks: matching is linear
in the text whatever the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.matching.charset import ANY_BUT_NEWLINE, CharSet, characters
from sluicegate.safety.matching.symbols import narrow

MAX_REPEAT = 1000


@dataclass(frozen=True, slots=True)
class Concat:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternatives:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class RegexRepeat:
    part: Node
    low: int
    high: int | None


Node = CharSet | Concat | Alternatives | RegexRepeat


@dataclass(frozen=True, slots=True)
class ParsedPattern:
    """`left` and `right`: `any`, `word` (a word border) or `edge` (start or end of the text)."""

    node: Node
    left: str
    right: str


def parse(pattern: str) -> ParsedPattern:
    """Parse `pattern`. Raises `ConfigurationError` that points at the place."""
    return _PatternParser(pattern).parse()


def longest(node: Node) -> int | None:
    """Return the length of the longest match in characters; None if there is no bound."""
    if isinstance(node, CharSet):
        return 1
    if isinstance(node, RegexRepeat):
        if node.high is None:
            return None
        inner = longest(node.part)
        return None if inner is None else inner * node.high
    lengths = [longest(part) for part in node.parts]
    known = [n for n in lengths if n is not None]
    if len(known) < len(lengths):
        return None
    return sum(known) if isinstance(node, Concat) else max(known, default=0)


def nullable(node: Node) -> bool:
    if isinstance(node, CharSet):
        return False
    if isinstance(node, RegexRepeat):
        return node.low == 0 or nullable(node.part)
    return all(map(nullable, node.parts)) if isinstance(node, Concat) else any(map(nullable, node.parts))


class _PatternParser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._fold = False

    def parse(self) -> ParsedPattern:
        self._fold = self._take("(?i)")
        left = self._anchor({"^": "edge", "\\A": "edge", "\\b": "word"})
        right = self._trailing_anchor()
        node = self._alternation()
        if isinstance(node, Alternatives) and (left, right) != ("any", "any"):
            self._at = 0
            raise self._error("an anchor beside alternatives", "put the alternatives into a group, ^(?:a|b)$")
        if self._at < len(self._text):
            raise self._error("an unmatched ')'", "remove it or write \\)")
        if nullable(node):
            self._at = 0
            raise self._error("a pattern that matches the empty text", "make it match at least one character")
        return ParsedPattern(node, left, right)

    def _anchor(self, anchors: dict[str, str]) -> str:
        for written, meaning in anchors.items():
            if self._take(written):
                return meaning
        return "any"

    def _trailing_anchor(self) -> str:
        for written, meaning in (("\\b", "word"), ("\\Z", "edge"), ("$", "edge")):
            body = self._text.removesuffix(written)
            escapes = len(body) - len(body.rstrip("\\"))
            if body != self._text and escapes % 2 == 0:
                self._text = body
                return meaning
        return "any"

    def _alternation(self) -> Node:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._quantified(self._atom()))
        return parts[0] if len(parts) == 1 else Concat(tuple(parts))

    def _quantified(self, node: Node) -> Node:
        start = self._at
        low, high = self._bounds()
        if self._at == start:
            return node
        if self._peek() in ("?", "+"):
            raise self._error("a lazy or possessive quantifier", "matches are always the longest; remove the mark")
        if self._peek() == "*" or (self._peek() == "{" and self._text[self._at + 1 : self._at + 2].isdigit()):
            raise self._error("a quantifier after a quantifier", "put the inner one into a group")
        return RegexRepeat(node, low, high)

    def _bounds(self) -> tuple[int, int | None]:
        marks: tuple[tuple[str, tuple[int, int | None]], ...] = (("*", (0, None)), ("+", (1, None)), ("?", (0, 1)))
        for mark, bounds in marks:
            if self._take(mark):
                return bounds
        end = self._text.find("}", self._at)
        if self._peek() != "{" or not self._text[self._at + 1 : self._at + 2].isdigit() or end < 0:
            return 1, 1
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()):
            raise self._error("a malformed {m,n}", "write {m}, {m,} or {m,n}")
        least = int(low)
        most = least if not comma else int(high) if high else None
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self._error("a repeat out of range", f"keep 0 <= m <= n <= {MAX_REPEAT}")
        self._at = end + 1
        return least, most

    def _atom(self) -> Node:
        char = self._text[self._at]
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char in "*+?":
            raise self._error(f"a quantifier {char!r} with nothing before it", "escape it with a backslash")
        if char in "^$":
            raise self._error(f"an anchor {char!r} inside the pattern", "anchors stand at the very start or end only")
        self._at += 1
        if char == ".":
            return ANY_BUT_NEWLINE
        if char == "\\":
            return self._escaped(inside=False)
        return self._literal(char)

    def _group(self) -> Node:
        if self._text.startswith("(?", self._at) and not self._text.startswith("(?:", self._at):
            raise self._error("a (?...) construct", "only (?:...) and a leading (?i) are supported")
        opened = self._at
        self._at += 3 if self._text.startswith("(?:", self._at) else 1
        node = self._alternation()
        if not self._take(")"):
            self._at = opened
            raise self._error("a '(' that is never closed", "close it or write \\(")
        return node

    def _class(self) -> CharSet:
        opened = self._at
        self._at += 1
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        classes: set[str] = set()
        first = True
        while first or self._peek() != "]":
            if self._at >= len(self._text):
                self._at = opened
                raise self._error("a '[' that is never closed", "close it or write \\[")
            first = False
            item = self._class_item()
            classes |= item.classes
            ranges += self._range_from(item) if item.ranges else ()
        self._at += 1
        return CharSet(tuple(sorted(set(ranges))), frozenset(classes), negated, self._fold)

    def _class_item(self) -> CharSet:
        char = self._text[self._at]
        self._at += 1
        return self._escaped(inside=True) if char == "\\" else characters(char)

    def _range_from(self, item: CharSet) -> list[tuple[int, int]]:
        follows = self._text[self._at + 1 : self._at + 2]
        if self._peek() != "-" or follows in ("", "]"):
            return list(item.ranges)
        self._at += 1
        upper = self._class_item()
        if not upper.ranges or upper.ranges[0][0] < item.ranges[0][0]:
            raise self._error("a range that runs backwards", "put the smaller character first")
        return [(item.ranges[0][0], upper.ranges[0][0])]

    def _escaped(self, *, inside: bool) -> CharSet:
        char = self._peek()
        if not char:
            raise self._error("a backslash at the end", "write \\\\")
        self._at += 1
        if char in "dwsDWS":
            return CharSet(classes=frozenset(char))
        if char in "ntrfv":
            return characters({"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}[char])
        if char in "xu":
            return self._folded(characters(self._hexadecimal(2 if char == "x" else 4)))
        if char.isalnum():
            self._at -= 2
            hint = "\\b stands at the very start or end only" if char == "b" and not inside else "it is not supported"
            raise self._error(f"the escape \\{char}", hint)
        return self._folded(characters(char))

    def _hexadecimal(self, digits: int) -> str:
        written = self._text[self._at : self._at + digits]
        try:
            code = int(written, 16) if len(written) == digits else -1
        except ValueError:
            code = -1
        if code < 0:
            raise self._error("a malformed escape", f"write {digits} hexadecimal digits")
        self._at += digits
        return chr(code)

    def _literal(self, char: str) -> Node:
        symbols = narrow(char)
        if not symbols:
            raise self._error("an invisible character", "text is read without those; remove it")
        parts = tuple(self._folded(characters(symbol)) for symbol in symbols)
        return parts[0] if len(parts) == 1 else Concat(parts)

    def _folded(self, found: CharSet) -> CharSet:
        return CharSet(found.ranges, fold=self._fold)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, written: str) -> bool:
        found = self._text.startswith(written, self._at)
        self._at += len(written) if found else 0
        return found

    def _error(self, found: str, advice: str) -> ConfigurationError:
        return ConfigurationError(
            f"pattern has {found} at character {self._at}: {advice}\n  {self._text}\n  {' ' * self._at}^"
        )
