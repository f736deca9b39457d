"""What one call of a matcher may take, and what becomes of one that takes more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sluicegate.grammar.budget.meter import Allowance, Exhausted, allowed
from sluicegate.grammar.reading.readings import InLexeme, Thread
from sluicegate.plugins.errors import GrammarLimit, GrammarTooCostly

if TYPE_CHECKING:
    from sluicegate.grammar.reading.value_start import Start

_NAMED = 3
_EXHAUSTED = Exhausted()
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Bounds:
    """`cpu_s`: CPU time of the calling thread for one call. `wait`: for another thread that works on the same grammar;
    else that counts as too much. `pause`: called every millisecond or so of work, by the thread that works."""

    cpu_s: float = 2.0
    wait: bool = True
    pause: Callable[[], None] | None = None


def bounded(
    bounds: Bounds, lock: threading.Lock, threads: Iterable[Thread], act: Callable[..., Found], *arguments: object
) -> Found:
    """`act(*arguments)`. One thread at a time works on a grammar: what is asked of a schema while its parts are asked
    of rests on assumptions that another thread would take for answers. Raises `GrammarTooCostly`, and what was worked
    out until then is kept."""
    if not lock.acquire(blocking=bounds.wait):
        raise _too_costly(bounds, threads)
    try:
        with allowed(Allowance(bounds.cpu_s, _EXHAUSTED, bounds.pause)):
            return act(*arguments)
    except Exhausted:
        raise _too_costly(bounds, threads) from None
    except RecursionError:
        raise GrammarLimit(
            f"what may come next nests too deeply to be followed{_where(threads)}; repeat by `+` or from the left "
            "instead of by recursion from the right, and make fewer rules that may be empty"
        ) from None
    finally:
        lock.release()


def _too_costly(bounds: Bounds, threads: Iterable[Thread]) -> GrammarTooCostly:
    return GrammarTooCostly(
        f"following the grammar takes more than {bounds.cpu_s:g} s of CPU time for one token{_where(threads)}; make it "
        "less ambiguous: end words where the next begins, and repeat by `+` or from the left instead of by recursion "
        "from the right"
    )


def _where(threads: Iterable[Thread]) -> str:
    read = list(dict.fromkeys(name for thread in threads if (name := _name(thread))))
    return f" while it reads {', '.join(read[:_NAMED])}" + " and others" * (len(read) > _NAMED) if read else ""


def _name(thread: Thread) -> str:
    """Of the terminal that is read, or a pointer into the schema."""
    if isinstance(thread, InLexeme):
        name = getattr(thread.follow, "name", "")
        return thread.follow.place() or ("" if name.startswith("_") else name)
    source: Start | object = thread
    return source.source.place(source.terms) if hasattr(source, "source") and hasattr(source, "terms") else ""
