"""What a model needs before it is loaded: bytes of weights, bytes of KV cache, what fits where, how fast at best.

Everything follows from `config.json`, and, where the weights are at hand, from the headers of the safetensors files.
Roofline: a decode step reads every weight that is used once and every held KV position once, so

    step = max((weights + sequences * context * kv_per_token) / bandwidth, 2 * active * sequences / compute)
    tokens a second = sequences / step

Not covered: activations and the workspace of kernels (`RESERVE` stands for them), and what a real engine loses.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluicegate.plugins import ConfigurationError

BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "float8": 1.0, "int8": 1.0, "int4": 0.5}
RESERVE = 0.08
"""Share of a device's memory left for activations, kernels and the allocator."""


@dataclass(frozen=True, slots=True)
class Device:
    """`compute`: dense products a second in 16 bits, as the maker states them, counted as two operations each."""

    name: str
    memory_bytes: float
    bandwidth: float
    compute: float


DEVICES = {
    device.name: device
    for device in (
        Device("L4", 24e9, 0.30e12, 121e12),
        Device("A10", 24e9, 0.60e12, 125e12),
        Device("RTX4090", 24e9, 1.008e12, 165e12),
        Device("L40S", 48e9, 0.864e12, 362e12),
        Device("A100", 80e9, 2.039e12, 312e12),
        Device("H100", 80e9, 3.35e12, 989e12),
        Device("H200", 141e9, 4.8e12, 989e12),
        Device("MI300X", 192e9, 5.3e12, 1307e12),
        Device("B200", 180e9, 8.0e12, 2250e12),
    )
}


@dataclass(frozen=True, slots=True)
class Layer:
    """Elements that one position stores. `window`: positions that later ones still read; None = all."""

    kv_elements: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ModelShape:
    """`parameters` of all weights; `active` of those that one token is multiplied with."""

    kind: str
    parameters: int
    active: int
    layers: tuple[Layer, ...]
    weight_bytes: int | None = None
    """According to the files; None where only the configuration is known."""
    attention: str = "multi-head"

    @property
    def kv_elements(self) -> int:
        """Return the KV elements of one position, over all layers: what the engine allocates."""
        return sum(layer.kv_elements for layer in self.layers)

    def kv_elements_read(self, context: int) -> int:
        """Return the KV elements that a decode step reads at `context` positions; fewer where windows slide."""
        return sum(layer.kv_elements * min(context, layer.window or context) for layer in self.layers)


def read_shape(where: Path) -> ModelShape:
    """Read the shape of a model. `where`: a folder with `config.json`, or that file. Raises `ConfigurationError`."""
    path = where / "config.json" if where.is_dir() else where
    try:
        config = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror}); name a folder with config.json") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not JSON: {error}") from error
    return shape_of(config, _weights(path.parent))


def shape_of(config: Mapping[str, Any], weights: tuple[int, int] | None = None) -> ModelShape:
    """Return the shape that a `config.json` describes. `weights`: (parameters, bytes) where the files are at hand."""
    text = config.get("text_config") or config
    numbers = _ConfigNames(text)
    layers = tuple(_layer(text, numbers, at) for at in range(numbers.layers))
    counted, active = _parameters(text, numbers)
    parameters, weight_bytes = weights or (counted, None)
    return ModelShape(
        str(config.get("model_type", "unknown")),
        parameters,
        active + parameters - counted if weights and parameters > counted else min(active, parameters),
        layers,
        weight_bytes,
        _attention(text, numbers),
    )


class _ConfigNames:
    """The names that configurations give to the same things."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        def read(*names: str) -> int:
            for name in names:
                if isinstance(config.get(name), int):
                    return int(config[name])
            raise ConfigurationError(f"the configuration has no {' or '.join(names)}; is it that of a decoder?")

        self.hidden = read("hidden_size", "n_embd", "d_model")
        self.layers = read("num_hidden_layers", "n_layer")
        self.heads = read("num_attention_heads", "n_head")
        self.vocabulary = read("vocab_size")
        self.kv_heads = int(config.get("num_key_value_heads") or self.heads)
        self.head = int(config.get("head_dim") or self.hidden // self.heads)
        self.inner = int(config.get("intermediate_size") or config.get("n_inner") or 4 * self.hidden)


def _layer(config: Mapping[str, Any], numbers: _ConfigNames, at: int) -> Layer:
    if rank := config.get("kv_lora_rank"):
        return Layer(int(rank) + int(config.get("qk_rope_head_dim") or 0))
    kinds = config.get("layer_types")
    slides = kinds[at] == "sliding_attention" if kinds else bool(config.get("use_sliding_window", True))
    window = config.get("sliding_window") if slides else None
    return Layer(2 * numbers.kv_heads * numbers.head, int(window) if window else None)


def _attention(config: Mapping[str, Any], numbers: _ConfigNames) -> str:
    if config.get("kv_lora_rank"):
        return "multi-head latent"
    if numbers.kv_heads == numbers.heads:
        return "multi-head"
    return "multi-query" if numbers.kv_heads == 1 else "grouped-query"


def _parameters(config: Mapping[str, Any], n: _ConfigNames) -> tuple[int, int]:
    """Count parameters as (all, those that one token is multiplied with), without biases and norms: some tenths of a
    per cent."""
    tied = bool(config.get("tie_word_embeddings", False))
    outside = n.vocabulary * n.hidden * (1 if tied else 2)
    attention = _attention_parameters(config, n)
    every, used = _feed_forward(config, n)
    read = n.vocabulary * n.hidden
    return outside + n.layers * attention + every, read + n.layers * attention + used


def _attention_parameters(config: Mapping[str, Any], n: _ConfigNames) -> int:
    if rank := config.get("kv_lora_rank"):
        rope, plain = int(config["qk_rope_head_dim"]), int(config["qk_nope_head_dim"])
        value, query = int(config["v_head_dim"]), config.get("q_lora_rank")
        asked = n.heads * (rope + plain)
        queries = query * (n.hidden + asked) if query else n.hidden * asked
        return int(queries + n.hidden * (rank + rope) + rank * n.heads * (plain + value) + n.heads * value * n.hidden)
    return n.hidden * n.head * (2 * n.heads + 2 * n.kv_heads)


def _feed_forward(config: Mapping[str, Any], n: _ConfigNames) -> tuple[int, int]:
    """Count feed-forward parameters over all layers as (all, used by one token). Gated layers have three matrices,
    those of GPT-2 two."""
    matrices = 2 if config.get("model_type") in ("gpt2", "phi", "gpt_neox", "opt") else 3
    dense = matrices * n.hidden * n.inner
    experts = config.get("num_local_experts") or config.get("n_routed_experts") or config.get("num_experts")
    if not experts:
        return n.layers * dense, n.layers * dense
    one = 3 * n.hidden * int(config.get("moe_intermediate_size") or n.inner)
    shared = int(config.get("n_shared_experts") or 0)
    first = int(config.get("first_k_dense_replace") or 0)
    routed, gate = n.layers - first, n.hidden * int(experts)
    chosen = int(config.get("num_experts_per_tok") or 1)
    every = first * dense + routed * (one * (int(experts) + shared) + gate)
    return every, first * dense + routed * (one * (chosen + shared) + gate)


def _weights(folder: Path) -> tuple[int, int] | None:
    """Return (parameters, bytes) from the headers of all safetensors files; None where there are none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return None
    tensors = [tensor for path in files for tensor in _header(path)]
    return sum(_product(t["shape"]) for t in tensors), sum(t["data_offsets"][1] - t["data_offsets"][0] for t in tensors)


