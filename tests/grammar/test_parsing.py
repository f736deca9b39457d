"""The parser of Lark and GBNF grammars: exact for whatever rules, and no more states than a text has meanings."""

from __future__ import annotations

import random
from typing import Any

import lark
import numpy as np
import pytest

from sluicegate.grammar import GrammarError, LazyGrammar, Vocabulary, compile_lark, is_compiled
from sluicegate.grammar.parsing import gathering, kernels, pieces, tokens, walks
from sluicegate.grammar.parsing.rewriting.ambiguity import untangled
from sluicegate.grammar.parsing.rules import SymbolCodes
from tests.grammar.grammar_checks import accepts, allowed, allowed_in
from tests.reference.mask_by_trial import mask_by_trial

_TEXT = "ab abc aa aaa a+ +a (( )) () )+ a) ), ,a +a+ a,b 0a 01 10 a, bc cba -- -a 1) (a (1 1+1 a+b+c"
_PIECES = _TEXT.split()
_WORDS = [bytes([b]) for b in b'abc01+-()", \n'] + [piece.encode() for piece in _PIECES] + [b" a", b"  ", b" + "]
VOCABULARY = Vocabulary.from_bytes([*_WORDS, b""], eos_token_ids=[len(_WORDS)])
_TERMINALS = ['"a"', '"b"', '"ab"', '"+"', '"("', '")"', '","', '"-"', "/[ab]+/", "/[a-c]/", "/a(ba)*/", "/[01]+/"]
_TERMINALS += ['/"[a ]*"/', "/ ?[ab]/", "/[a-f]+/"]


def random_grammar(pick: random.Random) -> str:
    """Draw rules of all shapes: ambiguous, empty, recursive from either side, useless."""
    names = ["start", "x", "y", "z"][: pick.randint(1, 4)]

    def expression(depth: int) -> str:
        kind = pick.random()
        if depth == 0 or kind < 0.35:
            return pick.choice(names if pick.random() < 0.55 else _TERMINALS)
        if kind < 0.65:
            return " ".join(expression(depth - 1) for _ in range(pick.randint(1, 3)))
        inner = " | ".join(expression(depth - 1) for _ in range(pick.randint(1, 3)))
        return f"({inner})" if kind < 0.8 else f"({inner}){pick.choice('?*+')}"

    rules = [f"{name}: " + " | ".join(expression(2) for _ in range(pick.randint(1, 3))) for name in names]
    return "\n".join(rules) + ('\n%ignore " "' if pick.random() < 0.3 else "")


def compiled_pair(text: str) -> tuple[LazyGrammar, lark.Lark] | None:
    """Compile with us and with lark. Return None for what has no text, or is no grammar."""
    try:
        return compile_lark(text, VOCABULARY), lark.Lark(text, parser="earley", lexer="dynamic_complete")
    except (GrammarError, lark.exceptions.LarkError):
        return None


def reads(theirs: lark.Lark, text: str) -> bool:
    try:
        theirs.parse(text)
    except lark.exceptions.UnexpectedInput:
        return False
    return True


