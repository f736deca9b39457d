"""Define the output of a hold-back window, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.plugins.frozen import frozen_when_checked


@dataclass(frozen=True, slots=True)
class Redaction:
    """Characters [start, end) of what was fed, replaced. Overlapping spans become one, with the first one's rail."""

    start: int
    end: int
    reason: str
    replacement: str
    rail: str


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class Released:
    """The output of one step. `blocked` is the reason that ended the stream, `rail` the rail that gave it.

    `withheld` is text that passed all rails but follows an escalation: it leaves only if a person agrees. `failures`
    lists the rails that failed and how, also where the failure was let pass; `shadow` the actions of rails in shadow
    mode.
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
    told = [step for step in steps if step is not NOTHING]
    if len(told) < 2:
        return told[0] if told else NOTHING
    text: list[str] = []
    withheld: list[str] = []
    holding = False
    for step in told:
        (withheld if holding else text).append(step.text)
        withheld.append(step.withheld)
        holding = holding or bool(step.escalations)
    return Released(
        "".join(text),
        told[-1].blocked,
        told[-1].rail,
        tuple(redaction for step in told for redaction in step.redactions),
        tuple(line for step in told for line in step.escalations),
        tuple(line for step in told for line in step.failures),
        "".join(withheld),
        tuple(line for step in told for line in step.shadow),
    )
