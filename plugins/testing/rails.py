"""Tests an output rail against its contract and reports the faults.

Not covered: whether the rail's rules are right beyond the given examples. A rail that hangs is reported, but its thread
cannot be stopped.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from time import thread_time

from sluicegate.plugins.contract.names import Channel
from sluicegate.plugins.contract.optional import properties_of
from sluicegate.plugins.contract.requests import Caller
from sluicegate.plugins.contract.slots import InputRail, OutputRail
from sluicegate.plugins.contract.verdicts import RailExample, RailProperties
from sluicegate.plugins.testing.chunking import Chunking, chunkings
from sluicegate.plugins.testing.doubles import make_request
from sluicegate.plugins.testing.faults import Fault, first_of_each_kind, within
from sluicegate.plugins.testing.reference_window import Driven, ReferenceWindow, drive

CHANNELS: tuple[Channel, ...] = ("content", "reasoning", "tool_arguments")
BUDGET_S = 0.05
"""Time limit of one call of a rail that promises none: rails run on the event loop, where everything waits for the
slowest."""
LIMIT_S = 20.0
LONG = 4000
GROWTH = 4.0
"""Largest growth of the time per character when a text gets eight times as long; quadratic work grows by eight."""
ORDINARY = (
    "",
    "Dear Ms Ito,\nthe parts will be shipped on Friday. Kind regards, Ben\n",
    '{"name": "Zoë Ålund", "tags": ["a", "b\\u00e9"], "total": 318.40, "note": null}',
    "e\u0301 and \u200bzero\u200dwidth, \u202ertl\u202c, 漢字かな, \U0001f469\u200d\U0001f680, \ufb01ne, １２３",
    "def f(x):\n\treturn x  # " + "-" * 60 + "\n" + " " * 40 + "\n",
)
"""Texts that every rail must handle within the contract, whatever its verdict."""


def promised(rail: OutputRail | InputRail) -> RailProperties:
    """Return the rail's declared properties, or the defaults, which promise nothing."""
    return properties_of(rail) or RailProperties()


def check_rail(rail: OutputRail, examples: Sequence[RailExample] | None = None, *, seed: int = 0) -> list[Fault]:
    """Find everything that is wrong with `rail`, one message of each kind; [] where nothing was found. `examples` are
    tried with ordinary texts beside them; without any, those of the rail's own `properties` are."""
    declared = promised(rail)
    given = declared.examples if examples is None else tuple(examples)
    return first_of_each_kind(within(LIMIT_S, "the rail", lambda: _until_slow(_all(rail, declared, given, seed))))


def spans_of(example: RailExample) -> list[tuple[int, int]]:
    """Return every place in the example's text that must not be released."""
    return [span for part in example.forbidden for span in _places(example.text, part)]


def _places(text: str, part: str) -> Iterator[tuple[int, int]]:
    start = text.find(part)
    if start < 0 or not part:
        raise ValueError(f"the forbidden part {part!r} does not occur in the example {text!r}; mend the example")
    while start >= 0:
        yield start, start + len(part)
        start = text.find(part, start + 1)


def _until_slow(faults: Iterator[Fault]) -> Iterator[Fault]:
    """Yield faults up to the first of slowness: a slow rail would make the remaining checks take too long."""
    for fault in faults:
        yield fault
        if fault.kind == "slow":
            return


def _all(rail: OutputRail, declared: RailProperties, given: Sequence[RailExample], seed: int) -> Iterator[Fault]:
    texts = [example.text for example in given] or list(ORDINARY[1:])
    yield from _shape(rail)
    yield from _sessions(rail, texts)  # first: a rail that remembers is no longer the same after other checks
    for example in given:
        for channel in sorted(declared.channels):
            yield from _example(rail, declared, example, channel, seed)
    for text in ORDINARY:
        yield from _driven(rail, declared, text, _drives(rail, text, [], "content", seed), "content")
    yield from _other_channels(rail, declared, texts)
    yield from _past(rail, declared, texts)
    yield from _growth(rail, declared)
    yield from _memory(rail, declared)


def _shape(rail: OutputRail) -> Iterator[Fault]:
    if not isinstance(getattr(rail, "name", None), str):
        yield Fault("shape", f"{type(rail).__name__} has no `name`; set it to the name it is registered under")
    found = getattr(rail, "properties", None)
    if found is not None and not isinstance(found, RailProperties):
        yield Fault("shape", f"`properties` must be a RailProperties, found {type(found).__name__}")


