"""What the rail promises, tried with the kit, and once through a whole gateway."""

from __future__ import annotations

import pytest
from sluicegate_ticket_rail import TicketRail, register
from sluicegate_ticket_rail.settings import TicketSettings

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError, RailExample, read_settings
from sluicegate.plugins.testing import RailContract, drive

SETTINGS = {"prefixes": ["OPS", "SEC", "OPSEC"]}


def rail(**settings: object) -> TicketRail:
    return TicketRail(read_settings(TicketSettings, {**SETTINGS, **settings}, "tickets"))


class TestRedacting(RailContract):
    examples = (
        RailExample("see OPS-20417.", forbidden=("OPS-20417",)),
        RailExample("ops-123,sec-4567 and OPSEC-999", forbidden=("ops-123", "sec-4567", "OPSEC-999")),
        RailExample("OPS-1234567", forbidden=("OPS-1234567",)),
        RailExample("DEVOPS-20417, OPS-12, OPS-20417b, OPS-12345678, OPS 20417, OPSE-1234"),
        RailExample("all is well with OPS"),
    )

    def rail(self) -> TicketRail:
        return rail()


class TestBlocking(RailContract):
    examples = (
        RailExample("first SEC-20417 then OPS-1", forbidden=("SEC-20417",)),
        RailExample("SECOND-20417"),
    )

    def rail(self) -> TicketRail:
        return rail(action="block")


def test_only_what_may_become_a_ticket_number_waits() -> None:
    """Check that the text leaves up to the first letter of a project key."""
    trace = drive(rail(), "so OPS-20 x", ["so O", "PS-", "20", " x"]).trace
    assert [step.held for step in trace] == [1, 4, 6, 0, 0]


def test_the_operator_chooses_the_replacement() -> None:
    """Check that settings reach the client's text."""
    assert drive(rail(replacement="#"), "OPS-123 OPS-124").released == "# #"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "prefixes"),
        ({"prefixes": ["OPS"], "digit": 3}, "has no 'digit'; did you mean 'digits'"),
        ({"prefixes": ["O PS"]}, "prefixes"),
        ({"prefixes": ["OPS"], "digits": [5, 2]}, "fewest"),
        ({"prefixes": ["OPS"], "action": "drop"}, "redact"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, object], told: str) -> None:
    """Check that the gateway then does not start, and says why."""
    with pytest.raises(ConfigurationError, match=told):
        read_settings(TicketSettings, settings, "tickets")


@pytest.mark.parametrize("stream", [True, False])
def test_no_ticket_number_leaves_a_real_gateway(stream: bool) -> None:
    """Check that a number which the model says in three pieces is replaced for the client."""
    stages = {"moderate": {"tickets": SETTINGS}}
    script = ["That is OP", "S-20", "417, fixed."]
    with TestApp(register, pipeline={"moderate": ["tickets"]}, stages=stages, script=script) as gateway:
        assert gateway.ask("Which ticket?", stream=stream).text == "That is [TICKET], fixed."
