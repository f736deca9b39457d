"""Front door of the compiler: one function per kind of grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.blocked.watch import Screens
from sluicegate.grammar.budget.meter import within
from sluicegate.grammar.classification.classify import prepare
from sluicegate.grammar.json.root import satisfiable_values
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.matching.grammar import LazyGrammar
from sluicegate.grammar.matching.plain import plain_grammar
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.readings import AT_END, EndOfText, InLexeme
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar, Unsatisfiable

_USUAL = GrammarOptions()


def compile_json_schema(
    schema: dict[str, Any] | bool | str,
    vocabulary: Vocabulary,
    *,
    options: GrammarOptions | None = None,
    documents: Mapping[str, Any] | None = None,
) -> LazyGrammar:
    """Compile the JSON texts that `schema` (any draft from 4 to 2020-12, as a value or as JSON text) allows.

    `documents`: other schemas that `$ref` may lead to, by URI without a fragment; nothing is ever fetched.

    Raises a `GrammarError` with a JSON pointer: `InvalidGrammar`, `UnsupportedGrammar`, `Unsatisfiable` or
    `GrammarLimit`. No keyword that asserts is ever ignored.
    """
    options = options or _USUAL
    if isinstance(schema, str):
        schema = _parsed(schema, options.limits.characters)
    if not isinstance(schema, dict | bool):
        raise InvalidGrammar(f"a schema must be an object, true or false, not {schema!r}")
    prepare(vocabulary)  # once; its seconds are not the schema's, nor are those of a blocklist
    screens = Screens.of(options.blocked, vocabulary, json=True, plain=False)
    try:
        with within(options.limits.cpu_s):
            return _compile(schema, vocabulary, options, documents, screens)
    except RecursionError as error:
        raise GrammarLimit("the schema nests too deeply to be compiled; make it flatter") from error


def _parsed(schema: str, most: int) -> Any:
    if len(schema) > most:
        raise GrammarLimit(
            f"the schema has {len(schema)} characters; at most {most} are read: split it, or "
            "raise limits.characters in [stages.constrain.grammar]"
        )
    try:
        return json.loads(schema)
    except ValueError as error:
        raise InvalidGrammar(f"the schema is not JSON: {error}") from error
    except RecursionError as error:
        raise GrammarLimit("the schema nests too deeply to be read; make it flatter") from error


def _compile(
    schema: dict[str, Any] | bool,
    vocabulary: Vocabulary,
    options: GrammarOptions,
    documents: Mapping[str, Any] | None,
    screens: Screens | None,
) -> LazyGrammar:
    values, root, notes = satisfiable_values(schema, options, documents)
    return LazyGrammar(
        vocabulary,
        lambda: values.renewed().value(root, EndOfText()),
        needs_text=True,
        reading_limit=options.limits.readings,
        notes=notes,
        screens=screens,
        of_schema=True,
        subject="the value as a whole",
    )


def compile_json_object(vocabulary: Vocabulary, *, options: GrammarOptions | None = None) -> LazyGrammar:
    """Compile the texts of any JSON object."""
    return compile_json_schema({"type": "object"}, vocabulary, options=options)


def compile_text(vocabulary: Vocabulary, *, options: GrammarOptions | None = None) -> LazyGrammar:
    """Compile any text: of use with a blocklist."""
    return _of_texts(CharDfa.any_string(), vocabulary, "text", options)


def compile_regex(pattern: str, vocabulary: Vocabulary, *, options: GrammarOptions | None = None) -> LazyGrammar:
    """Compile the texts that the Python regular expression `pattern` matches from end to end."""
    with within((options or _USUAL).limits.cpu_s):
        texts = CharDfa.from_pattern(pattern, dialect="python", anchored=True)
        return _of_texts(texts, vocabulary, "pattern", options)


def compile_choices(
    choices: Sequence[str], vocabulary: Vocabulary, *, options: GrammarOptions | None = None
) -> LazyGrammar:
    """Compile exactly one of `choices`. Raises `InvalidGrammar` where they are no list of strings, `Unsatisfiable`
    where none is left."""
    if isinstance(choices, str) or not all(isinstance(choice, str) for choice in choices):
        raise InvalidGrammar("choices must be a list of strings")
    if not choices:
        raise Unsatisfiable("there is no choice to make: the list is empty")
    blocked = options.blocked if options is not None else None
    if blocked is not None:
        choices = [choice for choice in choices if not blocked.holds(choice)]
        if not choices:
            raise Unsatisfiable("the blocklist leaves no choice")
    return _of_texts(CharDfa.from_literals(choices), vocabulary, "list of choices", options)


def _of_texts(texts: CharDfa, vocabulary: Vocabulary, what: str, options: GrammarOptions | None) -> LazyGrammar:
    blocked = options.blocked if options is not None else None
    if blocked is not None:
        texts = blocked.without(texts)
    if texts.is_empty():
        raise Unsatisfiable(f"no text matches this {what}")
    lexeme = DfaLexeme(utf8(texts))
    if not lexeme.grows(lexeme.start):
        return LazyGrammar(vocabulary, lambda: (AT_END,), needs_text=False)
    reading: Reading = InLexeme(lexeme, lexeme.start, EndOfText())
    return plain_grammar(vocabulary, lambda: (reading,), options)
