"""From a `transformers` decoder of the Llama family to the table of operations that computes it.

Served: Llama, Mistral, Qwen2 and Qwen3, dense, in float32. What is not, or is not built exactly as expected, is left to
the general path through `transformers`' own code: `recipe_for` returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from engine.cpu.machine import LANES
from engine.cpu.program import COLUMNS, Column, Op, State
from engine.kv import KVPool, LayerShape

Buffer = tuple[int, int]
"""(address, stride in bytes)."""
FAMILIES = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}


@dataclass(slots=True)
class Recipe:
    """`table` int64 [operations, COLUMNS] and `reals`; `kept` are the tensors whose addresses stand in the table."""

    rows: list[list[int]] = field(default_factory=list)
    reals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    kept: list[Tensor] = field(default_factory=list)

    def add(self, op: Op, *, waits: bool = True, reals: tuple[float, ...] = (), **columns: Any) -> None:
        row = [0] * COLUMNS
        row[Column.OP], row[Column.WAITS] = int(op), int(waits)
        row[Column.COUNT] = int(State.TOKENS)
        if reals:
            row[Column.REAL] = len(self.reals)
            self.reals += reals
        for name, value in columns.items():
            row[Column[name.upper()]] = int(value)
        self.rows.append(row)

    def address(self, tensor: Tensor | None) -> int:
        if tensor is None:
            return 0
        self.kept.append(tensor)
        return tensor.data_ptr()

    def buffer(self, rows: int, width: int) -> Buffer:
        """Room for [rows, width]; rows are not a power of two apart, which would put
        them all into the same few places of the cache."""
        made = torch.empty(rows, width + 16)
        return self.address(made), 4 * (width + 16)

    @property
    def table(self) -> npt.NDArray[np.int64]:
        return np.array(self.rows, np.int64).reshape(-1, COLUMNS)


@dataclass(frozen=True, slots=True)
class Sizes:
    hidden: int
    gated: int
    heads: int
    kv_heads: int
    dim: int
    vocab: int


def sizes_of(module: Any, layers: tuple[LayerShape, ...]) -> Sizes | None:
    """None where the program would not compute what the module does."""
    if type(module).__name__ not in FAMILIES or not _is_plain(module):
        return None
    first = layers[0]
    if any(
        (x.kv_heads, x.key_dim, x.query_heads) != (first.kv_heads, first.key_dim, first.query_heads) for x in layers
    ):
        return None
    mlp = module.model.layers[0].mlp
    sizes = Sizes(
        hidden=module.model.embed_tokens.weight.shape[1],
        gated=mlp.gate_proj.weight.shape[0],
        heads=first.query_heads,
        kv_heads=first.kv_heads,
        dim=first.key_dim,
        vocab=module.lm_head.weight.shape[0],
    )
    widths = (sizes.hidden, sizes.gated, sizes.dim, sizes.heads * sizes.dim)
    fits = all(width % LANES == 0 for width in widths) and first.value_dim == first.key_dim
    return sizes if fits else None


def _is_plain(module: Any) -> bool:
    weights = list(module.parameters())
    if any(w.dtype != torch.float32 or w.device.type != "cpu" or not w.is_contiguous() for w in weights):
        return False
    linears = [m for layer in module.model.layers for m in (*_projections(layer), layer.mlp.down_proj)]
    return (
        all(type(linear) is nn.Linear for linear in [*linears, module.lm_head])
        and module.config.hidden_act == "silu"
        and all(
            linear.bias is None
            for layer in module.model.layers
            for linear in layer.mlp.children()
            if hasattr(linear, "bias")
        )
        and module.lm_head.bias is None
    )


def _projections(layer: Any) -> list[Any]:
    attention, mlp = layer.self_attn, layer.mlp
    return [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj, mlp.gate_proj, mlp.up_proj]


@torch.inference_mode(False)
def write_recipe(module: Any, sizes: Sizes, layers: tuple[LayerShape, ...], pool: KVPool, tokens: int) -> Recipe:
    """The operations of one step of up to `tokens` new tokens."""
    made = Recipe()
    x, ldx = made.buffer(tokens, sizes.hidden)
    h, ldh = made.buffer(tokens, sizes.hidden)
    qkv, ldq = made.buffer(tokens, (sizes.heads + 2 * sizes.kv_heads) * sizes.dim)
    mixed, ldm = made.buffer(tokens, sizes.heads * sizes.dim)
    acts, lda = made.buffer(tokens, sizes.gated)
    model = module.model
    linear, norm = _linear_into(made), _norm_into(made)
    weight = made.address(model.embed_tokens.weight)
    made.add(Op.EMBED, w=weight, n=sizes.hidden, out=x, ldo=ldx, reals=(1.0,))
    for index, layer in enumerate(model.layers):
        attention = layer.self_attn
        norm(layer.input_layernorm, x, ldx, h, ldh)
        at = qkv
        for place, projection in enumerate((attention.q_proj, attention.k_proj, attention.v_proj)):
            linear(projection, h, ldh, at, ldq, waits=place == 0)
            at += 4 * projection.weight.shape[0]
        _attention(made, attention, layers[index], pool, index, (qkv, ldq), (mixed, ldm))
        linear(attention.o_proj, mixed, ldm, x, ldx, onto=1)
        norm(layer.post_attention_layernorm, x, ldx, h, ldh)
        gate, up = made.address(layer.mlp.gate_proj.weight), made.address(layer.mlp.up_proj.weight)
        made.add(Op.GATED, x=h, ldx=ldh, w=gate, w2=up, k=sizes.hidden, n=sizes.gated, out=acts, ldo=lda)
        linear(layer.mlp.down_proj, acts, lda, x, ldx, onto=1)
    norm(model.norm, x, ldx, h, ldh, count=State.SAMPLED, picked=1)
    linear(module.lm_head, h, ldh, 0, 4 * sizes.vocab, count=State.SAMPLED)
    return made


def _attention(
    made: Recipe,
    attention: Any,
    shape: LayerShape,
    pool: KVPool,
    index: int,
    qkv: tuple[int, int],
    out: tuple[int, int],
) -> None:
    where: dict[str, Any] = {
        "x": qkv[0], "ldx": qkv[1], "k": shape.key_dim, "n": shape.value_dim,
        "heads": shape.query_heads, "kv_heads": shape.kv_heads, "block_size": pool.block_size,
        "keys": pool.keys[index].data_ptr(), "values": pool.values[index].data_ptr(),
    }  # fmt: skip
    norms = [getattr(attention, name, None) for name in ("q_norm", "k_norm")]
    epsilon = next((n.variance_epsilon for n in norms if n is not None), 0.0)
    weights = [made.address(n.weight) if n is not None else 0 for n in norms]
    made.add(Op.PLACE, **where, w=weights[0], w2=weights[1], reals=(float(epsilon),))
    scaling = float(attention.scaling)
    made.add(
        Op.ATTEND, **where, count=State.TASKS, window=shape.window or 0, out=out[0], ldo=out[1], reals=(scaling, 0.0)
    )


def _linear_into(made: Recipe) -> Callable[..., None]:
    def linear(layer: Any, x: int, ldx: int, out: int, ldo: int, *, waits: bool = True, **more: Any) -> None:
        n, k = layer.weight.shape
        w, bias = made.address(layer.weight), made.address(layer.bias)
        made.add(Op.LINEAR, waits=waits, x=x, ldx=ldx, out=out, ldo=ldo, n=n, k=k, w=w, bias=bias, **more)

    return linear


def _norm_into(made: Recipe) -> Callable[..., None]:
    def norm(layer: Any, x: int, ldx: int, out: int, ldo: int, **more: Any) -> None:
        reals = (float(layer.variance_epsilon),)
        w, n = made.address(layer.weight), len(layer.weight)
        made.add(Op.NORM, x=x, ldx=ldx, out=out, ldo=ldo, n=n, w=w, reals=reals, **more)

    return norm
