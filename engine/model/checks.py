"""Refuse models that the engine cannot serve, before the first request: by the configuration, and by a small trial.

The trial runs the model twice over the same tokens, once with its own eager attention and once through the paged cache
in several steps, and compares the logits. A model that keeps state elsewhere (layers whose states are not given to them
by `engine.attention.recurrent_layers`, attention of its own, position biases) gives other logits, or calls our
attention in too few layers.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import (
    ATTENTION_NAME,
    AttentionStep,
    ShapeProbe,
    StepLayout,
    TokenSpan,
    register_attention,
    running,
)
from sluicegate.engine.attention.recurrent import StateShapeProbe, advancing, showing
from sluicegate.engine.attention.recurrent_layers import recurrent_layers
from sluicegate.engine.checkpoints.fitting import EXPERT_COUNTS
from sluicegate.engine.checkpoints.packed import scheme_of
from sluicegate.engine.checkpoints.quantised import fields_of, method_of, reads
from sluicegate.engine.memory.kv import NO_ATTENTION, KVPool, LayerShape
from sluicegate.engine.memory.states import StatePool, StateShape
from sluicegate.engine.model.dense import DenseDecoder
from sluicegate.engine.model.lora_batch import finding_rowwise_layers
from sluicegate.plugins import ModelLoadError

QUANTISERS = {"torchao": "torchao", "hqq": "hqq", "quanto": "optimum_quanto"}
"""Methods of `quantization_config` that are not read here, and the package that `transformers` loads them with."""
_SPEAKING = {"moshi", "moshi_depth"}
"""Kinds whose text is half of what they generate: the other half are codes of sound, which no request carries."""
_BLOCK_SIZE = 4
_ATTENDING = {"full_attention", "sliding_attention", "chunked_attention"}
_STATELESS = {"mlp", "moe"}
"""Kinds of layers that keep nothing, where a configuration counts them as layers of their own."""
_SERVED_LAYERS = _ATTENDING | _STATELESS | {"linear_attention", "conv", "hybrid"}
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts")
"""Names for the number of experts that a token chooses."""
_EVEN = 1e-6
"""Largest difference of logits, relative to the largest, that is no difference."""
_LAST_BITS = (2.0**-22, 2.0**-20, 2.0**-18)
_MOST_NOISE = 0.4
"""A difference that nothing excuses; other defects than rounding make logits of another model."""
_SHORT_WINDOW = 64
"""Windows up to this are crossed by the trial; longer ones are believed when the model code passes them on."""


def refuse_config(config: Any, where: str) -> None:
    """Raise `ModelLoadError` for architectures that cannot be served, as far as the configuration shows."""
    text = config.get_text_config(decoder=True)
    if config.is_encoder_decoder:
        raise ModelLoadError(f"{where!r} is an encoder-decoder ({config.model_type}); only decoders are served")
    if config.model_type in _SPEAKING:
        raise ModelLoadError(f"{where!r} is a model of speech ({config.model_type}); only models of text are served")
    others = sorted(set(getattr(text, "layer_types", None) or ()) - _SERVED_LAYERS)
    if others:
        raise ModelLoadError(
            f"{where!r} has layers of kind {', '.join(others)}, which keep state that is not kept here; "
            f"served are {', '.join(sorted(_SERVED_LAYERS))}"
        )
    _refuse_numbers(text, where)
    _refuse_shares(text, where)
    _refuse_quantised(config, where)
    if getattr(text, "use_bidirectional_attention", None):
        raise ModelLoadError(
            f"{where!r} attends in both directions, as use_bidirectional_attention of its config.json says; only "
            "causal models are served"
        )


def _refuse_numbers(text: Any, where: str) -> None:
    """Raise `ModelLoadError` for numbers that no model can have, and that the trial would not tell."""
    for name in ("sliding_window", "attention_chunk_size"):
        if (width := getattr(text, name, None)) is not None and (not isinstance(width, int) or isinstance(width, bool)):
            raise ModelLoadError(f"{where!r}: config.json says {name} = {width!r}; expected a whole number above 0")
    window = getattr(text, "sliding_window", None)
    if window is not None and window < 1 and _slides(text):
        raise ModelLoadError(
            f"{where!r} has layers that slide, and config.json says sliding_window = {window}: a token would not even "
            "see itself; expected 1 or more"
        )
    scalar = getattr(text, "query_pre_attn_scalar", None)
    if scalar is not None and not (isinstance(scalar, int | float) and scalar > 0):
        raise ModelLoadError(
            f"{where!r} divides its scores by the root of query_pre_attn_scalar, which is {scalar} in config.json; "
            "expected more than 0"
        )


def _slides(text: Any) -> bool:
    """Return whether layers slide: those that the configuration names, or all where its kind has a window."""
    kinds = getattr(text, "layer_types", None)
    if kinds is not None:
        return "sliding_attention" in kinds
    return hasattr(type(text), "sliding_window") and getattr(text, "use_sliding_window", True) is not False


def _refuse_shares(text: Any, where: str) -> None:
    """Raise `ModelLoadError` where a token chooses more experts, or groups of them, than there are."""
    for chosen, among in ((_CHOSEN, EXPERT_COUNTS), (("topk_group",), ("n_group", "num_expert_group"))):
        name, count = _first(text, chosen)
        counted, known = _first(text, among)
        if not name or not isinstance(known, int) or not known:
            continue
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= known:
            raise ModelLoadError(
                f"{where!r}: config.json says {name} = {count!r} and {counted} = {known}, or leaves one of them to "
                f"what transformers fills in; expected {name} from 1 to {known}. Correct it, or fetch it anew"
            )


def _first(text: Any, names: tuple[str, ...]) -> tuple[str, Any]:
    """Return the first of these fields that has a value, and the value; ("", None) if none has."""
    return next(((name, found) for name in names if (found := getattr(text, name, None)) is not None), ("", None))


def _refuse_quantised(config: Any, where: str) -> None:
    """Raise `ModelLoadError` for a quantised checkpoint that neither we nor `transformers` with an installed library
    can read."""
    fields = fields_of(config)
    if not fields or scheme_of(config, where) is not None or reads(fields, where):
        return
    name = method_of(fields)
    library = QUANTISERS.get(name)
    if library is None or find_spec(library) is None:
        needed = f"pip install {library.replace('_', '-')}" if library else f"none is known for {name!r}"
        raise ModelLoadError(
            f"{where!r}: quantization_config.quant_method is {name!r}, and the library that loads it is not installed "
            f"({needed}; most of them need a GPU). Or name the unquantised checkpoint and set weights = 'int8' or "
            "'int4'"
        )


def usable_context(config: Any, where: str) -> int:
    """Return how many positions can be served. Raises `ModelLoadError` if the configuration does not say.

    Rotary scalings that switch with the longest sequence of a forward pass would let one request change another's
    answer: such a model is served up to the length where they switch.
    """
    names = ("max_position_embeddings", "seq_length", "max_seq_len")
    length = next((found for name in names if (found := getattr(config, name, None))), None)
    if not length:
        raise ModelLoadError(f"{where!r}: the configuration names no max_position_embeddings")
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    for rope in nested or [parameters]:
        if rope.get("rope_type") in ("dynamic", "longrope"):
            original = rope.get("original_max_position_embeddings") or length
            length = min(length, getattr(config, "original_max_position_embeddings", None) or original)
    return int(length)


class TrialFindings(NamedTuple):
    """Results of the trial: shapes each layer stores per token, names of layers called with one row per token, and
    shapes of recurrent states."""

    layers: tuple[LayerShape, ...]
    rowwise: frozenset[str]
    states: tuple[StateShape, ...]


@torch.inference_mode()
def own_logits(module: Any, config: Any, where: str) -> Tensor:
    """Return logits [T, V] float32 of the trial's tokens with the model's own attention. Raises `ModelLoadError`."""
    return _by_itself(module, _trial_ids(config, module.device), where)


@torch.inference_mode()
def verify(
    module: Any, config: Any, where: str, *, rounded: bool = False, expected: Tensor | None = None
) -> TrialFindings:
    """Switch `module` to the paged attention, and compare logits before and after. Raises `ModelLoadError` if they
    differ or the pass fails.

    `rounded`: weights and activations are rounded, which needs a looser tolerance, and a still looser one where the
    model itself makes that much of a last bit; `expected`: `own_logits`, if known.
    """
    ids = _trial_ids(config, module.device)
    if expected is None:
        expected = _by_itself(module, ids, where)
    _refuse_mute(expected, where)
    _switch(module)
    with finding_rowwise_layers(module, len(ids)) as rowwise:
        layers, states = _layer_shapes(module, config, ids, where)
    try:
        found = _in_steps(module, ids, layers, states)
    except Exception as error:
        raise ModelLoadError(
            f"{where!r}: {type(module).__name__} does not go on from what is kept of earlier tokens "
            f"({type(error).__name__}: {error}); its layers need something the engine does not provide"
        ) from error
    worst = _difference(found, expected)
    if not (
        worst < _tolerance(module.dtype, rounded, bool(states))
        or (rounded and worst < _noise(module, found, lambda: _in_steps(module, ids, layers, states)))
    ):
        raise ModelLoadError(
            f"{where!r}: {type(module).__name__} computes other logits through the paged KV cache than with its own "
            f"attention (relative difference {worst:.2g}); its layers need something the engine does not provide"
        )
    mixed = tuple(f"{name}." for name in recurrent_layers(module))  # they are called for some of a step's rows
    return TrialFindings(layers, frozenset(name for name in rowwise if not name.startswith(mixed)), states)


def trusted(module: Any) -> TrialFindings:
    """Switch `module` to the paged attention without a trial; return empty findings."""
    _switch(module)
    return TrialFindings((), frozenset(), ())


def _switch(module: Any) -> None:
    """Set the paged attention on `module`; a `DenseDecoder` uses it anyway."""
    if not isinstance(module, DenseDecoder):
        register_attention()
        module.set_attn_implementation(ATTENTION_NAME)


def _trial_ids(config: Any, device: torch.device) -> Tensor:
    window = max(getattr(config, name, None) or 0 for name in ("sliding_window", "attention_chunk_size"))
    length = 24 if window > _SHORT_WINDOW else max(24, window + 8)
    length = min(length, getattr(config, "max_position_embeddings", None) or length)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, config.vocab_size, (length,), generator=generator).to(device)


def _by_itself(module: Any, ids: Tensor, where: str) -> Tensor:
    """Return logits [T, V] float32 of `ids` [T] with the model's own attention. Raises `ModelLoadError`."""
    try:
        logits: Tensor = module(input_ids=ids.unsqueeze(0), use_cache=False).logits[0].float()
    except Exception as error:
        raise ModelLoadError(f"{where!r}: {type(module).__name__} cannot run {len(ids)} tokens: {error}") from error
    return logits


