"""Refuse checkpoints whose tensors do not fit the model: missing, unexpected, of another shape, NaN or infinite.

`transformers` initialises a missing tensor at random and goes on; such a model answers differently after every start.
Tensors it knows to be absent or extra (tied heads, buffers, parts for other tasks) are not in its report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sluicegate.plugins import ModelLoadError

INDEX = "model.safetensors.index.json"
_EXTRA = re.compile(
    r"(^|\.)rotary_emb\.(inv_freq|cos_cached|sin_cached)$"  # computed from the configuration
    r"|(^|\.)(attn|attention|self_attn|self_attention)\.(masked_bias|bias)$"  # causal masks of old GPT checkpoints
    r"|(^|\.)position_ids$"
    r"|\.[qkv]_scale$|\.(kv|prob)_scale$|\.[qkv]_proj\.output_scale$"  # for caches and scores in 8 bits of others
)
"""Tensors without a place in a model that say nothing which it does not know already."""
_NAMED = 3
_EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(.+)")
EXPERT_COUNTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")


def refuse_unfitting(found: Mapping[str, Any], where: str, kind: str) -> None:
    """Raise `ModelLoadError` with the names of tensors that do not fit. `found`: what `from_pretrained` of
    `transformers` reports; `kind`: the model's class."""
    missing = sorted(found["missing_keys"])
    strange = sorted(name for name in found["unexpected_keys"] if not computed_names(name))
    shapes = sorted(f"{name} is {list(had)}, not {list(needed)}" for name, had, needed in found["mismatched_keys"])
    faults = [
        f"{len(names)} {what}: {_some(names)}"
        for names, what in (
            (missing, "missing"),
            (strange, f"that {kind} has no place for"),
            (shapes, "of another shape"),
        )
        if names
    ]
    if faults:
        raise ModelLoadError(
            f"{where!r} does not hold the tensors of the model that its config.json describes ({kind}): "
            f"{'; '.join(faults)}. {_advice(missing, strange)}"
        )


def computed_names(name: str) -> bool:
    """Return whether a tensor of this name says nothing that a model does not know already."""
    return _EXTRA.search(name) is not None


def refuse_misnumbered(names: Iterable[str], config: Any, where: str) -> None:
    """Raise `ModelLoadError` where experts are not numbered from 0 to the last that the configuration knows: they are
    stacked in order, and a gap would put each after it in another's place."""
    found: dict[tuple[str, str], set[int]] = {}
    for name in names:
        if match := _EXPERT.fullmatch(name):
            found.setdefault((match[1], match[3]), set()).add(int(match[2]))
    text = config.get_text_config(decoder=True)
    said = next((n for n in (getattr(text, name, None) for name in EXPERT_COUNTS) if isinstance(n, int)), None)
    for (layer, part), numbers in sorted(found.items()):
        count = max(numbers) + 1 if said is None else said
        if absent := sorted(set(range(count)) - numbers):
            raise ModelLoadError(
                f"{where!r} lacks {_some([f'{layer}.{n}.{part}' for n in absent])}: {count} experts are numbered from 0"
            )
        if extra := sorted(numbers - set(range(count))):
            raise ModelLoadError(
                f"{where!r} holds {_some([f'{layer}.{n}.{part}' for n in extra])}, and {count} experts end at "
                f"{count - 1}; correct config.json if it is another model's"
            )


def refuse_twice(names: Iterable[str], where: str) -> None:
    """Raise `ModelLoadError` for weights that a checkpoint holds both quantised and whole, which `names` are."""
    if found := sorted(names):
        raise ModelLoadError(
            f"{where!r} holds {_some(found)} both quantised and as whole tensors, and nothing says which is meant: the "
            "folder was put together of two checkpoints. Remove one of the two, or fetch it anew"
        )


def refuse_no_numbers(name: str, tensor: Tensor, where: str) -> None:
    """Raise `ModelLoadError` if a weight contains NaN or infinity."""
    if not tensor.is_floating_point() or not tensor.numel() or tensor.is_meta or tensor.itemsize < 2:
        return
    low, high = torch.aminmax(tensor)  # NaN wherever one is
    if not bool(torch.isfinite(low) & torch.isfinite(high)):
        kind = "NaN" if bool(tensor.isnan().any()) else "infinite"
        raise ModelLoadError(
            f"{where!r}: the tensor {name!r} holds numbers that are {kind}; the checkpoint is damaged, or was "
            "saved after its training had diverged. Take another copy or an earlier one"
        )


def refuse_damaged(module: Any, where: str) -> None:
    """Raise `ModelLoadError` if any parameter contains NaN or infinity."""
    for name, parameter in module.named_parameters():
        refuse_no_numbers(name, parameter.detach(), where)


def refuse_missing_files(folder: Path, where: str) -> None:
    """Raise `ModelLoadError` if the index of a sharded checkpoint names files that do not exist."""
    if (folder / INDEX).exists():
        absent = [name for name in indexed_files(folder, where) if not _exists(folder / name)]
        if absent:
            raise ModelLoadError(
                f"{where!r}: {INDEX} names {len(absent)} files that are not there: {_some(absent)}. The download or "
                "copy was not finished; fetch them"
            )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def indexed_files(folder: Path, where: str) -> list[str]:
    """Return the file names in a folder's index. Raises `ModelLoadError` if it cannot be read."""
    try:
        names = sorted(set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ModelLoadError(
            f"{where!r}: {INDEX} has no weight_map that can be read ({error}); fetch it anew"
        ) from error
    odd = [name for name in names if not isinstance(name, str) or name in ("", ".", "..") or {"/", "\\"} & {*name}]
    if odd or not names:
        raise ModelLoadError(
            f"{where!r}: {INDEX} names {', '.join(map(repr, odd[:_NAMED])) or 'no files'}; expected names of files in "
            "that folder: what lies elsewhere has no part in the model's version. Fetch it anew"
        )
    return names


def _some(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _advice(missing: Iterable[str], strange: Collection[str]) -> str:
    """Describe the likely cause: a prefix on all names, or another model's checkpoint."""
    for name in missing:
        for other in strange:
            if other.endswith(f".{name}"):
                return f"Its names begin with {other.removesuffix(name)!r}; save the model itself, not what wraps it"
    return "Fetch it anew, or correct config.json if it is another model's"
