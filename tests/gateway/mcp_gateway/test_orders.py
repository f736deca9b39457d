"""Descriptions that say something near to an order, and are none."""

from __future__ import annotations

import pytest

from sluicegate.gateway.mcp.orders import orders_in


@pytest.mark.parametrize(
    "description",
    [
        "Reads a file of the workspace and returns its text. Do not use it for pictures.",
        "Sends a message. Ask the user before more than ten people get it; never send passwords.",
        "Call this first to get a library's id, and pass it to get_docs.",
        "Lists variables of the environment, without their values.",
        "Creates an API key for the account and returns it once. IMPORTANT: it cannot be shown again.",
        "Deletes a branch. Nothing is deleted without the user's consent.",
        "Stores a note. The complete text is kept, and all previous versions.",
    ],
)
def test_what_honest_descriptions_say_is_no_order(description: str) -> None:
    assert not list(orders_in([("description", description)]))
