"""Define the results of a hold-back window's steps."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.plugins.frozen import frozen_when_checked


@dataclass(frozen=True, slots=True)
class Redaction:
    """A replacement of characters [start, end) of the text fed. Overlapping spans are merged under the first one's
    rail."""

    start: int
    end: int
    reason: str
    replacement: str
    rail: str


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Released:
    """The result of one step. `blocked` is the reason that ended the stream, `rail` the rail that gave it.

    `withheld` is text that passed all rails but follows an escalation: it is released only if a person agrees.
    `failures` lists the rails that failed and how, also where the policy lets failures pass; `shadow` the actions of
    rails in shadow mode.
    """

    text: str = ""
    blocked: str | None = None
    rail: str | None = None
    redactions: tuple[Redaction, ...] = ()
    escalations: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    withheld: str = ""
    shadow: tuple[str, ...] = ()


NOTHING = Released()


def joined(*steps: Released) -> Released:
    """Join several steps to one; the last decides whether the stream continues. Text after an escalation is
    withheld."""
    kept = [step for step in steps if step is not NOTHING]
    if len(kept) < 2:
        return kept[0] if kept else NOTHING
    text: list[str] = []
    withheld: list[str] = []
    holding = False
    for step in kept:
        (withheld if holding else text).append(step.text)
        withheld.append(step.withheld)
        holding = holding or bool(step.escalations)
    return Released(
        "".join(text),
        kept[-1].blocked,
        kept[-1].rail,
        tuple(redaction for step in kept for redaction in step.redactions),
        tuple(line for step in kept for line in step.escalations),
        tuple(line for step in kept for line in step.failures),
        "".join(withheld),
        tuple(line for step in kept for line in step.shadow),
    )
