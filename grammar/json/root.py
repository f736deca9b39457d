"""Turn a JSON Schema into the source of its values' readings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate.grammar.budget.meter import at_most, look
from sluicegate.grammar.json.values import Values
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.scalars import shared_automata, string_lexemes
from sluicegate.grammar.lexemes.words import WordList
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.readings import EndOfText
from sluicegate.grammar.schema.closed import closed
from sluicegate.grammar.schema.containers import Conjunction, SchemaRef
from sluicegate.grammar.schema.document import SchemaDocument, Subschema
from sluicegate.grammar.schema.lint import SchemaLint
from sluicegate.plugins.errors import GrammarError, Unsatisfiable

_PLANNED_S = 0.5
"""CPU time for plans that are made when a schema is compiled although no text may reach them."""


def satisfiable_values(
    schema: dict[str, Any] | bool, options: GrammarOptions, documents: Mapping[str, Any] | None = None
) -> tuple[Values, Conjunction, tuple[str, ...]]:
    """Return (source of readings, terms of the root of `schema`, notes for its author). Raises a `GrammarError`."""
    shared_automata()
    if options.close_objects:
        schema = closed(schema)
    document = SchemaDocument(schema, most=options.limits.containers, given=documents)
    lint = SchemaLint(document, options.limits)
    values = Values(document, options)
    root: Conjunction = (SchemaRef(document.root),)
    if not values.satisfiable(root):
        pointer, why = values.why_not(root)
        raise Unsatisfiable("no value satisfies this schema" + (f": {why}" if why else ""), pointer=pointer)
    for node in lint.large:
        _spell(values, (SchemaRef(node),))
    _plan(values, lint.conditional)
    return values, root, tuple(lint.notes)


def _plan(values: Values, nodes: Iterable[Subschema]) -> None:
    """Plan the values of `nodes`, as far as `_PLANNED_S` suffice: the rest is planned when a text reaches it."""
    with at_most(_PLANNED_S):
        for node in nodes:
            _plan_one(values, (SchemaRef(node),))


def _plan_one(values: Values, terms: Conjunction) -> None:
    try:
        values.value(terms, EndOfText())
    except GrammarError:
        look()  # raised again if a text reaches this value, which none may


def _spell(values: Values, terms: Conjunction) -> None:
    """Build the tables of strings and constants that masks and completions will need."""
    try:
        lexemes = [*string_lexemes(values.value_set(terms).strings), *values.numbers(terms)]
    except GrammarError:
        look()
        return  # raised again if a text reaches this value, which none may
    for lexeme in lexemes:
        if isinstance(lexeme, DfaLexeme):
            _ = lexeme.distances
        elif isinstance(lexeme, WordList):
            _ = lexeme.spelled
