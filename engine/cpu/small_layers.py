"""Replace layers of any architecture by ones with packed weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sluicegate.engine.cpu.kernels.products_by_form import READ_AS_THEY_ARE
from sluicegate.engine.cpu.packing import Packed, head_form, is_zero, pack, pack_runs, unpack
from sluicegate.engine.cpu.shared_products import multiply

Runs = Callable[[Tensor], Iterable[tuple[int, Tensor]]]
"""Yields a weight as (first row, some rows), from the first row to the last."""
Parts = Callable[[Tensor], Iterable[Tensor]]
"""Yields the weights of experts, from the first to the last."""
StoredParts = Callable[[Tensor, bool], "list[Packed] | None"]
"""Returns the experts' weights as stored, each [n, k]; pass True where the model has them as [k, n]. None = they must
be widened."""


class CpuSmallLinear(nn.Module):
    """`nn.Linear` with a packed weight; float32 in and out."""

    def __init__(self, packed: Packed, bias: Tensor | None) -> None:
        super().__init__()
        self.packed = packed
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.in_features, self.out_features = packed.k, packed.n

    @property
    def weight(self) -> Tensor:
        """Return the unpacked weight, unpacked anew at each access; for inspection."""
        return unpack(self.packed)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features).contiguous()
        out = torch.empty(len(rows), self.out_features)
        multiply(rows, (self.packed,), (len(rows),), out)
        if self.bias is not None:
            out += self.bias
        return out.view(*x.shape[:-1], self.out_features)


class SmallEmbedding(nn.Module):
    """`nn.Embedding` with a packed weight, multiplied by `factor` if given; float32 out."""

    def __init__(self, packed: Packed, factor: Tensor | None = None) -> None:
        super().__init__()
        self.packed, self.factor = packed, factor
        self.num_embeddings, self.embedding_dim = packed.n, packed.k

    @property
    def weight(self) -> Tensor:
        return unpack(self.packed)

    def forward(self, ids: Tensor) -> Tensor:
        found = unpack(self.packed, ids)
        return found if self.factor is None else found * self.factor


class SmallExperts(nn.Module):
    """Experts of a mixture with packed weights; float32 in and out. Biases and activation are those of the replaced
    module, which must follow the experts interface of `transformers`."""

    def __init__(self, experts: Any, up: list[Packed], down: list[Packed]) -> None:
        super().__init__()
        self.own, self.up, self.down = experts, up, down
        self._up_bias, self._down_bias = (getattr(experts, f"{name}_bias", None) for name in names_of(experts))

    def forward(self, states: Tensor, chosen: Tensor, shares: Tensor) -> Tensor:
        """Return [T, d]: the outputs of experts `chosen` [T, k] for `states` [T, d], weighted by `shares` [T, k] and
        summed."""
        experts, order = chosen.flatten().sort(stable=True)
        used, counts = experts.unique_consecutive(return_counts=True)
        tokens, runs = order // chosen.shape[1], (used.tolist(), counts.tolist())
        inner = _times(states[tokens], self.up, self._up_bias, experts, runs)
        inner = self.own._apply_gate(inner) if self.own.has_gate else self.own.act_fn(inner)
        back = _times(inner, self.down, self._down_bias, experts, runs)
        return torch.zeros_like(states).index_add_(0, tokens, back * shares.flatten()[order, None])


def names_of(experts: Any) -> tuple[str, str]:
    """Return the attribute names of an expert module's two weights."""
    return "gate_up_proj" if experts.has_gate else "up_proj", "down_proj"


def _times(
    rows: Tensor, weights: list[Packed], biases: Tensor | None, experts: Tensor, runs: tuple[list[int], list[int]]
) -> Tensor:
    """Multiply each row with its expert's weight. `runs`: the experts in order of the rows, and the number of rows of
    each."""
    used, counts = runs
    out = torch.empty(len(rows), weights[0].n)
    if used:
        multiply(rows.contiguous(), [weights[expert] for expert in used], counts, out)
    return out if biases is None else out + biases[experts]


def _are_experts(module: Any) -> bool:
    """Return whether a module follows the experts interface of `transformers`."""
    if not hasattr(module, "_apply_gate") or not hasattr(module, "is_transposed"):
        return False
    weights = [getattr(module, name, None) for name in names_of(module)]
    return not module.has_post_expert_norm and all(isinstance(w, Tensor) and w.ndim == 3 for w in weights)


def whole_weights(module: Any) -> dict[str, int]:
    """Return the unpacked matrices by name, with their numbers of weights. Embedding tables are left out: a step reads
    only a few of their rows."""
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    kept = ((name, one) for name, one in module.named_parameters() if one.ndim > 1 and id(one) not in tables)
    return {name: one.numel() for name, one in kept}


def is_linear(layer: Any) -> bool:
    """Return whether a layer computes a plain product with its weight. `FalconLinear` differs only in where it
    rounds."""
    return type(layer) is nn.Linear or type(layer).__name__ == "FalconLinear"


