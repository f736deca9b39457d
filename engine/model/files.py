"""Build a `transformers` model from a folder's safetensors files, tensor by tensor, rounding each as it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.attention.latent_layers import serve_latent
from sluicegate.engine.checkpoints.fitting import (
    INDEX,
    indexed_files,
    refuse_misnumbered,
    refuse_no_numbers,
    refuse_unfitting,
)
from sluicegate.engine.checkpoints.generation_config import generation_config_of
from sluicegate.engine.checkpoints.guard_heads import give_guard, is_token_guard, take_guard
from sluicegate.engine.checkpoints.mtp_layers import mtp_names
from sluicegate.engine.checkpoints.plausible import refuse_codes, refuse_oversized, refuse_oversized_module
from sluicegate.engine.checkpoints.progress import hushed, report
from sluicegate.engine.checkpoints.quantised import fields_of, reads, whole_tensors
from sluicegate.engine.checkpoints.stand_ins import ExpertStandIn
from sluicegate.engine.checkpoints.stored_tensors import LazyTensor, has_halves, stored_tensors
from sluicegate.engine.cpu import (
    HALF_NAMES,
    Packed,
    half_scales,
    keep_as_stored,
    narrow,
    shrink_module,
)
from sluicegate.engine.model.dense import DenseConfig, DenseDecoder, DenseHeads
from sluicegate.engine.parallel.shard import Shard
from sluicegate.engine.parallel.split import split_head, split_layers
from sluicegate.plugins import ModelLoadError

_WHOLE = "model.safetensors"
_EXPERTS = ("proj", "proj.weight", "w1.weight", "w2.weight", "w3.weight")
"""Ends of the names of experts' matrices; what is named otherwise (biases, scales) is read at once."""
_ASYNC = "HF_DEACTIVATE_ASYNC_LOAD"


def weight_files(folder: Path, where: str) -> list[Path]:
    """Return the safetensors files with a checkpoint's weights; [] if its weights have another format."""
    if (folder / INDEX).exists():
        return [folder / name for name in indexed_files(folder, where)]
    return [folder / _WHOLE] if (folder / _WHOLE).exists() else []


def module_of(
    files: list[Path],
    config: Any,
    dtype: torch.dtype | str,
    where: str,
    form: int | None,
    shard: Shard | None = None,
    halves: bool = False,
) -> Any:
    """Return a model with the tensors of `files`; `form`: weights are rounded so (`engine.cpu`) as they are read;
    `shard`: only this shard of its layers is read; `halves`: weights in half precision may stay so. Raises
    `ModelLoadError` where tensors are not the model's."""
    tensors = stored_tensors(files, where)
    further = mtp_names(tensors, config.get_text_config(decoder=True).num_hidden_layers, where)
    tensors = {name: one for name, one in tensors.items() if name not in further}
    refuse_misnumbered(tensors, config, where)
    fields = fields_of(config)
    if fields and reads(fields, where):
        tensors = whole_tensors(tensors, fields, where)
        del config.quantization_config
    refuse_codes(tensors, where)
    guard = take_guard(tensors, config, where) if is_token_guard(config) else None
    refuse_oversized((one.shape for one in tensors.values()), config, where)
    kind = _dtype(dtype, config, tensors)
    if shard is not None:
        module = _sharded(tensors, config, kind, where, shard)
    else:
        early = form if guard is None else None  # a guard's head comes last, and all of it is rounded alike
        halves = halves and guard is None and has_halves(tensors)
        module = module_from(tensors, config, kind, where, early, halves, halves)
    if guard is not None:
        give_guard(module, guard)
    if (said := files[0].parent / "generation_config.json").exists():
        module.generation_config = generation_config_of(said.parent, where)
    return module


def module_from(
    tensors: Mapping[str, LazyTensor],
    config: Any,
    dtype: torch.dtype | str,
    where: str,
    form: int | None,
    as_stored: bool = False,
    halves: bool = False,
) -> Any:
    """Return a model with these tensors; `form`: as in `module_of`; `as_stored`: without a form, what its file keeps in
    blocks stays in them, and with `halves` what it keeps in half precision. Raises `ModelLoadError`."""
    kind = _dtype(dtype, config, tensors)
    if as_stored and form is None:
        return _as_stored(tensors, config, kind, where, halves)
    return filled(tensors, config, kind, where) if form is None else _rounded(tensors, config, kind, where, form)


def dense_module_of(
    files: list[Path], config: DenseConfig, heads: DenseHeads, where: str, form: int | None, halves: bool = False
) -> DenseDecoder:
    """Return a decoder of our own code, in float32, with the tensors of `files`; `form` and `halves`: as in
    `module_of`. Raises `NotDenseError` where tensors are not such a decoder's."""
    tensors = stored_tensors(files, where)
    refuse_codes(tensors, where)
    made: DenseDecoder
    if form is not None:
        made = _rounded(tensors, config, torch.float32, where, form, heads)
    elif halves and has_halves(tensors):
        made = _as_stored(tensors, config, torch.float32, where, True, heads)
    else:
        made = DenseDecoder(tensors, config, heads)
    return made


