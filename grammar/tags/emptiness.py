"""Repeat what may be empty: as any number up to the most, of what remains of it without the empty text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.tags import nodes as formats
from sluicegate.grammar.tags.nodes import Format
from sluicegate.plugins.errors import UnsupportedGrammar

_NOTHING = CharDfa.from_literal("")
Regions = dict[Format, Any]
"""Compiled parts by their node."""


def settled(node: Format, regions: Regions, readings: Callable[[Format], bool]) -> Format:
    """Return the same texts without a repetition of what may be empty, which could go on for ever and write nothing.

    `readings` says of a grammar whether it may be empty. What is made of a pattern is added to `regions`. Raises
    `UnsupportedGrammar` where the empty text cannot be left out.
    """
    return _Settler(regions, readings).settled(node)


class _Settler:
    def __init__(self, regions: Regions, readings: Callable[[Format], bool]) -> None:
        self._regions = regions
        self._grammar_may = readings

    def settled(self, node: Format) -> Format:
        node = self._with_settled_parts(node)
        if isinstance(node, formats.RepeatFormat) and self._may_be_empty(node.content):
            content = self._filled(node.content, f"{node.pointer}/content")
            return formats.ConstFormat("") if content is None else replace(node, content=content, low=0)
        return node

    def _with_settled_parts(self, node: Format) -> Format:
        if isinstance(node, formats.SequenceFormat | formats.OrFormat):
            elements = tuple(map(self.settled, node.elements))
            return node if elements == node.elements else replace(node, elements=elements)
        if isinstance(node, formats.OptionalFormat | formats.TagFormat | formats.RepeatFormat):
            content = self.settled(node.content)
            return node if content is node.content else replace(node, content=content)
        if isinstance(node, formats.TriggeredFormat | formats.SeparatedFormat):
            tags = tuple(self.settled(tag) for tag in node.tags)
            return node if tags == node.tags else replace(node, tags=tags)  # type: ignore[arg-type]
        return node

    def _may_be_empty(self, node: Format) -> bool:
        if isinstance(node, formats.ConstFormat):
            return not node.text
        if isinstance(node, formats.RegexFormat | formats.RawFormat):
            return bool(self._regions[node].accepts(""))
        if isinstance(node, formats.LarkFormat):
            return self._grammar_may(node)
        if isinstance(node, formats.SequenceFormat):
            return all(map(self._may_be_empty, node.elements))
        if isinstance(node, formats.OrFormat):
            return any(map(self._may_be_empty, node.elements))
        if isinstance(node, formats.TagFormat):
            return not node.begin and "" in node.ends and self._may_be_empty(node.content)
        if isinstance(node, formats.RepeatFormat):
            return not node.low or self._may_be_empty(node.content)
        if isinstance(node, formats.TriggeredFormat | formats.SeparatedFormat):
            return not node.low
        if isinstance(node, formats.UnorderedFormat):
            return not node.required
        return not isinstance(node, formats.SchemaFormat | formats.StringFormat)

    def _filled(self, node: Format, at: str) -> Format | None:
        """Return the texts of `node` that are not empty; None where there are none."""
        if not self._may_be_empty(node):
            return node
        if isinstance(node, formats.ConstFormat):
            return None
        if isinstance(node, formats.RegexFormat | formats.RawFormat):
            texts = self._regions[node].difference(_NOTHING)
            if texts.is_empty():
                return None
            made = replace(node)
            self._regions[made] = texts
            return made
        if isinstance(node, formats.OptionalFormat):
            return self._filled(node.content, at)
        if isinstance(node, formats.OrFormat):
            return _either([self._filled(way, at) for way in node.elements])
        if isinstance(node, formats.SequenceFormat):
            return self._filled_sequence(node.elements, at)
        if isinstance(node, formats.RepeatFormat):
            return replace(node, low=1) if node.high != 0 else None
        if isinstance(node, formats.SeparatedFormat):
            return replace(node, low=1) if node.high != 0 else None
        if isinstance(node, formats.TagFormat) and node.ends == ("",):
            content = self._filled(node.content, at)
            return None if content is None else replace(node, content=content)
        raise UnsupportedGrammar(
            "what is repeated may be empty, and the texts of it that are not cannot be told apart; repeat a format "
            "that always writes something, or use any_text",
            pointer=at,
        )

    def _filled_sequence(self, elements: tuple[Format, ...], at: str) -> Format | None:
        """Return the sequences of which an element is not empty: the first such one, and what follows it."""
        ways: list[Format | None] = []
        for number, element in enumerate(elements):
            first = self._filled(element, at)
            rest = elements[number + 1 :]
            ways.append(first if first is None or not rest else formats.SequenceFormat((first, *rest)))
        return _either(ways)


def _either(ways: list[Format | None]) -> Format | None:
    found = tuple(way for way in ways if way is not None)
    if len(found) < 2:
        return found[0] if found else None
    return formats.OrFormat(found)
