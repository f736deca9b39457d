"""Kinds of faults of a stage, by name; each finding says what happened, where, and what was expected."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

FaultKind = Literal[
    "shape",  # a method is missing, takes other arguments or answers another type
    "crashing",  # it raised
    "hanging",  # it did not come back
    "slow",  # over the declared (or the default) budget, or slower the longer the text is
    "growing",  # it keeps text that, by its own words, no longer counts
    "leaking",  # characters that must never leave were released
    "too-strict",  # harmless text was changed or blocked
    "chunk-dependent",  # the outcome depends on how the text was cut
    "non-monotone",  # clear_to went back
    "out-of-range",  # clear_to or a span lies outside of the text
    "inside-span",  # clear_to lies inside a redacted span
    "too-late",  # it redacts what it had already cleared
    "unsettled",  # close() left text undecided
    "shared-state",  # one session's text changed another's outcome
    "holds-too-much",  # more characters wait than declared
    "looks-back",  # more of the past counts than declared
    "other-channel",  # it changes a channel that it does not declare
    "untrue",  # another promise of the contract is not kept
    "not-built",  # its factory refused the settings, so nothing was tried
]


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def first_of_each_kind(faults: Iterable[Fault]) -> list[Fault]:
    """Keep the first message of each kind: more of the same kind would hide the others."""
    found: dict[str, Fault] = {}
    for fault in faults:
        found.setdefault(fault.kind, fault)
    return list(found.values())


def within(limit_s: float, what: str, check: Callable[[], Iterable[Fault]]) -> list[Fault]:
    """Run `check` on a thread of its own and wait no longer than `limit_s`. A thread cannot be killed: one that hangs
    goes on until the process ends, but whoever asked gets an answer, with what was found until then."""
    found: list[Fault] = []

    def run() -> None:
        try:
            for fault in check():
                found.append(fault)
        except Exception as error:
            found.append(Fault("crashing", f"{what} raised {type(error).__name__}: {error}"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        found.append(Fault("hanging", f"{what} was not done after {limit_s:g} s; a stage must always come back"))
    return list(found)
