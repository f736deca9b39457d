"""Build the table of operations of a `transformers` decoder of the Llama family, or of Gemma 3.

Served: Llama, Mistral, Qwen2, Qwen3 and Gemma 3, dense, computed in float32. A module that is not built exactly as
expected is left to `transformers`' own code: `sizes_of` returns None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sluicegate.engine.cpu.decoder_parts import (
    activation_of,
    is_known,
    norm_of,
    norms_around,
    scale_of,
    turn_cell,
    turn_kind,
)
from sluicegate.engine.cpu.kernels.block_products import BLOCK_FORMS
from sluicegate.engine.cpu.kernels.lowrank import LAYERS, MOST_RANK
from sluicegate.engine.cpu.kernels.machine import LANES
from sluicegate.engine.cpu.kernels.products import BF16, F16, WHOLE
from sluicegate.engine.cpu.kernels.products_by_form import (
    ALONE,
    PRODUCTS,
    READ_AS_THEY_ARE,
    activation_group,
    panel_of,
)
from sluicegate.engine.cpu.kernels.rows import FLOATS, FP8, INT8
from sluicegate.engine.cpu.kernels.small_products import padded, scale_bytes
from sluicegate.engine.cpu.operation_table import COLUMNS, Cell, Column, Op
from sluicegate.engine.cpu.operations import OPERATIONS
from sluicegate.engine.cpu.small_layers import CpuSmallLinear, SmallEmbedding
from sluicegate.engine.memory.kv import KVPool, LayerShape
from sluicegate.engine.probes.states import EPSILON
from sluicegate.plugins.compiled.kernels import Kernel, address_of

Buffer = tuple[int, int]
"""(address, stride in bytes)."""
_ATTENTION, _MLP = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
_LEAST_GROUP = min(activation_group(form) for form in PRODUCTS if form not in READ_AS_THEY_ARE)
_FORMS = {"full": FLOATS, "int8": INT8, "fp8": FP8}
_EMBEDS = (Op.EMBED, Op.EMBED_BLOCKS, Op.EMBED_HALVES)


@dataclass(slots=True)
class OperationTable:
    """The operations of a step: `table` int64 [operations, COLUMNS] and `reals`. `kept` holds the tensors whose
    addresses it contains."""

    rows: list[list[int]] = field(default_factory=list)
    reals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    kept: list[Tensor] = field(default_factory=list)
    layer_states: list[Tensor] = field(default_factory=list)
    """For each watched layer, the buffer whose first rows hold its states after a step."""
    states: Tensor | None = None
    """The buffer whose first rows hold, after a step, the states that the logits came from."""

    def add(self, op: Op, *, waits: bool = True, reals: tuple[float, ...] = (), **columns: Any) -> None:
        row = [0] * COLUMNS
        row[Column.OP], row[Column.WAITS] = int(op), int(waits)
        row[Column.COUNT] = int(Cell.TOKENS)
        row[Column.CODE] = 0 if op is Op.LOWER else address_of(OPERATIONS[op])
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
        """Allocate a buffer [rows, width]. Rows are not a power of two apart, which would map them to the same few
        cache sets."""
        made = torch.empty(rows, width + 16)
        return self.address(made), 4 * (width + 16)

    @property
    def table(self) -> npt.NDArray[np.int64]:
        return np.array(self.rows, np.int64).reshape(-1, COLUMNS)


@dataclass(frozen=True, slots=True)
class LinearProbing:
    """Probes that the pass computes: products of `weights[i]` [P, d] with the state behind `layers[i]`, 1 = behind the
    first, are added to `biases` [P] and stored in `out` [slots, P], at each token's slot. All float32."""

    layers: tuple[int, ...]
    weights: Sequence[Tensor]
    biases: Tensor
    out: Tensor


@dataclass(frozen=True, slots=True)
class Sizes:
    hidden: int
    gated: int
    heads: int
    kv_heads: int
    dim: int
    vocab: int


