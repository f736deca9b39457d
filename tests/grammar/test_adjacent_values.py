"""JSON values that follow each other with no text between them, in Lark grammars and structural tags."""

from __future__ import annotations

import json
import random

import pytest

from sluicegate.grammar import LazyGrammar, Vocabulary, compile_lark, compile_structural_tags
from tests.grammar.grammar_checks import allowed, allowed_in
from tests.reference.mask_by_trial import mask_by_trial

_WORDS = [bytes([b]) for b in b'{}[]"ab: \n1,']
_WORDS += [b"{}", b"{\n", b"}{", b"{}{", b'""', b'}{"a', b'"a"', b'":', b"][", b"}["]
VOCABULARY = Vocabulary.from_bytes([*_WORDS, b""], eos_token_ids=[len(_WORDS)])
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
UNIQUE = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}


def _lark(rule: str) -> LazyGrammar:
    return compile_lark(f"start: {rule}\na: %json {json.dumps(OBJECT)}\nb: %json {json.dumps(UNIQUE)}", VOCABULARY)


def _tags() -> LazyGrammar:
    value = {"type": "json_schema", "json_schema": OBJECT}
    form = {"type": "sequence", "elements": [value, value, value]}
    return compile_structural_tags({"type": "structural_tag", "format": form}, VOCABULARY)


GRAMMARS = {
    "objects": lambda: _lark("a*"),
    "object, array, object": lambda: _lark("a b a"),
    "with text now and then": lambda: _lark('(a | b | ":" a)*'),
    "tags": _tags,
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_each_value_is_followed_from_its_own_beginning(name: str) -> None:
    """Names given in one value may stand in the next; masks are what trying every token gives."""
    for seed in range(8):
        pick = random.Random(seed)
        matcher, text = GRAMMARS[name]().matcher(), b""
        for _ in range(20):
            offered = allowed(matcher, VOCABULARY)
            assert offered == allowed_in(mask_by_trial(matcher, VOCABULARY)), text
            going = sorted(offered - {len(_WORDS)})
            if not going:
                break
            token = pick.choice(going)
            matcher.accept(token)
            text += _WORDS[token]


def test_a_name_of_the_value_before_is_new_in_the_next() -> None:
    matcher = _lark("a a").matcher()
    for word in (b"{", b'"', b"b", b'":', b"1", b"}", b"{", b'"', b"b", b'":'):
        matcher.accept(_WORDS.index(word))
