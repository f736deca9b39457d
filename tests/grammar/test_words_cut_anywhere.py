"""Grammars of words, blanks and marks, whose words may be cut anywhere: each is followed once, and none is refused."""

from __future__ import annotations

import itertools
import random
import string

import pytest

from sluicegate.grammar import LazyMatcher, TokenRejected, Vocabulary, compile_lark
from sluicegate.grammar.automata import ByteDfa
from sluicegate.grammar.budget import meter
from sluicegate.grammar.parsing import walks
from sluicegate.grammar.parsing.parser import ParserReading
from tests.grammar.grammar_checks import allowed

WORDS = [bytes([byte]) for byte in range(256)]
WORDS += [f"{''.join(letters)}(".encode() for letters in itertools.product(string.ascii_lowercase[:9], repeat=5)]
"""No subtree of these is inside a word as a whole."""

CLASSES = r"start: (/\w+/ | /\s+/ | /[^\w\s]+/)+"
LISP = r"""
root ::= ws form+
form ::= (atom | list) ws
list ::= "(" ws form* ")"
atom ::= [0-9]+ | [a-z+*/<>=!?_-] [a-z0-9+*/<>=!?_-]* | "\"" [^"]* "\""
ws ::= ([ \t\n] | ";" [^\n]* "\n")*
"""
JOINED = r"""
start: WORD (" " WORD)*
WORD: /\p{L}+/ ("-" /\p{L}+/)*
"""
MARKDOWN = r"""
start: (line "\n")*
line: (word " ")* word
word: plain | "**" plain "**" | "`" plain "`"
plain: /[^\s*`]+/
"""
COMMENTS = r"""
start: (/\/\/[^\n]*/ | BLOCK | /[^\/\n]+/ | "/" | "\n")+
BLOCK: /\/\*([^*]|\*+[^*\/])*\*+\//
"""
NATURAL = {
    "classes of characters": (CLASSES, "The end, (42)."),
    "a list of expressions": (LISP, '(plus 1 (two "x") ; why\n y)'),
    "letters of all languages": (r"start: (/\p{L}+/ | /\p{N}+/ | /\p{P}/ | /\p{Z}+/)+", "Çok 4 güzel, değil mi?"),
    "any characters": ("start: /./+", "anything at all"),
    "a word with a joined one": (JOINED, "well-made Üb-er x"),
    "markdown": (MARKDOWN, "a **bold** `word`\nnext\n"),
    "comments": (COMMENTS, "a / b // c\n/* d */"),
}


@pytest.fixture(scope="module")
def many_words() -> Vocabulary:
    return Vocabulary.from_bytes([*WORDS, b"<end>"], eos_token_ids=[len(WORDS)])


@pytest.mark.parametrize("name", NATURAL)
def test_natural_grammars_are_followed_to_the_end(name: str, many_words: Vocabulary) -> None:
    """Every byte of a text is in its mask, with tokens of many letters in the vocabulary, which may be cut anywhere."""
    grammar, text = NATURAL[name]
    matcher = compile_lark(grammar, many_words).matcher()
    for byte in text.encode():
        assert byte in allowed(matcher, many_words)
        matcher.accept(byte)
    assert many_words.eos_token_ids[0] in allowed(matcher, many_words)


def test_single_characters_of_all_languages_are_followed_by_a_walk_before_much_else_was_tried() -> None:
    """Both ways together are more work than a call may take."""
    pick = random.Random(1)
    first = (0x61, 0x391, 0x410, 0x5D0, 0x628, 0x905, 0x4E00, 0xAC00)
    letters = [*(chr(code) for begin in first for code in range(begin, begin + 24)), *" .,;!?-\u3002"]
    texts = {"".join(pick.choices(letters, k=pick.randrange(2, 7))) for _ in range(100_000)}
    words = [*WORDS[:256], *sorted(text.encode() for text in texts), b""]
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[len(words) - 1])
    matcher = compile_lark(r"start: (/\w/ | /\s/ | /[^\w\s]/)*", vocabulary).matcher()
    assert allowed(matcher, vocabulary) >= set(range(256, len(words)))


@pytest.mark.parametrize("grammar", [CLASSES, LISP, MARKDOWN])
def test_words_that_may_be_cut_anywhere_have_the_masks_of_trying_every_token(grammar: str) -> None:
    """Sets of places are compared with those that were looked at from 64 on, so words are many here."""
    letters = [bytes(word) for size in (2, 3, 4) for word in itertools.product(b"ab*( ", repeat=size)]
    words = [*(bytes([byte]) for byte in range(256)), *letters, b"<end>"]
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[len(words) - 1])
    matcher = compile_lark(grammar, vocabulary).matcher()
    for byte in b"(a b":
        assert allowed(matcher, vocabulary) == {token for token in range(len(words)) if _is_accepted(matcher, token)}
        matcher.accept(byte)


def _is_accepted(matcher: LazyMatcher, token: int) -> bool:
    try:
        matcher.accept(token)
    except TokenRejected:
        return False
    matcher.rollback(1)
    return True


def test_places_that_were_looked_at_are_not_looked_at_again_for_each_way_to_cut(many_words: Vocabulary) -> None:
    """Each place of a word is looked at a few times, however many ways there are to cut the words before it."""
    matcher = compile_lark(LISP, many_words).matcher()
    allowed(matcher, many_words)
    reading = matcher._at.readings[0]
    assert isinstance(reading, ParserReading)
    visited = reading.parser.tokens(many_words)._pieces._counts[walks.N_VISITED]
    assert visited < 5 * many_words.trie.size


@pytest.mark.parametrize(("text", "rows"), [(b" ", 2), (b"ab", 3)])
def test_ignored_texts_in_a_row_are_one_lexeme(text: bytes, rows: int) -> None:
    repeated = ByteDfa.of_text(text).repeated()
    assert repeated.state_count == rows
    for count in range(1, 5):
        assert repeated.accepts(text * count)
        assert not repeated.accepts(text * count + b"x")
    assert not repeated.accepts(b"")


def test_a_long_blank_of_ignored_texts_is_read_at_once() -> None:
    words = [*(bytes([byte]) for byte in range(256)), *(b" " * size for size in range(2, 60)), b"<end>"]
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[len(words) - 1])
    matcher = compile_lark('start: "a"+\n%ignore " "', vocabulary).matcher()
    assert set(range(256, 256 + 58)) <= allowed(matcher, vocabulary)
    reading = matcher._at.readings[0]
    assert isinstance(reading, ParserReading)
    assert reading.parser.tokens(vocabulary)._pieces._counts[walks.N_PIECES] < 10


def test_tables_that_grow_are_charged_for(many_words: Vocabulary) -> None:
    matcher = compile_lark(CLASSES, many_words).matcher()
    allowed(matcher, many_words)
    reading = matcher._at.readings[0]
    assert isinstance(reading, ParserReading)
    made = reading.parser.tokens(many_words)._pieces
    before = made._pieces.nbytes
    made._counts[walks.N_PIECES] = len(made._pieces)
    with meter.allowed(meter.Allowance(5.0, ValueError("over"), charges=1e6)):
        made._grow(0)
        charged = 1e6 - meter.left()
    assert made._pieces.nbytes > before
    assert charged > before / 5_000 - 1e-6
