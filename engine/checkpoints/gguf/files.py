"""Read the parts of a GGUF file that `transformers` ignores: position scaling, and tensors it would skip.

llama.cpp turns a pair of dimensions by position / (factor of the pair) * frequency; `rope_freqs.weight` holds such
factors (Llama 3.1 and later), `rope.scaling.*` names a rule: linear, YaRN (Peng et al., 2023) or longrope's two tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sluicegate.engine.checkpoints.gguf.header import GgufHeader, GgufTensorInfo, list_items, read_header
from sluicegate.plugins import ModelLoadError

_LIST = 9
"""The type of lists, as the file numbers it."""
_FREQUENCIES = "rope_freqs.weight"
_WIDTHS = {
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
_TABLES = {"short_factor": "rope_factors_short.weight", "long_factor": "rope_factors_long.weight"}
_READ_HERE = re.compile(r"rope_(freqs|factors_(short|long))\.weight|.*\.rope_freqs\.weight|.*attn_rot_embd(\.weight)?")
"""Tensors that are no parameters of a model."""
_UNUSED = ("finetuned", "type", "factor", "original_context_length", "attn_factor")


class GgufEntry(NamedTuple):
    """A tensor of a GGUF file."""

    name: str
    tensor_type: Any
    """A member of the enumeration of the package `gguf`."""
    shape: tuple[int, ...]
    """The innermost size first."""
    n_bytes: int
    data_offset: int
    """From the beginning of the file."""
    data: NDArray[np.uint8]
    """Memory-mapped [..., rows, bytes of a row]."""


@dataclass(frozen=True)
class GgufFile:
    """Metadata of one file; tensors stay on disk until requested. What reads it first raises `ModelLoadError` for a
    header that cannot be read."""

    path: Path
    where: str
    """As the operator named it, for messages."""

    @cached_property
    def header(self) -> GgufHeader:
        return read_header(self.path, self.where)

    @cached_property
    def tensors(self) -> tuple[GgufEntry, ...]:
        """Return all tensors, whose data is memory-mapped."""
        whole = np.memmap(self.path, np.uint8, "r")
        return tuple(_stored(whole, name, info) for name, info in self.header.tensors.items())

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names of all tensors."""
        return frozenset(self.header.tensors)

    def tensor(self, name: str) -> Tensor | None:
        """Return a tensor in float32, or None if the file has none of that name."""
        from gguf import dequantize

        for tensor in self.tensors:
            if tensor.name == name:
                return torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()
        return None

    def field(self, name: str) -> Any:
        """Return a metadata field of the file's architecture, such as `rope.scaling.type`, or None."""
        return self.value(f"{self.architecture}.{name}")

    def value(self, name: str) -> Any:
        """Return a metadata field by its whole name, or None."""
        found = self.header.fields.get(name)
        if found is not None and found.types[0] == _LIST:
            return list_items(self.path, found)
        return None if found is None else found.value

    def types(self, name: str) -> tuple[int, ...]:
        """Return the type of a metadata field as the file numbers it, and behind that of a list that of its items,
        unless it is empty; () if there is no such field."""
        found = self.header.fields.get(name)
        return () if found is None else found.types

    def length(self, name: str) -> int:
        """Return the number of items of a list in the metadata; 0 if there is none."""
        found = self.header.fields.get(name)
        return 0 if found is None else found.length

    @property
    def alignment(self) -> int:
        return self.header.alignment

    @property
    def data_offset(self) -> int:
        """Return where the first tensor lies in the file."""
        return self.header.data_offset

    @cached_property
    def architecture(self) -> str:
        return str(self.value("general.architecture") or "")

    def fields_below(self, prefix: str) -> Iterator[str]:
        whole = f"{self.architecture}.{prefix}."
        return (name.removeprefix(whole) for name in self.header.fields if name.startswith(whole))


def _stored(whole: NDArray[np.uint8], name: str, info: GgufTensorInfo) -> GgufEntry:
    from gguf import GGMLQuantizationType

    outer = tuple(reversed(info.sizes[1:]))
    a_row = info.size // prod(outer)
    data = whole[info.offset : info.offset + info.size].reshape(*outer, a_row)
    return GgufEntry(name, GGMLQuantizationType(info.kind), info.sizes, info.size, info.offset, data)


def size_experts(config: Any, file: GgufFile) -> None:
    """Write the width of the file's experts into the configuration, where `transformers` leaves its default."""
    for theirs, ours in _WIDTHS.items():
        if (width := file.field(theirs)) and hasattr(config, ours):
            setattr(config, ours, int(width))


def scale_positions(config: Any, file: GgufFile) -> None:
    """Write the file's position scaling into the configuration. Raises `ModelLoadError` for an unknown rule."""
    found = _rule(config, file)
    if not found:
        return
    text = config.get_text_config(decoder=True)
    now: dict[str, Any] = dict(getattr(text, "rope_parameters", None) or {})
    if not now:
        raise ModelLoadError(f"{file.where!r} scales positions, and {type(text).__name__} has no rotary positions")
    if isinstance(now.get("full_attention"), dict):  # llama.cpp leaves layers that slide as they are
        now["full_attention"] = {**now["full_attention"], **found}
    else:
        now |= found
    text.rope_parameters = now


