"""Real gateways on real sockets, for tests in which an upstream, a tenant, a store or a plug-in misbehaves."""

from __future__ import annotations

from tests.gateway.conftest import gateway, random_checkpoint, run_gateway

__all__ = ["gateway", "random_checkpoint", "run_gateway"]
