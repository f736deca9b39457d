"""Search for slow calls in processes of their own: one that hangs, dies or grows is ended, and the search goes on."""

from __future__ import annotations

import multiprocessing
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.grammar_sources import Sources, real_grammars, real_schemas
from benchmarks.masks import Encode, load
from benchmarks.smaller_grammars import shrunk
from benchmarks.timed_calls import Drawn, TimedCall, calls_of
from sluicegate.grammar import Vocabulary

_START_S, _STALL_S = 300.0, 300.0
"""Time for a process to begin, and for one grammar: its compiling and its calls are bounded in seconds of CPU time."""
_MEASURED_S = 600.0
AGAIN = 3
"""Times that a finding is measured again, each in a process that has seen no other grammar."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched. `data`: a tokenizer; `most_ms`: CPU time of a call above which it is a finding; `slice_s` and
    `most_gb`: seconds and memory after which a new process goes on."""

    data: Path
    kinds: tuple[str, ...]
    schemas: Path | None = None
    grammars: Path | None = None
    most_ms: float = 50.0
    slice_s: float = 300.0
    most_gb: float = 3.0

    def sources(self) -> Sources:
        return Sources(real_schemas(self.schemas), real_grammars(self.grammars))

    def vocabulary(self) -> tuple[Vocabulary, Encode]:
        """Load the vocabulary, and what is compiled or shared before the first call of a server."""
        vocabulary, encode = load(self.data)
        vocabulary.warm()
        for kind, text in (("lark", 'start: "a"'), ("schema", "{}")):
            calls_of(Drawn(kind, text), vocabulary, encode, 0)
        return vocabulary, encode


class Suspect(NamedTuple):
    """A call that took too long, or ended as none may. `at`: the seed of the grammar; `number`: of the call."""

    at: int
    drawn: Drawn
    number: int
    call: TimedCall


class Tried(NamedTuple):
    """A grammar that compiled, or failed as none may. `calls`: (name, ms, refused) of each."""

    at: int
    kind: str
    calls: list[tuple[str, float, bool]]
    suspects: list[Suspect]


class Broken(NamedTuple):
    """A grammar that ended the process, or its own drawing."""

    at: int
    wrong: str


class _Paused(NamedTuple):
    """The process ends; the next one begins at `at`."""

    at: int


class _Begun(NamedTuple):
    at: int


Event = Tried | Broken
Target = Callable[[Search, int, Any], None]


# --- in a process of its own ------------------------------------------------------------------------------------------


def look_for(search: Search, first: int, found: Connection) -> None:
    """Try grammars from seed `first` on and send what was found, until the time or the memory of a process is used."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that asked ends this one
    sources = search.sources()
    vocabulary, encode = search.vocabulary()
    until, at = time.monotonic() + search.slice_s, first
    while time.monotonic() < until and _memory_gb() < search.most_gb:
        found.send(_Begun(at))
        try:
            drawn = sources.drawn(random.Random(at), search.kinds)
            calls = calls_of(drawn, vocabulary, encode, at)
        except Exception as error:  # a fault of the search itself is no reason to end it
            found.send(Broken(at, f"the search failed: {type(error).__name__}: {error}"))
            calls = None
        if calls is not None:
            found.send(
                Tried(
                    at, drawn.kind, [(*call[:2], call.refused) for call in calls], _suspects(at, drawn, calls, search)
                )
            )
        at += 1
    found.send(_Paused(at))


def _suspects(at: int, drawn: Drawn, calls: list[TimedCall], search: Search) -> list[Suspect]:
    """Return the slowest of the calls of each name that took too long, and the first that ended as none may."""
    found: dict[tuple[str, bool], Suspect] = {}
    for number, call in enumerate(calls):
        if call.wrong or call.ms > search.most_ms:
            known = found.get((call.name, bool(call.wrong)))
            if known is None or (not call.wrong and call.ms > known.call.ms):
                found[call.name, bool(call.wrong)] = Suspect(at, drawn, number, call)
    return list(found.values())


def _memory_gb() -> float:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**30 if sys.platform == "darwin" else most / 2**20


def measure(search: Search, suspect: Suspect, found: Connection) -> None:
    """Send the call as it is when its grammar is followed once more; None where it is not reached."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls = calls_of(suspect.drawn, *search.vocabulary(), suspect.at) or []
    call = calls[suspect.number] if suspect.number < len(calls) else None
    found.send(call if call is not None and call.name == suspect.call.name else None)


def make_smaller(search: Search, suspect: Suspect, found: Connection) -> None:
    """Send a smaller grammar that shows the same."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    vocabulary, encode = search.vocabulary()
    found.send(shrunk(suspect.drawn, vocabulary, encode, suspect.at, suspect.call.wrong, search.most_ms))


# --- in the process that asks -----------------------------------------------------------------------------------------


class _Process:
    """A process that sends what it finds; ended with the block."""

    def __init__(self, target: Callable[..., None], *given: object) -> None:
        context = multiprocessing.get_context("spawn")
        self.found, sent = context.Pipe(duplex=False)
        self._process: BaseProcess = context.Process(target=target, args=(*given, sent), daemon=True)
        self._process.start()
        sent.close()

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self.found.close()

    def answer(self, seconds: float) -> Any:
        """Return what it sends next. Raises `TimeoutError` past the seconds, `EOFError` where it died."""
        if not self.found.poll(max(seconds, 0.0)):
            raise TimeoutError(f"nothing within {seconds:g} s")
        try:
            return self.found.recv()
        except EOFError:
            self._process.join()
            raise EOFError(f"the process died with {self._process.exitcode}") from None


def events(
    search: Search, first: int, until: float, target: Target = look_for, stall_s: float = _STALL_S
) -> Generator[Event | None]:
    """Yield what is found from seed `first` until the time `until` (`time.monotonic`); None where a process ends and
    nothing runs beside what is done then."""
    at = first
    while time.monotonic() < until:
        began = at
        with _Process(target, search, at) as process:
            seconds = _START_S
            while time.monotonic() < until:
                try:
                    event = process.answer(seconds)
                except (TimeoutError, EOFError) as error:
                    yield Broken(at, str(error))
                    at += 1
                    break
                seconds = stall_s
                at = event.at
                if isinstance(event, _Paused):
                    break
                if not isinstance(event, _Begun):
                    yield event
        at = max(at, began + 1)
        yield None


def measured_again(search: Search, suspect: Suspect, times: int = AGAIN) -> list[TimedCall | None]:
    """Measure the call in `times` processes, one after the other."""
    return [_asked(measure, search, suspect) for _ in range(times)]


def smaller_grammar(search: Search, suspect: Suspect) -> str:
    """Return a smaller grammar that shows the same; "" where none was found in time."""
    return _asked(make_smaller, search, suspect) or ""


def _asked(target: Callable[..., None], *given: object) -> Any:
    with _Process(target, *given) as process:
        try:
            return process.answer(_MEASURED_S)
        except (TimeoutError, EOFError):
            return None
