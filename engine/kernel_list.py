"""List the kernels that a model's steps call, so that they can be compiled before the first request."""

from __future__ import annotations

from sluicegate.engine.attention.in_place import kernel_for
from sluicegate.engine.cpu import program_kernels
from sluicegate.engine.cpu.head_products import HEAD_KERNELS
from sluicegate.engine.cpu.kernels.lowrank import lift
from sluicegate.engine.cpu.operation_table import Op
from sluicegate.engine.cpu.operations import OPERATIONS
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.sampling.cpu_draws import DRAW_KERNELS
from sluicegate.engine.settings import EngineSettings
from sluicegate.plugins.compiled.kernels import Kernel

ADAPTER_KERNELS: list[Kernel] = [OPERATIONS[Op.LOWER], lift]
"""Kernels that only adapters need; compiled when the first adapter is loaded."""


def kernels_of(model: LoadedModel, settings: EngineSettings) -> list[Kernel]:
    """Return the kernels of a compiled core of `model` and of its draft model; [] for devices other than CPUs. Those of
    adapters (`ADAPTER_KERNELS`) are left out."""
    if model.device.type != "cpu":
        return []
    found = [*DRAW_KERNELS, *_forward_kernels(model, settings)]
    if model.heads is not None and settings.draft_heads and settings.draft_tokens:
        found += HEAD_KERNELS
    if model.draft is not None and settings.draft_tokens:
        found += kernels_of(model.draft, settings)
    return list(dict.fromkeys(found))


def _forward_kernels(model: LoadedModel, settings: EngineSettings) -> list[Kernel]:
    if settings.attention != "auto":
        return []
    whole = settings.forward == "auto" and not model.is_sharded
    found = program_kernels(model.module, model.layers, probing=model.probes is not None) if whole else []
    if settings.kv == "full" and str(model.dtype) == "torch.float32":
        gathers = any(layer.needs_reference for layer in model.layers)
        attending = [layer for layer in model.layers if not (layer.is_empty or gathers)]
        found += [kernel_for(x.key_dim, x.value_dim, x.query_heads // x.kv_heads) for x in attending]
    return found
