"""Shard a model's layers: attention heads, the inner width of MLPs and experts, the vocabulary.

Norms, routers and the embedding table are replicated. With fewer key heads than processes, several processes hold the
same key head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from sluicegate.engine.parallel.shard import Shard
from sluicegate.plugins import ModelLoadError

Runs = Callable[[Tensor], Iterator[tuple[int, Tensor]]]
"""Yields (first row, rows) of a weight of the model, from the first row to the last, wherever they are stored."""
FAMILIES = ("gemma2", "gemma3_text", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
"""Families whose sharded model is tested against the whole one, see `tests/engine/test_tensor_parallel.py`."""


def refuse_unsplittable(config: Any, size: int, where: str) -> None:
    """Raise `ModelLoadError` where the model's layers cannot be split among `size` processes."""
    text = config.get_text_config(decoder=True)
    if config.model_type not in FAMILIES:
        raise ModelLoadError(
            f"{where!r} is a {config.model_type}, whose layers are not split here; tensor_parallel is for "
            f"{', '.join(FAMILIES)}: leave it out"
        )
    kv = text.num_key_value_heads or text.num_attention_heads
    widths = {"num_attention_heads": text.num_attention_heads, "intermediate_size": text.intermediate_size}
    widths |= {name: found for name in ("moe_intermediate_size",) if (found := getattr(text, name, None))}
    odd = [f"{name} = {width}" for name, width in widths.items() if width % size]
    odd += [f"num_key_value_heads = {kv}"] if kv % size and size % kv else []
    if odd:
        raise ModelLoadError(
            f"{where!r} has {', '.join(odd)}, which {size} processes cannot share evenly; set another tensor_parallel"
        )


def split_layers(module: Any, shard: Shard, runs: Runs) -> None:
    """Cut each layer of `module` to its shard, and sum the results of all shards."""
    for part in module.modules():
        if hasattr(part, "q_proj"):
            _split_attention(part, shard, runs)
        elif isinstance(getattr(part, "gate_up_proj", None), nn.Parameter):
            _split_experts(part, shard)
        elif isinstance(getattr(part, "gate_proj", None), nn.Linear):
            width = shard.slice_of(part.down_proj.in_features)
            _keep_outputs(part.gate_proj, width, runs)
            _keep_outputs(part.up_proj, width, runs)
            _keep_inputs(part.down_proj, width, shard, runs)


def split_head(module: Any, shard: Shard) -> None:
    """Cut the vocabulary matrix to its shard, and join the shards' logits. Call it after the weights are in memory: a
    matrix tied to the embeddings stays a view of them."""
    head, total = module.get_output_embeddings(), module.get_output_embeddings().out_features
    each = -(-total // shard.size)
    first = min(shard.rank * each, total)
    whole, tied = head.weight, head.weight is module.get_input_embeddings().weight
    own = whole.detach()[first : first + each]
    if len(own) < each:  # exchanges are of equal sizes
        own = torch.cat([own, own.new_zeros(each - len(own), own.shape[1])])
    head.weight = nn.Parameter(own if tied else own.clone(), requires_grad=False)
    if head.bias is not None:
        bias = head.bias.detach()[first : first + each]
        head.bias = nn.Parameter(torch.cat([bias, bias.new_zeros(each - len(bias))]), requires_grad=False)

    def join(_: Any, __: Any, logits: Tensor) -> Tensor:
        return shard.all_gather(logits)[..., :total]

    head.register_forward_hook(join)


def _split_attention(attention: Any, shard: Shard, runs: Runs) -> None:
    dim = attention.head_dim
    heads, kv_heads = attention.q_proj.out_features // dim, attention.k_proj.out_features // dim
    queries = shard.slice_of(heads)
    keys = shard.slice_of(kv_heads)
    if kv_heads % shard.size:  # fewer than processes: each keeps the one that its queries look at
        keys = slice(shard.rank * kv_heads // shard.size, shard.rank * kv_heads // shard.size + 1)
    wide, narrow = (slice(one.start * dim, one.stop * dim) for one in (queries, keys))
    _keep_outputs(attention.q_proj, wide, runs)
    _keep_outputs(attention.k_proj, narrow, runs)
    _keep_outputs(attention.v_proj, narrow, runs)
    _keep_inputs(attention.o_proj, wide, shard, runs)
    attention.num_key_value_groups = (queries.stop - queries.start) // (keys.stop - keys.start)


def _split_experts(experts: Any, shard: Shard) -> None:
    """Cut every expert to its shard: `gate_up_proj` [E, 2 * I, d] and `down_proj` [E, d, I]."""
    inner = experts.down_proj.shape[2]
    mine = shard.slice_of(inner)
    gate, up = experts.gate_up_proj.detach().split(inner, 1)
    experts.gate_up_proj = nn.Parameter(torch.cat([gate[:, mine], up[:, mine]], 1), requires_grad=False)
    experts.down_proj = nn.Parameter(experts.down_proj.detach()[:, :, mine].contiguous(), requires_grad=False)
    _sum_results(experts, shard)


def _keep_outputs(layer: nn.Linear, kept: slice, runs: Runs) -> None:
    weight = torch.empty(kept.stop - kept.start, layer.in_features, dtype=layer.weight.dtype)
    for first, rows in runs(layer.weight):
        low, high = max(first, kept.start), min(first + len(rows), kept.stop)
        if low < high:
            weight[low - kept.start : high - kept.start] = rows[low - first : high - first]
    layer.weight = nn.Parameter(weight, requires_grad=False)
    layer.out_features = len(weight)
    if layer.bias is not None:
        layer.bias = nn.Parameter(layer.bias.detach()[kept].clone(), requires_grad=False)


def _keep_inputs(layer: nn.Linear, kept: slice, shard: Shard, runs: Runs) -> None:
    weight = torch.empty(layer.out_features, kept.stop - kept.start, dtype=layer.weight.dtype)
    for first, rows in runs(layer.weight):
        weight[first : first + len(rows)] = rows[:, kept]
    layer.weight = nn.Parameter(weight, requires_grad=False)
    layer.in_features = weight.shape[1]
    if layer.bias is not None and shard.rank > 0:  # it is added once
        layer.register_parameter("bias", None)
    _sum_results(layer, shard)


def _sum_results(part: nn.Module, shard: Shard) -> None:
    part.register_forward_hook(lambda _, __, found: shard.all_reduce(found))