def _refuse_mute(logits: Tensor, where: str) -> None:
    """Raise `ModelLoadError` if the trial's logits [T, V] are no numbers, or the same for every token."""
    if not bool(logits.isfinite().all()):
        raise ModelLoadError(
            f"{where!r}: the model's own code computes logits that are NaN or infinite; its weights are damaged or too "
            "large for their dtype, or a number in its config.json is wrong. Take another copy of it"
        )
    spread = float((logits.amax(-1) - logits.amin(-1)).max())
    if spread <= _EVEN * float(logits.abs().max()):
        raise ModelLoadError(
            f"{where!r}: the model gives every token the same logit, whatever it reads; its weights are zero, constant "
            "or of absurd size. Was its download finished? Fetch it anew"
        )


def _layer_shapes(
    module: Any, config: Any, ids: Tensor, where: str
) -> tuple[tuple[LayerShape, ...], tuple[StateShape, ...]]:
    probe, kept = ShapeProbe(), StateShapeProbe()
    try:
        with showing(kept):
            _forward(module, ids, 0, probe)
    except (TypeError, AttributeError, KeyError, RuntimeError) as error:
        raise ModelLoadError(f"{where!r}: {type(module).__name__} does not run with our attention: {error}") from error
    if probe.repeated:
        raise ModelLoadError(
            f"{where!r}: {len(probe.repeated)} layers of {type(module).__name__} attend several times in a pass, as "
            "models that run their layers in loops do; keys and values are kept once for each layer"
        )
    count = config.num_hidden_layers
    kinds = (getattr(config, "layer_types", None) or [None] * count)[:count]
    stateless = {index for index, kind in enumerate(kinds) if kind in _STATELESS}
    known = probe.layers.keys() | {key.layer for key in kept.shapes} | stateless
    if not probe.layers or sorted(known) != list(range(count)):
        raise ModelLoadError(
            f"{where!r}: {len(probe.layers)} of {count} layers of {type(module).__name__} use transformers' attention "
            "interface; all must that are not recurrent, since nothing else keeps state between steps"
        )
    for index, kind in enumerate(kinds):
        if kind in _ATTENDING and index not in probe.layers:
            raise ModelLoadError(f"{where!r}: layer {index} of {type(module).__name__} does not attend as others do")
        if kind == "sliding_attention" and probe.layers[index].window is None:
            raise ModelLoadError(f"{where!r}: layer {index} slides, but its code does not pass the window on")
        if kind == "chunked_attention" and probe.layers[index].section is None:
            raise ModelLoadError(
                f"{where!r}: layer {index} of {type(module).__name__} cuts positions into sections, which is served of "
                "Llama 4 only"
            )
    layers = tuple(probe.layers.get(index, NO_ATTENTION) for index in range(count))
    return layers, tuple(kept.shapes.values())


