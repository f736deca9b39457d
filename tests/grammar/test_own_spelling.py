"""A text is never kept from its tokenizer's own spelling: each token of it is in the mask of its place."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from benchmarks.grammar_samples import SAMPLES
from sluicegate.grammar import (
    GrammarOptions,
    LazyGrammar,
    Vocabulary,
    compile_json_schema,
    compile_lark,
    compile_structural_tags,
)
from tests.fuzz import made
from tests.grammar.grammar_checks import accepts, allowed, check_masks

ROOT = Path(__file__).resolve().parents[2]
RANKS = ROOT.parent / "shared" / "data" / "llama3" / "tokenizer.model"
CUTS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = 36
ANY_ORDER = GrammarOptions(property_order="any")
Named = tuple[Vocabulary, Callable[[str], list[int]]]


@lru_cache(maxsize=1)
def bundled() -> Named:
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "engine" / "bundled")
    return Vocabulary.from_tokenizer(tokenizer), lambda text: list(tokenizer.encode(text, add_special_tokens=False))


@lru_cache(maxsize=1)
def llama() -> Named:
    if not RANKS.is_file():
        pytest.skip(f"the rank file {RANKS.name} of Llama 3 is not here")
    ranks = load_tiktoken_bpe(str(RANKS))
    encoding = tiktoken.Encoding("llama3", pat_str=CUTS, mergeable_ranks=ranks, special_tokens={})
    return Vocabulary.from_tiktoken(RANKS), encoding.encode_ordinary


@lru_cache(maxsize=1)
def greedy() -> Named:
    """Trained on JSON without cuts between words: its tokens hold several names, strings and brackets at once."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1_500, special_tokens=["</s>"], initial_alphabet=alphabet, max_token_length=40
    )
    inner.train_from_iterator((text for _, text in values(range(10_000, 10_200))), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")
    return Vocabulary.from_tokenizer(tokenizer), lambda text: list(tokenizer.encode(text))


TOKENIZERS = {"bundled": bundled, "Llama 3": llama, "tokens of several strings": greedy}
STYLES: tuple[dict[str, Any], ...] = ({}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False})


def values(seeds: range) -> Iterator[tuple[Any, str]]:
    """Yield values that programs write, and their texts."""
    for seed in seeds:
        pick = random.Random(seed)
        value = [made.value(pick) for _ in range(5)] if seed % 2 else {str(n): made.value(pick) for n in range(4)}
        if seed % 5 == 0:
            value = pick.choices(["", "a", "b"], k=6)
        yield value, json.dumps(value, **STYLES[seed % len(STYLES)])


def schemas_of(value: Any) -> Iterator[Any]:
    """Schemas of more and of less detail that `value` satisfies."""
    yield {}
    yield {"type": "array", "items": {}} if isinstance(value, list) else {"type": "object"}
    yield described(value)


def described(value: Any) -> Any:
    if isinstance(value, dict):
        return {"type": "object", "properties": {name: described(inner) for name, inner in value.items()}}
    if isinstance(value, list):
        return (
            {"type": "array", "items": {"anyOf": [described(inner) for inner in value]}} if value else {"type": "array"}
        )
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return {"type": kinds[type(value)]}


def missing(grammar: LazyGrammar, text: str, encode: Callable[[str], list[int]]) -> str | None:
    """Return the first token of `text` that its place does not offer."""
    vocabulary, matcher = grammar.vocabulary, grammar.matcher()
    matcher.bound(2.0)  # tokens that hold many strings take more work than a call without a bound may charge
    done = b""
    for token in encode(text):
        if token not in allowed(matcher, vocabulary):
            return f"{vocabulary.words[token]!r} after {done!r}"
        matcher.accept(token)
        done += vocabulary.words[token]
    assert done == text.encode()
    return None if matcher.can_stop else "the end"


@pytest.mark.parametrize("name", TOKENIZERS)
def test_each_token_of_a_json_text_is_offered(name: str) -> None:
    vocabulary, encode = TOKENIZERS[name]()
    for value, text in values(range(TEXTS)):
        for schema in schemas_of(value):
            grammar = compile_json_schema(schema, vocabulary, options=ANY_ORDER)
            assert missing(grammar, text, encode) is None, (schema, text)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
@pytest.mark.parametrize("name", TOKENIZERS)
def test_each_token_of_a_text_of_a_grammar_is_offered(name: str, sample: Any) -> None:
    vocabulary, encode = TOKENIZERS[name]()
    grammar = compile_lark(sample.grammar, vocabulary)
    for text in sample.texts:
        assert missing(grammar, text, encode) is None


@pytest.mark.parametrize("name", TOKENIZERS)
def test_each_token_of_calls_amid_text_is_offered(name: str) -> None:
    vocabulary, encode = TOKENIZERS[name]()
    structures = [
        {"begin": "<tool_call>\n", "schema": {}, "end": "\n</tool_call>"},
        {"begin": "<n>", "schema": {}, "end": "e"},
    ]
    grammar = compile_structural_tags({"structures": structures, "triggers": ["<tool_call>", "<n>"]}, vocabulary)
    for _, text in values(range(TEXTS // 6)):
        whole = f'Let me look.\n\n<tool_call>\n{text}\n</tool_call> and <n>12e<n>["",""]e that <n>-1.5ee was it: {text}'
        assert missing(grammar, whole, encode) is None


CROSSING = [
    '","","',
    ',"","',
    '"","a","',
    'a","a"',
    '["a","a"',
    '"a","a",',
    '":1,"a":',
    '"a":1,"a":2',
    '"":"","":""',
    ',"a","b',
]


def crossing_vocabulary() -> Vocabulary:
    pieces = [*CROSSING, '","', '":"', '"a', '":', '["', '"]', '{"', '"}', ', "', ', "", "', "true", "null", '"a":']
    words = [bytes([byte]) for byte in range(256)] + [piece.encode() for piece in pieces] + [b""]
    return Vocabulary.from_bytes(words, eos_token_ids=[len(words) - 1])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "uniqueItems": True},
        {"type": "array", "items": {"enum": ["", "a", "b"]}, "uniqueItems": True, "maxItems": 2},
        {"type": "array", "contains": {"const": "a"}, "maxContains": 1},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
        {"type": "object", "properties": {"a": {"type": "string"}, "": {"type": "string"}}},
        {"type": "array", "prefixItems": [{"const": ""}, {"const": "a"}], "items": False},
        {"type": "array", "items": {"type": "array", "uniqueItems": True}, "uniqueItems": True},
    ],
    ids=json.dumps,
)
def test_tokens_of_several_strings_are_offered_where_each_string_is(schema: Any) -> None:
    """`uniqueItems` and names that come once are asked of each string in a token."""
    grammar = compile_json_schema(schema, crossing_vocabulary())
    crossing = {token for token, word in enumerate(grammar.vocabulary.words) if word.decode("latin-1") in CROSSING}

    def inclined(matcher: Any, pick: random.Random) -> int:
        tokens = allowed(matcher, grammar.vocabulary) - set(grammar.vocabulary.eos_token_ids)
        marks = {token for token in tokens if grammar.vocabulary.words[token][:1] in b'{}[]",:a1'}
        return pick.choice(sorted(tokens & crossing or marks or tokens))

    for seed in range(4):
        check_masks(grammar, seed, steps=14, choose=inclined if seed else None)


def test_a_name_that_comes_twice_inside_one_token_is_refused() -> None:
    grammar = compile_json_schema({"type": "object"}, crossing_vocabulary())
    assert accepts(grammar, '{"a":1}')
    assert not accepts(grammar, '{"a":1,"a":2}')