def _header(path: Path) -> list[Any]:
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        if size > 100 << 20:
            raise ConfigurationError(f"{path} is no safetensors file: its header would have {size} bytes")
        header = json.loads(file.read(size))
    return [tensor for name, tensor in header.items() if name != "__metadata__"]


def _product(shape: Iterable[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes for one copy of a model that serves `sequences` of `context` positions at once."""

    shape: ModelShape
    context: int
    sequences: int
    weight_bytes: float
    kv_per_token: float
    active_bytes: float

    @property
    def kv_bytes(self) -> float:
        return self.kv_per_token * self.context * self.sequences

    @property
    def total_bytes(self) -> float:
        return self.weight_bytes + self.kv_bytes


def need(
    shape: ModelShape, *, context: int, sequences: int, dtype: str | None = None, kv_dtype: str | None = None
) -> MemoryNeed:
    """Return the memory that a model needs. `dtype` None: as the files are, else 16 bits. The KV cache has 16 bits
    unless `kv_dtype` says otherwise. Raises `ConfigurationError`."""
    if context < 1 or sequences < 1:
        raise ConfigurationError("context and concurrency must be at least 1")
    each = _bytes(dtype) if dtype else (shape.weight_bytes or 2.0 * shape.parameters) / shape.parameters
    kv = _bytes(kv_dtype or (dtype if dtype in ("float32", "bfloat16", "float16") else "bfloat16"))
    return MemoryNeed(shape, context, sequences, each * shape.parameters, kv * shape.kv_elements, each * shape.active)


def _bytes(dtype: str) -> float:
    if dtype not in BYTES:
        raise ConfigurationError(f"dtype {dtype!r} is unknown; choose one of {', '.join(BYTES)}")
    return BYTES[dtype]


@dataclass(frozen=True, slots=True)
class Placement:
    """One copy on `devices` devices of a kind. `sequences`: how many fit; times of one decode step and one prompt."""

    device: Device
    devices: int
    sequences: int
    step_s: float
    prefill_s: float

    @property
    def tokens_per_s(self) -> float:
        return self.sequences / self.step_s if self.sequences else 0.0

    def cost(self, price_per_hour: float) -> float:
        """Return the cost of a million output tokens, in the currency of the price; infinity where no sequence fits."""
        return price_per_hour * self.devices / 3600 / self.tokens_per_s * 1e6 if self.sequences else float("inf")


def fit(needed: MemoryNeed, device: Device) -> Placement:
    """Fit the model on as few devices as hold the weights and one sequence; then as many sequences as asked for, or as
    fit."""
    usable = device.memory_bytes * (1 - RESERVE)
    one = needed.kv_per_token * needed.context
    devices = max(1, -int(-(needed.weight_bytes + one) // usable))
    room = int((usable * devices - needed.weight_bytes) // one) if one else needed.sequences
    sequences = max(0, min(needed.sequences, room))
    return Placement(
        device, devices, sequences, _step(needed, device, devices, max(1, sequences)), _prefill(needed, device, devices)
    )


def _step(needed: MemoryNeed, device: Device, devices: int, sequences: int) -> float:
    each = needed.kv_per_token / max(1, needed.shape.kv_elements)
    read = needed.active_bytes + sequences * needed.shape.kv_elements_read(needed.context) * each
    operations = 2 * needed.shape.active * sequences
    return max(read / (device.bandwidth * devices), operations / (device.compute * devices))


def _prefill(needed: MemoryNeed, device: Device, devices: int) -> float:
    """Return the seconds of computing that a prompt as long as the context takes."""
    return 2 * needed.shape.active * needed.context / (device.compute * devices)
