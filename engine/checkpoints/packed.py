"""Dequantise GPTQ and AWQ checkpoints without their libraries.

    weight[o, i] = (code[i, o] - zero[group of i, o]) * scale[group of i, o]

GPTQ (Frantar et al., 2022; `qweight`, `qzeros`, `scales`, `g_idx`): codes of 2, 4 or 8 bits lie along the inputs in
int32, zeros along the outputs, the first in the lowest bits. Format `gptq` keeps zeros less one, `gptq_v2` as they are.
AWQ (Lin et al., 2023; version `gemm`): codes of 4 bits and zeros lie along the outputs, those of 8 outputs in the order
0, 2, 4, 6, 1, 3, 5, 7. Anything else is refused by the field that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from sluicegate.engine.checkpoints.fitting import INDEX, indexed_files, refuse_twice
from sluicegate.engine.checkpoints.stored_tensors import stored_tensors
from sluicegate.engine.cpu.packing import Packed, fits_four, pack_codes
from sluicegate.plugins import ModelLoadError

METHODS = ("gptq", "awq")
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_PARTS = ("qweight", "qzeros", "scales", "g_idx")


@dataclass(frozen=True, slots=True)
class Scheme:
    """The packing of a checkpoint's layers, from its `quantization_config`."""

    method: Literal["gptq", "awq"]
    bits: int
    zeros_less_one: bool
    """Zeros are kept one too small, modulo 2 to the power of bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """The unpacked numbers of one layer: `numbers` uint8 [n, k], `zeros` uint8 and `scales` [n, groups], `groups` int64
    [k]."""

    numbers: Tensor
    zeros: Tensor
    scales: Tensor
    groups: Tensor
    bits: int

    def whole(self) -> Tensor:
        """Return the weight [n, k] in float32. Exact, as the product of 8 bits and a half-precision scale."""
        offsets = self.numbers.to(torch.int16) - self.zeros.to(torch.int16)[:, self.groups]
        return offsets * self.scales.float()[:, self.groups]

    def packed(self) -> Packed | None:
        """Return the same weight, bit for bit, in the 4-bit format of `engine.cpu`; None if it does not fit that
        format: other bits, zeros off the middle, groups too small or out of order, scales that are not float16's."""
        k = self.numbers.shape[1]
        size = k // self.scales.shape[1]
        in_order = torch.equal(self.groups, torch.arange(k) // max(1, size))
        scales = self.scales.float()
        if self.bits != 4 or not in_order or not fits_four(scales, size) or bool((self.zeros != 8).any()):
            return None
        return pack_codes(self.numbers, scales, size)


def scheme_of(config: Any, where: str) -> Scheme | None:
    """Return the packing of the checkpoint; None if it is neither GPTQ nor AWQ. Raises `ModelLoadError` for an
    unsupported variant."""
    found = getattr(config, "quantization_config", None)
    if found is None:
        return None
    fields: dict[str, Any] = found if isinstance(found, dict) else found.to_dict()
    method = str(getattr(fields.get("quant_method"), "value", fields.get("quant_method")))
    if method == "gptq":
        return _gptq(fields, where)
    return _awq(fields, where) if method == "awq" else None


def _gptq(fields: dict[str, Any], where: str) -> Scheme:
    name = next((name for name in ("checkpoint_format", "format") if fields.get(name)), "checkpoint_format")
    kind = str(fields.get(name) or "gptq").lower()
    _expect(where, name, kind, ("gptq", "gptq_v2"))
    _expect(where, "is_marlin_format", bool(fields.get("is_marlin_format")), (False,))
    _expect(where, "pack_dtype", str(fields.get("pack_dtype") or "int32"), ("int32",))
    _expect(where, "bits", fields.get("bits"), (2, 4, 8))
    return Scheme("gptq", fields["bits"], kind == "gptq")


def _awq(fields: dict[str, Any], where: str) -> Scheme:
    name = next((name for name in ("version", "format") if fields.get(name)), "version")
    _expect(where, name, str(fields.get(name) or "gemm").lower(), ("gemm",))
    bits = next((name for name in ("bits", "w_bit") if name in fields), "bits")
    _expect(where, bits, fields.get(bits), (4,))
    _expect(where, "zero_point", fields.get("zero_point", True), (True,))
    return Scheme("awq", 4, False)


def _expect(where: str, name: str, found: Any, known: tuple[Any, ...]) -> None:
    if found not in known:
        raise ModelLoadError(
            f"{where!r}: quantization_config.{name} is {found!r}; read are {', '.join(map(repr, known))}. Name a "
            "checkpoint in one of these, or the unquantised one and set weights = 'int8' or 'int4'"
        )


def read_packed(
    folder: Path, scheme: Scheme, where: str, *, half: bool, keep_four: bool
) -> tuple[dict[str, Tensor], dict[str, Packed]]:
    """Return all tensors of a checkpoint, packed layers as weights; and, with `keep_four`, the layers by name that fit
    the 4-bit format of `engine.cpu`.

    `half`: weights in the dtype of their scales, else float32. Raises `ModelLoadError` where tensors do not fit
    together.
    """
    state: dict[str, Tensor] = {}
    known: dict[str, Packed] = {}
    tensors = stored_tensors(_files(folder, where), where)
    layers = [name.removesuffix(".qweight") for name in tensors if name.endswith(".qweight")]
    refuse_twice((f"{layer}.weight" for layer in layers if f"{layer}.weight" in tensors), where)
    for name, one in tensors.items():
        layer, _, part = name.rpartition(".")
        if f"{layer}.qweight" not in tensors or part not in _PARTS:
            state[name] = one.read()
        elif part == "qweight":
            parts = {part: tensors[found].read() for part in _PARTS if (found := f"{layer}.{part}") in tensors}
            codes = _codes(scheme, parts, layer, where)
            whole = codes.whole()
            state[f"{layer}.weight"] = whole.to(codes.scales.dtype) if half else whole
            if keep_four and (packed := codes.packed()) is not None:
                known[layer] = packed
    if not layers:
        raise ModelLoadError(f"{where!r} says that it is quantised with {scheme.method}, but none of its layers is")
    return state, known


def _codes(scheme: Scheme, parts: Mapping[str, Tensor], layer: str, where: str) -> Codes:
    """Unpack one layer. Raises `ModelLoadError` where its parts do not fit together."""
    words, zeros, scales, order = (parts.get(part) for part in _PARTS)
    if words is None or zeros is None or scales is None or words.dtype != torch.int32 or zeros.dtype != torch.int32:
        raise ModelLoadError(f"{where!r}: {layer!r} lacks qzeros or scales, or they are not packed in int32")
    if scheme.method == "awq":
        numbers, bits = _awq_order(_unpacked(words, 4, 1)), 4
        shifts = _awq_order(_unpacked(zeros, 4, 1))
    else:
        bits = _bits_here(scheme, words, order)
        numbers, shifts = _unpacked(words, bits, 0), _unpacked(zeros, bits, 1)
        if scheme.zeros_less_one:  # modulo: a zero of 0 is kept as the largest number
            shifts = (shifts + 1) & (1 << bits) - 1
    k, n = numbers.shape
    groups = scales.shape[0]
    size = -(-k // groups)
    order = (torch.arange(k) // size if order is None or scheme.method == "awq" else order).long()
    fits = scales.shape == shifts.shape == (groups, n) and order.shape == (k,) and int(order.min()) >= 0
    if not fits or int(order.max()) >= groups:
        shapes = {name: tuple(part.shape) for name, part in parts.items()}
        raise ModelLoadError(
            f"{where!r}: the parts of {layer!r} do not fit together as {scheme.bits} bits of {scheme.method}: "
            f"{shapes}; the file is damaged, or packed in another way than its quantization_config says"
        )
    return Codes(numbers.T.contiguous(), shifts.T.contiguous(), scales.T.contiguous(), order, bits)


def _bits_here(scheme: Scheme, words: Tensor, order: Tensor | None) -> int:
    """Return the bits of this layer, judged by its shapes: `dynamic` rules of a configuration may give some layers
    more."""
    bits = scheme.bits if order is None else 32 * len(words) // max(1, len(order))
    return bits if bits in (2, 4, 8) else scheme.bits


def _unpacked(words: Tensor, bits: int, dim: int) -> Tensor:
    """Unpack int32 [a, b] to uint8: 32 / bits numbers per word, consecutive along `dim` (0 or 1)."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    shape = (1, -1, 1) if dim == 0 else (1, 1, -1)
    numbers = (words.unsqueeze(dim + 1) >> shifts.view(shape)) & (1 << bits) - 1
    return numbers.to(torch.uint8).flatten(dim, dim + 1)


def _awq_order(numbers: Tensor) -> Tensor:
    """Restore the column order of [k, n], which AWQ permutes in groups of eight."""
    found: Tensor = torch.empty_like(numbers).unflatten(1, (-1, 8))
    found[:, :, torch.tensor(_AWQ_ORDER)] = numbers.unflatten(1, (-1, 8))
    return found.flatten(1)


def _files(folder: Path, where: str) -> list[Path]:
    """Return the files that the index names; without one `model.safetensors`, or the only safetensors file."""
    if (folder / INDEX).exists():
        return [folder / name for name in indexed_files(folder, where)]
    found = list(_candidates(folder))
    if (folder / "model.safetensors") in found:
        return [folder / "model.safetensors"]
    if len(found) != 1:
        raise ModelLoadError(
            f"{where!r} has {len(found)} safetensors files and no {INDEX}: quantised checkpoints are read from "
            "model.safetensors, or from the files that an index names"
        )
    return found


def _candidates(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*.safetensors")) if path.name != "heads.safetensors")
