"""Ray Serve's choice among engines: the one that has read the prompt's beginning, within a bound on load.

Serve's own `PrefixCacheAffinityRouter` was not taken: it keeps texts of prompts in an actor of its own, which every
request asks and waits for, and by default knows no bound on load. Here each gateway remembers digests of what it sent,
as in front of other servers (`upstream/transport/choice.py`), and Serve's queue lengths are the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.serve.request_router import FIFOMixin, PendingRequest, ReplicaID, RequestRouter, RunningReplica

from sluicegate.gateway.ray_serve.affinity import PrefixAffinity
from sluicegate.gateway.ray_serve.messages import EngineRequest


class PrefixRouter(FIFOMixin, RequestRouter):
    """Loaded by Ray Serve by its path, in every process that asks the engines."""

    def initialize_state(self, **settings: Any) -> None:
        self._affinity: PrefixAffinity[ReplicaID] = PrefixAffinity()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return ranks of replicas; Serve takes the first that has room."""
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
        by_id = {replica.replica_id: replica for replica in candidate_replicas}
        loads = {name: self._load(replica) for name, replica in by_id.items()}
        order = self._affinity.order(loads, _digests(pending_request))
        return [[by_id[name]] for name in order]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        self._affinity.read(_digests(pending_request), replica_id)

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        super().update_replicas(replicas)
        if hasattr(self, "_affinity"):
            self._affinity.keep({replica.replica_id for replica in replicas})

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        super().on_replica_actor_died(replica_id)
        self._affinity.forget(replica_id)

    def _load(self, replica: RunningReplica) -> int:
        """Return the requests there as of the last answer or probe; 0 where none is known."""
        return self._replica_queue_len_cache.get(replica.replica_id) or 0


def _digests(request: PendingRequest | None) -> Sequence[bytes]:
    first = request.args[0] if request is not None and request.args else None
    return first.beginnings if isinstance(first, EngineRequest) else ()