def sizes_of(module: Any, layers: tuple[LayerShape, ...]) -> Sizes | None:
    """Return the sizes of a decoder; None where the program does not support its architecture or dtype."""
    if not is_known(module) or not _is_plain(module):
        return None
    first = layers[0]
    if any(replace(layer, window=first.window) != first for layer in layers):
        return None
    mlp = module.model.layers[0].mlp
    sizes = Sizes(
        hidden=module.model.embed_tokens.embedding_dim,
        gated=mlp.gate_proj.out_features,
        heads=first.query_heads,
        kv_heads=first.kv_heads,
        dim=first.key_dim,
        vocab=module.lm_head.out_features,
    )
    widths = (sizes.hidden, sizes.gated, sizes.dim, sizes.heads * sizes.dim)
    fits = all(width % LANES == 0 for width in widths) and first.value_dim == first.key_dim
    return sizes if fits else None


def _is_plain(module: Any) -> bool:
    if any(w.dtype != torch.float32 or w.device.type != "cpu" or not w.is_contiguous() for w in module.parameters()):
        return False
    if any(form_of(layer.mlp.gate_proj) != form_of(layer.mlp.up_proj) for layer in module.model.layers):
        return False
    linears = _linears(module)
    unbiased = [linear for name, linear in linears if name in ("lm_head", "gate_proj", "up_proj", "down_proj")]
    kinds = {type(linear) for _, linear in linears}
    return kinds <= {nn.Linear, CpuSmallLinear} and all(linear.bias is None for linear in unbiased)


def _linears(module: Any) -> list[tuple[str, Any]]:
    """Return all linear layers, with the last part of their names."""
    found = [("lm_head", module.lm_head)]
    for layer in module.model.layers:
        for part, names in ((layer.self_attn, _ATTENTION), (layer.mlp, _MLP)):
            found += [(name, getattr(part, name)) for name in names]
    return found


def form_of(layer: Any) -> int:
    """Return the form of a layer's weight: WHOLE, BF16, F16, EIGHT or a form of blocks."""
    return layer.packed.form if isinstance(layer, CpuSmallLinear) else WHOLE


def operation_kernels(module: Any, *, probing: bool = False) -> list[Kernel]:
    """Return the kernels of a decoder's program, except those only adapters need. `probing`: it computes probes."""
    forms = {form_of(linear) for _, linear in _linears(module)}
    unused = {Op.LOWER, Op.SEVERAL, *_EMBEDS} - {_embed_of(module.model.embed_tokens)}
    unused |= set() if probing else {Op.PROBE}
    unused |= set() if forms.difference(READ_AS_THEY_ARE) else {Op.SHRINK}
    products = [table[form] for form in sorted(forms) for table in (PRODUCTS, ALONE)]
    return [*dict.fromkeys(products), *(code for op, code in OPERATIONS.items() if op not in unused)]


def _embed_of(embedding: Any) -> Op:
    """Return the operation that looks up rows of an embedding table."""
    form = embedding.packed.form if isinstance(embedding, SmallEmbedding) else WHOLE
    if form in BLOCK_FORMS:
        return Op.EMBED_BLOCKS
    return Op.EMBED_HALVES if form in (BF16, F16) else Op.EMBED


