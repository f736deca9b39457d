"""Read FP8, INT8 and 4-bit checkpoints without their makers' libraries; each weight is dequantised
(`engine.checkpoints.dequantise`) when it is read.

Supported are FP8 (`fp8`, `modelopt`), `compressed-tensors`, `bitsandbytes` (NF4, FP4, LLM.int8) and MXFP4 (`mxfp4`).
Quantisation of activations is ignored: products use activations as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.checkpoints.dequantise import by_table, mxfp4, spread, unpack_words
from sluicegate.engine.checkpoints.stored_tensors import LazyTensor
from sluicegate.plugins import ModelLoadError

Tensors = Mapping[str, LazyTensor]
Fields = Mapping[str, Any]
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_BESIDE = re.compile(r"(.*\.)(?:(?:input|output|weight|activation)_(?:scale|zero_point|g_idx|shape)(?:_inv)?)")
"""Tensors beside a quantised weight that say how it, or what it is multiplied with, was rounded."""
_FORMATS = ("dense", "int-quantized", "float-quantized", "naive-quantized", "pack-quantized", "mixed-precision")


def fields_of(config: Any) -> dict[str, Any]:
    """Return the `quantization_config` of a configuration, or {}."""
    found = getattr(config, "quantization_config", None)
    if found is None:
        return {}
    return dict(found) if isinstance(found, dict) else dict(found.to_dict())


def method_of(fields: Fields) -> str:
    return str(getattr(fields.get("quant_method"), "value", fields.get("quant_method")))


def reads(fields: Fields, where: str) -> bool:
    """Return whether this module reads a checkpoint's quantisation method. Raises `ModelLoadError` for an unsupported
    variant of it."""
    method = method_of(fields)
    if method == "compressed-tensors":
        _check_compressed(fields, where)
    if method == "modelopt":
        _expect(where, "quant_algo", fields.get("quant_algo"), ("FP8",))
    return method in _READERS


def whole_tensors(tensors: Tensors, fields: Fields, where: str) -> dict[str, LazyTensor]:
    """Return the tensors of a checkpoint, quantised weights dequantised lazily. Raises `ModelLoadError` where parts of
    a weight are missing or do not fit together."""
    try:
        found, used = _READERS[method_of(fields)](tensors, fields)
    except ValueError as error:
        raise ModelLoadError(
            f"{where!r}: {error}; the file is damaged, or quantised in another way than its quantization_config says"
        ) from error
    if not found:
        raise ModelLoadError(f"{where!r} says that it is quantised by {method_of(fields)}, but none of its layers is")
    return {name: one for name, one in tensors.items() if name not in used and name not in found} | found


def _expect(where: str, name: str, found: Any, known: tuple[Any, ...]) -> None:
    if found not in known:
        raise ModelLoadError(
            f"{where!r}: quantization_config.{name} is {found!r}; read are {', '.join(map(repr, known))}. Name a "
            "checkpoint in one of these, or the unquantised one and set weights = 'int8' or 'int4'"
        )


Found = tuple[dict[str, LazyTensor], set[str]]
"""(weights by name, names of tensors that they were made of)."""


def _beside(tensors: Tensors, made: Iterable[str]) -> set[str]:
    """Return the names of auxiliary tensors (scales, zero points ...) of the layers whose weights are `made`."""
    layers = {name.rpartition(".")[0] + "." for name in made}
    return {name for name in tensors if (match := _BESIDE.fullmatch(name)) is not None and match[1] in layers}


def _times(one: LazyTensor, scale: LazyTensor, block: tuple[int, int] | None, name: str) -> LazyTensor:
    """Return a lazy weight: numbers times scales."""
    _tried(name, lambda: spread(torch.empty(scale.shape, device="meta"), one.shape, block))

    def read() -> Tensor:
        return one.read().float() * spread(scale.read().float(), one.shape, block)

    return LazyTensor(one.shape, torch.float32, read)


def _tried(name: str, shapes: Callable[[], object]) -> None:
    """Call `shapes`, which combines the shapes of a tensor's parts. Raises `ValueError` naming the tensor if they do
    not fit."""
    try:
        shapes()
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"the parts of {name!r} do not fit together: {error}") from error


def _read_fp8(tensors: Tensors, fields: Fields) -> Found:
    sides = fields.get("weight_block_size")
    block = None if not sides else (int(sides[0]), int(sides[1]))
    found, used = {}, set()
    for name, one in tensors.items():
        if one.dtype not in _FLOAT8:
            continue
        scale = next((name + end for end in ("_scale_inv", "_scale") if name + end in tensors), None)
        if scale is None:
            raise ValueError(f"{name!r} is in FP8 and has no scale")
        found[name] = _times(one, tensors[scale], block, name)
        used.add(scale)
    return found, used | _beside(tensors, found)


def _check_compressed(fields: Fields, where: str) -> None:
    _expect(where, "format", fields.get("format"), _FORMATS)
    for group in (fields.get("config_groups") or {}).values():
        _expect(where, "config_groups.format", group.get("format") or fields.get("format"), _FORMATS)
    sparsity = (fields.get("sparsity_config") or {}).get("format") or "dense"
    _expect(where, "sparsity_config.format", sparsity, ("dense",))
    _expect(where, "transform_config", (fields.get("transform_config") or {}).get("config_groups") or None, (None,))


def _read_compressed(tensors: Tensors, fields: Fields) -> Found:
    schemes = [group.get("weights") or {} for group in (fields.get("config_groups") or {}).values()]
    blocks = {tuple(scheme["block_structure"]) for scheme in schemes if scheme.get("block_structure")}
    block = next(iter(blocks)) if len(blocks) == 1 else None
    bits = sorted({int(scheme.get("num_bits") or 8) for scheme in schemes})
    found, used = {}, set()
    for name, one in tensors.items():
        layer, _, part = name.rpartition(".")
        if part == "weight_packed":
            found[f"{layer}.weight"] = _packed(tensors, layer, bits)
            used.add(name)
        elif part == "weight" and one.dtype in (torch.int8, *_FLOAT8):
            found[name] = _whole(tensors, layer, block)
    return found, used | _beside(tensors, found)


def _whole(tensors: Tensors, layer: str, block: tuple[int, int] | None) -> LazyTensor:
    """Return a lazy weight stored as one number per element, with optional zero points."""
    one, scale, zero = (tensors.get(f"{layer}.{part}") for part in ("weight", "weight_scale", "weight_zero_point"))
    if one is None or scale is None:
        raise ValueError(f"{layer!r} has no weight_scale")
    if zero is None:
        return _times(one, scale, block, layer)
    known, shift = one, zero
    _tried(layer, lambda: spread(torch.empty(shift.shape, device="meta"), known.shape, block))
    shifted = LazyTensor(
        one.shape, torch.float32, lambda: known.read().float() - spread(shift.read().float(), known.shape, block)
    )
    return _times(shifted, scale, block, layer)


def _packed(tensors: Tensors, layer: str, known: list[int]) -> LazyTensor:
    """Return a lazy weight stored in int32 words: numbers offset by half their range, the first in the lowest bits."""
    words, scale, sizes, zero, order = (
        tensors.get(f"{layer}.weight_{part}") for part in ("packed", "scale", "shape", "zero_point", "g_idx")
    )
    if words is None or scale is None or sizes is None or words.dtype != torch.int32 or len(words.shape) != 2:
        raise ValueError(f"{layer!r} lacks weight_scale or weight_shape, or is not packed in int32")
    n, k = (int(size) for size in sizes.read().tolist())
    bits = next((b for b in known if (n, -(-k // (32 // b))) == words.shape), 0)
    if not bits or len(scale.shape) != 2 or scale.shape[0] not in (1, n):
        raise ValueError(f"{layer!r} has words of shape {list(words.shape)} for {[n, k]} weights of {known} bits")
    _tried(layer, lambda: spread(torch.empty(scale.shape, device="meta"), (n, k), None))
    half = 1 << bits - 1

    def groups(values: Tensor) -> Tensor:
        """Expand values [n, groups] to the inputs [n, k], by the order of `weight_g_idx` where there is one."""
        own = None if order is None else order.read().long()
        return spread(values, (n, k), None) if own is None or int(own.min()) < 0 else values[:, own]

    def read() -> Tensor:
        numbers = unpack_words(words.read(), bits, 1, k).float() - half
        if zero is not None:
            packed = zero.read()
            shifts = packed if packed.dtype != torch.int32 else unpack_words(packed, bits, 0, n) - half
            numbers -= groups(shifts.float())
        return numbers * groups(scale.read().float())

    return LazyTensor((n, k), torch.float32, read)


def _read_bitsandbytes(tensors: Tensors, fields: Fields) -> Found:
    found, used = {}, set()
    for name, one in tensors.items():
        if match := re.fullmatch(r"(.*)\.quant_state\.bitsandbytes__(?:nf4|fp4)", name):
            weight = match[1]
            found[weight] = _four_bits(tensors, weight, json.loads(bytes(one.read().tolist())))
            used |= {other for other in tensors if other.startswith(f"{weight}.")}
        elif name.endswith(".SCB"):
            layer = name.removesuffix(".SCB")
            weight = f"{layer}.weight"
            if weight not in tensors or tensors[weight].dtype != torch.int8:
                raise ValueError(f"{layer!r} has a scale for INT8, and no weight in INT8")
            found[weight] = _eight_bits(tensors[weight], one, layer)
            used |= {name, f"{layer}.weight_format"}
    return found, used


def _eight_bits(one: LazyTensor, scale: LazyTensor, layer: str) -> LazyTensor:
    largest = LazyTensor(scale.shape, torch.float32, lambda: scale.read().float() / 127)
    return _times(one, largest, None, layer)


def _four_bits(tensors: Tensors, weight: str, state: Mapping[str, Any]) -> LazyTensor:
    """Return a lazy NF4 or FP4 weight; `state` holds its shape, block size and dtype."""
    parts = {part: tensors.get(f"{weight}.{part}") for part in ("absmax", "quant_map")}
    codes, largest, table = tensors.get(weight), parts["absmax"], parts["quant_map"]
    shape = tuple(int(size) for size in state["shape"])
    count, each = torch.Size(shape).numel(), int(state["blocksize"])
    if codes is None or largest is None or table is None or table.shape != (16,):
        raise ValueError(f"{weight!r} lacks its numbers, absmax or quant_map")
    if torch.Size(codes.shape).numel() != -(-count // 2) or largest.shape != (-(-count // each),):
        raise ValueError(f"{weight!r} has {list(codes.shape)} bytes and {list(largest.shape)} scales for {list(shape)}")
    kind = getattr(torch, str(state.get("dtype", "float32")).removeprefix("torch."))
    scales = _nested(tensors, weight, state, largest)

    def read() -> Tensor:
        return by_table(codes.read(), table.read(), scales(), each, shape).to(kind).float()

    return LazyTensor(shape, torch.float32, read)


def _nested(tensors: Tensors, weight: str, state: Mapping[str, Any], largest: LazyTensor) -> Callable[[], Tensor]:
    """Return a function that reads the scales, dequantising them if they are stored in 8 bits."""
    if largest.dtype != torch.uint8:
        return largest.read
    table, scale = (tensors.get(f"{weight}.nested_{part}") for part in ("quant_map", "absmax"))
    if table is None or scale is None or table.shape != (256,):
        raise ValueError(f"{weight!r} has scales in 8 bits, and lacks nested_absmax or nested_quant_map")
    each, offset = int(state["nested_blocksize"]), float(state["nested_offset"])

    def read() -> Tensor:
        numbers = table.read().float()[largest.read().long()]
        return numbers * scale.read().float().repeat_interleave(each)[: len(numbers)] + offset

    return read


def _read_mxfp4(tensors: Tensors, fields: Fields) -> Found:
    found: dict[str, LazyTensor] = {}
    used: set[str] = set()
    for name, one in tensors.items():
        if not name.endswith("_blocks"):
            continue
        weight, scales = name.removesuffix("_blocks"), tensors.get(f"{name.removesuffix('_blocks')}_scales")
        if scales is None or scales.shape != one.shape[:-1] or one.shape[-1] != 16 or len(one.shape) != 4:
            raise ValueError(f"{weight!r} has blocks of shape {list(one.shape)} and no scales that belong to them")
        found[weight] = _Experts(one, scales)
        used |= {name, f"{weight}_scales"}
    return found, used


class _Experts(LazyTensor):
    """Weights [experts, inputs, outputs] in MXFP4; blocks lie along the inputs."""

    def __init__(self, blocks: LazyTensor, scales: LazyTensor) -> None:
        experts, outputs, groups, _ = blocks.shape
        super().__init__((experts, 32 * groups, outputs), torch.float32, self._whole)
        self._blocks, self._scales = blocks, scales

    def part(self, index: int) -> Tensor:
        return mxfp4(self._blocks.part(index), self._scales.part(index)).T

    def _whole(self) -> Tensor:
        whole = torch.empty(self.shape)
        for index in range(len(whole)):
            whole[index] = self.part(index)
        return whole


_READERS: Mapping[str, Callable[[Tensors, Fields], Found]] = {
    "fp8": _read_fp8,
    "modelopt": _read_fp8,
    "compressed-tensors": _read_compressed,
    "bitsandbytes": _read_bitsandbytes,
    "mxfp4": _read_mxfp4,
}