@pytest.mark.parametrize("most_inner", [0, pieces.MOST_INNER])
@pytest.mark.parametrize("seed", range(30))
def test_masks_of_random_grammars_are_what_trying_every_token_gives(
    seed: int, most_inner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether parts are put together from lexemes or walked as a whole. Ends are compared with Lark's own parser."""
    monkeypatch.setattr(pieces, "MOST_INNER", most_inner)
    monkeypatch.setattr(tokens, "_FEW_CONFIGURATIONS", seed % 3)  # most first tries end early
    pick = random.Random(seed)
    pair = None
    while pair is None:
        text = random_grammar(pick)
        pair = compiled_pair(text)
    compiled, theirs = pair
    matcher, spelled = compiled.matcher(), b""
    for _ in range(6):
        offered = allowed(matcher, VOCABULARY)
        assert offered == allowed_in(mask_by_trial(matcher, VOCABULARY)), (text, spelled)
        if 0 < len(spelled) < 12:
            assert matcher.can_stop == reads(theirs, spelled.decode()), (text, spelled)
        going = sorted(offered - {len(_WORDS)})
        if not going:
            break
        token = pick.choice(going)
        matcher.accept(token)
        spelled += _WORDS[token]


OPERATORS = {
    "binary": 'start: e\ne: e "+" e | e "-" e | "(" e ")" | "a"',
    "juxtaposed": 'start: e\ne: e e | e "+" e | /[ab]+/',
    "prefixes": 'start: e\ne: e "+" e | "-" e | "a"',
    "suffixes": 'start: e\ne: e "+" e | e "(" e ")" | e "-" | "a"',
    "prefixes and suffixes": 'start: e\ne: "-" e | e "+" | "(" e ")" | "a"',
    "named": 'start: e\ne: sum | pair | "a"\nsum: e "+" e\npair: e "-" e | "b"',
}


@pytest.mark.parametrize("name", OPERATORS)
def test_rules_of_operators_keep_their_texts(name: str) -> None:
    compiled = compile_lark(OPERATORS[name], VOCABULARY)
    theirs = lark.Lark(OPERATORS[name], parser="earley", lexer="dynamic_complete")
    pick = random.Random(name)
    for _ in range(150):
        text = "".join(pick.choice("aab+-()") for _ in range(pick.randint(1, 7)))
        assert accepts(compiled, text, 1) is reads(theirs, text), text


def test_an_operator_is_written_as_a_chain_of_operands() -> None:
    codes = SymbolCodes()
    e, plus, minus, bang, n = (codes.of(each) for each in ((False, "e"), *((True, mark) for mark in "+-!n")))
    found = untangled({e: [(e, plus, e), (minus, e), (e, bang), (n,)]}, codes)
    operand, core = codes.of((False, "e operand")), codes.of((False, "e core"))
    assert found == {
        e: [(e, plus, operand), (operand,)],
        operand: [(minus, operand), (core,)],
        core: [(core, bang), (n,)],
    }


def _states(compiled: LazyGrammar, text: bytes) -> int:
    """Count the configurations after `text`, with masks filled on the way."""
    matcher = compiled.matcher()
    for byte in text:
        allowed(matcher, VOCABULARY)
        matcher.accept(_WORDS.index(bytes([byte])))
    reading: Any = matcher._at.readings[0]
    return len(reading.parser.configurations.all)


@pytest.mark.parametrize(
    ("grammar", "piece"),
    [
        ("start: w*\nw: /[a-c]+/", b"abc"),
        ('start: WORD+\nWORD: /[a-c]+/\n%ignore " "', b"ab c"),
        ('start: NAME ("," NAME)*\nNAME: /[a-c]+/\n%ignore /\\s+/', b"ab , c,"),
        ('start: e\ne: e e | e "+" e | /[a-c0-9]+/', b"a+b1"),
        ('root ::= "(" s\ns ::= ")" | [^()"] s | "\\"" ["a] s', b'a"a'),
        ('start: x\nx: "a" x | "b" x | "c"', b"ab"),
        ('start: s\ns: (s | x | t)*\nx: "a" | /b+/\nt: x s | s t?', b"ab"),
        ("start: ((x* y?)+ | y)*\nx: (/a+/ | y)+\ny: /[ab]/ x*", b"ab"),
        ("start: ((start)+ | (/(ab|ba)+/ | start) | /[a-c]/)+", b"abc"),
        ("start: p q | q p\np: /a/ | p q*\nq: p | /b/ | q q", b"ab"),
    ],
)
def test_repeated_text_leads_to_no_new_states(grammar: str, piece: bytes) -> None:
    """However the rules recurse, and however many ways there are to read it: so time is linear in the text."""
    begin = b"(" if "root" in grammar else b""
    compiled = compile_lark(grammar, VOCABULARY)
    few = _states(compiled, begin + piece * 3)
    assert _states(compiled, begin + piece * 40) == few


def test_frames_of_a_nested_text_share_what_lies_around_it() -> None:
    """Parts of masks do not depend on how deep a text is nested."""
    grammar = 'start: v\nv: "(" (v ("," v)*)? ")" | /[a-c]+/'
    compiled = compile_lark(grammar, VOCABULARY)
    matcher = compiled.matcher()
    reading: Any = matcher._at.readings[0]
    counts = []
    for _ in range(12):
        for byte in b"(a,":
            allowed(matcher, VOCABULARY)
            matcher.accept(_WORDS.index(bytes([byte])))
        counts.append(len(reading.parser.tokens(VOCABULARY)._parts))
    assert counts[-1] == counts[-6]


NAMES = [*(b"a", b"ab", b"abi", b"abif", b"abifab", b"b", b"bifa", b"c", b"ci", b"cif", b"cif("), b"if", b"("]
NAMES_VOCABULARY = Vocabulary.from_bytes([*NAMES, b""], eos_token_ids=[len(NAMES)])
NAMES_GRAMMAR = 'start: NAME ("if" NAME)* "("?\nNAME: /[a-z]+/'


def test_nothing_is_begun_inside_tokens_that_a_lexeme_reads_anyway() -> None:
    """`abif` is a name as it is, and need not be `ab` and a keyword too: only places in `cif(` are kept."""
    matcher = compile_lark(NAMES_GRAMMAR, NAMES_VOCABULARY).matcher()
    assert allowed(matcher, NAMES_VOCABULARY) == set(range(len(NAMES))) - {NAMES.index(b"(")}
    reading: Any = matcher._at.readings[0]
    made = reading.parser.tokens(NAMES_VOCABULARY)._pieces
    kept = {node for number in range(made._counts[walks.N_PLACES]) for node in made.places(number).nodes.tolist()}
    assert kept == {0, _node(b"c"), _node(b"cif")}


def _node(word: bytes) -> int:
    letters, nodes = NAMES_VOCABULARY.trie.nodes
    node = 0
    for byte in word:
        node = next(below for below in range(nodes[node, 0], nodes[node, 1]) if letters[below] == byte)
    return node


@pytest.mark.skipif(is_compiled(), reason="compiled methods are not replaced, nor seen to be called")
def test_a_walk_takes_whole_what_one_of_the_lexemes_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else may begin there: nothing below `a`, `b` and `if` is looked at, and the walk starts five times."""
    seen: list[int] = []
    walk = kernels.walk_known

    def counted(*given: Any) -> Any:
        found = walk(*given)
        seen.append(found[3])
        return found

    monkeypatch.setattr(tokens.TokenParts, "_gathered", lambda *_: None)
    monkeypatch.setattr(tokens, "walk_known", counted)
    matcher = compile_lark(NAMES_GRAMMAR, NAMES_VOCABULARY).matcher()
    assert allowed(matcher, NAMES_VOCABULARY) == set(range(len(NAMES))) - {NAMES.index(b"(")}
    assert sum(seen) == 15


NUMBERS = (
    "start: ("
    + " | ".join(f"T{n}" for n in range(20))
    + ")*\n"
    + "".join(f"T{n}: /[01]+(b{{{n}}}a)?/\n" for n in range(20))
)


def test_many_lexemes_that_may_be_open_are_looked_at_together() -> None:
    """Of twenty numbers that a text may be, all in front of one frame, one part is made."""
    matcher = compile_lark(NUMBERS, VOCABULARY).matcher()
    matcher.accept(_WORDS.index(b"0"))
    reading: Any = matcher._at.readings[0]
    assert len(reading.at.parts) == 20
    assert allowed(matcher, VOCABULARY) == allowed_in(mask_by_trial(matcher, VOCABULARY))
    made = reading.parser.tokens(VOCABULARY)._parts
    assert sum(frame is reading.at.parts[0][1] or isinstance(start, frozenset) for start, frame in made) == 1


@pytest.mark.parametrize(("piece", "visited"), [([0, 80, -1, 0, -1], 10), ([0, 0, 0, 0, -1], 50)])
def test_tokens_that_a_part_takes_count_as_visited_nodes(piece: list[int], visited: int) -> None:
    """Once for a part, however often it comes upon the piece: 80 tokens one by one, or a row of 2,000 words."""
    state, counts = np.zeros(gathering.N_STATE, np.int64), np.zeros(7, np.int64)
    state[gathering.PART] = 1
    row, ids, rows = np.zeros(2_000, np.int32), np.arange(80, dtype=np.int32), np.zeros((1, 2_000), np.int32)
    known = np.array([piece], np.int32)
    for _ in range(2):
        gathering.take.py_func(0, known, ids, rows, row, np.zeros(9, np.int32), state, counts)
        assert counts[walks.N_VISITED] == visited
