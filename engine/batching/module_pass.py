"""Run the model's own code over a KV pool. On CUDA devices its layers may be fused, and decode steps replayed as
captured graphs."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import AttentionStep, InPlaceLayout, Scoring, TokenSpan
from sluicegate.engine.attention.recurrent import advancing
from sluicegate.engine.batching.step_inputs import I64, StepInputs
from sluicegate.engine.batching.trial import worst_difference
from sluicegate.engine.cuda.capture import Capture, FusedForward, StepGraphs
from sluicegate.engine.cuda.choice import MakeLayout, choose_attention
from sluicegate.engine.cuda.staging import Staging, to_device
from sluicegate.engine.memory.kv import KVPool
from sluicegate.engine.memory.states import StatePool
from sluicegate.engine.model.model import LoadedModel, raw_logits
from sluicegate.engine.settings import AttentionKind

_LOG = logging.getLogger(__name__)


class ModulePass:
    """The forward pass of `transformers`' code for one model and pool. Used by one thread, under
    `torch.inference_mode`."""

    def __init__(
        self,
        model: LoadedModel,
        pool: KVPool,
        recurrent: StatePool | None,
        attention: AttentionKind,
        *,
        compiled: bool,
    ) -> None:
        """Choose the kernels of attention. Not `compiled`: use none that must be compiled first."""
        self._model = model
        self._pool = pool
        self._recurrent = recurrent
        self._staging = Staging(torch.int64, model.device)
        self._layout: MakeLayout = InPlaceLayout
        self._graphs: StepGraphs | None = None
        self._fused: FusedForward | None = None
        self._wants_states = False
        self.can_capture = False
        """Whether attention uses the CUDA kernels, which graphs need."""
        self.states: Tensor | None = None
        """The hidden states [R, d] behind the last pass's logits, if `keep_states` was called."""
        gathers = any(layer.needs_reference for layer in model.layers)
        if attention == "auto" and pool.key_arrays and compiled and not gathers:
            self._compile_in_place()
        else:
            chosen = choose_attention(pool, attention if compiled else "reference")
            self._layout = chosen.layout
            self.can_capture = chosen.name != "reference" and recurrent is None

    @property
    def is_fused(self) -> bool:
        return self._fused is not None

    def run(self, inputs: StepInputs) -> Tensor:
        """Write keys and values of the step's tokens; return logits [R, V] of its wanted rows, float32."""
        stretches = inputs.cut(self._pool.block_size)
        if self._graphs is not None and not inputs.spans:
            replayed = self._graphs.run(inputs.ids, inputs.positions, inputs.slots, stretches)
            if replayed is not None:
                return self._pick(inputs, *replayed)
        ids, positions, slots, wanted = self._send(inputs.ids, inputs.positions, inputs.slots, inputs.wanted)
        layout = self._layout(self._pool, stretches, slots)
        with self._model.lora.adding(inputs.spans, inputs.wanted), advancing(self._recurrent, stretches):
            if self._fused is not None:
                return self._fused.logits(ids, positions, wanted, layout, adapted=bool(inputs.spans)).float()
            return self._model.logits(ids, positions, wanted, layout)

    def keep_states(self) -> None:
        """Store `states` in every later pass."""
        head, note = self._model.module.get_output_embeddings(), weakref.WeakMethod(self._note_states)

        def look(_: Any, given: tuple[Tensor, ...]) -> None:
            if (alive := note()) is not None:
                alive(given[0])

        hook = head.register_forward_pre_hook(look)
        weakref.finalize(self, hook.remove)
        self._wants_states = True

    def fuse(self, trial: Iterable[StepInputs]) -> None:
        """Use the fused CUDA pass from now on, if there is one whose logits equal those of the model's own code in the
        steps `trial`. The tolerance allows for half precision, whose sums are rounded in another order. Overwrites the
        first blocks of the pool."""
        from sluicegate.engine.cuda.fused_pass import fused_pass

        steps = list(trial)
        expected = tuple(self.run(inputs).clone() for inputs in steps)
        try:
            self._fused = fused_pass(self._model.module, self._pool)
            if self._fused is None:
                return
            worst = worst_difference((self.run(inputs).clone() for inputs in steps), expected)
        except Exception as error:
            self._fused = None
            _LOG.warning("%s: the fused forward pass failed (%s); using the model's own", self._model.name, error)
            return
        if worst >= (
            1e-3 if self._model.dtype == torch.float32 else 0.05 * max(1.0, len(self._pool.layers) / 8) ** 0.5
        ):
            self._fused = None
            _LOG.warning("%s: the fused forward pass differs (%.2g); using the model's own", self._model.name, worst)

    def capture(self, capture: Capture, most_tokens: int) -> None:
        """Capture steps of at most `most_tokens` tokens, none of them a long chunk, as CUDA graphs and replay them from
        now on. Needs `can_capture`."""
        from sluicegate.engine.cuda.graphs import DecodeGraphs

        table_room = most_tokens * -(-self._model.context_length // self._pool.block_size)
        compute = weakref.WeakMethod(self._compute)  # graphs that held on to the pass would keep its pool from going
        self._graphs = DecodeGraphs(
            lambda ids, positions, paged: _alive(compute)(ids, positions, paged),
            self._pool,
            capture,
            vocab_size=int(self._model.module.get_output_embeddings().out_features),
            most_tokens=most_tokens,
            table_room=table_room,
        )

    def warm_up_graphs(self) -> None:
        """Capture all graphs now, not under the first requests. Call `keep_states` before, if at all."""
        if self._graphs is not None:
            self._graphs.warm_up()

    def drop_graphs(self) -> None:
        self._graphs = None

    def drop_fused(self) -> None:
        """Stop using the fused pass, which looks into the pool."""
        self._fused = None

    def _compute(self, ids: Tensor, positions: Tensor, paged: AttentionStep) -> tuple[Tensor, Tensor | None]:
        if self._fused is not None:
            logits = self._fused.logits(ids, positions, None, paged)
        else:
            logits = raw_logits(self._model.module, ids, positions, 0, paged)
        return logits, self.states if self._wants_states else None

    def _note_states(self, given: Tensor) -> None:
        self.states = given[0]

    def _pick(self, inputs: StepInputs, logits: Tensor, states: Tensor | None) -> Tensor:
        """Return the wanted rows of `logits` [T, V]; store those of `states` [T, d]."""
        if len(inputs.wanted) < len(inputs.ids):
            wanted = to_device(torch.from_numpy(inputs.wanted), self._model.device)
            logits, states = logits[wanted], None if states is None else states[wanted]
        self.states = states
        return logits

    def _compile_in_place(self) -> None:
        """Compile the kernels that read blocks in place now, not under the first request."""
        stretch = TokenSpan(0, 1, np.zeros(1, np.int64))
        layout = InPlaceLayout(self._pool, [stretch], torch.zeros(1, dtype=torch.int64))
        for layer, shape in enumerate(self._pool.layers):
            if shape.is_empty:
                continue
            layout.attend_short(layer, torch.zeros(1, shape.query_heads, shape.key_dim), Scoring())

    def _send(self, *numbers: I64) -> Seq[Tensor]:
        """Copy arrays to the device in one transfer; return them as tensors."""
        sizes = [len(part) for part in numbers]
        np.concatenate(numbers, out=self._staging.room(sum(sizes)))
        sent: Seq[Tensor] = self._staging.send(sum(sizes)).split(sizes)
        return sent


def _alive(method: weakref.WeakMethod[Any]) -> Any:
    found = method()
    assert found is not None, "a graph outlived its pass"
    return found