def _in_steps(module: Any, ids: Tensor, layers: tuple[LayerShape, ...], states: tuple[StateShape, ...]) -> Tensor:
    """Return logits [T, V] of `ids` [T], computed as a prompt's first chunk, a second chunk, and a single token."""
    total = len(ids)
    blocks = -(-total // _BLOCK_SIZE)
    pool = KVPool(layers, blocks, _BLOCK_SIZE, module.dtype, ids.device)
    kept = StatePool(states, 1, ids.device) if states else None
    table = np.arange(blocks)[::-1].copy()
    cuts = sorted({0, total // 2, total - 1, total})
    parts = []
    for start, end in pairwise(cuts):
        stretch = TokenSpan(start, end - start, table[: -(-end // _BLOCK_SIZE)])
        positions = np.arange(start, end)
        slots = torch.from_numpy(table[positions // _BLOCK_SIZE] * _BLOCK_SIZE + positions % _BLOCK_SIZE)
        with advancing(kept, [stretch]):
            parts.append(_forward(module, ids[start:end], start, StepLayout(pool, [stretch], slots.to(ids.device))))
    return torch.cat(parts)


def _difference(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference, relative to the largest logit."""
    return float((found - expected).abs().max() / (expected.abs().max() + 1e-6))


def _noise(module: Any, found: Tensor, run: Callable[[], Tensor]) -> float:
    """Return how far logits may lie apart that rounding alone moves: several times as far as `run` moves `found` where
    the embeddings differ in their last bits.

    A trained model that reads random tokens makes much of an activation that is rounded to the next of 255 numbers:
    Gemma 3 (270 M) moves logits by 0.09 of the largest. Here every layer's attention differs in the last bits."""
    worst = 0.0
    for bit in _LAST_BITS:
        watch = module.get_input_embeddings().register_forward_hook(lambda _, __, out, bit=bit: out * (1 + bit))
        try:
            worst = max(worst, _difference(run(), found))
        finally:
            watch.remove()
    return min(4 * worst, _MOST_NOISE)


def _forward(module: Any, ids: Tensor, start: int, paged: AttentionStep) -> Tensor:
    """Return logits [T, V] float32 of `ids` [T] at positions from `start` on."""
    positions = torch.arange(start, start + len(ids), device=ids.device)
    with running(paged):
        out = module(input_ids=ids.unsqueeze(0), position_ids=positions.unsqueeze(0), use_cache=False, paged=paged)
    logits: Tensor = out.logits[0]
    return logits.float()


def _tolerance(dtype: torch.dtype, rounded: bool, recurrent: bool) -> float:
    """Return the tolerance, relative to the largest logit. Rounding of half precision grows through the layers, as does
    an activation that the last bit rounds to the next of 255 numbers; recurrent layers have other code for one token
    than for several, and that of Zamba2 in `transformers` differs by some 1e-3. What the trial looks for (a missing
    bias, state kept elsewhere) is far larger than any of these."""
    if dtype != torch.float32:
        return 0.15
    if rounded:
        return 0.05
    return 5e-3 if recurrent else 1e-3
