"""Read a checkpoint's generation_config: end tokens and sampling defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluicegate.plugins import ModelLoadError

_RANGES: Mapping[str, tuple[float, float, str]] = {
    "temperature": (0.0, 100.0, "0 to 100"),
    "top_k": (-1, 1 << 31, "a whole number, 0 and -1 for all tokens"),
    "top_p": (0.0, 1.0, "0 to 1"),
    "min_p": (0.0, 1.0, "0 to 1"),
    "repetition_penalty": (0.01, 100.0, "0.01 to 100"),
}


def end_tokens(module: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the ids of all tokens that end a sequence: those of the generation config (else of the config), and the
    tokenizer's own."""
    named = module.generation_config.eos_token_id
    if named is None:
        named = module.config.eos_token_id
    ids = list(named) if isinstance(named, (list, tuple)) else [named]
    return tuple(sorted({int(i) for i in [*ids, tokenizer.eos_token_id] if i is not None}))


def draw_defaults(generation_config: Any, where: str) -> tuple[float, Mapping[str, float]]:
    """Return the temperature (0 = greedy) and other defaults for `Sampling` that the checkpoint sets, chosen as vLLM
    does. Raises `ModelLoadError` for a value outside the allowed range."""
    said = {name: _number(generation_config, name, where) for name in _RANGES}
    temperature = said.pop("temperature")
    if generation_config.do_sample is False:
        temperature = 0.0
    found = {name: value for name, value in said.items() if value is not None}
    if "top_k" in found:
        found["top_k"] = max(0, int(found["top_k"]))
    return 1.0 if temperature is None else temperature, found


def _number(generation_config: Any, name: str, where: str) -> float | None:
    value = getattr(generation_config, name, None)
    if value is None:
        return None
    low, high, allowed = _RANGES[name]
    fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not fits or (name == "top_k" and value != int(value)):
        raise ModelLoadError(f"{where!r}: generation_config.json says {name} = {value!r}; expected {allowed}")
    return float(value)
