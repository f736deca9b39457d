"""Compile lookahead, lookbehind, and anchors anywhere: an alternating automaton made deterministic.

A thread is a state of the pattern plus obligations on the rest of the text. A lookahead adds an obligation: the threads
of its own pattern, run in parallel (Chandra, Kozen and Stockmeyer, "Alternation", 1981). The pattern of a lookbehind
runs from the first character on, so it is known at every position whether a match ends there. `^` is
"nothing behind", `$` is "nothing ahead", `\\b` is one lookbehind and one lookahead.

Not covered: a lookahead, `$` or `\\b` inside a lookbehind, which depends on later text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluicegate.grammar.automata.charsets import EVERY, Ranges, partition
from sluicegate.grammar.automata.patterns.syntax import (
    ANYTHING,
    Alt,
    Chars,
    EndAnchor,
    Lookaround,
    Node,
    Repeat,
    Seq,
    StartAnchor,
    WordBoundary,
    has_anchor,
)
from sluicegate.grammar.automata.tables.table import Row, Table, minimal
from sluicegate.grammar.budget.meter import WorkMeter
from sluicegate.plugins.errors import UnsupportedGrammar

Obligation = tuple[bool, frozenset["NfaThread"]]  # negative?, threads of the lookahead's pattern
NfaThread = tuple[int, frozenset[Obligation]]  # state, what the rest of the text must also meet
NfaThreads = frozenset[NfaThread]
_NO_DUTIES: frozenset[Obligation] = frozenset()


@dataclass(slots=True)
class _Graph:
    """Thompson's construction (1968). Every state has at most one kind of way out."""

    free: list[list[int]] = field(default_factory=list)  # targets without reading
    reads: list[tuple[int, int] | None] = field(default_factory=list)  # (set, target)
    ahead: list[tuple[bool, int, int] | None] = field(default_factory=list)  # (negative, its start, target)
    behind: list[tuple[bool, int, int] | None] = field(default_factory=list)  # (negative, tracker, target)
    trackers: list[tuple[int, int]] = field(default_factory=list)  # (start, final), inner ones first
    finals: set[int] = field(default_factory=set)  # of lookaheads and of the whole: `.*` follows
    alphabet: list[Ranges] = field(default_factory=lambda: [EVERY])


def search_table(tree: Node, meter: WorkMeter) -> Table:
    """Return the canonical table of the texts in which `tree` occurs."""
    builder = _GraphBuilder(meter)
    graph = builder.graph
    start = builder.add(Seq([ANYTHING, tree]), builder.final())
    return minimal(_Simulation(graph, start, meter).table(), meter)


