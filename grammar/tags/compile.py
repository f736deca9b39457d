"""Compile a structural tag to masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.blocked.language.blocklist import Blocklist
from sluicegate.grammar.blocked.watch import Screens
from sluicegate.grammar.budget.meter import within
from sluicegate.grammar.json.root import satisfiable_values
from sluicegate.grammar.lark.compile import parser_of
from sluicegate.grammar.lark.regions import OneRegionTape
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.matching.grammar import LazyGrammar
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.schema.strings import plain_strings
from sluicegate.grammar.tags import nodes as formats
from sluicegate.grammar.tags.build import END, Builder
from sluicegate.grammar.tags.emptiness import settled
from sluicegate.grammar.tags.exclusions import WRAPPED, without_texts
from sluicegate.grammar.tags.formats import read_structural_tag
from sluicegate.grammar.tags.nodes import Format
from sluicegate.grammar.tags.steps import restarts
from sluicegate.grammar.vocabulary.trailing import trailing_tokens
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import GrammarError, GrammarLimit, Unsatisfiable, UnsupportedGrammar

_LINE = CharDfa.from_literals(["", "\n"])
_WITH_GRAMMARS = (formats.SchemaFormat, formats.RawFormat, formats.RegexFormat, formats.LarkFormat)
_SEVERAL = (formats.TriggeredFormat, formats.SeparatedFormat)


def compile_structural_tags(
    value: Any, vocabulary: Vocabulary, *, options: GrammarOptions | None = None
) -> LazyGrammar:
    """Allow the texts that the structural tag `value` describes, see `formats` and docs/grammar.md.

    Free text holds a trigger only where a tag begins. Raises a `GrammarError` whose pointer leads into `value`.
    """
    options = options or GrammarOptions()
    try:
        with within(options.limits.cpu_s):
            return _compile(value, vocabulary, options)
    except RecursionError as error:
        raise GrammarLimit("the structural tag nests too deeply to be compiled") from error


def _compile(value: Any, vocabulary: Vocabulary, options: GrammarOptions) -> LazyGrammar:
    tree = read_structural_tag(value)
    nodes = list(_nodes(tree))
    _refuse_mixed(nodes)
    regions, notes = _regions(nodes, options)
    tree = settled(tree, regions, lambda node: any(reading.can_stop for reading in regions[node](END)))

    def start() -> tuple[Reading, ...]:
        fresh = {
            node: (r[0].renewed(), r[1]) if isinstance(node, formats.SchemaFormat) else r for node, r in regions.items()
        }
        return Builder(fresh, lexemes=lexemes).enter(tree, END).after(0)

    lexemes: dict[Any, DfaLexeme | None] = {}
    Builder(regions, counted=False, lexemes=lexemes).explore(tree)
    begins = restarts(Builder(regions, lexemes=lexemes).enter(tree, END))
    has_json = any(isinstance(node, formats.SchemaFormat) for node in nodes)
    blocked = options.blocked
    _refuse_blocked(nodes, blocked)
    ends = frozenset(text for node in nodes for text in _literals(node))
    return LazyGrammar(
        vocabulary,
        start,
        needs_text=has_json or blocked is not None,
        reading_limit=options.limits.readings,
        notes=tuple(dict.fromkeys(notes)),
        tape=lambda: OneRegionTape(begins),
        trailing=trailing_tokens(vocabulary, ends, _open_ended(nodes)) if has_json else None,
        screens=Screens.of(blocked, vocabulary, json=has_json, plain=True),
        doubtful=blocked is not None,
        subject="the structural tag",
    )


def _nodes(node: Format) -> Iterator[Format]:
    yield node
    below: tuple[Format, ...] = ()
    if isinstance(node, formats.SequenceFormat | formats.OrFormat):
        below = node.elements
    elif isinstance(node, formats.OptionalFormat | formats.TagFormat | formats.RepeatFormat):
        below = (node.content,)
    elif isinstance(node, formats.UnorderedFormat):
        below = (*node.elements, *((node.more,) if node.more is not None else ()), node.blanks)
    elif isinstance(node, _SEVERAL):
        below = node.tags
    for child in below:
        yield from _nodes(child)


def _regions(nodes: list[Format], options: GrammarOptions) -> tuple[dict[Format, Any], list[str]]:
    """Compile the parts that have grammars of their own. Errors point to the part."""
    regions: dict[Format, Any] = {}
    notes: list[str] = []
    for node in nodes:
        part = node.content if isinstance(node, formats.StringFormat) else node
        if not isinstance(part, _WITH_GRAMMARS):
            continue
        try:
            if isinstance(part, formats.SchemaFormat):
                schema = without_texts(part.schema, part.excludes)
                values, root, said = satisfiable_values(schema, _options_of(part, options))
                regions[node] = (values, root)
                notes.extend(said)
            elif isinstance(part, formats.RawFormat):
                values, root, said = satisfiable_values(part.schema, options)
                regions[node] = _LINE.concat(plain_strings(values.value_set(root).strings)).concat(_LINE)
                notes.extend(said)
            elif isinstance(part, formats.RegexFormat):
                regions[node] = CharDfa.from_pattern(part.pattern, dialect="python", anchored=True)
            else:
                parser = parser_of(part.text, in_string=part is not node)
                regions[node] = lambda follow, parser=parser: parser(follow)()
        except GrammarError as error:
            within_part = error.pointer.removeprefix(WRAPPED) if getattr(part, "excludes", ()) else error.pointer
            raise type(error)(error.reason, pointer=part.pointer + within_part) from error
    return regions, notes


def _options_of(node: formats.SchemaFormat, options: GrammarOptions) -> GrammarOptions:
    if node.any_order:
        options = replace(options, property_order="any")
    if node.blanks is not None:
        options = replace(options, whitespace=f"[ \\t\\r\\n]{{0,{node.blanks}}}" if node.blanks else "compact")
    return options


def _literals(node: Format) -> tuple[str, ...]:
    if isinstance(node, formats.ConstFormat):
        return (node.text,)
    if isinstance(node, formats.TagFormat):
        return (node.begin, *node.ends)
    if isinstance(node, formats.SeparatedFormat):
        return (node.separator,)
    return ()


def _refuse_blocked(nodes: list[Format], blocked: Blocklist | None) -> None:
    for node in nodes:
        for text in _literals(node):
            if blocked is not None and blocked.holds(text):
                raise Unsatisfiable(f"the literal {text!r} holds what the blocklist forbids")


def _open_ended(nodes: list[Format]) -> bool:
    """Return whether a JSON value may be followed by something else than a literal or the end."""
    return any(
        (isinstance(node, formats.TagFormat) and "" in node.ends)
        or (isinstance(node, formats.SeparatedFormat) and not node.separator)
        or isinstance(node, formats.SequenceFormat | formats.RepeatFormat)
        for node in nodes
    )


def _refuse_mixed(nodes: list[Format]) -> None:
    """Refuse a longer begin that continues like JSON behind a shorter one: both share one tape."""
    for node in nodes:
        if isinstance(node, _SEVERAL):
            begins = sorted({tag.begin for tag in node.tags})
            for short, long in pairwise(begins):
                if long.startswith(short) and long[len(short)] in '{["':
                    raise UnsupportedGrammar(f"the begin {long!r} goes on like a value after the begin {short!r}")
