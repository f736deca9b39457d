"""Run a decoder's forward pass as one compiled program on CPUs: small-batch products, paged attention, and threads."""

from sluicegate.engine.cpu.block_packing import BLOCK_NAMES, half_scales
from sluicegate.engine.cpu.decoder import Decoder, decoder_for, program_kernels
from sluicegate.engine.cpu.decoder_parts import FAMILIES
from sluicegate.engine.cpu.head_products import HeadProducts, products_of
from sluicegate.engine.cpu.huge_pages import settle, settle_beside
from sluicegate.engine.cpu.kernels.lowrank import MOST_RANK, FactorTable, factor_table
from sluicegate.engine.cpu.packing import EIGHT, HALF_NAMES, Q4_0, Packed, fits_halves, keep_blocks, keep_halves, narrow
from sluicegate.engine.cpu.small_layers import (
    CpuSmallLinear,
    keep_as_stored,
    kept_forms,
    rounds_activations,
    shrink_module,
    weight_bytes,
    weight_count,
    weight_tensors,
    whole_weights,
    zero_weights,
)
from sluicegate.engine.cpu.table_builder import LinearProbing
from sluicegate.engine.cpu.wanted_logits import WantedLogits

__all__ = [
    "BLOCK_NAMES",
    "EIGHT",
    "FAMILIES",
    "HALF_NAMES",
    "MOST_RANK",
    "Q4_0",
    "CpuSmallLinear",
    "Decoder",
    "FactorTable",
    "HeadProducts",
    "LinearProbing",
    "Packed",
    "WantedLogits",
    "decoder_for",
    "factor_table",
    "fits_halves",
    "half_scales",
    "keep_as_stored",
    "keep_blocks",
    "keep_halves",
    "kept_forms",
    "narrow",
    "products_of",
    "program_kernels",
    "rounds_activations",
    "settle",
    "settle_beside",
    "shrink_module",
    "weight_bytes",
    "weight_count",
    "weight_tensors",
    "whole_weights",
    "zero_weights",
]