class _GraphBuilder:
    """Builds backwards: `add(node, target)` returns the state from which `node` leads to `target`."""

    def __init__(self, meter: WorkMeter) -> None:
        self.graph = _Graph()
        self.meter = meter
        self.numbers: dict[Ranges, int] = {EVERY: 0}
        self.shared: dict[object, int] = {}  # (ahead?, identity of the item) -> start, or number of the tracker

    def state(self) -> int:
        self.meter.states()
        graph = self.graph
        graph.free.append([])
        for ways in (graph.reads, graph.ahead, graph.behind):
            ways.append(None)
        return len(graph.free) - 1

    def final(self) -> int:
        """Add a state that accepts whatever follows."""
        state = self.state()
        self.graph.reads[state] = (0, state)
        self.graph.finals.add(state)
        return state

    def add(self, node: Node, target: int) -> int:
        if isinstance(node, Seq):
            for item in reversed(node.items):
                target = self.add(item, target)
            return target
        if isinstance(node, Repeat):
            return self.repeat(node, target)
        if isinstance(node, WordBoundary):
            return self.add(_edge_as_looks(node), target)
        state = self.state()
        if isinstance(node, Chars):
            number = self.numbers.setdefault(node.ranges, len(self.graph.alphabet))
            if number == len(self.graph.alphabet):
                self.graph.alphabet.append(node.ranges)
            self.graph.reads[state] = (number, target)
        elif isinstance(node, Alt):
            self.graph.free[state] = [self.add(item, target) for item in node.items]
        elif isinstance(node, Lookaround) and node.ahead:
            self.graph.ahead[state] = (node.negative, self.lookahead(node.item), target)
        elif isinstance(node, Lookaround):
            self.graph.behind[state] = (node.negative, self.tracker(node), target)
        elif isinstance(node, StartAnchor):
            self.graph.behind[state] = (True, self.track(_ANY_CHARACTER), target)
        else:
            assert isinstance(node, EndAnchor)
            self.graph.ahead[state] = (True, self.lookahead(_ANY_CHARACTER), target)
        return state

    def repeat(self, node: Repeat, target: int) -> int:
        if node.high is None:
            loop = self.state()
            self.graph.free[loop] = [self.add(node.item, loop), target]
            start = loop
        else:
            start = target
            for _ in range(node.high - node.low):
                skip = self.state()
                self.graph.free[skip] = [self.add(node.item, start), target]
                start = skip
        for _ in range(node.low):
            start = self.add(node.item, start)
        return start

    def lookahead(self, item: Node) -> int:
        """Return its start. Copies share their states; else the sets of obligations of a repetition would double with
        each copy."""
        key = (True, _identity(item))
        if key not in self.shared:
            self.shared[key] = self.add(item, self.final())
        return self.shared[key]

    def tracker(self, node: Lookaround) -> int:
        if has_anchor(node.item, (EndAnchor,)) or _looks_ahead(node.item):
            raise UnsupportedGrammar(
                f"pattern: not supported: a lookahead, '$' or '\\b' inside the lookbehind at position {node.position}; "
                "move it out of the lookbehind"
            )
        return self.track(node.item)

    def track(self, item: Node) -> int:
        key = (False, _identity(item))
        if key not in self.shared:
            end = self.state()
            start = self.add(Seq([ANYTHING, item]), end)
            self.shared[key] = len(self.graph.trackers)
            self.graph.trackers.append((start, end))
        return self.shared[key]


_ANY_CHARACTER = Chars(EVERY)


def _identity(item: Node) -> object:
    """Identify equal sets of characters, and a node met again in a copy. The tree outlives the building."""
    return item.ranges if isinstance(item, Chars) else id(item)


def _edge_as_looks(edge: WordBoundary) -> Node:
    """Say that the characters behind and ahead differ in being word characters, or (`negative`) agree."""
    word = Chars(edge.word)

    def place(behind: bool, ahead: bool) -> Node:
        return Seq(
            [Lookaround(word, False, not behind, edge.position), Lookaround(word, True, not ahead, edge.position)]
        )

    return Alt([place(True, edge.negative), place(False, not edge.negative)])


def _looks_ahead(node: Node) -> bool:
    if isinstance(node, WordBoundary):
        return True
    if isinstance(node, Lookaround):
        return node.ahead or _looks_ahead(node.item)
    if isinstance(node, (Seq, Alt)):
        return any(_looks_ahead(item) for item in node.items)
    return isinstance(node, Repeat) and _looks_ahead(node.item)


@dataclass(frozen=True, slots=True)
class _DfaState:
    """A state of the deterministic automaton: main threads, and the states of every lookbehind's pattern."""

    threads: NfaThreads
    behind: tuple[frozenset[int], ...]


