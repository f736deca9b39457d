"""Refuse checkpoints that cannot be what their files say: sizes that the stored tensors cannot fill, weights that are
codes, positions and lengths that are no numbers to compute with. Each is found before memory is taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any, Protocol

import torch

from sluicegate.engine.checkpoints.fitting import computed_names
from sluicegate.plugins import ModelLoadError

_SLACK = 4
"""How many times more numbers than a checkpoint holds its configuration may describe before it is refused unread: what
fits less badly is refused by the names of its tensors."""
_HARMLESS = 1 << 26
"""Numbers that any machine has room for."""
_LAYER = 1 << 16
"""Numbers whose memory a layer's own objects take."""
_POSITIVE = (
    *("rope_theta", "factor", "beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor", "attention_factor"),
    *("original_max_position_embeddings", "short_factor", "long_factor", "partial_rotary_factor", "mscale"),
)
"""Fields of rotary positions that are numbers above 0, or lists of them."""


class Stored(Protocol):
    """A tensor, of which only shape and dtype are looked at."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...


def refuse_oversized(shapes: Iterable[tuple[int, ...]], config: Any, where: str) -> None:
    """Raise `ModelLoadError` where the configuration describes a model far larger than the stored tensors of `shapes`:
    making it would take memory that the operator never meant to give."""
    counts = [prod(shape) for shape in shapes]
    text = config.get_text_config(decoder=True)
    said = {name: _whole(text, name) for name in ("num_hidden_layers", "vocab_size", "hidden_size")}
    layers, vocab, width = said.values()
    widths = {name: _whole(text, name) for name in ("intermediate_size", "num_attention_heads", "num_key_value_heads")}
    widest = max(widths["intermediate_size"], max(list(widths.values())[1:]) * max(1, _whole(text, "head_dim")))
    described = vocab * width + layers * width * widest
    if max(layers * _LAYER, described) > _allowed(counts):
        shown = ", ".join(f"{name} {value}" for name, value in {**said, **widths}.items())
        raise _oversized(f"{described:,} numbers and more ({shown})", counts, where)


def refuse_oversized_module(kind: Any, config: Any, shapes: Iterable[tuple[int, ...]], where: str) -> None:
    """Do as `refuse_oversized` for all sizes that a configuration may have, by making a model of class `kind` without
    memory. Raises also what making it raises."""
    from transformers.initialization import no_init_weights

    counts = [prod(shape) for shape in shapes]
    with torch.device("meta"), no_init_weights():
        parts = {name: one.numel() for name, one in kind(config).named_parameters()}
    if (described := sum(parts.values())) > _allowed(counts):
        largest = max(parts, key=parts.__getitem__)
        raise _oversized(f"{described:,} numbers, {parts[largest]:,} of them in {largest}", counts, where)


def _allowed(counts: list[int]) -> int:
    """Return how many numbers a model may have whose stored tensors hold `counts`."""
    return max(_HARMLESS, _SLACK * sum(counts))


def _oversized(described: str, counts: list[int], where: str) -> ModelLoadError:
    return ModelLoadError(
        f"{where!r}: its configuration describes a model of {described}, and its {len(counts)} tensors hold "
        f"{sum(counts):,}; one of the two is another model's. Fetch it anew"
    )


def _whole(config: Any, name: str) -> int:
    found = getattr(config, name, None)
    return found if isinstance(found, int) else 0


def refuse_codes(tensors: Mapping[str, Stored], where: str) -> None:
    """Raise `ModelLoadError` if a weight is stored in whole numbers or FP8: without the scales that belong to it, it
    would be taken for its codes. `tensors`: those of a checkpoint once its quantised weights were read."""
    found = [
        f"{name} ({str(one.dtype).removeprefix('torch.')})"
        for name, one in tensors.items()
        if (not one.dtype.is_floating_point or one.dtype.itemsize < 2) and _is_weight(name)
    ]
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise ModelLoadError(
            f"{where!r} holds weights that are codes, with nothing that says what they stand for: "
            f"{', '.join(found[:3])}{more}. Its config.json lacks the quantization_config that belongs to it, or its "
            "layers lack scales; fetch it anew, or name the unquantised checkpoint"
        )


def _is_weight(name: str) -> bool:
    if computed_names(name):
        return False
    return name.rpartition(".")[2] in ("weight", "bias") or ".experts." in name


def refuse_pickled_codes(folder: Path, where: str) -> None:
    """Do as `refuse_codes` for a checkpoint in `pytorch_model*.bin` files. Only their headers are read, and nothing
    that they hold is run."""
    for path in sorted(folder.glob("pytorch_model*.bin")):
        try:
            found = torch.load(path, map_location="meta", weights_only=True)
        except Exception as error:
            raise ModelLoadError(
                f"{where!r}: {path.name} is no file of weights ({str(error).partition('.')[0]}); it is damaged, or "
                "holds code, which is never run. Fetch it anew, in safetensors files if there are any"
            ) from error
        if not isinstance(found, Mapping):
            raise ModelLoadError(f"{where!r}: {path.name} holds no tensors by name; fetch it anew")
        refuse_codes({str(name): one for name, one in found.items() if isinstance(one, torch.Tensor)}, where)


def refuse_positions(config: Any, where: str) -> None:
    """Raise `ModelLoadError` for rotary positions that cannot be computed with, or are scaled by no known rule, and for
    a context without room for a prompt and an answer."""
    rope = getattr(config, "rope_parameters", None) or {}
    nested = {kind: one for kind, one in rope.items() if isinstance(one, dict)}
    for kind, one in (nested or {"": rope}).items():
        field = f"rope_parameters{'.' if kind else ''}{kind}"
        for name in _POSITIVE:
            if (value := one.get(name)) is not None and not _are_positive(value):
                raise ModelLoadError(f"{where!r}: {field}.{name} is {value!r}; expected finite numbers above 0")
        if one.get("rope_type", "default") == "default" and one.get("factor") not in (None, 1):
            raise ModelLoadError(
                f"{where!r}: {field} scales positions by {one['factor']}, and its rope_type does not say how; name one "
                "such as 'linear' or 'yarn', or leave out the factor"
            )
        if (share := one.get("partial_rotary_factor")) is not None and share > 1:
            raise ModelLoadError(f"{where!r}: {field}.partial_rotary_factor is {share}; expected 1 at most")
    length = getattr(config, "max_position_embeddings", None)
    if isinstance(length, int) and not 2 <= length < 1 << 40:
        name = (getattr(config, "attribute_map", None) or {}).get("max_position_embeddings", "max_position_embeddings")
        raise ModelLoadError(f"{where!r}: {name} is {length}; expected 2 or more, below 2^40")


def _are_positive(value: Any) -> bool:
    numbers = value if isinstance(value, list) else [value]
    return bool(numbers) and all(
        isinstance(one, int | float) and not isinstance(one, bool) and one > 0 and math.isfinite(one) for one in numbers
    )