def _example(
    rail: OutputRail, declared: RailProperties, example: RailExample, channel: Channel, seed: int
) -> Iterator[Fault]:
    spans = spans_of(example)
    drives = _drives(rail, example.text, spans, channel, seed)
    for found in drives:
        yield from _leaks(found, example.text, spans)
        if not found.faults:
            yield from _strict(found, example.text, spans)
    yield from _driven(rail, declared, example.text, drives, channel)


def _drives(rail: OutputRail, text: str, spans: Sequence[tuple[int, int]], channel: Channel, seed: int) -> list[Driven]:
    return [drive(rail, text, chunking, channel=channel) for chunking in chunkings(text, spans, seed=seed)]


def _leaks(found: Driven, text: str, spans: Sequence[tuple[int, int]]) -> Iterator[Fault]:
    for start, end in spans:
        for passed_start, passed_end in found.passed:
            low, high = max(start, passed_start), min(end, passed_end)
            if low < high:
                place = f"{text[start:end]!r} at {start}..{end} of {_short(text)}"
                yield Fault("leaking", f"{place} must never leave, but {text[low:high]!r} did (fed {found.chunking})")


def _strict(found: Driven, text: str, spans: Sequence[tuple[int, int]]) -> Iterator[Fault]:
    if not spans and (found.verdict != "pass" or found.released != text):
        yield Fault("too-strict", f"the harmless text {_short(text)} gave {_outcome_text(found)}")


def _driven(
    rail: OutputRail, declared: RailProperties, text: str, drives: Sequence[Driven], channel: Channel
) -> Iterator[Fault]:
    """Check what holds for every text: the contract of verdicts, one outcome, the declared hold-back and time."""
    first, limit = drives[0], declared.hold_back
    for found in drives:
        yield from found.faults
        if not found.faults and not first.faults and found.outcome != first.outcome:
            yield _differing(rail, text, first, found, channel)
        if limit is not None and found.most_held > limit:
            waited = f"{found.most_held} characters of {_short(text)} waited (fed {found.chunking})"
            yield Fault("holds-too-much", f"{waited}, hold_back declares {limit}")
    yield from _slow(rail, declared, text, max(drives, key=lambda found: found.slowest_s), channel)


def _differing(rail: OutputRail, text: str, first: Driven, found: Driven, channel: Channel) -> Fault:
    """Return the fault shown by two ways of feeding with different outcomes. The chunking is to blame only if the first
    way, repeated, gives the same outcome again."""
    again = drive(rail, text, Chunking(first.chunking, _pieces_of(first, text)), channel=channel)
    if again.outcome != first.outcome:
        return _shared(first, again, text, "after other sessions")
    ways = f"fed {first.chunking} gives {_outcome_text(first)}, fed {found.chunking} gives {_outcome_text(found)}"
    return Fault("chunk-dependent", f"{_short(text)} {ways}")


def _slow(rail: OutputRail, declared: RailProperties, text: str, found: Driven, channel: Channel) -> Iterator[Fault]:
    budget_s = BUDGET_S if declared.budget_s is None else declared.budget_s
    pieces = Chunking(found.chunking, _pieces_of(found, text))
    slowest_s = found.slowest_s
    for _ in range(2):  # a busy machine is not the rail's fault: the best of three counts
        if slowest_s <= budget_s:
            return
        slowest_s = min(slowest_s, drive(rail, text, pieces, channel=channel).slowest_s)
    if slowest_s > budget_s:
        promise = "the default is" if declared.budget_s is None else "budget_s declares"
        took = f"one call took {slowest_s:.3g} s on {_short(text)} (fed {found.chunking})"
        yield Fault("slow", f"{took}, {promise} {budget_s:g} s; everyone waits while a rail computes")


def _pieces_of(found: Driven, text: str) -> tuple[str, ...]:
    borders = sorted({0, len(text), *(step.fed for step in found.trace)})
    return tuple(text[a:b] for a, b in pairwise(borders))


def _sessions(rail: OutputRail, texts: Sequence[str]) -> Iterator[Fault]:
    """Check that sessions are independent: two fed in turns, and one text repeated after all others, give the same
    outcomes."""
    alone = [drive(rail, text) for text in texts]
    for text, found, other in zip(texts, alone, [*texts[1:], texts[0]], strict=True):
        mixed = _interleaved(rail, text, other)
        if not found.faults and mixed.outcome != found.outcome:
            yield _shared(found, mixed, text, f"beside a session that reads {_short(other)}")
    again = drive(rail, texts[0])
    if not alone[0].faults and again.outcome != alone[0].outcome:
        yield _shared(alone[0], again, texts[0], "after other sessions")


def _shared(alone: Driven, other: Driven, text: str, when: str) -> Fault:
    what = f"{_short(text)} alone gave {_outcome_text(alone)}, {when} it gives {_outcome_text(other)}"
    return Fault("shared-state", f"{what}; keep state in the session, not in the rail")


