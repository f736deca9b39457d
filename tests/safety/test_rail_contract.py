"""The built-in rails are tried as any stranger's."""

from __future__ import annotations

import pytest

from sluicegate.plugins import RailExample
from sluicegate.plugins.testing import RailContract
from sluicegate.safety import MatchPolicy, MatchRail, compile_patterns, compile_phrases, compile_pii, compile_secrets

EMAIL = RailExample("Write to jane.roe@example.com, or not.", ("jane.roe@example.com",))
CARD = RailExample("It is 4111 1111 1111 1111 (a test).", ("4111 1111 1111 1111",))
KEY = RailExample("export KEY=AKIAIOSFODNN7EXAMPLE\n", ("AKIAIOSFODNN7EXAMPLE",))
NEAR = RailExample("Version 5.4.40 of 2012-05-04, 4111 1111 1111 1112, AKIAQKMPISIP, @app.route.")


class TestPersonalData(RailContract):
    examples = (EMAIL, CARD, NEAR)

    def rail(self) -> MatchRail:
        return MatchRail("pii", compile_pii(), MatchPolicy())


class TestBlockingPersonalData(RailContract):
    examples = (EMAIL, CARD, NEAR)

    def rail(self) -> MatchRail:
        return MatchRail("pii", compile_pii(), MatchPolicy("block"), frozenset({"content"}))


class TestCredentials(RailContract):
    examples = (KEY, NEAR)

    def rail(self) -> MatchRail:
        return MatchRail("secrets", compile_secrets(), MatchPolicy())


class TestPhrases(RailContract):
    examples = (
        RailExample("the Blue\nHeron pr\u200botocol, b l u e h e r o n", ("Blue\nHeron", "b l u e h e r o n")),
        RailExample("the blue herons"),
    )

    def rail(self) -> MatchRail:
        return MatchRail("blocklist", compile_phrases(["blue heron"]), MatchPolicy())


class TestPatterns(RailContract):
    examples = (RailExample("see TK-1234!", ("TK-1234",)), RailExample("see TK-12"))

    def rail(self) -> MatchRail:
        return MatchRail("patterns", compile_patterns({"ticket": "\\bTK-\\d{3,5}\\b"}), MatchPolicy("block"))


@pytest.mark.parametrize("other", [compile_phrases(["zebra", "b"]), compile_phrases(["zebra"], borders=False)])
def test_a_rails_version_changes_with_its_rules(other: object) -> None:
    one, same = (MatchRail("b", compile_phrases(["zebra"]), MatchPolicy()) for _ in range(2))
    assert one.properties.version == same.properties.version
    assert MatchRail("b", other, MatchPolicy()).properties.version != one.properties.version  # type: ignore[arg-type]
    assert MatchRail("b", compile_phrases(["zebra"]), MatchPolicy("block")).properties.version != one.properties.version
