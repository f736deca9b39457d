"""A tokenizer's vocabulary as bytes, prepared once for masks."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sluicegate.grammar.automata.byte_level import character_ends, string_bodies
from sluicegate.grammar.automata.tables import dense, partition
from sluicegate.grammar.token_ids import I32, NO_IDS
from sluicegate.grammar.vocabulary import kernels, pruning
from sluicegate.grammar.vocabulary.boundary import (
    BoundaryTokens,
    Ending,
    Scratch,
    plausible,
)
from sluicegate.grammar.vocabulary.escapes import BACKSLASH, QUOTE, EscapeTokens
from sluicegate.grammar.vocabulary.lru import SizedLru
from sluicegate.grammar.vocabulary.punctuation import PunctuationTrie
from sluicegate.grammar.vocabulary.slices import VocabularySlice, make_slices
from sluicegate.grammar.vocabulary.special_words import MARK, special_word
from sluicegate.grammar.vocabulary.string_tokens import StringTokens, inert_tokens, plain_tokens
from sluicegate.grammar.vocabulary.token_bytes import token_bytes
from sluicegate.grammar.vocabulary.trie import FlatTrie, build_flat, order_of
from sluicegate.grammar.vocabulary.word_bytes import word_bytes
from sluicegate.plugins.errors import InvalidGrammar

_BOUNDARIES = re.compile(rb'(?:(?<=")(?=[ \t\r\n:,}\]])|(?<=[0-9el])(?=[ \t\r\n,}\]])|(?<=[ \t\r\n])(?=[^ \t\r\n]))')
CLASSES_BYTES = 128 << 20
"""A dense class takes 16 kB of a 128,000 token vocabulary."""
RESTS_BYTES = 12 << 20
MASKS_BYTES = 16 << 20
LEFT_BYTES = 4 << 20
LOOKAHEADS_BYTES = 1 << 20
_FIRST_BYTES = frozenset(b'{}[],:"tfn')


class Vocabulary:
    """Immutable but for caches. `size` = columns of the logits; `words[t]` = bytes of token t, b"" if special;
    `special` = special and added tokens by name.

    Special tokens are never allowed by any mask, except those in `eos_token_ids`, and these only where a grammar may
    stop, and those that a grammar names, see `marked`.
    """

    def __init__(
        self,
        words: Sequence[bytes],
        *,
        eos_token_ids: Iterable[int],
        size: int | None = None,
        encode: Callable[[str], list[int]] | None = None,
        special: Mapping[str, int] | None = None,
    ) -> None:
        self.special = dict(special or {})
        self.size = max(len(words), size or 0)
        self.eos_token_ids = tuple(sorted(set(eos_token_ids)))
        if size is not None and size < len(words):
            raise InvalidGrammar(f"vocab_size {size} is smaller than the vocabulary ({len(words)} tokens)")
        if not self.eos_token_ids or not all(0 <= t < self.size for t in self.eos_token_ids):
            raise InvalidGrammar(f"eos_token_ids {self.eos_token_ids} must name tokens below {self.size}")
        eos = set(self.eos_token_ids)
        # A tuple of bytes, and dictionaries of bytes and numbers below: the garbage collector does not look into them.
        self.words = tuple([b"" if t in eos else bytes(w) for t, w in enumerate(words)])
        self.encode = encode
        self.spelled = word_bytes(self.words)
        self.longest = int(self.spelled.sizes.max(initial=0))
        """Bytes of the longest token."""
        if self.longest > 1000:
            raise InvalidGrammar("the vocabulary has a token of more than 1000 bytes")
        self.eos = np.array(self.eos_token_ids, np.int32)
        self.row_words = (self.size + 31) // 32
        self.blank: I32 = np.zeros(self.row_words, np.int32)
        """A row that allows nothing, one for all masks that begin with none; not to be written to."""
        self._warm = False
        self.is_prepared = False
        """Whether the states that nearly every schema needs are classified, see `classify.prepare`."""
        self.classes = SizedLru(CLASSES_BYTES)
        """Lexeme states classified so far, see `classification`; shared by all grammars of this vocabulary."""
        self.rests = SizedLru(RESTS_BYTES)
        """The same for the remainders of single words."""
        self.masks = SizedLru(MASKS_BYTES)
        """Whole masks of situations where only punctuation can come, see `matching.state`."""
        self.lookaheads = SizedLru(LOOKAHEADS_BYTES)
        """What can be read of values whose objects and arrays no schema restricts, see `json.values`."""
        self.left_at = SizedLru(LEFT_BYTES)
        """(numbers of remainders, tokens) by the nodes at which walks left an automaton."""
        self.screens: dict[Any, Any] = {}
        """Blocklists compiled for this vocabulary, see `blocked`."""
        self.lock = threading.Lock()
        self._pairs_at: dict[int, tuple[I32, I32]] = {}
        # what is asked of some vocabularies only, or read from disk, is made when it is asked for
        self._marked: Vocabulary | None = None
        self._slices: tuple[VocabularySlice, ...] | None = None
        self._trie: FlatTrie | None = None
        self._punctuation: PunctuationTrie | None = None
        self._structural: BoundaryTokens | None = None
        self._found_structural_words: dict[int, bytes] | None = None
        self._plain: bytes | None = None
        self._inert: bytes | None = None
        self._escapes: EscapeTokens | None = None
        self._strings: StringTokens | None = None
        self._closings: dict[bytes, Ending] | None = None
        self._found_by_spelling: tuple[dict[bytes, int], dict[bytes, list[int]]] | None = None
        self._scratch: Scratch | None = None
        self._trails: Scratch | None = None
        self._found_remainders: frozenset[bytes] | None = None
        self._found_remainder_numbers: dict[bytes, int] | None = None
        self._found_remainders_from: list[list[tuple[bytes, int]]] | None = None

    @classmethod
    def from_bytes(
        cls,
        words: Sequence[bytes],
        *,
        eos_token_ids: Iterable[int],
        vocab_size: int | None = None,
        encode: Callable[[str], list[int]] | None = None,
        special: Mapping[str, int] | None = None,
    ) -> Vocabulary:
        return cls(words, eos_token_ids=eos_token_ids, size=vocab_size, encode=encode, special=special)

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Any, vocab_size: int | None = None, *, eos_token_ids: Iterable[int] | None = None
    ) -> Vocabulary:
        """Prepare the vocabulary of a fast `transformers` tokenizer: byte-level BPE, or SentencePiece with byte
        fallback.

        Raises `InvalidGrammar` for a tokenizer whose tokens have no bytes of their own.
        """
        words = token_bytes(tokenizer)
        eos = list(eos_token_ids) if eos_token_ids is not None else [tokenizer.eos_token_id]
        if any(t is None for t in eos):
            raise InvalidGrammar("the tokenizer has no end-of-sequence token; pass eos_token_ids")

        def encode(text: str) -> list[int]:
            return list(tokenizer.encode(text, add_special_tokens=False))

        special = dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
        special |= tokenizer.get_added_vocab()
        return cls(words, eos_token_ids=eos, size=vocab_size, encode=encode, special=special)

    @classmethod
    def from_tiktoken(
        cls,
        path: str | Path,
        *,
        special_tokens: int = 256,
        eos_offsets: Iterable[int] = (1, 9),
        special: Mapping[str, int] | None = None,
    ) -> Vocabulary:
        """Read a rank file (lines of base64 and rank). Special tokens follow the ranks; `eos_offsets` count from there
        (the defaults are those of Llama 3: end_of_text and eot_id). `special`: tokens by name, for
        grammars that name them."""
        ranks = {}
        for line in Path(path).read_bytes().splitlines():
            if line.strip():
                word, rank = line.split()
                ranks[base64.b64decode(word)] = int(rank)
        n = max(ranks.values()) + 1
        words = [b""] * (n + special_tokens)
        for word, number in ranks.items():
            words[number] = word
        return cls(words, eos_token_ids=[n + offset for offset in eos_offsets], special=special)

    @property
    def marked(self) -> Vocabulary:
        """Return the same vocabulary where special tokens are spelled too, in bytes that no text holds: for grammars
        that name them. Made once, in about a second for 128,000 tokens."""
        if self._marked is None:
            ends = set(self.eos_token_ids)
            words = [
                special_word(token) if not word and token not in ends else b"" if MARK in word else word
                for token, word in enumerate(self.words)
            ]
            found = Vocabulary(
                words, eos_token_ids=self.eos_token_ids, size=self.size, encode=self.encode, special=self.special
            )
            self._marked = found.warm()
        return self._marked

    def spelling(self, word: bytes) -> int | None:
        """Return the first token that spells `word`."""
        return self._by_spelling[0].get(word)

    @property
    def slices(self) -> tuple[VocabularySlice, ...]:
        if self._slices is None:
            self._slices = make_slices(self.spelled, self.trie, self.row_words)
        return self._slices

    @property
    def trie(self) -> FlatTrie:
        if self._trie is None:
            self._trie = build_flat(self.spelled, order_of(self.words))
        return self._trie

    @property
    def punctuation(self) -> PunctuationTrie:
        """Return the trie of all that tokens spell outside strings."""
        if self._punctuation is None:
            self._punctuation = self.punctuation_of(self._remainders)
        return self._punctuation

    @property
    def structural(self) -> BoundaryTokens:
        """Return the tokens that can stand where JSON expects punctuation, a literal or a string's opening quote."""
        if self._structural is None:
            numbers = [self.punctuation.by_path[word].number for word in self._structural_words.values()]
            self._structural = BoundaryTokens(
                np.array(numbers, np.int32), np.array(list(self._structural_words), np.int32)
            )
        return self._structural

    @property
    def _structural_words(self) -> dict[int, bytes]:
        if self._found_structural_words is None:
            begun = self._words_of(self.spelled.beginning(_FIRST_BYTES))
            self._found_structural_words = {token: word for token, word in begun if plausible(word)}
        return self._found_structural_words

    @property
    def plain(self) -> bytes:
        """Return for each token 1 where it spells whole characters that stand in a JSON string as they are, else 0."""
        if self._plain is None:
            self._plain = plain_tokens(self.words)
        return self._plain

    @property
    def inert(self) -> bytes:
        """Return for each token where a tape need not follow its bytes, see `inert_tokens`."""
        if self._inert is None:
            self._inert = inert_tokens(self.spelled)
        return self._inert

    def _words_of(self, tokens: Iterable[int]) -> list[tuple[int, bytes]]:
        return [(token, self.words[token]) for token in tokens]

    @property
    def escapes(self) -> EscapeTokens:
        if self._escapes is None:
            self._escapes = EscapeTokens(self._words_of(self.spelled.holding(BACKSLASH[0])))
        return self._escapes

    @property
    def strings(self) -> StringTokens:
        """Return the tokens with a quote, a few thousand of them: whatever ends or holds a string."""
        if self._strings is None:
            self._strings = StringTokens(self._words_of(self.spelled.holding(QUOTE[0])), len(self.words))
        return self._strings

    @property
    def closings(self) -> dict[bytes, Ending]:
        """Return the tokens that close a string spelled plainly, by what they spell of it, the quote included."""
        if self._closings is None:
            self._closings = self.strings.closings(self._remainder_numbers)
        return self._closings

    def beginnings(self, text: bytes) -> list[int]:
        """Return the tokens that spell a proper beginning of `text`."""
        numbers, twins = self._by_spelling
        found: list[int] = []
        for size in range(1, min(len(text), self.longest + 1)):
            token = numbers.get(text[:size])
            if token is not None:
                found.append(token)
                if twins:
                    found += twins.get(text[:size], ())
        return found

    @property
    def _by_spelling(self) -> tuple[dict[bytes, int], dict[bytes, list[int]]]:
        """Return the first token of each spelling, and the others where there are several."""
        if self._found_by_spelling is None:
            count = len(self.words)
            first = dict(zip(reversed(self.words), range(count - 1, -1, -1), strict=True))
            others: dict[bytes, list[int]] = {}
            blank = self.words.count(b"")
            first.pop(b"", None)
            if len(first) + blank < count:
                for token, word in enumerate(self.words):
                    if word and first[word] != token:
                        others.setdefault(word, []).append(token)
            self._found_by_spelling = first, others
        return self._found_by_spelling

    @property
    def scratch(self) -> Scratch:
        if self._scratch is None:
            size, nodes = self.size, self.trie.size
            self._scratch = Scratch(np.empty(size, np.int32), np.empty(nodes + 1, np.int32), np.empty(size, np.int32))
        return self._scratch

    @property
    def trails(self) -> Scratch:
        """Return room for one walk of `parsing.kernels`: tokens, and pairs (node, state)."""
        if self._trails is None:
            size = self.trie.size + 1
            self._trails = Scratch(
                np.empty(2_000, np.int32), np.empty((size, 2), np.int32), np.empty((4 * size, 2), np.int32)
            )
        return self._trails

    def restore(
        self, trie: FlatTrie, slices: tuple[VocabularySlice, ...], remainders: list[bytes], punctuation: PunctuationTrie
    ) -> None:
        """Take these instead of working them out; `store.snapshot` checks that they fit."""
        self._trie = trie
        self._slices = slices
        self._found_remainders = frozenset(remainders)
        self._punctuation = punctuation

    @property
    def remainder_words(self) -> list[bytes]:
        """Return the bytes that tokens can spell after the end of a lexeme they began inside, sorted."""
        return sorted(self._remainders)

    def punctuation_of(self, remainders: Iterable[bytes]) -> PunctuationTrie:
        return PunctuationTrie({*remainders, *self._structural_words.values()})

    @property
    def _remainders(self) -> frozenset[bytes]:
        if self._found_remainders is None:
            rests = {word[end.start() :] for word in self.words for end in _BOUNDARIES.finditer(word, 1)}
            self._found_remainders = frozenset(rest for rest in rests if plausible(rest))
        return self._found_remainders

    @property
    def _remainder_numbers(self) -> dict[bytes, int]:
        """Return the nodes of `punctuation` that spell `remainder_words`."""
        if self._found_remainder_numbers is None:
            self._found_remainder_numbers = {rest: self.punctuation.by_path[rest].number for rest in self._remainders}
        return self._found_remainder_numbers

    @property
    def _remainders_from(self) -> list[list[tuple[bytes, int]]]:
        """Return the remainders and their nodes by first byte, in order."""
        if self._found_remainders_from is None:
            found: list[list[tuple[bytes, int]]] = [[] for _ in range(256)]
            for rest, number in sorted(self._remainder_numbers.items()):
                found[rest[0]].append((rest, number))
            self._found_remainders_from = found
        return self._found_remainders_from

    def pairs_at(self, node: int) -> tuple[I32, I32]:
        """Return (remainder numbers, tokens) of the subtree at `node` of the flat trie, a remainder beginning with
        it."""
        found = self._pairs_at.get(node)
        if found is None:
            trie = self.trie
            below = trie.ids[trie.first[node] : trie.first[trie.skip[node]]]
            readable = self._remainders_from[trie.byte[node]]
            numbers, tokens = [], []
            if below.size > len(readable):  # after blanks: half of all tokens, of which three words are JSON
                for rest, number in readable:
                    there = trie.at(trie.find(rest[1:], node)).tolist()
                    numbers += [number] * len(there)
                    tokens += there
                below = NO_IDS
            cut = int(trie.depth[node]) - 1
            for token in below.tolist():
                number = self._remainder_numbers.get(self.words[token][cut:])
                if number is not None:
                    numbers.append(number)
                    tokens.append(token)
            found = self._pairs_at[node] = (np.array(numbers, np.int32), np.array(tokens, np.int32))
        return found

    def pairs_after(self, node: int) -> tuple[I32, I32]:
        """Return (remainder numbers, tokens) of the subtree below `node`, itself left out; -1 means that nothing
        follows."""
        key = -2 - node
        found = self._pairs_at.get(key)
        if found is None:
            parts = []
            below, end = node + 1, int(self.trie.skip[node]) if node >= 0 else 0
            while below < end:
                parts.append(self.pairs_at(below))
                below = int(self.trie.skip[below])
            found = self._pairs_at[key] = (
                np.concatenate([NO_IDS, *(numbers for numbers, _ in parts)]),
                np.concatenate([NO_IDS, *(tokens for _, tokens in parts)]),
            )
        return found

    def warm(self) -> Vocabulary:
        """Build what would otherwise be built at the first mask: about a second for 128,000 tokens, once."""
        if self._warm:
            return self
        self._warm = True
        kernels.warm()
        string_bodies.warm()
        character_ends.warm()
        partition.warm()
        dense.warm()
        pruning.warm()
        _ = (
            self.slices,
            [trie.nodes for trie in (self.trie, *(part.rest for part in self.slices))],
            self.structural,
            self.escapes,
            self.punctuation,
            self.strings.closing,
            self.strings.quoted,
            self.strings.is_crossing,
            self.closings,
            self.plain,
            self.inert,
            self._by_spelling,
            self._remainders_from,
        )
        return self
