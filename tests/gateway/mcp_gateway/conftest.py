"""What holds for every test of the MCP gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_failure_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Assert that the log holds no failure: a call that ends well for its agent may still have broken what is done
    after it, and only the log says so."""
    yield
    records = [record for record in caplog.get_records("call") if record.name.startswith("sluicegate.")]
    broken = [record.getMessage() for record in records if record.exc_info]
    assert not broken