def _interleaved(rail: OutputRail, text: str, other: str) -> Driven:
    windows = [
        ReferenceWindow(rail.open(make_request(), Caller(), "content"), "by character, in turns") for _ in range(2)
    ]
    for characters in zip_longest(text, other, fillvalue=""):
        for window, character in zip(windows, characters, strict=True):
            if character:
                window.feed(character)
    for window in reversed(windows):
        window.close()
    return windows[0].driven


def _other_channels(rail: OutputRail, declared: RailProperties, texts: Sequence[str]) -> Iterator[Fault]:
    for channel in CHANNELS:
        for text in texts if channel not in declared.channels else ():
            found = drive(rail, text, channel=channel)
            yield from found.faults
            if not found.faults and found.released != text:
                yield Fault(
                    "other-channel",
                    f"channels declares {sorted(declared.channels)}, but on {channel!r} "
                    f"{_short(text)} gave {_outcome_text(found)}",
                )


def _past(rail: OutputRail, declared: RailProperties, texts: Sequence[str]) -> Iterator[Fault]:
    """Check that a fresh session which starts `look_back` characters before `clear_to` treats the rest alike."""
    if declared.look_back is None:
        return
    for text in texts:
        whole = drive(rail, text)
        for step in whole.trace[:-1:7] if not whole.faults else ():
            start = max(0, step.clear_to - declared.look_back)
            late = drive(rail, text[start:])
            if _tail(late, start, step.clear_to) != _tail(whole, 0, step.clear_to):
                what = f"read from character {start} on, {_short(text)} is treated otherwise after {step.clear_to}"
                yield Fault("looks-back", f"{what}; look_back declares {declared.look_back}, more of the past counts")
                return


def _tail(found: Driven, offset: int, after: int) -> tuple[list[tuple[int, int, str]], str, str]:
    spans = [(s.start + offset, s.end + offset, s.reason) for s in found.redacted if s.start + offset >= after]
    return spans, found.verdict if found.verdict == "block" else "", found.reason


def _growth(rail: OutputRail, declared: RailProperties) -> Iterator[Fault]:
    """Check that a character costs the same however long the text has become, fed by character."""
    channel = _first(declared)
    ratio = GROWTH + 1
    for _ in range(3):
        short_s, long_s = (_seconds_per_character(rail, n, channel) for n in (LONG // 8, LONG))
        ratio = min(ratio, long_s / max(short_s, 1e-7))
        if ratio <= GROWTH:
            return
    yield Fault(
        "slow",
        f"a character of a 4,000 character text costs {ratio:.1f} times one of a 500 character "
        "text; do not read the whole text again on every call",
    )


def _first(declared: RailProperties) -> Channel:
    return min(declared.channels, default="content")


def _long_text(length: int) -> str:
    return (ORDINARY[1] * (length // len(ORDINARY[1]) + 1))[:length]


def _seconds_per_character(rail: OutputRail, length: int, channel: Channel) -> float:
    text = _long_text(length)
    session = rail.open(make_request(), Caller(), channel)
    started = thread_time()
    for character in text:
        if getattr(session.feed(character), "block", None) is not None:
            break
    return (thread_time() - started) / length


def _memory(rail: OutputRail, declared: RailProperties) -> Iterator[Fault]:
    """Check that a session keeps no past where it is declared not to count: answers are many and long."""
    if declared.look_back is None or declared.hold_back is None:
        return
    half = LONG // 2
    grown = sys.maxsize
    for _ in range(3):  # what other threads of the process allocate meanwhile is measured too
        grown = min(grown, _kept_more(rail, half, _first(declared)))
        if grown < half:
            return
    what = f"a session keeps {grown} bytes more after {half} more characters"
    yield Fault("growing", f"{what}, though look_back and hold_back say that they do not count")


def _kept_more(rail: OutputRail, length: int, channel: Channel) -> int:
    """Return by how many bytes memory grows between `length` characters and twice as many."""
    session = rail.open(make_request(), Caller(), channel)
    tracing = tracemalloc.is_tracing()
    tracemalloc.start()
    kept = []
    for _ in range(2):
        for character in _long_text(length):
            if getattr(session.feed(character), "block", None) is not None:
                break
        gc.collect()  # else garbage of the first half that goes in the second hides what the session keeps
        kept.append(tracemalloc.get_traced_memory()[0])
    if not tracing:
        tracemalloc.stop()
    return kept[1] - kept[0]


def _outcome_text(found: Driven) -> str:
    reason = f" ({found.reason})" if found.reason else ""
    return f"{_short(found.released)} with verdict {found.verdict}{reason}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:40]}...{text[-15:]}")
