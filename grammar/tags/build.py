"""Turn the tree of a structural tag into continuations, each part in front of what follows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sluicegate.grammar.automata import CharDfa, occurrences, string_body, utf8
from sluicegate.grammar.lark.grammar import Grammar
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.parsing.parser import Parser, ParserTables
from sluicegate.grammar.parsing.rules import Production
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.readings import EndOfText, InLexeme
from sluicegate.grammar.tags import freetext
from sluicegate.grammar.tags import nodes as formats
from sluicegate.grammar.tags.nodes import Format
from sluicegate.grammar.tags.steps import (
    Head,
    LazyContinuation,
    LiteralContinuation,
    WaysByOutcome,
    fork,
    restarts,
    spelled,
)
from sluicegate.plugins.errors import Unsatisfiable, UnsupportedGrammar

END = EndOfText()
_ONE_TEXT = [Production("start", ()), Production("start", ((True, "text"),))]


class Builder:
    """Equal arguments give the same continuation, so that loops close and masks are shared.

    `regions`: compiled parts by their node. `counted` False: more than one tag counts as any number, for `explore`.
    `lexemes`: what patterns and counted text read up to a literal, shared by all builders of a tag: what is explored
    when a tag is compiled is not made again in a call.
    """

    def __init__(
        self,
        regions: Mapping[Format, Any],
        counted: bool = True,
        lexemes: dict[tuple[Format, str, tuple[str, ...]], Any] | None = None,
    ) -> None:
        self.regions = regions
        self._lexemes = {} if lexemes is None else lexemes
        self._counted = counted
        self._known: dict[Any, Continuation] = {}

    def explore(self, node: Format) -> None:
        """Make every reading of `node` once, but for what is inside regions. Raises what making them would raise."""
        pending = [self.enter(node, END)]
        seen = set(pending)
        known = 0
        while pending:
            readings = pending.pop().after(0)
            made = list(self._known.values())[known:]
            known += len(made)
            made += [reading.follow for reading in readings if isinstance(reading, InLexeme) and reading.lexeme.general]
            made += [way for follow in made if isinstance(follow, WaysByOutcome) for way in follow.ways]
            for follow in made:
                if isinstance(follow, WaysByOutcome):
                    continue
                if isinstance(follow, LazyContinuation) and follow not in seen:
                    seen.add(follow)
                    pending.append(follow)

    def _bounds(
        self, node: formats.TriggeredFormat | formats.SeparatedFormat | formats.RepeatFormat
    ) -> tuple[int, int | None]:
        if self._counted or node.high == 0:
            return node.low, node.high
        return min(node.low, 1), 1 if node.high == 1 else None

    def enter(self, node: Format, follow: Continuation) -> Continuation:
        """Return a continuation that reads `node`, then `follow`."""
        key = (node, follow)
        found = self._known.get(key)
        if found is None:
            heads = self.heads(node, follow)
            found = self._known[key] = LiteralContinuation(heads) if heads is not None else self._enter(node, follow)
        return found

    def _enter(self, node: Format, follow: Continuation) -> Continuation:
        if isinstance(node, formats.SchemaFormat):
            values, root = self.regions[node]
            read = values.value if follow is END else values.within_text
            return LazyContinuation(lambda: read(root, follow), restarts=True)
        if isinstance(node, formats.SequenceFormat):
            return self._sequence(node.elements, follow)
        if isinstance(node, formats.OrFormat):
            return fork(self.enter(way, follow) for way in node.elements)
        if isinstance(node, formats.OptionalFormat):
            return fork((self.enter(node.content, follow), follow))
        if isinstance(node, formats.RepeatFormat):
            return self._repeat(node, 0, follow)
        if isinstance(node, formats.UnorderedFormat):
            return self._unordered(node, frozenset(), follow)
        if isinstance(node, formats.RegexFormat | formats.RawFormat):
            return LazyContinuation(lambda: self._regex(node, follow))
        if isinstance(node, formats.LarkFormat):
            return LazyContinuation(lambda: self.regions[node](follow))
        if isinstance(node, formats.StringFormat):
            return LiteralContinuation([('"', self._string(node, follow))])
        if isinstance(node, formats.AnyTextFormat):
            if node.most_tokens is not None:
                return follow if node.most_tokens == 0 else LazyContinuation(lambda: self._counted_text(node, follow))
            return LazyContinuation(lambda: self._free((), follow, node.excludes, node.most))
        if isinstance(node, formats.TriggeredFormat):
            return self._text(node, 0, follow) if node.before else self._next_tag(node, 0, follow)
        assert isinstance(node, formats.SeparatedFormat)
        return self._separated(node, 0, follow)

    def heads(self, node: Format, follow: Continuation) -> list[Head] | None:
        """Return the literals that `node` begins with; None if it can begin otherwise."""
        if isinstance(node, formats.ConstFormat):
            return [(node.text, follow)]
        if isinstance(node, formats.TagFormat):
            return [(node.begin, self._content(node, follow))]
        if isinstance(node, formats.SequenceFormat) and node.elements:
            return self.heads(node.elements[0], self._sequence(node.elements[1:], follow))
        if isinstance(node, formats.RepeatFormat) and node.low:
            return self.heads(node.content, self._repeat(node, 1, follow))
        if isinstance(node, formats.OrFormat):
            ways = [self.heads(way, follow) for way in node.elements]
            return None if None in ways else [head for way in ways for head in way or ()]
        return None

    def _sequence(self, elements: tuple[Format, ...], follow: Continuation) -> Continuation:
        for element in reversed(elements):
            follow = self.enter(element, follow)
        return follow

    def _repeat(self, node: formats.RepeatFormat, count: int, follow: Continuation) -> Continuation:
        """Return the rest of a repetition of which `count` times stand before. Each is some text, so that following
        them ends."""
        low, high = self._bounds(node)
        if high is not None and count >= high:
            return follow
        known = min(count, low) if high is None else count
        key = (node, known, follow)
        found = self._known.get(key)
        if found is None:
            made = found = self._known[key] = LazyContinuation(lambda: self._again(node, known, follow))
            made.begins_value = restarts(self.enter(node.content, END)) or (known >= low and restarts(follow))
        return found

    def _again(self, node: formats.RepeatFormat, count: int, follow: Continuation) -> tuple[Reading, ...]:
        more = self.enter(node.content, self._repeat(node, count + 1, follow)).after(0)
        return (*more, *follow.after(0)) if count >= self._bounds(node)[0] else more

    def _unordered(self, node: formats.UnorderedFormat, done: frozenset[int], follow: Continuation) -> Continuation:
        """Return the place behind the elements at `done`: blanks, then another one or what follows."""
        key = (node, done, follow)
        found = self._known.get(key)
        if found is None:
            ways: list[Continuation] = [LazyContinuation(lambda: spelled(self._left(node, done, follow)))]
            if node.required <= done or not self._counted:
                ways.append(follow)
            found = self._known[key] = self.enter(node.blanks, fork(ways))
        return found

    def _left(self, node: formats.UnorderedFormat, done: frozenset[int], follow: Continuation) -> list[Head]:
        """Return the literals that begin what may still come."""
        left: list[tuple[Format, frozenset[int]]] = [
            (element, done | {at} if self._counted else done)
            for at, element in enumerate(node.elements)
            if at not in done
        ]
        if node.more is not None:
            left.append((node.more, done))
        found: list[Head] = []
        for element, after in left:
            heads = self.heads(element, self._unordered(node, after, follow))
            assert heads is not None
            found += heads
        return found

    def _content(self, tag: formats.TagFormat, follow: Continuation) -> Continuation:
        key = ("ends", tag.ends, follow)
        ends = self._known.get(key)
        if ends is None:
            ends = self._known[key] = (
                LiteralContinuation((end, follow) for end in tag.ends) if any(tag.ends) else follow
            )
        return self.enter(tag.content, ends)

    # --- free text ---

    def _free(
        self, stops: tuple[Head, ...], follow: Continuation, excludes: tuple[str, ...], most: int | None = None
    ) -> tuple[Reading, ...]:
        """Read at most `most` characters without `excludes`, up to one of `stops`, the literal that follows, or the
        end."""
        if isinstance(follow, LiteralContinuation) and all(text for text, _ in follow.heads):
            stops = (*stops, *follow.heads)
        elif follow is not END:
            raise UnsupportedGrammar(
                "free text must be the last part, or be followed by a literal (a const_string, a tag): nothing else "
                "tells where it ends"
            )
        return self._until(stops, excludes, follow is END, most)

    def _counted_text(self, node: formats.AnyTextFormat, follow: Continuation) -> tuple[Reading, ...]:
        """Read text whose tokens are counted, up to the literal that follows or the end: as a grammar of one terminal,
        since a parser counts."""
        ends = tuple(text for text, _ in follow.heads) if isinstance(follow, LiteralContinuation) else ()
        if (follow is not END and not (ends and all(ends))) or any(_overlaps_itself(end) for end in ends):
            raise UnsupportedGrammar(
                "free text with max_tokens must be the last part, or be followed by a literal that does not begin as "
                "it ends; use max_chars, or another end"
            )
        key = (node, "counted", ends)
        tables: ParserTables | None = self._lexemes.get(key)
        if tables is None:
            assert node.most_tokens is not None
            lexeme = freetext.counted((*ends, *occurrences.needed(node.excludes, ends)), node.most, node.most_tokens)
            tables = self._lexemes[key] = Grammar(_ONE_TEXT, {"text": lexeme}, frozenset(), "start", {}).tables()
        return Parser(tables, follow).start_readings()

    def _until(
        self, stops: tuple[Head, ...], excludes: tuple[str, ...], ends: bool, most: int | None = None
    ) -> tuple[Reading, ...]:
        by_text: dict[str, list[Continuation]] = {}
        for text, after in stops:
            by_text.setdefault(text, []).append(after)
        every = (*by_text, *occurrences.needed(excludes, tuple(by_text)))
        held = tuple(text for text in every if text not in by_text and any(text in stop for stop in by_text))
        _refuse_nested(tuple(text for text in every if text not in held))
        readings: list[Reading] = []
        if held:
            for text, ways in by_text.items():
                others = tuple(other for other in every if other != text and other not in held)
                lexeme: DfaLexeme = freetext.free_until(text, others, held, most)
                readings.append(InLexeme(lexeme, lexeme.start, fork(ways)))
        elif most is None and len(by_text) > 1:
            lexeme = freetext.first_of(tuple(by_text), tuple(text for text in every if text not in by_text))
            readings.append(InLexeme(lexeme, lexeme.start, WaysByOutcome(map(fork, by_text.values()))))
        else:
            for text, ways in by_text.items():
                lexeme = freetext.until(text, tuple(other for other in every if other != text), most)
                readings.append(InLexeme(lexeme, lexeme.start, fork(ways)))
        if ends:
            lexeme = freetext.without(every, most)
            readings.append(InLexeme(lexeme, lexeme.start, END))
        return tuple(readings)

    def _regex(self, node: formats.RegexFormat | formats.RawFormat, follow: Continuation) -> tuple[Reading, ...]:
        """Read up to the first occurrence of the literal that follows, else as far as the pattern goes."""
        texts: CharDfa = self.regions[node]
        if not isinstance(follow, LiteralContinuation) or not all(text for text, _ in follow.heads):
            whole = self._lexemes.get((node, "", ()))
            if whole is None:
                whole = self._lexemes[node, "", ()] = DfaLexeme(utf8(texts), general=True, place=node.pointer)
            if not whole.grows(whole.start):
                return follow.after(0)
            return (InLexeme(whole, whole.start, follow),)
        readings: list[Reading] = []
        ends = tuple(text for text, _ in follow.heads)
        _refuse_nested(ends)
        for end, after in follow.heads:
            key = (node, end, ends)
            if key not in self._lexemes:
                closed = texts.concat(CharDfa.from_literal(end)).intersection(occurrences.until(end, ends))
                self._lexemes[key] = (
                    None if closed.is_empty() else DfaLexeme(utf8(closed), general=True, place=node.pointer)
                )
            lexeme = self._lexemes[key]
            if lexeme is not None:
                readings.append(InLexeme(lexeme, lexeme.start, after))
        if not readings:
            raise Unsatisfiable(
                f"a text ends where {' or '.join(map(repr, ends))} first occurs, and no text of the pattern can stand "
                "before that; leave it out of the pattern, or name another end",
                pointer=node.pointer,
            )
        return tuple(readings)

    def _string(self, node: formats.StringFormat, follow: Continuation) -> Continuation:
        """Read from after the opening quote."""
        closed = LiteralContinuation([('"', follow)])
        if isinstance(node.content, formats.LarkFormat):
            return LazyContinuation(lambda: self.regions[node](closed))
        texts: CharDfa = self.regions[node]
        if texts.is_empty():
            raise Unsatisfiable("no text matches the pattern", pointer=node.content.pointer)
        lexeme = DfaLexeme(string_body(texts), general=True, place=node.content.pointer)
        if not lexeme.grows(lexeme.start):
            return closed
        return LazyContinuation(lambda: (InLexeme(lexeme, lexeme.start, closed),))

    # --- several tags ---

    def _text(self, node: formats.TriggeredFormat, count: int, follow: Continuation) -> Continuation:
        """Return the place of free text after `count` tags."""
        return self._step((node, "text", count, follow), lambda: self._text_readings(node, count, follow))

    def _text_readings(self, node: formats.TriggeredFormat, count: int, follow: Continuation) -> tuple[Reading, ...]:
        stops: tuple[Head, ...] = ()
        low, high = self._bounds(node)
        excludes = (*node.triggers, *node.excludes)
        if high is None or count < high:
            stops = tuple(
                (trigger, self._triggered(node, trigger, count, follow))
                for trigger in node.triggers
                if _leads(node, trigger)
            )
        if count >= low:
            return self._free(stops, follow, excludes)
        return self._until(stops, excludes, False)

    def _triggered(self, node: formats.TriggeredFormat, trigger: str, count: int, follow: Continuation) -> Continuation:
        def readings() -> tuple[Reading, ...]:
            return spelled((text[len(trigger) :], after) for text, after in self._begins(node, count, follow, trigger))

        whole = any(tag.begin == trigger for tag in node.tags)
        if whole:
            heads = self._begins(node, count, follow, trigger)
            return LiteralContinuation((text[len(trigger) :], after) for text, after in heads)
        return self._step((node, trigger, count, follow), readings)

    def _begins(self, node: formats.TriggeredFormat, count: int, follow: Continuation, start: str = "") -> list[Head]:
        after = self._after_tag(node, count + 1, follow)
        return [(tag.begin, self._content(tag, after)) for tag in node.tags if tag.begin.startswith(start)]

    def _after_tag(self, node: formats.TriggeredFormat, count: int, follow: Continuation) -> Continuation:
        low, high = self._bounds(node)
        count = min(count, low) if high is None else count
        return self._text(node, count, follow) if node.after else self._next_tag(node, count, follow)

    def _next_tag(self, node: formats.TriggeredFormat, count: int, follow: Continuation) -> Continuation:
        """Return the place where no text may come: the next tag at once, or what follows."""
        low, high = self._bounds(node)
        if high is not None and count >= high:
            return follow

        def readings() -> tuple[Reading, ...]:
            tags = spelled(self._begins(node, count, follow))
            return (*tags, *follow.after(0)) if count >= low else tags

        return self._step((node, "tag", count, follow), readings, count >= low and restarts(follow))

    def _separated(self, node: formats.SeparatedFormat, count: int, follow: Continuation) -> Continuation:
        """Return the place where `count` tags stand before, and their separator too."""

        def readings() -> tuple[Reading, ...]:
            after = self._after_separated(node, count + 1, follow)
            tags = spelled((tag.begin, self._content(tag, after)) for tag in node.tags)
            return (*tags, *follow.after(0)) if count == 0 >= node.low else tags

        if node.high == 0:
            return follow
        return self._step((node, count, follow), readings, count == 0 >= node.low and restarts(follow))

    def _after_separated(self, node: formats.SeparatedFormat, count: int, follow: Continuation) -> Continuation:
        low, high = self._bounds(node)
        if high is not None and count >= high:
            return follow
        known = count if high is not None else min(count, max(low, 1))
        more = LiteralContinuation([(node.separator, self._separated(node, known, follow))])
        return self._step(
            (node, "after", known, follow),
            lambda: (*more.after(0), *follow.after(0)) if known >= low else more.after(0),
            known >= low and restarts(follow),
        )

    def _step(self, key: Any, readings: Callable[[], tuple[Reading, ...]], begins: bool = False) -> Continuation:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = LazyContinuation(readings, begins)
        return found


def _leads(node: formats.TriggeredFormat, trigger: str) -> bool:
    """Return whether some tag begins with `trigger`; else it is only kept out of the text."""
    return any(tag.begin.startswith(trigger) for tag in node.tags)


def _overlaps_itself(text: str) -> bool:
    return any(text.endswith(text[:size]) for size in range(1, len(text)))


def _refuse_nested(texts: tuple[str, ...]) -> None:
    """Refuse literals that hold one another: which one ends a text would depend on what comes after."""
    for text in texts:
        for other in texts:
            if text != other and text in other:
                raise UnsupportedGrammar(
                    f"free text cannot end both at {text!r} and at {other!r}, which holds it; keep the shorter one"
                )
