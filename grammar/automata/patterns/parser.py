"""Parse a pattern to its `syntax` tree, in ECMA-262 (as with the `u` flag) or Python `re` notation.

Leniencies of ECMA-262 Annex B that real schemas rely on are kept: escaped punctuation, a literal `{`, `}` or `]`, `-`
beside a class escape. `docs/decisions/0003-own-pattern-parser.md` lists what is refused.
"""

from __future__ import annotations

from typing import Literal, NoReturn

from sluicegate.grammar.automata import charsets
from sluicegate.grammar.automata.charsets import Ranges
from sluicegate.grammar.automata.patterns import unicode
from sluicegate.grammar.automata.patterns.escapes import EscapeReader
from sluicegate.grammar.automata.patterns.reader import Cursor
from sluicegate.grammar.automata.patterns.syntax import (
    EMPTY,
    Alt,
    Chars,
    EndAnchor,
    Lookaround,
    Node,
    Repeat,
    Seq,
    StartAnchor,
    WordBoundary,
    sequence,
)
from sluicegate.grammar.budget.meter import tick
from sluicegate.plugins.errors import GrammarLimit

Dialect = Literal["ecma", "python"]

_MAX_DEPTH = 100  # nested groups; the tree is walked recursively
_MAX_CHARACTERS = 1_000_000
_MAX_PARTS = 50_000
"""Most atoms, branches and members of classes: more than an automaton may have states, and few enough that neither the
tree nor its collection holds anybody else up."""
_FOLDED = 4096
"""Ranges of a class from which on they are united before more are read: `\\w` alone has hundreds."""


def parse(pattern: str, dialect: Dialect = "ecma", ignore_case: bool = False) -> Node:
    """Raise `InvalidGrammar` for a syntax error, `UnsupportedGrammar` for what no automaton can do."""
    parser = _Parser(Cursor(pattern), dialect, ignore_case)
    if len(pattern) > _MAX_CHARACTERS:
        raise GrammarLimit(f"the pattern has {len(pattern)} characters; at most {_MAX_CHARACTERS} are read")
    tree = parser.alternatives(0)
    if parser.reader.more():
        parser.reader.invalid("this ')' closes nothing; escape it as \\)")
    return tree