@dataclass(slots=True)
class Products:
    """Adds products to the table: those with rounded weights also round their activations."""

    made: OperationTable
    rounded: Buffer
    """Buffer for int8 activations, [tokens, widest]."""
    scales: Buffer
    low: Buffer
    """Buffer for the adapters' low-rank projections of activations, [tokens, 3, MOST_RANK]."""

    @classmethod
    def of(cls, made: OperationTable, tokens: int, widest: int) -> Products:
        rounded, scales = padded(widest) // 4, scale_bytes(widest, _LEAST_GROUP) // 4
        return cls(made, *(made.buffer(tokens, width) for width in (rounded, scales, 3 * MOST_RANK)))

    def lower(self, index: int, names: tuple[str, ...], width: int, x: Buffer) -> list[dict[str, Any]]:
        """Let adapters read x for these layers of decoder layer `index`; columns for the products with each."""
        first = len(LAYERS) * index + LAYERS.index(names[0])
        low, ldlow = self.low
        self.made.add(
            Op.LOWER,
            x=x[0],
            ldx=x[1],
            k=width,
            n=len(names),
            low=low,
            ldlow=ldlow,
            factors=first,
            count=Cell.SPANS,
        )
        return [{"low": low + 4 * MOST_RANK * i, "ldlow": ldlow, "factors": first + i} for i in range(len(names))]

    def read(self, layer: Any, x: Buffer, count: Cell = Cell.TOKENS) -> dict[str, Any]:
        """Return the columns for the input and kernel of products with `layer`, adding an operation that rounds the
        input if its form needs that."""
        form = form_of(layer)
        code = {"product": address_of(PRODUCTS[form]), "alone": address_of(ALONE[form]), "panel": panel_of(form)}
        if form in READ_AS_THEY_ARE:
            return {"x": x[0], "ldx": x[1], "k": layer.in_features, "count": count, **code}
        k, group = layer.in_features, activation_group(form)
        scales, stride = self.scales[0], scale_bytes(k, group)
        out, ldo = self.rounded
        self.made.add(
            Op.SHRINK, x=x[0], ldx=x[1], k=k, out=out, ldo=ldo, xs=scales, ldxs=stride, small=group, count=count
        )
        return {
            "x": out,
            "ldx": ldo,
            "k": padded(k),
            "xs": scales,
            "ldxs": stride,
            "small": form,
            "count": count,
            **code,
        }

    def linear(self, layer: Any, source: dict[str, Any], out: int, ldo: int, **more: Any) -> None:
        bias = self.made.address(layer.bias)
        self.made.add(
            Op.LINEAR, **source, **self.weight(layer), out=out, ldo=ldo, n=layer.out_features, bias=bias, **more
        )

    def weight(self, layer: Any, suffix: str = "") -> dict[str, Any]:
        if not isinstance(layer, CpuSmallLinear):
            return {f"w{suffix}": self.made.address(layer.weight)}
        packed = layer.packed
        return {f"w{suffix}": self.made.address(packed.data), f"scales{suffix}": self.made.address(packed.scales)}


@torch.inference_mode(False)
def build_table(
    module: Any,
    sizes: Sizes,
    layers: tuple[LayerShape, ...],
    pool: KVPool,
    tokens: int,
    watched: Sequence[int] = (),
    raw: bool = False,
    probing: LinearProbing | None = None,
) -> OperationTable:
    """Build the operations of one step of up to `tokens` new tokens. `watched`: layers whose states are stored, 1 =
    after the first; `raw`: unscaled. `probing`: probes to compute."""
    made = OperationTable()
    x = made.buffer(tokens, sizes.hidden)
    h = made.buffer(tokens, sizes.hidden)
    made.states = made.kept[-1]
    qkv = made.buffer(tokens, (sizes.heads + 2 * sizes.kv_heads) * sizes.dim)
    mixed = made.buffer(tokens, sizes.heads * sizes.dim)
    acts = made.buffer(tokens, sizes.gated)
    products = Products.of(made, tokens, max(sizes.hidden, sizes.gated, sizes.heads * sizes.dim))
    model, activation = module.model, activation_of(module)
    _embed(made, model.embed_tokens, x)
    for index, layer in enumerate(model.layers):
        attention, mlp = layer.self_attn, layer.mlp
        before_attention, behind_attention, before_mlp, behind_mlp = norms_around(layer)
        _norm(made, before_attention, x, h)
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        source, at, waits = products.read(attention.q_proj, h), qkv[0], True
        lows = products.lower(index, LAYERS[:3], sizes.hidden, h)
        for before, projection, low in zip((projections[0], *projections), projections, lows, strict=False):
            if form_of(projection) != form_of(before):
                source, waits = products.read(projection, h), True
            products.linear(projection, source, at, qkv[1], waits=waits, **low)
            at, waits = at + 4 * projection.out_features, False
        _attention(made, attention, layers[index], pool, index, qkv, mixed)
        source = products.read(attention.o_proj, mixed)
        (low,) = products.lower(index, LAYERS[3:4], sizes.heads * sizes.dim, mixed)
        _add_to_residual(products, attention.o_proj, source, behind_attention, x, h, low)
        _norm(made, before_mlp, x, h)
        both = products.read(mlp.gate_proj, h) | products.weight(mlp.gate_proj) | products.weight(mlp.up_proj, "2")
        low, _ = products.lower(index, LAYERS[4:6], sizes.hidden, h)
        made.add(Op.GATED, **both, n=sizes.gated, out=acts[0], ldo=acts[1], activation=activation, **low)
        source = products.read(mlp.down_proj, acts)
        (low,) = products.lower(index, LAYERS[6:], sizes.gated, acts)
        _add_to_residual(products, mlp.down_proj, source, behind_mlp, x, h, low)
        if index + 1 in watched:
            weight, epsilon = (2.0**30, 2.0**60) if raw else (1.0, EPSILON)
            _norm(made, _Even(torch.full((sizes.hidden,), weight), epsilon), x, made.buffer(tokens, sizes.hidden))
            made.layer_states.append(made.kept[-2])
        if probing is not None and index + 1 in probing.layers:
            _probe(made, probing, probing.layers.index(index + 1), x)
    made.add(Op.ORDER, count=Cell.SAMPLED)
    _norm(made, model.norm, x, h, count=Cell.SAMPLED, picked=1)
    source = products.read(module.lm_head, h, Cell.SAMPLED) | products.weight(module.lm_head)
    made.add(Op.HEAD, **source, ldo=4 * sizes.vocab, n=sizes.vocab)
    return made


