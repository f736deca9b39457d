"""The checks as test classes: derive, name your rail, and pytest runs one test for each promise.

class TestTickets(RailContract):
    examples = (RailExample("see ACME-1234", forbidden=("ACME-1234",)), RailExample("see page 1234"))

    def rail(self) -> TicketRail:
        return TicketRail()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from sluicegate.plugins.contract.verdicts import RailExample
from sluicegate.plugins.testing.faults import Fault, FaultKind
from sluicegate.plugins.testing.rails import check_rail, promised
from sluicegate.plugins.testing.screens import check_screen


class _Contract:
    """Runs the checks once per class; each test then looks for its own kinds of fault. `examples` () = those of the
    rail."""

    examples: ClassVar[Sequence[RailExample]] = ()
    _found: ClassVar[dict[type, list[Fault]]] = {}

    def rail(self) -> Any:
        raise NotImplementedError("define rail(self): make the rail that is to be tried")

    def check(self, rail: Any, examples: Sequence[RailExample] | None) -> list[Fault]:
        raise NotImplementedError

    def test_it_is_tried_on_harmful_and_on_harmless_text(self) -> None:
        examples = self.examples or promised(self.rail()).examples
        assert any(e.forbidden for e in examples), "add an example with a `forbidden` part"
        assert any(not e.forbidden for e in examples), "add an example without `forbidden`, best a near miss"

    def test_nothing_forbidden_gets_through(self) -> None:
        self._expect_no("leaking", "too-late")

    def test_harmless_text_comes_out_as_it_went_in(self) -> None:
        self._expect_no("too-strict")

    def test_it_answers_as_the_contract_says(self) -> None:
        self._expect_no("shape", "untrue", "non-monotone", "out-of-range", "inside-span", "unsettled")

    def test_it_never_raises(self) -> None:
        self._expect_no("crashing")

    def test_it_keeps_within_its_time(self) -> None:
        self._expect_no("slow", "hanging", "growing")

    def test_requests_do_not_know_of_each_other(self) -> None:
        self._expect_no("shared-state")

    def _expect_no(self, *kinds: FaultKind) -> None:
        if type(self) not in self._found:
            self._found[type(self)] = self.check(self.rail(), self.examples or None)
        told = [str(fault) for fault in self._found[type(self)] if fault.kind in kinds]
        if told:
            raise AssertionError("\n".join(told))


class RailContract(_Contract):
    """For an output rail, slot `moderate`."""

    def check(self, rail: Any, examples: Sequence[RailExample] | None) -> list[Fault]:
        return check_rail(rail, examples)

    def test_the_outcome_does_not_depend_on_the_cut(self) -> None:
        self._expect_no("chunk-dependent")

    def test_it_holds_no_more_than_it_declares(self) -> None:
        self._expect_no("holds-too-much")

    def test_it_looks_back_no_further_than_it_declares(self) -> None:
        self._expect_no("looks-back")

    def test_it_leaves_other_channels_alone(self) -> None:
        self._expect_no("other-channel")


class ScreenContract(_Contract):
    """For an input rail, slot `screen`."""

    def check(self, rail: Any, examples: Sequence[RailExample] | None) -> list[Fault]:
        return check_screen(rail, examples)
