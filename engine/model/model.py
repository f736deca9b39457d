"""Define a model in memory: its facts for engine and pipeline, and its forward pass."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from sluicegate.engine.attention.paged import AttentionStep, running
from sluicegate.engine.checkpoints.draft_heads import DraftHeads
from sluicegate.engine.checkpoints.guard_heads import GuardHeads
from sluicegate.engine.cpu import weight_bytes, weight_count
from sluicegate.engine.memory.kv import LayerShape
from sluicegate.engine.memory.states import StateShape, state_bytes
from sluicegate.engine.model.chain_head import ChainHead
from sluicegate.engine.model.lora_batch import LoraBatch
from sluicegate.engine.parallel.group import TensorParallelGroup
from sluicegate.engine.probes.probe import ProbeSet
from sluicegate.engine.text.detokenizer import Detokenizer


@dataclass(slots=True, eq=False)
class LoadedModel:
    """A decoder that reads our paged KV cache: a `ServedModel`. `module` is used by the engine thread alone."""

    name: str
    version: str
    """Hex digest over configuration, tokenizer and weights: equal folders give equal versions on every machine. A
    version that the operator gave comes first, followed by `+`."""
    context_length: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    tokenizer: Any
    usable_vocab: int
    """Columns from here on are padding without a token."""
    default_temperature: float
    """The checkpoint's own, for requests that name none; 0 = it asks for greedy decoding."""
    defaults: Mapping[str, float]
    """Other attributes of `Sampling` that the checkpoint sets, for requests that leave them out."""
    notes: tuple[str, ...]
    """What an operator should know of how it is served."""
    module: Any = field(repr=False)
    layers: tuple[LayerShape, ...] = field(repr=False)
    dtype: torch.dtype
    device: torch.device
    detokenizer: Detokenizer = field(repr=False)
    draft: LoadedModel | None = field(default=None, repr=False)
    """A smaller model with the same tokenizer, to guess with."""
    heads: DraftHeads | None = field(default=None, repr=False)
    """Draft heads on its own last state, to guess with."""
    chain: ChainHead | None = field(default=None, repr=False)
    """Draft heads that read states of its layers and then their own, to guess with."""
    probes: ProbeSet | None = field(default=None, repr=False)
    """What looks at the states of its answers."""
    group: TensorParallelGroup | None = field(default=None, repr=False)
    """All processes that compute it, where they are several: `module` is then this one's shard."""
    is_sharded: bool = False
    """Whether `module` is one process's shard of it."""
    rowwise: frozenset[str] = field(default=frozenset(), repr=False)
    """Names of layers that are given one row a token: only these can have an adapter."""
    states: tuple[StateShape, ...] = field(default=(), repr=False)
    """What its recurrent layers keep of a sequence; most models have none."""
    remote: bool = False
    base: None = None
    lora: LoraBatch = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.lora = LoraBatch(self.module)

    @property
    def probe_labels(self) -> tuple[str, ...]:
        return () if self.probes is None else self.probes.labels

    @property
    def parameter_count(self) -> int:
        return weight_count(self.module)

    @property
    def weight_bytes(self) -> int:
        return weight_bytes(self.module)

    @property
    def state_bytes(self) -> int:
        """Return the bytes of one sequence's recurrent states."""
        return state_bytes(self.states)

    @property
    def kv_bytes_per_token(self) -> int:
        return self.kv_bytes_in(self.dtype)

    def kv_bytes_in(self, kept: torch.dtype) -> int:
        """Return the bytes of a token's keys and values in a pool of that dtype."""
        return sum(layer.bytes_per_token(kept) for layer in self.layers)

    def logits(self, ids: Tensor, positions: Tensor, wanted: Tensor, paged: AttentionStep) -> Tensor:
        """Run one forward pass over `ids` [T] at `positions` [T]; return logits [R, V] float32 at the places `wanted`
        [R]."""
        return forward(self.module, ids, positions, wanted, paged)

    def hidden(self, ids: Tensor, positions: Tensor, paged: AttentionStep) -> Tensor:
        """Run one forward pass over `ids` [T]; return the last hidden states [T, d], after the final norm."""
        with running(paged):
            out = self.module.base_model(
                input_ids=ids.unsqueeze(0), position_ids=positions.unsqueeze(0), use_cache=False, paged=paged
            )
        states: Tensor = out.last_hidden_state[0]
        return states


@dataclass(slots=True, eq=False)
class GuardModel(LoadedModel):
    """A `ReadingModel` that judges tokens. Its logits are features, which `module.guard_heads` reads. `vocab_size`
    counts its input tokens."""

    reads_for: Literal["judge"] = "judge"
    dimensions: tuple[int, ...] = ()
    normalises: bool = False

    @property
    def guard_heads(self) -> GuardHeads:
        found: GuardHeads = self.module.guard_heads
        return found


def forward(module: Any, ids: Tensor, positions: Tensor, wanted: Tensor, paged: AttentionStep) -> Tensor:
    """Compute `LoadedModel.logits`: [R, V] float32. The caller may overwrite the result."""
    return raw_logits(module, ids, positions, wanted, paged).float()


def raw_logits(module: Any, ids: Tensor, positions: Tensor, wanted: Tensor | int, paged: AttentionStep) -> Tensor:
    """Compute logits [R, V] in the model's own dtype; `wanted` 0 = of all tokens."""
    with running(paged):
        out = module(
            input_ids=ids.unsqueeze(0),
            position_ids=positions.unsqueeze(0),
            use_cache=False,
            logits_to_keep=wanted,
            paged=paged,
        )
    logits: Tensor = out.logits[0]
    return logits


def describe(model: LoadedModel) -> str:
    """Return one line for logs."""
    facts = {"version": model.version, "parameters": model.parameter_count, "context": model.context_length}
    return f"{model.name} {json.dumps(facts)}"