def _dtype(asked: torch.dtype | str, config: Any, tensors: Mapping[str, LazyTensor]) -> torch.dtype:
    """Return `asked`; for `auto` the dtype in the configuration, else that of the first stored weights."""
    if isinstance(asked, torch.dtype):
        return asked
    said = getattr(config, "dtype", None)
    kept = [one.dtype for one in tensors.values() if one.dtype.is_floating_point and one.dtype.itemsize > 1]
    return said if isinstance(said, torch.dtype) else next(iter(kept), torch.bfloat16)


def filled(tensors: Mapping[str, LazyTensor], config: Any, dtype: torch.dtype, where: str) -> Any:
    """Let `transformers` make the model, and put tensors into it one after another."""
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.auto_factory import _get_model_class

    kind = _get_model_class(config, AutoModelForCausalLM._model_mapping)
    if kind.config_class is getattr(config, "sub_configs", {}).get("text_config"):
        config = config.get_text_config()
    refuse_oversized_module(kind, config, (one.shape for one in tensors.values()), where)
    with _one_after_another(), _put_together(kind.__name__, where):
        module, found = kind.from_pretrained(
            None,
            config=config,
            state_dict=dict(tensors),
            dtype=dtype,
            attn_implementation="eager",
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    refuse_unfitting(found, where, kind.__name__)
    serve_latent(module)
    return module


@contextmanager
def _put_together(kind: str, where: str) -> Iterator[None]:
    """Raise `ModelLoadError` where `transformers` cannot make a model's tensors of stored ones, as it splits and merges
    them by the configuration's numbers."""
    try:
        yield
    except RuntimeError as error:
        if "conversion of the weights" not in str(error):
            raise
        raise ModelLoadError(
            f"{where!r} does not hold the tensors of the model that its config.json describes ({kind}): they cannot be "
            "split or put together by its numbers of heads, experts and sizes. Fetch it anew, or correct config.json "
            "if it is another model's"
        ) from error


@contextmanager
def _one_after_another() -> Iterator[None]:
    """Stop `transformers` from prefetching tensors on threads: prefetched ones would wait in memory."""
    before = os.environ.get(_ASYNC)
    os.environ[_ASYNC] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_ASYNC, None)
        else:
            os.environ[_ASYNC] = before


class _DeferredTensor(LazyTensor):
    """A matrix that is read later. Until then a tensor with the memory of one number stands in for it in the model."""

    def __init__(self, name: str, kept: LazyTensor, dtype: torch.dtype, stand_in: Tensor | None = None) -> None:
        self.name, self.kept = name, kept
        self.stand_in = torch.zeros(1, dtype=dtype).expand(kept.shape) if stand_in is None else stand_in
        self.is_taken = False
        """Whether the model has a place for it: `transformers` passes over what it knows to be extra."""
        super().__init__(kept.shape, dtype, self._take)

    def _take(self) -> Tensor:
        self.is_taken = True
        return self.stand_in


