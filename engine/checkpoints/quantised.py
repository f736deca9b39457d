"""Read FP8, INT8 and 4-bit checkpoints without their makers' libraries; each weight is dequantised
(`engine.checkpoints.dequantise`) when it is read.

Supported are FP8 (`fp8`, `modelopt`), `compressed-tensors`, `bitsandbytes` (NF4, FP4, LLM.int8) and MXFP4 (`mxfp4`).
Quantisation of activations is ignored: products use activations as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.checkpoints.dequantise import by_table, mxfp4, spread, unpack_words
from sluicegate.engine.checkpoints.fitting import refuse_twice
from sluicegate.engine.checkpoints.stored_tensors import LazyTensor
from sluicegate.plugins import ModelLoadError

Tensors = Mapping[str, LazyTensor]
Fields = Mapping[str, Any]
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_BESIDE = re.compile(r"(.*\.)(?:(?:input|output|weight|activation)_(?:scale|zero_point|g_idx|shape)(?:_inv)?)")
"""Tensors beside a quantised weight that say how it, or what it is multiplied with, was rounded."""
_NEEDED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "weight_zero_point": lambda scheme: scheme.get("symmetric") is False,
    "weight_g_idx": lambda scheme: scheme.get("actorder") == "group",
}
"""Tensors of a compressed layer that some schemes of weights ask for."""
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
        with _quantisation_errors(where):
            _check_compressed(fields, where)
    if method == "modelopt":
        _expect(where, "quant_algo", fields.get("quant_algo"), ("FP8",))
    return method in _READERS


def whole_tensors(tensors: Tensors, fields: Fields, where: str) -> dict[str, LazyTensor]:
    """Return the tensors of a checkpoint, quantised weights dequantised lazily. Raises `ModelLoadError` where parts of
    a weight are missing or do not fit together."""
    with _quantisation_errors(where):
        found, used = _READERS[method_of(fields)](tensors, fields)
    if not found:
        raise ModelLoadError(f"{where!r} says that it is quantised by {method_of(fields)}, but none of its layers is")
    refuse_twice((name for name in found if _is_whole_too(name, tensors)), where)
    return {name: one for name, one in tensors.items() if name not in used and name not in found} | found


def _is_whole_too(name: str, tensors: Tensors) -> bool:
    """Return whether a checkpoint holds the quantised weight `name` also as a tensor that it was not made of."""
    if name not in tensors:
        return False
    kind = tensors[name].dtype
    return bool({f"{name}_packed", f"{name}_blocks"} & tensors.keys()) or (kind.is_floating_point and kind.itemsize > 1)


@contextmanager
def _quantisation_errors(where: str) -> Iterator[None]:
    """Raise `ModelLoadError` for parts, or fields of a quantization_config, that do not fit their format."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ModelLoadError(
            f"{where!r}: {reason}; the file is damaged, or quantised in another way than its quantization_config says"
        ) from error


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
    _refuse_no_scale(scale, name)

    def read() -> Tensor:
        return one.read().float() * spread(_scales(scale, name), one.shape, block)

    return LazyTensor(one.shape, torch.float32, read)


def _refuse_no_scale(scale: LazyTensor, name: str) -> None:
    """Raise `ValueError` for scales that are no floating-point numbers."""
    if not scale.dtype.is_floating_point:
        raise ValueError(f"{name!r} has scales in {scale.dtype}")


def _scales(scale: LazyTensor, name: str) -> Tensor:
    """Return scales in float32. Raises `ValueError` if some are below 0: each is as large as what it scales."""
    found = scale.read().float()
    if bool((found < 0).any()):
        raise ValueError(f"{name!r} has scales below 0; the file is damaged")
    return found


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
    needed = [part for part, is_needed in _NEEDED.items() if schemes and all(map(is_needed, schemes))]
    found, used = {}, set()
    for name, one in tensors.items():
        layer, _, part = name.rpartition(".")
        if part == "weight_packed":
            _refuse_without(needed, tensors, layer)
            found[f"{layer}.weight"] = _packed(tensors, layer, bits)
            used.add(name)
        elif part == "weight" and one.dtype in (torch.int8, *_FLOAT8):
            _refuse_without(needed, tensors, layer)
            found[name] = _whole(tensors, layer, block)
    return found, used | _beside(tensors, found)