def as_it_stands(weight: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield a weight of a model as a single run."""
    yield 0, weight.detach()


def one_by_one(weight: Tensor) -> Iterator[Tensor]:
    """Yield each expert's weight of a stacked tensor."""
    yield from weight.detach()


def shrink_module(
    module: Any,
    form: int,
    known: Mapping[str, Packed] | None = None,
    runs: Runs = as_it_stands,
    parts: Parts = one_by_one,
) -> None:
    """Round every `nn.Linear` and all experts of a float32 decoder on a CPU, in place.

    The head, and a table of embeddings that it shares, takes the form of `head_form`. `known`: layers by name that are
    already rounded. `runs` returns the rows of a weight, `parts` the experts of a stacked one.
    """
    head = module.get_output_embeddings()
    embedding = module.get_input_embeddings()
    tied = is_linear(head) and head.weight is embedding.weight
    ready = known or {}
    for path, parent in list(module.named_modules()):
        for name, child in list(parent.named_children()):
            if is_linear(child):
                bias = None if child.bias is None else child.bias.detach()
                packed = ready.get(f"{path}.{name}") if child is not head else None
                if packed is None or packed.form != form:
                    own = head_form(form, child.in_features) if child is head else form
                    packed = pack_runs(runs(child.weight), child.out_features, child.in_features, own)
                made = CpuSmallLinear(packed, bias)
                setattr(parent, name, made)
                if child is head and tied and type(embedding) is nn.Embedding:
                    module.set_input_embeddings(SmallEmbedding(made.packed))
            elif _are_experts(child):
                up, down = (_pack_experts(child, one, form, parts) for one in names_of(child))
                setattr(parent, name, SmallExperts(child, up, down))
    _keep_a_parameter(module)


def _keep_a_parameter(module: Any) -> None:
    """Register an empty parameter if packing left none (OLMo, whose norms have no weights): `transformers` reads device
    and dtype from the first one."""
    if next(module.parameters(), None) is None:
        module.register_parameter("packed", nn.Parameter(torch.empty(0), requires_grad=False))


def _pack_experts(experts: Any, name: str, form: int, parts: Parts) -> list[Packed]:
    """Pack the weight `name` of each expert, and delete the stacked tensor from `experts`."""
    whole = getattr(experts, name).detach()
    delattr(experts, name)
    return [pack((one.T if experts.is_transposed else one).contiguous(), form) for one in parts(whole)]


def keep_as_stored(module: Any, stored: Callable[[Tensor], Packed | None], parts: StoredParts) -> None:
    """Replace layers, embedding tables and experts of a decoder by packed ones, in place, where `stored` returns a
    packed weight, or `parts` one for each expert. Others stay."""
    known: dict[int, Packed] = {}
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if _are_experts(child):
                _keep_experts(parent, name, child, parts)
                continue
            is_table = isinstance(child, nn.Embedding) and (
                type(child) is nn.Embedding or type(child).__name__.endswith("ScaledWordEmbedding")
            )
            if not (is_linear(child) or is_table):
                continue
            place = child.weight.data_ptr()
            packed = known.get(place) or stored(child.weight)
            if packed is None:
                continue
            known[place] = packed
            bias = None if is_table or child.bias is None else child.bias.detach()
            made = SmallEmbedding(packed, getattr(child, "embed_scale", None)) if is_table else None
            setattr(parent, name, made or CpuSmallLinear(packed, bias))
    _keep_a_parameter(module)


def _keep_experts(parent: Any, name: str, experts: Any, kept: StoredParts) -> None:
    """Replace experts if both of their weights are packed as stored."""
    up, down = (kept(getattr(experts, one), experts.is_transposed) for one in names_of(experts))
    if up is not None and down is not None:
        setattr(parent, name, SmallExperts(experts, up, down))
        for one in names_of(experts):
            delattr(experts, one)


def rounds_activations(module: Any) -> bool:
    """Return whether any product of a module rounds its activations."""
    return any(packed.form not in READ_AS_THEY_ARE for packed in _all_packed(module))


def kept_forms(module: Any) -> Counter[int]:
    """Return the number of packed weights by form."""
    return Counter(packed.form for packed in {id(packed): packed for packed in _all_packed(module)}.values())


def zero_weights(module: Any) -> list[str]:
    """Return the names of matrices that hold zeros alone."""
    kept = ((name, packed) for name, part in module.named_modules() for packed in _packed_in(part))
    plain = ((name, one) for name, one in module.named_parameters() if one.ndim > 1 and not one.is_meta)
    return [name for name, one in plain if not bool(one.any())] + [name for name, one in kept if is_zero(one)]


def weight_bytes(module: Any) -> int:
    """Return the bytes of all weights, counting shared tensors once."""
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in weight_tensors(module)}.values())


def weight_tensors(module: Any) -> Iterator[Tensor]:
    """Yield all weight tensors of a module; shared ones are repeated."""
    yield from module.parameters()
    yield from module.buffers()
    for packed in _all_packed(module):
        yield packed.data
        yield packed.scales


def _all_packed(module: Any) -> Iterator[Packed]:
    for part in module.modules():
        yield from _packed_in(part)


def _packed_in(part: Any) -> Iterator[Packed]:
    """Yield what a layer itself keeps packed."""
    if isinstance(part, CpuSmallLinear | SmallEmbedding):
        yield part.packed
    elif isinstance(part, SmallExperts):
        yield from (*part.up, *part.down)


def weight_count(module: Any) -> int:
    small = {id(packed): packed for packed in _all_packed(module)}
    whole: int = sum(parameter.numel() for parameter in module.parameters())
    elsewhere = sum(getattr(part, "rounded_count", 0) for part in module.modules())  # those of a CUDA device
    return whole + elsewhere + sum(packed.n * packed.k for packed in small.values())
