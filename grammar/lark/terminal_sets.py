"""Compile terminals that Lark does not have: `&`, `~`, `%regex`, and terminals with `lazy`, `suffix` or `stop`.

`&` binds tighter than `|`, and `~` in front of an item tighter than a repetition behind it, as in llguidance.
"""

from __future__ import annotations

import re
from typing import NoReturn

import lark
from lark.load_grammar import eval_escaping

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.budget.meter import Budget, WorkMeter, look
from sluicegate.grammar.lark.extensions.substrings import substrings, words_of
from sluicegate.grammar.lark.rewriting.attributes import Composed
from sluicegate.grammar.lark.rewriting.definitions import solid
from sluicegate.grammar.lark.rewriting.pieces import GrammarPiece, counts
from sluicegate.grammar.lark.rewriting.source import Source
from sluicegate.grammar.lark.texts import ended_at_once, texts_of
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar, UnsupportedGrammar

_NOTHING_MORE = CharDfa.from_literal("")
_MOST_TIMES = 1_000
_DEEPEST = 60
"""Groups inside groups, and terminals that refer to others, together: each is compiled within the one around it."""
_MARKS = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_BUDGET = Budget(max_states=20_000, max_seconds=2.0)


class TerminalSets:
    """Compiles the terminals of one grammar, and caches them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._bodies = {each.name: each for each in source.definitions if each.is_terminal}
        self._known: dict[str, CharDfa] = {}
        self._open: set[str] = set()
        self.depth = 0

    def composed(self, terminal: Composed) -> CharDfa:
        """Return the texts of a terminal that `Source` left to us."""
        texts = self._of(terminal.body, terminal.at)
        if terminal.stop:
            return texts.intersection(_until(self._of(terminal.stop, terminal.at)))
        if terminal.suffix:
            return ended_at_once(texts.concat(self._of(terminal.suffix, terminal.at)))
        return ended_at_once(texts) if terminal.lazy else texts

    def named(self, name: str, at: int) -> CharDfa:
        known = self._known.get(name)
        if known is None:
            body = self._bodies.get(name)
            if name in self._open:
                self.source.refuse(InvalidGrammar, f"terminal {name} refers to itself; only rules may", at)
            self._open.add(name)
            pieces = None if body is None else solid(self.source.pieces[body.body : body.last])
            known = self._known[name] = self._imported(name, at) if pieces is None else self._of(pieces, at)
            self._open.discard(name)
        return known

    def _imported(self, name: str, at: int) -> CharDfa:
        """Return the texts of a terminal of Lark's own library. Raises `InvalidGrammar` where no import names it."""
        line = next((text for text in self.source.imports if re.search(rf"(?<!\w){name}(?!\w)", text)), None)
        if line is None:
            self.source.refuse(InvalidGrammar, f"terminal {name} is used but not defined", at)
        made = lark.Lark(f"{line}\nstart: {name}", lexer="dynamic", parser="earley")
        pattern = next(terminal.pattern for terminal in made.terminals if terminal.name == name)
        return texts_of(pattern.value, "".join(sorted(pattern.flags)), pattern.type == "str")

    def _of(self, pieces: list[GrammarPiece], at: int) -> CharDfa:
        reader = _TerminalReader(self, pieces, at)
        found = reader.alternatives()
        if reader.more():
            reader.unexpected()
        return found