class _Simulation:
    """Runs all threads in step, one class of characters at a time."""

    def __init__(self, graph: _Graph, start: int, meter: WorkMeter) -> None:
        self.graph = graph
        self.meter = meter
        self.start = start
        self.starts, self.classes, members = partition(graph.alphabet)
        self.has = [frozenset(n for n in range(len(graph.alphabet)) if sets >> n & 1) for sets in members]
        self.facts: tuple[bool, ...] = ()  # does lookbehind i match at the current place?

    def table(self) -> Table:
        self.meter.renew()
        seeds = tuple(frozenset([start]) for start, _ in self.graph.trackers)
        queue = [self.arrive(frozenset([(self.start, _NO_DUTIES)]), seeds)]
        number = {queue[0]: 0}
        rows: list[Row] = []
        for place in queue:
            row: Row = {}
            for c, sets in enumerate(self.has):
                after = self.step(place, sets)
                if not after.threads:
                    continue
                if after not in number:
                    self.meter.states()
                    number[after] = len(queue)
                    queue.append(after)
                row[c] = number[after]
            rows.append(row)
        return Table(self.starts, self.classes, rows, [self.accepts(place.threads) for place in queue])

    def arrive(self, threads: NfaThreads, behind: tuple[frozenset[int], ...]) -> _DfaState:
        """Close over moves that read nothing, lookbehinds first: the threads depend on them."""
        facts: list[bool] = []
        self.facts = ()
        closed = []
        for states, (_, end) in zip(behind, self.graph.trackers, strict=True):
            whole = frozenset(state for state, _ in self.close(frozenset((s, _NO_DUTIES) for s in states)))
            closed.append(whole)
            facts.append(end in whole)
            self.facts = tuple(facts)
        return _DfaState(self.close(threads), tuple(closed))

    def step(self, place: _DfaState, sets: frozenset[int]) -> _DfaState:
        reads = self.graph.reads
        behind = tuple(
            frozenset(way[1] for state in states if (way := reads[state]) is not None and way[0] in sets)
            for states in place.behind
        )
        return self.arrive(self.read(place.threads, sets), behind)

    def read(self, threads: NfaThreads, sets: frozenset[int]) -> NfaThreads:
        """Read one character, in obligations too; the result is not closed."""
        reads = self.graph.reads
        out = set()
        for state, duties in threads:
            way = reads[state]
            if way is not None and way[0] in sets:
                out.add((way[1], frozenset((negative, self.read(inner, sets)) for negative, inner in duties)))
        return frozenset(out)

    def close(self, threads: NfaThreads) -> NfaThreads:
        """Return the threads that are reachable without reading, without settled obligations and dominated threads."""
        found: set[NfaThread] = set()
        seen: set[NfaThread] = set()
        stack = list(threads)
        while stack:
            state, raw = stack.pop()
            duties = self.settle(raw)
            if duties is None or (state, duties) in seen:
                continue
            seen.add((state, duties))
            self.meter.clock()
            graph = self.graph
            ahead, behind = graph.ahead[state], graph.behind[state]
            if ahead is not None:
                duty = (ahead[0], frozenset([(ahead[1], _NO_DUTIES)]))
                stack.append((ahead[2], duties | {duty}))
            elif behind is not None:
                if self.facts[behind[1]] != behind[0]:
                    stack.append((behind[2], duties))
            elif graph.free[state]:
                stack.extend((target, duties) for target in graph.free[state])
            else:
                found.add((state, duties))
        return self.reduce(found)

    def settle(self, duties: frozenset[Obligation]) -> frozenset[Obligation] | None:
        """Return the obligations that are still open, None if one is broken."""
        if not duties:
            return duties
        open_duties = set()
        for negative, inner in duties:
            closed = self.close(inner)
            met = any(state in self.graph.finals and not more for state, more in closed)
            if met or not closed:
                if met == negative:
                    return None
                continue
            open_duties.add((negative, closed))
        return frozenset(open_duties)

    def reduce(self, found: set[NfaThread]) -> NfaThreads:
        """Drop a thread when another at the same state owes less."""
        for state, duties in found:
            if not duties and state in self.graph.finals:
                return frozenset([(state, duties)])
        by_state: dict[int, list[frozenset[Obligation]]] = {}
        for state, duties in found:
            by_state.setdefault(state, []).append(duties)
        return frozenset(
            (state, duties)
            for state, choices in by_state.items()
            for duties in choices
            if not any(other < duties for other in choices)
        )

    def accepts(self, threads: NfaThreads) -> bool:
        return any(
            state in self.graph.finals and all(self.accepts(inner) != negative for negative, inner in duties)
            for state, duties in threads
        )
