"""Read a checkpoint's generation_config: end tokens and sampling defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluicegate.plugins import ModelLoadError

_RANGES: Mapping[str, tuple[float, float, str]] = {
    "temperature": (0.0, 100.0, "0 to 100"),
    "top_k": (-1, 1 << 31, "a whole number, 0 and -1 for all tokens"),
    "top_p": (0.0, 1.0, "0 to 1"),
    "min_p": (0.0, 1.0, "0 to 1"),
    "repetition_penalty": (0.01, 100.0, "0.01 to 100"),
}


_LISTS = (
    *("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "stop_strings", "sequence_bias", "force_words_ids"),
    *("exponential_decay_length_penalty", "watermarking_config", "custom_generate", "dola_layers"),
)
_UNHEEDED: Mapping[str, tuple[Any, ...]] = {
    "num_beams": (None, 1),
    "num_beam_groups": (None, 1),
    "penalty_alpha": (None, 0, 0.0),
    "typical_p": (None, 1, 1.0),
    "epsilon_cutoff": (None, 0, 0.0),
    "eta_cutoff": (None, 0, 0.0),
    "no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1, 1.0),
    "guidance_scale": (None, 1, 1.0),
    **dict.fromkeys(("min_length", "min_new_tokens", "max_time"), (None, 0)),
    **dict.fromkeys(_LISTS, (None, [], {})),
    **dict.fromkeys(("forced_bos_token_id", "forced_eos_token_id"), (None,)),
}
"""Fields that would change which tokens an answer has, and the values that ask for nothing."""


def generation_config_of(folder: Path, where: str) -> Any:
    """Return the generation_config of a folder, which has one. Raises `ModelLoadError` with what it says wrongly."""
    from transformers import GenerationConfig

    try:
        said = json.loads((folder / "generation_config.json").read_text("utf-8"))
        for name in ("bos_token_id", "pad_token_id"):
            if type(found := said.get(name)) not in (int, type(None)):
                raise ValueError(f"it says {name} = {str(found)[:80]!r}; expected the id of a token, or null")
        return GenerationConfig.from_pretrained(folder)
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ModelLoadError(
            f"{where!r}: its generation_config.json cannot be used: {reason}. Correct this, or remove the file"
        ) from error


def end_tokens(module: Any, tokenizer: Any, vocab_size: int, where: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of all tokens that end a sequence: those of the generation config (else of the config), and the
    tokenizer's own; and apart from them ids that are none of `vocab_size`. Raises `ModelLoadError` for what is no
    id."""
    named = module.generation_config.eos_token_id
    if named is None:
        named = module.config.eos_token_id
    ids = [i for i in (named if isinstance(named, list | tuple) else [named]) if i is not None]
    if odd := [i for i in ids if type(i) is not int]:
        raise ModelLoadError(f"{where!r}: eos_token_id is {odd[0]!r}; expected the ids of tokens")
    own = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    found = sorted({*ids, *own})
    return tuple(i for i in found if 0 <= i < vocab_size), tuple(i for i in found if not 0 <= i < vocab_size)


def what_never_ends(odd: tuple[int, ...]) -> tuple[str, ...]:
    """Return a sentence on ids of `end_tokens` that no token has, if there are any."""
    if not odd:
        return ()
    return (f"it names {', '.join(map(str, odd))} as the end of answers, which none of its tokens has",)


def what_is_unheeded(folder: Path) -> tuple[str, ...]:
    """Return a sentence on what a checkpoint says of generation that changes nothing here, if it does."""
    try:
        said = json.loads((folder / "generation_config.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):  # there is none, or it was refused
        said = {}
    names = [name for name, neutral in _UNHEEDED.items() if isinstance(said, dict) and said.get(name) not in neutral]
    if not names:
        return ()
    return (f"its generation_config.json sets {', '.join(names)}, which is left aside: requests say such things",)


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