class _TerminalReader:
    """Recursive descent over the pieces of one body."""

    def __init__(self, sets: TerminalSets, pieces: list[GrammarPiece], at: int) -> None:
        self._sets = sets
        self._pieces = pieces
        self._next = 0
        self._at = at

    def more(self) -> bool:
        return self._next < len(self._pieces)

    def _peek(self) -> str:
        return self._pieces[self._next].text if self.more() else ""

    def _take(self, text: str) -> bool:
        taken = self._peek() == text
        self._next += taken
        return taken

    def unexpected(self) -> NoReturn:
        where = self._pieces[self._next].at if self.more() else self._at
        found = repr(self._peek()) if self.more() else "its end"
        self._refuse(
            InvalidGrammar, f"a terminal has a text, an expression, a terminal or a group here, not {found}", where
        )

    def _refuse(self, kind: type[GrammarError], reason: str, at: int) -> NoReturn:
        self._sets.source.refuse(kind, reason, at)

    def alternatives(self) -> CharDfa:
        look()
        self._sets.depth += 1
        if self._sets.depth > _DEEPEST:
            where = self._pieces[self._next].at if self.more() else self._at
            reason = f"groups and the terminals that they refer to are nested more than {_DEEPEST} deep; nest them less"
            self._refuse(GrammarLimit, reason, where)
        found = self._both()
        while self._take("|"):
            found = found.union(self._both())
        self._sets.depth -= 1
        return found

    def _both(self) -> CharDfa:
        found = self._sequence()
        while self._take("&"):
            found = found.intersection(self._sequence())
        return found

    def _sequence(self) -> CharDfa:
        found = _NOTHING_MORE
        while self.more() and self._peek() not in ("|", "&", ")", "]"):
            found = found.concat(self._repeated())
        return found

    def _repeated(self) -> CharDfa:
        found = self._item()
        while self.more():
            piece = self._pieces[self._next]
            if piece.kind == "mark" and piece.text in _MARKS:
                self._next += 1
                low, high = _MARKS[piece.text]
            elif piece.kind == "counts":
                self._next += 1
                low, high = counts(piece.text)
            elif (
                piece.text == "~"
                and self._next + 1 < len(self._pieces)
                and self._pieces[self._next + 1].kind == "number"
            ):
                low, high = self._lark_counts()
            else:
                break
            if (high is not None and high < low) or max(low, high or 0) > _MOST_TIMES:
                self._refuse(
                    GrammarLimit, f"a repetition goes from a number to a larger one, up to {_MOST_TIMES}", piece.at
                )
            found = _times(found, low, high)
        return found

    def _lark_counts(self) -> tuple[int, int | None]:
        low = int(self._pieces[self._next + 1].text[:9])
        self._next += 2
        if self._peek() != "..":
            return low, low
        high = self._pieces[self._next + 1].text if self._next + 1 < len(self._pieces) else ""
        self._next += 2
        return low, int(high[:9]) if high.isdecimal() else self.unexpected()

    def _item(self) -> CharDfa:
        negated = False
        while self._take("~"):
            negated = not negated
        found = self._plain_item()
        return found.complement() if negated else found

    def _plain_item(self) -> CharDfa:
        if not self.more():
            self.unexpected()
        piece = self._pieces[self._next]
        self._next += 1
        if piece.text in ("(", "["):
            inner = self.alternatives()
            if not self._take(")" if piece.text == "(" else "]"):
                self._refuse(InvalidGrammar, "this group is never closed", piece.at)
            return inner if piece.text == "(" else inner.union(_NOTHING_MORE)
        if piece.kind in ("string", "regex"):
            return self._text(piece)
        if piece.kind == "regex_value":
            return self._structured(piece)
        if piece.kind == "name" and piece.text.lstrip("_").isupper():
            return self._sets.named(piece.text, piece.at)
        if piece.kind == "name":
            self._refuse(InvalidGrammar, f"{piece.text} is a rule; a terminal is made of terminals", piece.at)
        if piece.kind == "json":
            self._refuse(UnsupportedGrammar, "%json can stand in a rule only, not in a terminal", piece.at)
        self._next -= 1
        return self.unexpected()

    def _text(self, piece: GrammarPiece) -> CharDfa:
        body, _, flags = piece.text[1:].rpartition(piece.text[0])
        try:
            if piece.kind == "regex":
                return texts_of(body.replace("\\/", "/"), flags, False)
            if self._take(".."):
                return self._range(eval_escaping(body))
            return texts_of(eval_escaping(body), flags, True)
        except GrammarError as error:
            self._refuse(type(error), error.reason, piece.at)

    def _range(self, low: str) -> CharDfa:
        last = self._pieces[self._next] if self.more() else None
        high = "" if last is None or last.kind != "string" else eval_escaping(last.text[1:-1])
        if len(low) != 1 or len(high) != 1 or high < low:
            self.unexpected()
        self._next += 1
        return CharDfa.from_pattern(f"[{re.escape(low)}-{re.escape(high)}]", dialect="python", anchored=True)

    def _structured(self, piece: GrammarPiece) -> CharDfa:
        """Return the texts of `%regex {...}`."""
        value = piece.value
        chunks: object = None
        if isinstance(value, dict) and len(value) == 1:
            ((kind, given),) = value.items()
            if kind == "substring_chunks" and isinstance(given, list):
                chunks = given
            elif kind in ("substring_words", "substring_chars") and isinstance(given, str):
                chunks = words_of(given) if kind == "substring_words" else list(given)
        if not isinstance(chunks, list) or not all(isinstance(chunk, str) for chunk in chunks):
            self._refuse(
                UnsupportedGrammar,
                '%regex takes one of {"substring_chunks": [texts]}, {"substring_words": text} and '
                '{"substring_chars": text}; write other expressions between slashes',
                piece.at,
            )
        return substrings(chunks)


def _until(stop: CharDfa) -> CharDfa:
    """Accept texts that hold no text of `stop`."""
    every = CharDfa.any_string()
    return every.concat(stop).concat(every).complement()


def _times(texts: CharDfa, low: int, high: int | None) -> CharDfa:
    found = _NOTHING_MORE
    for _ in range(low):
        found = found.concat(texts)
    if high is None:
        return found.concat(_repeated(texts))
    more = texts.union(_NOTHING_MORE)
    for _ in range(high - low):
        found = found.concat(more)
    return found


def _repeated(texts: CharDfa) -> CharDfa:
    """Accept any number of texts of `texts`, one after the other: its table made deterministic over sets of states."""
    table = texts.table
    meter = WorkMeter(_BUDGET, "repetition")
    first = frozenset({-1, table.start})
    known, pending = {first: 0}, [first]
    rows: list[dict[int, int]] = []
    for states in pending:
        meter.states()
        reached: dict[int, set[int]] = {}
        for state in states - {-1}:
            for kind, after in table.rows[state].items():
                reached.setdefault(kind, set()).update((after, table.start) if table.accepting[after] else (after,))
        row: dict[int, int] = {}
        for kind, places in sorted(reached.items()):
            name = frozenset(places)
            if name not in known:
                known[name] = len(known)
                pending.append(name)
            row[kind] = known[name]
        rows.append(row)
    accepting = [-1 in states or any(table.accepting[state] for state in states - {-1}) for states in pending]
    return CharDfa(minimal(Table(table.starts, table.classes, rows, accepting), meter))