def _refuse_without(needed: list[str], tensors: Tensors, layer: str) -> None:
    for part in needed:
        if f"{layer}.{part}" not in tensors:
            raise ValueError(f"{layer!r} has no {part}, and its quantization_config says that it has")


def _whole(tensors: Tensors, layer: str, block: tuple[int, int] | None) -> LazyTensor:
    """Return a lazy weight stored as one number per element, with optional zero points."""
    one, scale, zero = (tensors.get(f"{layer}.{part}") for part in ("weight", "weight_scale", "weight_zero_point"))
    if one is None or scale is None:
        raise ValueError(f"{layer!r} has no weight_scale")
    if zero is None:
        return _times(one, scale, block, layer)
    known, shift = one, zero
    if shift.dtype not in (torch.int8, *_FLOAT8):
        raise ValueError(f"{layer!r} has zero points in {shift.dtype}, and weights in {known.dtype}")
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
    _refuse_no_scale(scale, layer)
    half, even = 1 << bits - 1, scale.shape[1]
    packed = None if zero is None else (-(-n // (32 // bits)), even)
    if zero is not None and (zero.dtype, zero.shape) not in ((torch.int32, packed), (torch.int8, (n, even))):
        raise ValueError(f"{layer!r} has zero points of shape {list(zero.shape)} in {zero.dtype} for {even} groups")
    if order is not None and (order.shape != (k,) or order.dtype not in (torch.int32, torch.int64)):
        raise ValueError(f"{layer!r} has an order (weight_g_idx) of shape {list(order.shape)} for {k} inputs")

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
        return numbers * groups(_scales(scale, layer))

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
    _refuse_no_scale(scale, layer)
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
    if codes.dtype != torch.uint8 or not table.dtype.is_floating_point:
        raise ValueError(f"{weight!r} has numbers in {codes.dtype} and a quant_map in {table.dtype}")
    kind = getattr(torch, str(state.get("dtype", "float32")).removeprefix("torch."))
    scales = _nested(tensors, weight, state, largest)

    def read() -> Tensor:
        return by_table(codes.read(), table.read(), scales(), each, shape).to(kind).float()

    return LazyTensor(shape, torch.float32, read)


def _nested(tensors: Tensors, weight: str, state: Mapping[str, Any], largest: LazyTensor) -> Callable[[], Tensor]:
    """Return a function that reads the scales, dequantising them if they are stored in 8 bits."""
    if "nested_blocksize" not in state:
        _refuse_no_scale(largest, weight)
        return lambda: _scales(largest, weight)
    if largest.dtype != torch.uint8:
        raise ValueError(f"{weight!r} has scales in {largest.dtype}, and says that they are in 8 bits")
    table, scale = (tensors.get(f"{weight}.nested_{part}") for part in ("quant_map", "absmax"))
    if table is None or scale is None or table.shape != (256,):
        raise ValueError(f"{weight!r} has scales in 8 bits, and lacks nested_absmax or nested_quant_map")
    _refuse_no_scale(scale, weight)
    _refuse_no_scale(table, weight)
    each, offset = int(state["nested_blocksize"]), float(state["nested_offset"])
    if scale.shape != (-(-largest.shape[0] // each),):
        raise ValueError(f"{weight!r} has {list(scale.shape)} scales for {list(largest.shape)} in 8 bits")

    def read() -> Tensor:
        numbers = table.read().float()[largest.read().long()]
        return numbers * _scales(scale, weight).repeat_interleave(each)[: len(numbers)] + offset

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
        if {one.dtype, scales.dtype} != {torch.uint8}:
            raise ValueError(f"{weight!r} has blocks in {one.dtype} and scales in {scales.dtype}, not in bytes")
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
