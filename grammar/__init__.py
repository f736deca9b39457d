"""From a JSON Schema, a regular expression, a list of choices or a Lark grammar to token bitmasks."""

from pathlib import Path as _Path

from sluicegate.grammar.compile import (
    compile_choices,
    compile_json_object,
    compile_json_schema,
    compile_regex,
    compile_text,
)
from sluicegate.grammar.lark import compile_lark
from sluicegate.grammar.matching.matcher import LazyGrammar, LazyMatcher
from sluicegate.grammar.options import GrammarLimits, GrammarOptions
from sluicegate.grammar.schema.metaschemas import meta_schemas
from sluicegate.grammar.tags import compile_structural_tags
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import (
    GrammarError,
    GrammarLimit,
    InvalidGrammar,
    TokenRejected,
    Unsatisfiable,
    UnsupportedGrammar,
)
from sluicegate.plugins.numba_cache import forget_stale as _forget_stale

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
    "meta_schemas",
]

_forget_stale(_Path(__file__).parent)