@dataclass(slots=True)
class _DeferredTensors:
    """The matrices of a model that are not read yet, by the address of their stand-ins."""

    where: str
    left: dict[int, _DeferredTensor] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    def runs(self, weight: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield a weight of the model as (first row, rows in float32), from its file if it is not read yet."""
        promised = self.left.get(weight.data_ptr())
        if promised is None:
            yield 0, weight.detach()
            return
        for first, rows in promised.kept.runs():
            refuse_no_numbers(promised.name, rows, self.where)
            yield first, rows
        self.done.add(weight.data_ptr())
        report(len(self.done), len(self.left))

    def parts(self, weight: Tensor) -> Iterator[Tensor]:
        """Yield each expert's weight in float32, from the files if it is not read yet."""
        promised = self.left.get(weight.data_ptr())
        if promised is None:
            yield from weight.detach()
            return
        for index in range(promised.kept.shape[0]):
            one = promised.kept.part(index).float()
            refuse_no_numbers(promised.name, one, self.where)
            yield one
        self.done.add(weight.data_ptr())
        report(len(self.done), len(self.left))

    def made(self, experts: ExpertStandIn, of: Sequence[ExpertStandIn]) -> None:
        """Record that `transformers` combined the stand-ins `of` to `experts`; to itself means that its numbers were
        read."""
        names = [self.left.pop(one.data_ptr()).name for one in of if one.data_ptr() in self.left]
        if experts is not of[0]:
            joined = _DeferredTensor(names[0] if names else "experts", experts.kept, experts.dtype, experts)
            joined.is_taken = True
            self.left[experts.data_ptr()] = joined

    def as_kept(self, weight: Tensor, halves: bool) -> Packed | None:
        """Return a weight in its stored format (`LazyTensor.as_kept`), or, if it is already read, in half precision;
        None if neither fits."""
        promised = self.left.get(weight.data_ptr())
        if promised is None:
            return narrow(weight.detach()) if halves else None
        packed = promised.kept.as_kept(halves)
        if packed is None:
            return None
        refuse_no_numbers(promised.name, _numbers_of(packed), self.where)
        self.done.add(weight.data_ptr())
        report(len(self.done), len(self.left))
        return packed

    def experts_as_kept(self, weight: Tensor, is_transposed: bool, halves: bool) -> list[Packed] | None:
        """Return each expert's weight [n, k] in its stored format; None if the kernels do not support it."""
        promised = self.left.get(weight.data_ptr())
        if promised is None or weight.ndim != 3:
            return None
        found = []
        for index in range(promised.kept.shape[0]):
            packed = promised.kept.part_as_kept(index, is_transposed, halves)
            if packed is None:
                return None
            refuse_no_numbers(promised.name, _numbers_of(packed), self.where)
            found.append(packed)
        self.done.add(weight.data_ptr())
        report(len(self.done), len(self.left))
        return found

    def keep(self, module: Any) -> None:
        """Read the remaining matrices whole: embedding tables, layers of other kinds."""
        for parameter in module.parameters():
            if parameter.data_ptr() in self.left:
                whole = torch.empty(parameter.shape, dtype=parameter.dtype)
                if whole.ndim == 3:
                    for index, one in enumerate(self.parts(parameter)):
                        whole[index] = one
                else:
                    for first, rows in self.runs(parameter):
                        whole[first : first + len(rows)] = rows
                parameter.data = whole


def _numbers_of(packed: Packed) -> Tensor:
    """Return the floating-point part of a packed weight, which could contain NaN."""
    return packed.data if packed.form in HALF_NAMES.values() else half_scales(packed.form, packed.scales)


def _rounded(
    tensors: Mapping[str, LazyTensor],
    config: Any,
    dtype: torch.dtype,
    where: str,
    form: int,
    heads: DenseHeads | None = None,
) -> Any:
    """Return the model with rounded weights."""
    module, promises = _with_promises(tensors, config, dtype, where, heads)
    shrink_module(module, form, runs=promises.runs, parts=promises.parts)
    promises.keep(module)
    return module


def _as_stored(
    tensors: Mapping[str, LazyTensor],
    config: Any,
    dtype: torch.dtype,
    where: str,
    halves: bool,
    heads: DenseHeads | None = None,
) -> Any:
    """Return the model with weights in the blocks of its file, and with `halves` in its half precision."""
    module, promises = _with_promises(tensors, config, dtype, where, heads)
    keep_as_stored(
        module,
        lambda weight: promises.as_kept(weight, halves),
        lambda weight, is_transposed: promises.experts_as_kept(weight, is_transposed, halves),
    )
    promises.keep(module)
    return module


def _sharded(tensors: Mapping[str, LazyTensor], config: Any, dtype: torch.dtype, where: str, shard: Shard) -> Any:
    """Return the model with this process's shard of its layers. `transformers` merges experts, which are then split."""
    module, promises = _with_promises(tensors, config, dtype, where, experts=False)
    split_layers(module, shard, promises.runs)
    promises.keep(module)
    split_head(module, shard)
    return module


def _with_promises(
    tensors: Mapping[str, LazyTensor],
    config: Any,
    dtype: torch.dtype,
    where: str,
    heads: DenseHeads | None = None,
    experts: bool = True,
) -> tuple[Any, _DeferredTensors]:
    """Return the model with matrices that are still to be read, those of `experts` among them. What `transformers`
    would tie by its numbers is read first. `heads`: it is of our own code."""
    with hushed():
        asked, promises = _promised(tensors, config, dtype, where, experts)
        module = filled(asked, config, dtype, where) if heads is None else DenseDecoder(asked, config, heads)
    promises.left = {place: one for place, one in promises.left.items() if one.is_taken}
    there = {parameter.data_ptr(): tuple(parameter.shape) for parameter in module.parameters()}
    if any(
        there.get(place) != tuple(one.kept.shape) for place, one in promises.left.items()
    ):  # computed with: read all
        del module
        module, promises = filled(tensors, config, dtype, where), _DeferredTensors(where)
    return module, promises


def _promised(
    tensors: Mapping[str, LazyTensor], config: Any, dtype: torch.dtype, where: str, experts: bool
) -> tuple[dict[str, LazyTensor], _DeferredTensors]:
    promises, asked = _DeferredTensors(where), dict(tensors)
    tied = bool(getattr(config.get_text_config(decoder=True), "tie_word_embeddings", False))
    heads = [name for name in tensors if name.endswith("lm_head.weight")]
    for name, one in tensors.items():
        alone = not (tied and heads and name.endswith(("lm_head.weight", "embed_tokens.weight", "wte.weight")))
        if not one.dtype.is_floating_point or not alone:
            continue
        if ".experts." in name:
            if not experts or not name.endswith(_EXPERTS) or len(one.shape) not in (2, 3):
                continue
            asked[name] = made = _DeferredTensor(name, one, dtype, ExpertStandIn.of(one, dtype, promises.made))
        elif len(one.shape) == 2:
            asked[name] = made = _DeferredTensor(name, one, dtype)
        else:
            continue
        promises.left[made.stand_in.data_ptr()] = made
    return asked, promises
