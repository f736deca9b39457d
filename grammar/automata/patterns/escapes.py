"""Read backslash escapes, all but anchors, which the parser reads itself."""

from __future__ import annotations

from sluicegate.grammar.automata import charsets
from sluicegate.grammar.automata.charsets import Ranges
from sluicegate.grammar.automata.patterns import unicode
from sluicegate.grammar.automata.patterns.reader import Cursor

_CONTROLS = {"n": 10, "r": 13, "t": 9, "v": 11, "f": 12}
_SETS = {"d": unicode.DIGIT, "w": unicode.WORD, "s": unicode.SPACE}
_PYTHON_SETS = {"d": unicode.python_digit, "w": unicode.python_word, "s": unicode.python_space}
_PYTHON_ASCII_SPACE = charsets.of_text(" \t\n\r\f\v")


class EscapeReader:
    """`read` starts behind the backslash. `ascii_only` is Python's flag `a`."""

    __slots__ = ("ascii_only", "ecma", "reader")

    def __init__(self, reader: Cursor, ecma: bool) -> None:
        self.reader = reader
        self.ecma = ecma
        self.ascii_only = False

    def read(self, start: int, in_class: bool) -> int | Ranges:
        """Return a single character as its number, a set as ranges."""
        reader = self.reader
        char = reader.next()
        if char in "dwsDWS":
            ranges = self.shorthand(char.lower())
            return charsets.negate(ranges) if char.isupper() else ranges
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "b" and in_class:
            return 8
        if char in "xuc0":
            return self.numeric(char, start, in_class)
        if char in "pP":
            ranges = self.named_property(start)
            return charsets.negate(ranges) if char == "P" else ranges
        if not self.ecma:
            return self.python_only(char, start)
        if char.isalnum() and char.isascii():
            reader.invalid(f"there is no escape \\{char} in ECMA-262; drop the backslash to mean the letter", at=start)
        return ord(char)

    def shorthand(self, letter: str) -> Ranges:
        if self.ecma:
            return _SETS[letter]
        if self.ascii_only:
            return _PYTHON_ASCII_SPACE if letter == "s" else _SETS[letter]
        return _PYTHON_SETS[letter]()

    def word(self) -> Ranges:
        return self.shorthand("w")

    def numeric(self, kind: str, start: int, in_class: bool) -> int:
        reader = self.reader
        if kind == "0":
            if reader.digits():
                reader.unsupported("an octal escape; write \\xHH instead", at=start)
            return 0
        if kind == "c":
            return self.control(start)
        if kind == "x":
            value = reader.hexadecimal(2)
        elif self.ecma and reader.take("{"):
            value = self.braced()
        else:
            value = reader.hexadecimal(4)
        if value is None:
            reader.invalid(f"\\{kind} needs {2 if kind == 'x' else 4} hexadecimal digits", at=start)
        if 0xD800 <= value <= 0xDFFF:
            return self.surrogate(value, start, in_class)
        return value

    def control(self, start: int) -> int:
        reader = self.reader
        if not (self.ecma and reader.more() and reader.peek().isascii() and reader.peek().isalpha()):
            reader.invalid("\\c needs a letter A to Z, in ECMA-262 notation only", at=start)
        return ord(reader.next()) % 32

    def braced(self) -> int | None:
        reader = self.reader
        end = reader.text.find("}", reader.position)
        digits = reader.text[reader.position : end].lstrip("0") if end > reader.position else "x"
        if len(digits) > 6 or any(d not in "0123456789abcdefABCDEF" for d in digits):
            return None
        reader.position = end + 1
        value = int(digits or "0", 16)
        return value if value <= charsets.LAST else None

    def surrogate(self, high: int, start: int, in_class: bool) -> int:
        """Read `\\ud83d\\ude00` as one character. A lone half is dropped from a class, refused outside."""
        reader = self.reader
        back = reader.position
        if high < 0xDC00 and reader.take("\\u"):
            low = reader.hexadecimal(4)
            if low is not None and 0xDC00 <= low <= 0xDFFF:
                return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
        reader.position = back
        if not in_class:
            reader.unsupported("a lone surrogate; no JSON string can hold one, write \\u{...} instead", at=start)
        return high

    def named_property(self, start: int) -> Ranges:
        reader = self.reader
        end = reader.text.find("}", reader.position)
        if not reader.take("{") or end < 0:
            reader.invalid("\\p needs a property in braces, as in \\p{L}", at=start)
        name = reader.text[reader.position : end]
        reader.position = end + 1
        found = unicode.unicode_property(name)
        if found is None:
            reader.unsupported(f"the Unicode property {name!r}; use a general category or a script", at=start)
        return found

    def python_only(self, char: str, start: int) -> int:
        reader = self.reader
        if char == "a":
            return 7
        if char == "U":
            value = reader.hexadecimal(8)
            if value is None or value > charsets.LAST:
                reader.invalid("\\U needs eight hexadecimal digits", at=start)
            return value
        if char == "N":
            reader.unsupported("a character by name; write \\uXXXX instead", at=start)
        if char.isalnum() and char.isascii():
            reader.invalid(f"there is no escape \\{char} in Python's notation", at=start)
        return ord(char)
