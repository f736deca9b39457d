"""Compute the engine's metrics: current gauges, and totals since the start (names ending in `_total`); times in
seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq

from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.memory.blocks import OffloadCounters


def gauges(cores: Seq[EngineCore], arriving: int, restarts: int) -> dict[str, float]:
    """Return the gauges. `arriving`: jobs on their way to a scheduler; `restarts`: how often the engine thread was
    replaced."""
    pools = [core.scheduler.pool for core in cores]
    blocks = sum(pool.num_blocks for pool in pools)
    return {
        "models_loaded": float(len(cores)),
        "engine_restarts_total": float(restarts),
        "requests_running": float(sum(len(core.scheduler.running) for core in cores)),
        "requests_waiting": float(sum(core.scheduler.waiting_count for core in cores) + arriving),
        "kv_offload_bytes": float(sum(pool.offload.kept_bytes for pool in pools if pool.offload is not None)),
        "kv_cache_usage_ratio": sum(p.num_blocks - p.free_count for p in pools) / blocks if blocks else 0.0,
    }


_READ: dict[str, Callable[[EngineCore], float]] = {
    "prefix_cache_asked_tokens_total": lambda core: core.scheduler.pool.counters.asked,
    "prefix_cache_hit_tokens_total": lambda core: core.scheduler.pool.counters.found,
    "kv_blocks_offloaded_total": lambda core: _offloaded(core).saved,
    "kv_blocks_restored_total": lambda core: _offloaded(core).restored,
    "kv_blocks_lost_total": lambda core: _offloaded(core).lost,
    "preemptions_total": lambda core: core.scheduler.counters.preemptions,
    "tokens_generated_total": lambda core: core.counters.tokens,
    "tokens_forced_total": lambda core: core.counters.forced_tokens,
    "ended_by_repetition_total": lambda core: core.counters.repetitions,
    "tokens_drafted_total": lambda core: core.counters.drafted,
    "tokens_accepted_total": lambda core: core.counters.accepted,
    "batched_rows_total": lambda core: core.counters.rows,
    "masks_total": lambda core: core.counters.masks,
    "mask_seconds_total": lambda core: core.counters.mask_s,
    "steps_total": lambda core: core.counters.steps,
    "steps_ahead_total": lambda core: core.counters.ahead,
    "step_seconds_total": lambda core: core.counters.step_s,
    "forward_seconds_total": lambda core: core.counters.forward_s,
}


def _offloaded(core: EngineCore) -> OffloadCounters:
    offload = core.scheduler.pool.offload
    return OffloadCounters() if offload is None else offload.counters


def totals(cores: Seq[EngineCore], before: Mapping[str, float]) -> dict[str, float]:
    """Sum totals over `cores` and add those of cores dropped `before`, so that a total never falls."""
    return {name: before.get(name, 0.0) + sum(read(core) for core in cores) for name, read in _READ.items()}
