"""Results of tools as texts that rails read."""

from __future__ import annotations

import pytest

from sluicegate.gateway.mcp.results import ResultTexts


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_does_not_have_is_no_result(number: float) -> None:
    """Whoever writes it for the agent would write null, which the tool did not say."""
    with pytest.raises(ValueError, match="number that JSON does not have"):
        ResultTexts.of({"content": [], "structuredContent": {"rows": [1.5, number]}}, media=False)
