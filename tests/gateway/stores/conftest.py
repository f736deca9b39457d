"""One PostgreSQL for the tests of a worker, and an empty database for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.stores.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """Run a server that is asked and not stopped: others use it, too."""
    found = PostgresServer()
    try:
        found.start()
        yield found
    finally:
        found.remove()


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.emptied()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """Run a server that may be killed, frozen and restarted."""
    found = PostgresServer()
    try:
        found.start()
        yield found
    finally:
        found.thaw()
        found.remove()