class _Parser:
    """Recursive descent; one method per rule of the notation."""

    def __init__(self, reader: Cursor, dialect: Dialect, ignore_case: bool) -> None:
        self.reader = reader
        self.ecma = dialect == "ecma"
        self.flags = {"i"} if ignore_case else set()
        self.escapes = EscapeReader(reader, self.ecma)
        self.parts = 0

    def count(self) -> None:
        """Count one more part, and look at the clock now and then."""
        self.parts += 1
        if self.parts > _MAX_PARTS:
            self.reader.limit(f"there are more than {_MAX_PARTS} characters, classes and branches; shorten it")
        tick()

    def alternatives(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            self.reader.limit(f"groups are nested more than {_MAX_DEPTH} deep")
        branches = [self.branch(depth)]
        while self.reader.take("|"):
            self.count()
            branches.append(self.branch(depth))
        return branches[0] if len(branches) == 1 else Alt(branches)

    def branch(self, depth: int) -> Node:
        items: list[Node] = []
        while self.reader.more() and self.reader.peek() not in "|)":
            self.count()
            grouped = self.reader.peek() == "("
            item = self.atom(depth)
            if item is not None:
                items.append(self.quantified(item, grouped))
        return sequence(items) if items else EMPTY

    def atom(self, depth: int) -> Node | None:
        reader = self.reader
        start = reader.position
        char = reader.next()
        if char == "(":
            return self.group(start, depth)
        if char == "[":
            return self.char_class(start)
        if char == "\\":
            return self.escape(start)
        if char == ".":
            return Chars(self.dot())
        if char == "^":
            return self.line_begin(start) if "m" in self.flags else StartAnchor()
        if char == "$":
            return self.dollar(start)
        if char in "*+?" or (char == "{" and self.braces() is not None):
            reader.invalid("nothing to repeat before this quantifier; escape it to mean the character", at=start)
        if char == "#" and "x" in self.flags:
            reader.skip_line()
            return None
        if char.isspace() and "x" in self.flags:
            return None
        if 0xD800 <= ord(char) <= 0xDFFF:
            reader.unsupported("a lone surrogate; no JSON string can hold one", at=start)
        return self.chars(charsets.single(ord(char)))

    def chars(self, ranges: Ranges) -> Chars:
        return Chars(unicode.ignoring_case(ranges) if "i" in self.flags else ranges)

    def dot(self) -> Ranges:
        if "s" in self.flags:
            return charsets.EVERY
        return charsets.negate(unicode.ECMA_NEWLINES if self.ecma else charsets.single(10))

    def line_begin(self, start: int) -> Node:
        newline = Chars(unicode.ECMA_NEWLINES if self.ecma else charsets.single(10))
        return Alt([StartAnchor(), Lookaround(newline, ahead=False, negative=False, position=start)])

    def dollar(self, start: int) -> Node:
        newline = Chars(unicode.ECMA_NEWLINES if self.ecma else charsets.single(10))
        if "m" in self.flags:
            return Alt([EndAnchor(), Lookaround(newline, ahead=True, negative=False, position=start)])
        if self.ecma:
            return EndAnchor()
        # Python's $ also stands before a line break that ends the text.
        return Alt([EndAnchor(), Lookaround(Seq([newline, EndAnchor()]), ahead=True, negative=False, position=start)])

    def quantified(self, item: Node, grouped: bool) -> Node:
        """Read the quantifier after `item`, if any. Lazy and greedy ones describe the same language."""
        reader = self.reader
        start = reader.position
        char = reader.peek() if reader.more() else ""
        if char in ("*", "+", "?"):
            reader.next()
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        elif char == "{":
            reader.next()
            counts = self.braces()
            if counts is None:
                reader.position = start
                return item
            low, high = counts
        else:
            return item
        if isinstance(item, (StartAnchor, WordBoundary, EndAnchor)) and not grouped:
            reader.invalid("a quantifier after an anchor has nothing to repeat", at=start)
        if reader.take("+"):
            self.refuse_possessive(start)
        lazy = reader.take("?")
        if reader.more() and reader.peek() in "*+?":
            reader.invalid("nothing to repeat before this quantifier; group the first repetition as (?:...)")
        return Repeat(item, low, high, lazy)

    def refuse_possessive(self, start: int) -> NoReturn:
        if self.ecma:
            self.reader.invalid("nothing to repeat before this '+'; possessive quantifiers are not ECMA-262")
        self.reader.unsupported("a possessive quantifier; write it without the second '+'", at=start)

    def braces(self) -> tuple[int, int | None] | None:
        """Read the counts after an opening brace; None, and nothing read, if the brace is a plain character."""
        reader = self.reader
        start = reader.position
        low, comma, high = reader.digits(), reader.take(","), ""
        if comma:
            high = reader.digits()
        if not reader.take("}") or (not low and (self.ecma or not comma)):
            reader.position = start
            return None
        least = int(low[:9] or "0")
        most = (int(high[:9]) if high else None) if comma else least
        if most is not None and most < least:
            reader.invalid("the numbers in this quantifier are out of order", at=start - 1)
        return least, most

    # Groups

    def group(self, start: int, depth: int) -> Node | None:
        reader = self.reader
        outer = set(self.flags)
        look: tuple[bool, bool] | None = None
        if reader.take("?"):
            look = self.group_kind(start)
            if look is None and reader.take(")"):
                return None  # (?i): the flags hold from here to the end of the enclosing group
        inner = self.alternatives(depth + 1)
        if not reader.take(")"):
            reader.invalid("this group is never closed; add ')' or escape the '(' as \\(", at=start)
        self.flags = outer
        if look is None:
            return inner
        return Lookaround(inner, ahead=look[0], negative=look[1], position=start)

    def group_kind(self, start: int) -> tuple[bool, bool] | None:
        """Read what follows `(?`: `(ahead, negative)` of a lookaround, None for a plain group or flags."""
        reader = self.reader
        for opening, look in (("=", (True, False)), ("!", (True, True)), ("<=", (False, False)), ("<!", (False, True))):
            if reader.take(opening):
                return look
        if reader.take(":"):
            return None
        if reader.take("<") or (not self.ecma and reader.take("P<")):
            if not reader.take_name():
                reader.invalid("a group name is missing or malformed", at=start)
            return None
        if reader.take("P=") or reader.take("P>"):
            reader.unsupported("a backreference; an automaton has no memory of what a group matched", at=start)
        if reader.take(">"):
            reader.unsupported("an atomic group; write (?:...) if backtracking does not matter", at=start)
        if reader.take("("):
            reader.unsupported("a conditional group", at=start)
        if reader.take("#") and not self.ecma:
            reader.skip_to(")", start)
            return None
        self.inline_flags(start)
        return None

    def inline_flags(self, start: int) -> None:
        """Read `(?i)`, `(?i:...)`, `(?-s:...)`. The first is not ECMA-262, the others since 2025; all are common."""
        reader = self.reader
        on, removing = set(self.flags), False
        while reader.more() and reader.peek() not in ":)":
            letter = reader.next()
            if letter == "-" and not removing:
                removing = True
            elif letter in ("imsxau" if not self.ecma else "ims"):
                (on.discard if removing else on.add)(letter)
            else:
                reader.invalid("this is not a group that the notation knows", at=start)
        if not reader.more():
            reader.invalid("this group is never closed", at=start)
        if reader.peek() == ":":
            reader.next()
        self.flags = on
        self.escapes.ascii_only = "a" in on

    # Escapes outside classes

    def escape(self, start: int) -> Node:
        reader = self.reader
        if not reader.more():
            reader.invalid("the pattern ends in a lone backslash", at=start)
        char = reader.peek()
        if char in "bB":
            reader.next()
            return WordBoundary(self.escapes.word(), negative=char == "B", position=start)
        if not self.ecma and char in "AZz":
            reader.next()
            return StartAnchor() if char == "A" else EndAnchor()
        if char in "123456789" or char == "k":
            reader.unsupported("a backreference; an automaton has no memory of what a group matched", at=start)
        return self.chars(self.as_set(self.escapes.read(start, in_class=False)))

    # Classes

    def char_class(self, start: int) -> Node:
        reader = self.reader
        if reader.peek_is("[:") or reader.peek_is("^[:"):
            reader.unsupported("a POSIX class such as [[:alpha:]]; write the ranges out, e.g. [A-Za-z]", at=start)
        negative = reader.take("^")
        pieces: list[Ranges] = []
        if not self.ecma and reader.take("]"):
            pieces.append(charsets.single(ord("]")))
        surrogates, pairs = False, 0
        while not reader.take("]"):
            self.count()
            if not reader.more():
                reader.invalid("this class is never closed; add ']' or escape the '[' as \\[", at=start)
            ranges, lone = self.class_item(start)
            surrogates |= lone
            pieces.append(ranges)
            pairs += len(ranges)
            if pairs > 2 * len(pieces[0]) + _FOLDED:
                pieces = [charsets.union(*pieces)]
                pairs = len(pieces[0])
        ranges = charsets.union(*pieces)
        if surrogates and not ranges:
            reader.unsupported("a class of lone surrogates; no JSON string holds one, write \\u{...} instead", at=start)
        if "i" in self.flags:
            ranges = unicode.ignoring_case(ranges)
        return Chars(charsets.negate(ranges) if negative else ranges)

    def class_item(self, start: int) -> tuple[Ranges, bool]:
        """Read a character, an escape, or a range; and whether it named a lone surrogate."""
        reader = self.reader
        at = reader.position
        low = self.class_atom()
        if not (reader.peek_is("-") and not reader.peek_is("-]")):
            return self.as_set(low), isinstance(low, int) and 0xD800 <= low <= 0xDFFF
        reader.next()
        if not reader.more():
            reader.invalid("this class is never closed; add ']' or escape the '[' as \\[", at=start)
        high = self.class_atom()
        if not (isinstance(low, int) and isinstance(high, int)):
            return charsets.union(self.as_set(low), self.as_set(high), charsets.single(ord("-"))), False
        if high < low:
            reader.invalid("this range runs backwards", at=at)
        return charsets.union([(low, high)]), low >= 0xD800 and high <= 0xDFFF

    def class_atom(self) -> int | Ranges:
        """Read a single character as its number, a set as ranges."""
        reader = self.reader
        start = reader.position
        char = reader.next()
        if char != "\\":
            return ord(char)
        if not reader.more():
            reader.invalid("the pattern ends in a lone backslash", at=start)
        return self.escapes.read(start, in_class=True)

    def as_set(self, item: int | Ranges) -> Ranges:
        return charsets.union([(item, item)]) if isinstance(item, int) else item
