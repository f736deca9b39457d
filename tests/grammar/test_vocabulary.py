"""Vocabularies: the bytes of tokens, and the arrays made of them."""

from __future__ import annotations

import base64
import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from sluicegate.grammar import InvalidGrammar, Vocabulary, compile_json_schema
from sluicegate.grammar.automata import CharDfa, string_table
from sluicegate.grammar.budget.meter import Allowance
from sluicegate.grammar.budget.meter import allowed as metered
from sluicegate.grammar.classification.automata import of_automaton
from sluicegate.grammar.classification.classify import at_root
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.scalars import every_string
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.boundary import crosses_strings, plausible
from sluicegate.grammar.vocabulary.pruning import kinds_of, takes_below, walk
from sluicegate.grammar.vocabulary.slices import taken as slice_taken
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary
from tests.reference.byte_automata import json_string_body
from tests.reference.mask_by_trial import kernel_walk


def bpe() -> PreTrainedTokenizerFast:
    """Train a small byte-level BPE tokenizer."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    inner.train_from_iterator(['{"name": "Zoë", "age": 12, "tags": ["a", "b"]}', '{"name": "x"}'] * 20, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")


def test_byte_level_tokens_are_told_as_bytes() -> None:
    tokenizer = bpe()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, vocab_size=1024)
    text = '{"name": "Zoë 😀", "age": 12}'
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert b"".join(vocabulary.words[t] for t in ids) == text.encode()
    assert vocabulary.size == 1024
    assert vocabulary.words[tokenizer.bos_token_id] == b""
    matcher = compile_json_schema({"type": "object"}, vocabulary).matcher()
    for token in ids:
        assert token in allowed(matcher, vocabulary)
        matcher.accept(token)
    assert allowed(matcher, vocabulary) == {tokenizer.eos_token_id}


def test_sentence_piece_tokens_are_told_as_bytes() -> None:
    words = {"<unk>": 0, "</s>": 1, "<0x0A>": 2, "▁the": 3, "▁": 4, "é": 5}
    inner = Tokenizer(models.BPE(vocab=words, merges=[], unk_token="<unk>", byte_fallback=True))
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>", unk_token="<unk>")
    assert Vocabulary.from_tokenizer(tokenizer).words == (b"", b"", b"\n", b" the", b" ", "é".encode())
    tokenizer.add_tokens(["▁▁", "<td>"])  # as Gemma's are; its decoder reads them as it reads pieces
    assert Vocabulary.from_tokenizer(tokenizer).words[6:] == (b"  ", b"<td>")
    assert tokenizer.decode([6, 3]) == "   the"[1:]  # one space is stripped


def test_a_rank_file_is_followed_by_its_special_tokens(tmp_path: Path) -> None:
    path = tmp_path / "ranks"
    path.write_text("".join(f"{base64.b64encode(bytes([b])).decode()} {b}\n" for b in range(256)))
    vocabulary = Vocabulary.from_tiktoken(path)
    assert vocabulary.size == 512
    assert vocabulary.eos_token_ids == (257, 265)


def test_sizes_and_ends_are_checked() -> None:
    with pytest.raises(InvalidGrammar):
        Vocabulary.from_bytes([b"a"], eos_token_ids=[])
    with pytest.raises(InvalidGrammar):
        Vocabulary.from_bytes([b"a"], eos_token_ids=[7])
    with pytest.raises(InvalidGrammar):
        Vocabulary.from_bytes([b"a", b""], eos_token_ids=[1], vocab_size=1)


def test_tokens_spelled_alike_are_allowed_alike() -> None:
    vocabulary = Vocabulary.from_bytes([b"1", b"1", b"[", b"]", b""], eos_token_ids=[4])
    matcher = compile_json_schema({"type": "array"}, vocabulary).matcher()
    assert allowed(matcher, vocabulary) == {2}
    matcher.accept(2)
    assert allowed(matcher, vocabulary) == {0, 1, 2, 3}
    assert accepts(compile_json_schema({"const": [1]}, vocabulary), "[1]")


def test_the_compiled_walk_equals_its_slow_twin() -> None:
    vocabulary = byte_vocabulary()
    trie = vocabulary.trie
    for pattern in ("^[a-z]+$", "a.b", "^(true|12|the)*$"):
        lexeme = DfaLexeme(json_string_body(CharDfa.from_pattern(pattern)), quoted=True)
        for state in range(min(12, lexeme.table.shape[0])):
            stays, exits, closes = (np.empty(trie.size + 1, np.int32) for _ in range(3))
            n_exits, n_closes, n_inside, seen = walk(
                *trie.nodes, trie.ids, lexeme.table, lexeme.accepting, state, lexeme.final, lexeme.steady,
                stays, exits, closes,
            )  # fmt: skip
            inside, closing, leaving = kernel_walk(
                vocabulary.words, lexeme.table, lexeme.accepting, state, lexeme.final
            )
            assert n_exits <= seen <= trie.size
            assert set(stays[:n_inside].tolist()) == inside
            assert set(closes[:n_closes].tolist()) == closing
            below = {
                (token, int(trie.depth[node]) - 1)
                for node in exits[:n_exits].tolist()
                for token in trie.ids[trie.first[node] : trie.first[trie.skip[node]]].tolist()
            }
            assert below == leaving


def test_a_walk_is_charged_for_the_nodes_that_it_looks_at() -> None:
    """Two automata that take the same tokens, one of which must look at each: it counts one of their letters."""
    words = [bytes(letters) for size in (1, 2, 3) for letters in product(range(0x61, 0x7B), repeat=size)]
    vocabulary = Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)])
    charged = []
    for pattern in ("^[a-z]*$", "^[^e]*(e[^e]*){0,9}$"):
        lexeme = DfaLexeme(string_table(CharDfa.from_pattern(pattern)))
        with metered(Allowance(60, AssertionError("too much"), charges=1e6)) as allowance:
            of_automaton(vocabulary, lexeme, lexeme.start)
        charged.append(1e6 - allowance.charges)
    assert charged[1] - charged[0] > len(words) / 45


def test_what_a_walk_takes_whole_is_what_each_token_says() -> None:
    """Classes over a vocabulary dense enough to have whole subtrees of one alphabet: letters, white space beyond ASCII,
    characters cut in two, bytes that are no text; automata that count, that repeat themselves, that need an end."""
    pieces = [*'az09AZ -_."\\<é€😀\u2028\u3000\u00a0\n']
    texts = ["".join(pair) for pair in product(pieces, repeat=2)] + [
        "".join(three) for three in product("ab1 é", repeat=3)
    ]
    words = [text.encode() for text in [*pieces, *texts]] + [text.encode()[:-1] for text in texts if text[-1] >= "\x80"]
    words += [b"a\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\x80", b"a\xf5aa", b"a" * 20, b"ab" * 20, b'a": "', b'a",']
    words = sorted(set(words))
    vocabulary = Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)])
    patterns = (
        ".",
        r"^\S*$",
        "^[a-z]{1,3}$",
        "^.{2,4}$",
        "^[^<é]*$",
        "^[A-Za-z_][A-Za-z0-9_]*$",
        "^(a|b1)*$",
        "^[^.]+\\.a",
    )
    for pattern in patterns:
        lexeme = DfaLexeme(string_table(CharDfa.from_pattern(pattern)))
        for state in range(min(8, lexeme.table.shape[0])):
            assert_classified(vocabulary, lexeme, state)


def test_a_state_takes_subtrees_whole_only_as_deep_as_it_counts() -> None:
    lexeme = DfaLexeme(string_table(CharDfa.from_pattern("^[a-z]{1,3}[0-9]*$")))
    letters, digits = kinds_of(b"abcdefghijklmnopqrstuvwxyz"), kinds_of(b"0123456789")

    def takes(state: int | None, kinds: int, tall: int) -> bool:
        assert state is not None
        return bool(takes_below(lexeme.table, state, kinds, tall, lexeme.steady))

    assert takes(lexeme.start, letters, 3)
    assert not takes(lexeme.start, letters, 4)
    assert not takes(lexeme.start, letters | digits, 1)
    assert takes(lexeme.run(lexeme.start, b"abc"), digits, 1_000)


def test_only_what_json_can_go_on_with_is_plausible() -> None:
    for text in (b'"abc', b'": ', b"}, {", b" tru", b"-", b'": [1, "'):
        assert plausible(text)
    for text in (b"abc", b"'", b"trux", b'"a"b', b';"'):
        assert not plausible(text)


def test_slices_change_nothing_but_the_time() -> None:
    """Classes of states whose automata take a slice whole, against one token after the other."""
    vocabulary = byte_vocabulary()
    taken = 0
    for pattern in ("foo", "^[a-zA-Z0-9]*$", "^[^x]*$", "^[ 0-9A-Za-z\u0080-\U0010ffff]+z$"):
        lexeme = DfaLexeme(json_string_body(CharDfa.from_pattern(pattern)), quoted=True)
        for state in range(min(8, lexeme.table.shape[0])):
            taken += slice_taken(lexeme, state, vocabulary.slices) is not None
            assert_classified(vocabulary, lexeme, state)
    assert taken > 4


def assert_classified(vocabulary: Vocabulary, lexeme: DfaLexeme, state: int) -> None:
    """Assert that the state is classified as a plain walk over all words finds it."""
    found = at_root(vocabulary, lexeme, state)
    inside, closing, leaving = kernel_walk(vocabulary.words, lexeme.table, lexeme.accepting, state, lexeme.final)
    row = np.zeros(vocabulary.row_words, np.int32) if found.row is None else found.row.copy()
    kernels.set_bits(row, found.ids)
    assert set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()) == inside
    ending = found.endings[0] if found.endings else None
    assert set(() if ending is None else ending.closers.tolist()) == closing
    remainders = set(vocabulary.remainder_words)
    expected = {t for t, at in leaving if vocabulary.words[t][at:] in remainders}
    assert set(() if ending is None else ending.tokens.tolist()) == expected


def test_a_slice_holds_the_tokens_inside_its_alphabet_and_its_trie_all_others_in_order() -> None:
    """Tokens of 0, 1, 32 and 33 bytes, equal ones, parts of characters, and random ones over what alphabets end at."""
    pick = random.Random(7)
    pieces = [
        b"a",
        b"Z",
        b"0",
        b" ",
        b'"',
        b"\\",
        b"\n",
        b"~",
        "é".encode(),
        b"\xc3",
        b"\xa9",
        "\u3000".encode(),
        b"\x7f",
    ]
    words = [b"", b"a", b"a", b"a" * 32, b"a" * 33, "é".encode() * 16, b"~" * 32, b'"' * 32]
    words += [b"".join(pick.choices(pieces, k=pick.randint(1, 5))) for _ in range(600)]
    for part in Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)]).slices:
        inside = {token for token, word in enumerate(words) if 0 < len(word) <= 32 and stays(part.text, word)}
        bits = np.unpackbits(part.row.view(np.uint8), bitorder="little")
        assert set(np.flatnonzero(bits).tolist()) == inside
        assert part.count == len(inside) > 0
        others = sorted((word, token) for token, word in enumerate(words) if word and token not in inside)
        assert part.rest.ids.tolist() == [token for _, token in others]


def stays(text: DfaLexeme, word: bytes) -> bool:
    state = text.start
    for byte in word:
        state = text.row(state)[byte]
        if state < 0:
            return False
    return True


def test_tokens_of_one_spelling_are_all_known() -> None:
    words = [b"a", b"", b"b", b"a", b'"', b"", b"a", b'x"', b"b"]
    numbers, twins = Vocabulary.from_bytes(words, eos_token_ids=[1])._by_spelling
    assert numbers == {b"a": 0, b"b": 2, b'"': 4, b'x"': 7}
    assert twins == {b"a": [3, 6], b"b": [8]}


def test_tokens_that_cross_strings_are_those_the_pattern_finds() -> None:
    words = [b"a", b'","', b'", "x"', b'"', b",", b'","y",', b""]
    assert Vocabulary.from_bytes(words, eos_token_ids=[6]).strings.is_crossing.tolist() == [
        crosses_strings(word) for word in words
    ]


def test_plain_tokens_lead_every_string_back_to_its_beginning() -> None:
    """Whole characters without an escape, and nothing else: what is followed without stepping over its bytes."""
    words = [*byte_vocabulary().words, b"a\x1fb", b"a\x7f", "aé".encode(), "é".encode()[1:] + b"a", b"\xed\xa0\x80"]
    lexeme = every_string()
    back = [bool(word) and b"\\" not in word and lexeme.run(lexeme.start, word) == lexeme.start for word in words]
    assert list(map(bool, Vocabulary(words, eos_token_ids=[len(byte_vocabulary().words) - 1]).plain)) == back
    assert sum(back) > 100
