"""Real gateways on real sockets, for tests in which an upstream, a tenant, a store or a plug-in misbehaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluicegate.gateway.testing import TestApp
from tests.adversary.joining import Liar, Speaker, behind, between
from tests.gateway.conftest import gateway, random_checkpoint, run_gateway

__all__ = ["gateway", "random_checkpoint", "run_gateway"]


@pytest.fixture(scope="module")
def liar() -> Liar:
    return Liar()


@pytest.fixture(scope="module")
def app(liar: Liar, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    """Run a gateway with rails in front of `liar`."""
    with between(liar, batches={"path": str(tmp_path_factory.mktemp("batches"))}) as found:
        yield found


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker()


@pytest.fixture(scope="module")
def spoken(speaker: Speaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    """Run a gateway with a rail around `speaker`."""
    with behind(speaker, batches={"path": str(tmp_path_factory.mktemp("spoken"))}) as found:
        yield found