def _add_to_residual(
    products: Products, layer: Any, source: dict[str, Any], norm: Any, x: Buffer, room: Buffer, low: dict[str, Any]
) -> None:
    """Add the product with `layer` to the states `x`, by way of `room` where a norm comes before the sum."""
    if norm is None:
        products.linear(layer, source, *x, onto=1, **low)
        return
    products.linear(layer, source, *room, **low)
    _norm(products.made, norm, room, x, onto=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Even:
    """A norm without weights of its own, as `evened` of probes. Beside an epsilon of 2^60 a mean square is lost, and
    what remains is a product with powers of two: every number stays as it is."""

    weight: Tensor
    variance_epsilon: float


def _probe(made: OperationTable, probing: LinearProbing, at: int, x: Buffer) -> None:
    """Add the probes' products with the states of their layer number `at`."""
    weights = probing.weights[at].contiguous()
    probes, width = weights.shape
    where: dict[str, Any] = {"x": x[0], "ldx": x[1], "k": width, "n": probes, "reals": (EPSILON,)}
    bias = made.address(probing.biases.contiguous()) if at == 0 else 0
    made.add(Op.PROBE, **where, w=made.address(weights), bias=bias, out=made.address(probing.out), ldo=4 * probes)


def _embed(made: OperationTable, layer: Any, out: Buffer) -> None:
    where: dict[str, Any] = {"n": layer.embedding_dim, "out": out[0], "ldo": out[1]}
    if isinstance(layer, SmallEmbedding):
        where |= {"scales": made.address(layer.packed.scales), "small": layer.packed.form}
        where["k"] = padded(layer.embedding_dim)
    where["reals"] = (scale_of(layer),)
    made.add(_embed_of(layer), w=made.address(layer.packed.data if "small" in where else layer.weight), **where)


def _norm(made: OperationTable, layer: Any, x: Buffer, out: Buffer, **more: Any) -> None:
    weight, epsilon = norm_of(layer)
    where: dict[str, Any] = {"x": x[0], "ldx": x[1], "out": out[0], "ldo": out[1], "n": len(weight)}
    made.add(Op.NORM, **where, w=made.address(weight), reals=(epsilon,), **more)


def _attention(
    made: OperationTable,
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
        "form": _FORMS[pool.kv],
    }  # fmt: skip
    if pool.is_small:
        where["key_scales"], where["value_scales"] = (x[index].data_ptr() for x in (pool.key_scales, pool.value_scales))
    norms = [norm_of(norm) for name in ("q_norm", "k_norm") if (norm := getattr(attention, name, None)) is not None]
    weights = [made.address(weight) for weight, _ in norms] or [0, 0]
    reals = (norms[0][1] if norms else 0.0,)
    turns = turn_cell(turn_kind(attention))
    made.add(Op.PLACE, **where, w=weights[0], w2=weights[1], turns=turns, reals=reals)
    scaling = float(attention.scaling)
    made.add(
        Op.ATTEND,
        **where,
        count=Cell.TASKS,
        window=shape.window or 0,
        out=out[0],
        ldo=out[1],
        reals=(scaling, 0.0),
    )
