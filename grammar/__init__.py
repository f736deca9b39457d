"""From a JSON Schema, a regular expression, a list of choices or a Lark grammar to token bitmasks."""

from typing import TYPE_CHECKING

from sluicegate.grammar import compiled as _compiled
from sluicegate.plugins.errors import (
    GrammarError,
    GrammarLimit,
    InvalidGrammar,
    TokenRejected,
    Unsatisfiable,
    UnsupportedGrammar,
)
from sluicegate.plugins.lazy import lazily

if TYPE_CHECKING:
    from sluicegate.grammar.compile import (
        compile_choices,
        compile_json_object,
        compile_json_schema,
        compile_regex,
        compile_text,
    )
    from sluicegate.grammar.compiled import is_compiled
    from sluicegate.grammar.lark import compile_lark
    from sluicegate.grammar.limits import GrammarLimits
    from sluicegate.grammar.matching.grammar import LazyGrammar
    from sluicegate.grammar.matching.matcher import LazyMatcher
    from sluicegate.grammar.options import GrammarOptions, most_zeros
    from sluicegate.grammar.schema.metaschemas import meta_schemas
    from sluicegate.grammar.tags import compile_structural_tags
    from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

__all__ = [
    "GrammarError",
    "GrammarLimit",
    "GrammarLimits",
    "GrammarOptions",
    "InvalidGrammar",
    "LazyGrammar",
    "LazyMatcher",
    "TokenRejected",
    "Unsatisfiable",
    "UnsupportedGrammar",
    "Vocabulary",
    "compile_choices",
    "compile_json_object",
    "compile_json_schema",
    "compile_lark",
    "compile_regex",
    "compile_structural_tags",
    "compile_text",
    "is_compiled",
    "meta_schemas",
    "most_zeros",
]

_compiled.refuse_stale()

__getattr__ = lazily(
    __name__,
    {
        "GrammarLimits": "limits",
        "GrammarOptions": "options",
        "most_zeros": "options",
        "LazyGrammar": "matching.grammar",
        "LazyMatcher": "matching.matcher",
        "Vocabulary": "vocabulary.vocabulary",
        "compile_choices": "compile",
        "compile_json_object": "compile",
        "compile_json_schema": "compile",
        "compile_lark": "lark",
        "compile_regex": "compile",
        "compile_structural_tags": "tags",
        "compile_text": "compile",
        "is_compiled": "compiled",
        "meta_schemas": "schema.metaschemas",
    },
)
