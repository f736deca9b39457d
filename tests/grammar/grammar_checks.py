"""What the tests of the grammar share: small vocabularies, and checks that look at every step."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from sluicegate.grammar import GrammarOptions, LazyGrammar, LazyMatcher, TokenRejected, Vocabulary, compile_json_schema
from sluicegate.grammar.token_ids import I32
from tests.reference.mask_by_trial import mask_by_trial

_TEXT = r"""
{" "} {"a": ": ", ": ," }, }] ]} [] {} [{ }} }, ], ["" "": "a "b": true false null tr ue 12 123 0. .5 1e "," ":" name id
the \n \" \\ \u00 \u006 é 😀 ab abc foo bar x" y", z"} "], "}
"""
_PIECES = _TEXT.split()
_BLANKS = [
    "  ",
    "    ",
    "\n",
    "\n  ",
    "\n    ",
    ' "',
    ' {"',
    " [",
    " 1",
    " true",
    ",\n",
    ', "',
    "\t",
    "\r\n",
    ": ",
    ' ""',
]
_BLANKS += [", ", " the"]


@lru_cache(maxsize=1)
def byte_vocabulary() -> Vocabulary:
    """Make a vocabulary of all bytes and some pieces of JSON. The last token ends the sequence, the one before is
    special."""
    pieces = sorted({piece for piece in [*_PIECES, *_BLANKS] if len(piece.encode()) > 1})
    words = [bytes([b]) for b in range(256)] + [piece.encode() for piece in pieces] + [b"\xf0\x9f", b"\x98\x80"]
    words += [b"", b""]
    return Vocabulary.from_bytes(words, eos_token_ids=[len(words) - 1])


def allowed(matcher: LazyMatcher, vocabulary: Vocabulary) -> set[int]:
    row = np.zeros(vocabulary.row_words, np.int32)
    matcher.fill_mask(row)
    return allowed_in(row)


def allowed_in(row: I32) -> set[int]:
    """Return the tokens that a row of a mask allows."""
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def check_masks(
    grammar: LazyGrammar,
    seed: int,
    steps: int = 25,
    choose: Callable[[LazyMatcher, random.Random], int | None] | None = None,
) -> None:
    """Along a way that `choose` picks (None: any allowed token), each mask is what trying every token alone says."""
    vocabulary = grammar.vocabulary
    matcher, pick = grammar.matcher(), random.Random(seed)
    row = np.zeros(vocabulary.row_words, np.int32)
    for _ in range(steps):
        matcher.fill_mask(row)
        assert np.array_equal(row, mask_by_trial(matcher, vocabulary))
        if matcher.is_finished:
            break
        token = choose(matcher, pick) if choose else pick.choice(sorted(allowed(matcher, vocabulary)))
        if token is None:
            break
        matcher.accept(token)


def tokens_of(text: str, vocabulary: Vocabulary, seed: int = 0) -> list[int]:
    """Return a tokenisation of `text`: sometimes the longest tokens, sometimes any that fit."""
    data, at, tokens = text.encode(), 0, []
    ids = {word: token for token, word in enumerate(vocabulary.words) if word}
    pick = random.Random(seed)
    while at < len(data):
        fitting = [ids[data[at : at + n]] for n in range(1, 12) if data[at : at + n] in ids and at + n <= len(data)]
        token = fitting[-1] if seed == 0 else pick.choice(fitting)
        tokens.append(token)
        at += len(vocabulary.words[token])
    return tokens


def accepts(grammar: LazyGrammar, text: str, seed: int = 0) -> bool:
    """Follow `text`; at every step the mask and `accept` must say the same about its next token."""
    vocabulary = grammar.vocabulary
    matcher = grammar.matcher()
    for token in tokens_of(text, vocabulary, seed):
        in_mask = token in allowed(matcher, vocabulary)
        try:
            matcher.accept(token)
        except TokenRejected:
            assert not in_mask, f"the mask allows {vocabulary.words[token]!r}, accept refuses it, in {text!r}"
            return False
        assert in_mask, f"the mask refuses {vocabulary.words[token]!r}, accept takes it, in {text!r}"
    stops = set(vocabulary.eos_token_ids) <= allowed(matcher, vocabulary)
    assert stops == matcher.can_stop
    return matcher.can_stop


def reads(grammar: LazyGrammar, text: str) -> bool:
    """Return whether a grammar over `byte_vocabulary` takes the whole of `text`."""
    matcher = grammar.matcher()
    try:
        for byte in text.encode():
            matcher.accept(byte)
    except TokenRejected:
        return False
    return matcher.can_stop


def check_schema(
    schema: Any, valid: list[Any] = (), invalid: list[Any] = (), *, raw: bool = False, **options: Any
) -> LazyGrammar:
    """Assert that every one of `valid` can be written, and none of `invalid`. With `raw` they are texts, else
    values."""
    grammar = compile_json_schema(schema, byte_vocabulary(), options=GrammarOptions(**options))
    for expected, values in ((True, valid), (False, invalid)):
        for value in values:
            for text in [value] if raw else spellings(value):
                for seed in (0, 1):
                    assert accepts(grammar, text, seed) is expected, f"{text!r} under {schema!r}"
    return grammar


def spellings(value: Any) -> list[str]:
    return [
        json.dumps(value),
        json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        json.dumps(value, ensure_ascii=False, indent=2),
    ]


def walk(grammar: LazyGrammar, seed: int, limit: int = 300) -> str | None:
    """Draw a random answer under the masks, in a hurry to end; None if it did not end within `limit` tokens.

    Fails where a mask allows nothing: a dead end."""
    vocabulary = grammar.vocabulary
    pick = random.Random(seed)
    matcher, text = grammar.matcher(), b""
    closers = [t for t, word in enumerate(vocabulary.words) if word[:1] in (b"}", b"]", b'"', b",", b":")]
    for step in range(limit):
        tokens = allowed(matcher, vocabulary)
        assert tokens, f"dead end after {text!r}"
        if matcher.can_stop and (matcher.is_finished or pick.random() < 0.5):
            return text.decode()
        choices = sorted(tokens - set(vocabulary.eos_token_ids)) or sorted(tokens)
        hurried = [t for t in closers if t in tokens] if pick.random() < step / 40 + 0.3 else []
        token = pick.choice(hurried or choices)
        matcher.accept(token)
        text += vocabulary.words[token]
    return None