def _rule(config: Any, file: GgufFile) -> dict[str, Any]:
    """Return the equivalent `rope_parameters` of `transformers`; {} = no scaling."""
    kind = str(file.field("rope.scaling.type") or "linear").lower()  # as llama.cpp has it
    factor = float(file.field("rope.scaling.factor") or 0) or float(file.field("rope.scale_linear") or 1)
    length = int(file.field("rope.scaling.original_context_length") or config.max_position_embeddings)
    more = float(file.field("rope.scaling.attn_factor") or 1)
    kind = "longrope" if _TABLES["short_factor"] in file.names else kind
    if kind == "none" or (kind == "linear" and factor == 1):
        rule: dict[str, Any] = {}
    elif kind == "linear":
        rule = {"rope_type": "linear", "factor": factor}
    elif kind == "yarn":
        rule = _yarn(file, factor, length, more)
        more = 1
    elif kind in ("longrope", "su"):
        tables = {name: file.tensor(table) for name, table in _TABLES.items()}
        rule = {name: table.tolist() for name, table in tables.items() if table is not None}
        rule |= {"rope_type": "longrope", "original_max_position_embeddings": length, "attention_factor": more}
        config.original_max_position_embeddings = length
        more = 1
    else:
        raise ModelLoadError(f"{file.where!r}: rope.scaling.type is {kind!r}; read are none, linear, yarn and longrope")
    if more != 1:
        raise ModelLoadError(f"{file.where!r}: rope.scaling.attn_factor is {more:g} beside rope.scaling.type {kind!r}")
    return rule


def _yarn(file: GgufFile, factor: float, length: int, more: float) -> dict[str, Any]:
    """Return YaRN's parameters. llama.cpp multiplies `attn_factor` with 0.1 ln(factor) + 1."""
    known = {"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"}
    unknown = sorted(set(file.fields_below("rope.scaling")) - set(known) - set(_UNUSED))
    if unknown:
        raise ModelLoadError(
            f"{file.where!r}: rope.scaling.{unknown[0]} is not known here; name the checkpoint that it was made of"
        )
    rule = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": length}
    if more != 1:
        rule["attention_factor"] = more * (0.1 * log(factor) + 1)
    values = {ours: file.field(f"rope.scaling.{name}") for name, ours in known.items()}
    return rule | {name: float(value) for name, value in values.items() if value is not None}


def scale_frequencies(module: Any, file: GgufFile) -> None:
    """Divide the model's frequencies by the factors of `rope_freqs.weight`. Raises `ModelLoadError` if their number is
    wrong."""
    factors = file.tensor(_FREQUENCIES)
    if factors is None:
        return
    tables = [part for part in module.modules() if isinstance(getattr(part, "inv_freq", None), Tensor)]
    if len(tables) != 1 or tables[0].inv_freq.shape != factors.shape:
        shapes = [list(part.inv_freq.shape) for part in tables]
        raise ModelLoadError(
            f"{file.where!r}: {_FREQUENCIES} has {list(factors.shape)} factors, the model frequencies of shapes "
            f"{shapes}; name the checkpoint that the file was made of"
        )
    for name in ("inv_freq", "original_inv_freq"):
        if isinstance(table := getattr(tables[0], name, None), Tensor):
            setattr(tables[0], name, table / factors.to(table))


class _WithoutParts:
    """A module as if it had no modules in it: for each of them `transformers` makes all names anew."""

    def __init__(self, module: Any) -> None:
        self.config, self.state_dict = module.config, module.state_dict

    def named_children(self) -> tuple[()]:
        return ()


def places_of(module: Any, file: GgufFile) -> Mapping[str, str]:
    """Return the parameter name for each tensor name in a GGUF file, as `transformers` maps them. It looks for names in
    the modules of a module, too, which none overrides; only where the file has others is it asked to."""
    found = _mapped(_WithoutParts(module), module)
    return found if file.names <= found.keys() else _mapped(module, module)


def _mapped(shown: Any, module: Any) -> Mapping[str, str]:
    from transformers import modeling_gguf_pytorch_utils as reading

    found: Mapping[str, str] = reading.get_gguf_hf_weights_map(shown, processor_of(module))
    return {f"{name}.weight" if name.endswith("_exps") else name: ours for name, ours in found.items()}


def processor_of(module: Any) -> Any:
    """Return the `transformers` object that converts GGUF tensors of such a model."""
    from transformers import modeling_gguf_pytorch_utils as reading

    kinds = {"qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "minimax_m2": "minimax-m2", "gemma3_text": "gemma3"}
    kind = str(module.config.model_type)
    processor = reading.TENSOR_PROCESSORS.get(kinds.get(kind, kind), reading.TensorProcessor)
    return processor(config=module.config.to_dict())


def refuse_skipped(module: Any, file: GgufFile, places: Mapping[str, str]) -> None:
    """Raise `ModelLoadError` if the file has tensors that no parameter was read from. `places`: parameter names by
    tensor name."""
    strange = sorted(name for name in file.names - set(places) if not _READ_HERE.fullmatch(name))
    if strange:
        more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
        raise ModelLoadError(
            f"{file.where!r} holds tensors that {type(module).__name__} has no place for: {', '.join(strange[:3])}"
            f"{more}; answers would be wrong without them. Name the checkpoint that the file was made of"
        )
