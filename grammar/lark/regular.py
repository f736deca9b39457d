"""Turn rules over characters into rules over lexemes: a part that refers to no recursive rule becomes one automaton."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.byte_level.json_strings import Spelling
from sluicegate.grammar.automata.construction.subset import compile_tree
from sluicegate.grammar.automata.patterns.syntax import Alt, Chars, Node, Repeat, Seq
from sluicegate.grammar.budget.meter import Budget, WorkMeter, look
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.lexemes.token_bound import TokenBoundLexeme
from sluicegate.grammar.parsing.rules import Production, Symbol
from sluicegate.grammar.vocabulary.lru import SizedLru
from sluicegate.plugins.errors import GrammarLimit

_MOST_CHARS = 2_000
"""Characters of one automaton, repetitions written out; what is longer stays a rule."""
_DEEPEST = 100
"""Nodes below each other in a rule that is put in the place of its name, those of rules that it refers to among them;
what is deeper stays a rule. Trees are walked recursively."""
_BUDGET = Budget(max_states=4_000, max_seconds=0.5)
_MOST_SYMBOLS = 50_000
_NOTHING: Symbol = (False, "no text")
_KEPT = SizedLru(8 << 20)
_PART_BYTES = 400
"""Bytes of a state, or of a range of characters, at most."""


@dataclass(slots=True, eq=False)
class RuleRef(Node):
    """Another rule, by name; `position` is where it is named."""

    name: str
    position: int


@dataclass(slots=True, eq=False)
class Texts(Node):
    """Texts that have an automaton already; perhaps at most so many tokens of one."""

    texts: CharDfa
    max_tokens: int | None = None


class Rules:
    """`trees`: what each rule stands for; every `RuleRef` in them names another, or one of `given`: terminals that are
    no characters, without a lexeme where they end a text. `limited`: rules whose texts are not those of their trees.
    Used once."""

    def __init__(
        self,
        trees: Mapping[str, Node],
        spell: Spelling,
        given: Mapping[str, DfaLexeme | None],
        limited: Collection[str] = (),
    ) -> None:
        self._trees = trees
        self._spell = spell
        self._given = given
        ordered, apart = _in_order({**trees, **{name: RuleRef(name, 0) for name in given}})
        self._sizes: dict[str, int] = dict.fromkeys([*apart, *limited], _MOST_CHARS + 1)
        self._heights: dict[str, int] = {}
        for name in ordered:
            size, height = self._measured(trees[name])
            self._heights[name] = height + 1
            self._sizes.setdefault(name, size if height < _DEEPEST else _MOST_CHARS + 1)
        self._rules: list[Production] = []
        self._lexemes: dict[str, DfaLexeme] = {}
        self._named: dict[bytes, tuple[Symbol, ...]] = {}
        self._wanted: list[str] = []
        self._done: set[str] = set()
        self._symbols = 0

    def read(self, root: str) -> tuple[list[Production], dict[str, DfaLexeme]]:
        """Return the rules that `root` needs, and their lexemes. Raises `GrammarLimit`."""
        pending = [root]
        while pending:
            name = pending.pop()
            if name not in self._done:
                self._done.add(name)
                self._rule(name, self._emit(self._trees[name]))
                pending += self._wanted
                self._wanted.clear()
        return self._rules, self._lexemes

    def texts_of(self, name: str) -> CharDfa | None:
        """Return all texts of a rule; None where it has no automaton of its own."""
        tree = self._trees[name]
        if isinstance(tree, Texts):
            return tree.texts
        if not self._is_regular(tree):
            return None
        return CharDfa(compile_tree(self._inlined(tree), WorkMeter(_BUDGET, "rule")))

    def _rule(self, origin: str, expansion: Iterable[Symbol]) -> None:
        rule = Production(origin, tuple(expansion))
        self._symbols += 1 + len(rule.expansion)
        if self._symbols > _MOST_SYMBOLS:
            raise GrammarLimit(f"the grammar needs more than {_MOST_SYMBOLS} symbols; shorten its counted repetitions")
        self._rules.append(rule)

    def _fresh(self) -> str:
        return f"part {len(self._rules)}"

    # --- sizes ---

    def _measured(self, node: Node) -> tuple[int, int]:
        """Count the characters written out, at most `_MOST_CHARS` + 1, which recursive rules get; and the nodes below
        each other."""
        if isinstance(node, RuleRef):
            return self._sizes[node.name], self._heights.get(node.name, 0)
        if isinstance(node, Repeat):
            size, height = self._measured(node.item)
            return min(size * max(node.low, node.high or 1, 1), _MOST_CHARS + 1), height + 1
        if isinstance(node, Seq | Alt):
            size, height = 1, 0
            for item in node.items:
                size_of_item, height_of_item = self._measured(item)
                size += size_of_item
                height = max(height, height_of_item)
            return min(size, _MOST_CHARS + 1), height + 1
        return (_MOST_CHARS + 1 if isinstance(node, Texts) else 1), 1

    def _is_regular(self, node: Node) -> bool:
        return self._measured(node)[0] <= _MOST_CHARS

    # --- rules ---

    def _emit(self, node: Node) -> tuple[Symbol, ...]:
        """Make rules and return the symbols that stand for `node`."""
        look()
        if self._is_regular(node):
            try:
                return self._terminal(node)
            except GrammarLimit:
                if isinstance(node, Chars):
                    raise
        if isinstance(node, RuleRef):
            if node.name in self._given:
                lexeme = self._given[node.name]
                self._lexemes |= {} if lexeme is None else {node.name: lexeme}
                return ((True, node.name),)
            self._wanted.append(node.name)
            return ((False, node.name),)
        if isinstance(node, Texts):
            return self._of_texts(node.texts, node.max_tokens)
        if isinstance(node, Seq):
            symbols: list[Symbol] = []
            for part in self._joined(node.items):
                symbols += self._emit(part)
            return tuple(symbols)
        if isinstance(node, Alt):
            return self._alternatives(node)
        assert isinstance(node, Repeat)
        return self._repeat(node)

    def _joined(self, items: list[Node]) -> Iterator[Node]:
        """Join neighbours that are regular together; never all of `items`."""
        run: list[Node] = []
        for item in items:
            if run and not (len(run) + 1 < len(items) and self._is_regular(Seq([*run, item]))):
                yield run[0] if len(run) == 1 else Seq(run)
                run = []
            run.append(item)
        if run:
            yield run[0] if len(run) == 1 else Seq(run)

    def _alternatives(self, node: Alt) -> tuple[Symbol, ...]:
        regular = [item for item in node.items if self._is_regular(item)]
        ways = [item for item in node.items if not self._is_regular(item)]
        together = [Alt(regular)] if ways and len(regular) > 1 else regular
        expansions: list[tuple[Symbol, ...]] = []
        for way in [*ways, *together]:
            expansions.append(self._emit(way))  # a comprehension would nest one call deeper
        name = self._fresh()
        for expansion in expansions:
            self._rule(name, expansion)
        return ((False, name),)

    def _repeat(self, node: Repeat) -> tuple[Symbol, ...]:
        item = self._emit(node.item)
        if node.low * len(item) > _MOST_SYMBOLS or (node.high or 0) > _MOST_SYMBOLS:
            raise GrammarLimit(f"a repetition of more than {_MOST_SYMBOLS} times; lower its count, or use `*` or `+`")
        if node.high is None:
            name = self._fresh()
            self._rule(name, ())
            self._rule(name, ((False, name), *item))
            return (*item * node.low, (False, name))
        tail: tuple[Symbol, ...] = ()
        for _ in range(node.high - node.low):
            name = self._fresh()
            self._rule(name, ())
            self._rule(name, (*item, *tail))
            tail = ((False, name),)
        return (*item * node.low, *tail)

    # --- terminals ---

    def _terminal(self, node: Node) -> tuple[Symbol, ...]:
        texts = _texts_of(self._inlined(node))
        known = self._named.get(texts.digest)
        if known is None:
            known = self._named[texts.digest] = self._of_texts(texts)
        return known

    def _of_texts(self, texts: CharDfa, max_tokens: int | None = None) -> tuple[Symbol, ...]:
        if texts.is_empty():
            return (_NOTHING,)
        if not texts.accepts(""):
            name = f"terminal {len(self._lexemes)}"
            spelled = self._spell(texts)
            self._lexemes[name] = (
                DfaLexeme(spelled, general=True) if max_tokens is None else TokenBoundLexeme(spelled, max_tokens)
            )
            return ((True, name),)
        rest = texts.difference(CharDfa.from_literal(""))
        if rest.is_empty():
            return ()
        name = self._fresh()
        self._rule(name, ())
        self._rule(name, self._of_texts(rest, max_tokens))
        return ((False, name),)

    def _inlined(self, node: Node) -> Node:
        """Replace every reference inside `node` with the tree of its rule."""
        if isinstance(node, RuleRef):
            return self._inlined(self._trees[node.name])
        if isinstance(node, Seq):
            return Seq([self._inlined(item) for item in node.items])
        if isinstance(node, Alt):
            return Alt([self._inlined(item) for item in node.items])
        if isinstance(node, Repeat):
            return Repeat(self._inlined(node.item), node.low, node.high)
        return node


def _texts_of(tree: Node) -> CharDfa:
    """Return the texts of a tree without references; what was asked for lately is kept by content."""
    key = _key(tree)
    known: CharDfa | None = _KEPT.get(key)
    if known is None:
        known = CharDfa(compile_tree(tree, WorkMeter(_BUDGET, "rule")))
        _KEPT.put(key, known, _PART_BYTES * (known.state_count + len(known.table.starts) + _ranges_in(tree)))
    return known


def _key(node: Node) -> Hashable:
    """Return what is the same for trees that look alike."""
    if isinstance(node, Chars):
        return node.ranges
    if isinstance(node, Repeat):
        return node.low, node.high, _key(node.item)
    assert isinstance(node, Seq | Alt)
    return isinstance(node, Seq), tuple([_key(item) for item in node.items])


def _ranges_in(node: Node) -> int:
    """Count the ranges of characters in a tree without references."""
    if isinstance(node, Chars):
        return len(node.ranges) + 1
    items = node.items if isinstance(node, Seq | Alt) else [node.item] if isinstance(node, Repeat) else []
    return 1 + sum([_ranges_in(item) for item in items])


def _in_order(trees: Mapping[str, Node]) -> tuple[list[str], set[str]]:
    """Return the rules that reach no recursive rule, each behind those that it names; and the others: those left when
    rules that name no other are removed repeatedly."""
    left = {name: set(_names(tree)) for name, tree in trees.items()}
    named_by: dict[str, list[str]] = {name: [] for name in trees}
    for name, others in left.items():
        for other in others:
            named_by[other].append(name)
    pending = [name for name, others in left.items() if not others]
    ordered: list[str] = []
    while pending:
        done = pending.pop()
        ordered.append(done)
        del left[done]
        for name in named_by[done]:
            left[name].discard(done)
            if not left[name]:
                pending.append(name)
    return ordered, set(left)


def _names(node: Node) -> Iterator[str]:
    if isinstance(node, RuleRef):
        yield node.name
    elif isinstance(node, Seq | Alt):
        for item in node.items:
            yield from _names(item)
    elif isinstance(node, Repeat):
        yield from _names(node.item)
