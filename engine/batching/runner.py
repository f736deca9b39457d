"""Run one forward pass over a step's row of tokens; return logits for the rows that are sampled."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.attention.paged import AttentionStep, InPlaceLayout, Scoring, TokenSpan
from sluicegate.engine.attention.recurrent import advancing
from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.step_inputs import I64, StepInputs
from sluicegate.engine.batching.trial import Expected, first_blocks, trial_steps, worst_difference
from sluicegate.engine.cpu import Decoder, WantedLogits, decoder_for, rounds_activations
from sluicegate.engine.cuda.capture import Capture, FusedForward, StepGraphs
from sluicegate.engine.cuda.choice import MakeLayout, choose_attention
from sluicegate.engine.cuda.staging import Staging, to_device
from sluicegate.engine.memory.kv import KVPool
from sluicegate.engine.memory.states import StatePool
from sluicegate.engine.model.model import LoadedModel, raw_logits
from sluicegate.engine.parallel.group import ShardedPool
from sluicegate.engine.parallel.messages import OpenPool
from sluicegate.engine.probes.probe import ProbeSet
from sluicegate.engine.probes.states import LayerStates
from sluicegate.engine.settings import AttentionKind, ForwardKind, KVKind

_LOG = logging.getLogger(__name__)


class ModelRunner:
    """Owns the KV pool of a model. Used by the engine thread alone, under `torch.inference_mode`."""

    def __init__(
        self,
        model: LoadedModel,
        num_blocks: int,
        block_size: int,
        *,
        attention: AttentionKind = "auto",
        forward: ForwardKind = "auto",
        kv: KVKind = "full",
        max_tokens: int = 512,
        places: int = 1,
        threads: int = 1,
        compiled: bool = True,
        expected: Expected | None = None,
        probes: ProbeSet | None = None,
        watched: Seq[int] = (),
    ) -> None:
        """Make the pool, and choose how steps are computed.

        `max_tokens`: most new tokens of a step; `places`: most sequences that run; `threads`: of the compiled program.
        Not `compiled`: use no kernel that must be compiled first. `expected`: logits of the model's own code for the
        comparison, where another thread is running the model. `watched`: layers whose states are stored unnormalised;
        ignored where there are probes.
        """
        self._model = model
        self.pool = KVPool(model.layers, num_blocks, block_size, model.dtype, model.device, kv=kv)
        self._recurrent = StatePool(model.states, places, model.device) if model.states else None
        self._staging = Staging(torch.int64, model.device)
        gathers = any(layer.needs_reference for layer in model.layers)
        in_place = attention == "auto" and bool(self.pool.key_arrays) and compiled and not gathers
        self._layout: MakeLayout = InPlaceLayout
        self._captures = False
        if not in_place:
            chosen = choose_attention(self.pool, attention if compiled else "reference")
            self._layout = chosen.layout
            self._captures = chosen.name != "reference" and self._recurrent is None
        self._graphs: StepGraphs | None = None
        self._fused: FusedForward | None = None
        self._decoder: Decoder | None = None
        self._states: Tensor | None = None
        self._wants_states = False
        self._probes = probes
        layers = tuple(watched) if probes is None else probes.layers
        self._watched = LayerStates(model.module, layers, max_tokens, raw=probes is None) if layers else None
        self._layer_states: list[Tensor] = []
        self._trial_length = min(24, block_size * num_blocks, model.context_length, max_tokens)
        self._uses_compiled = compiled
        self._mirror: ShardedPool | None = None
        if model.group is not None:
            self._mirror = model.group.open(
                OpenPool(
                    0, model.layers, num_blocks, block_size, attention if compiled else "reference", kv, max_tokens
                )
            )
        if in_place:
            self._warm_up()
        if self._captures and forward == "auto" and self._watched is None and not model.is_sharded:
            self._fused = self._fitting_pass()
        if attention == "auto" and forward == "auto" and not model.is_sharded:
            rounds = self.pool.is_small or rounds_activations(model.module)
            if compiled:
                made = decoder_for(
                    model.module,
                    model.layers,
                    self.pool,
                    tokens=max_tokens,
                    threads=threads,
                    watched=layers,
                    raw=probes is None,
                )
                self._decoder = self._proven(made, 0.2 if rounds else 1e-3, expected)

    @property
    def states(self) -> Tensor | None:
        """Return the hidden states [R, d] behind the last call's logits, valid as long as those; None unless
        `keep_states`."""
        return self._states

    @property
    def recurrent(self) -> StatePool | None:
        """Return the pool of recurrent states; None for a model without recurrent layers."""
        return self._recurrent

    def keep_states(self) -> None:
        """Store `states` in every later call: draft heads read them."""
        head, note = self._model.module.get_output_embeddings(), weakref.WeakMethod(self._note_states)

        def look(_: Any, given: tuple[Tensor, ...]) -> None:
            if (alive := note()) is not None:
                alive(given[0])

        hook = head.register_forward_pre_hook(look)
        weakref.finalize(self, hook.remove)
        self._wants_states = True

    def _note_states(self, given: Tensor) -> None:
        self._states = given[0]

    @torch.inference_mode()
    def capture(self, capture: Capture, most_tokens: int) -> None:
        """Capture steps of at most `most_tokens` tokens, none of them a long chunk, as CUDA graphs and replay them from
        now on. Needs `can_capture`."""
        from sluicegate.engine.cuda.graphs import DecodeGraphs

        table_room = most_tokens * -(-self._model.context_length // self.pool.block_size)
        note = weakref.WeakMethod(self._compute)  # graphs that held on to the runner would keep its pool from going
        self._graphs = DecodeGraphs(
            lambda ids, positions, paged: _alive(note)(ids, positions, paged),
            self.pool,
            capture,
            vocab_size=int(self._model.module.get_output_embeddings().out_features),
            most_tokens=most_tokens,
            table_room=table_room,
        )

    @torch.inference_mode()
    def warm_up_graphs(self) -> None:
        """Capture all graphs now, not under the first requests. Call `keep_states` before, if at all."""
        if self._graphs is not None:
            self._graphs.warm_up()

    def _compute(self, ids: Tensor, positions: Tensor, paged: AttentionStep) -> tuple[Tensor, Tensor | None]:
        if self._fused is not None:
            logits = self._fused.logits(ids, positions, None, paged)
        else:
            logits = raw_logits(self._model.module, ids, positions, 0, paged)
        return logits, self._states if self._wants_states else None

    @property
    def can_capture(self) -> bool:
        """Return whether attention uses the CUDA kernels, which graphs need."""
        return self._captures

    @property
    def uses_compiled(self) -> bool:
        """Return whether compiled kernels may be called."""
        return self._uses_compiled

    @property
    def is_compiled(self) -> bool:
        """Return whether steps are computed by `engine.cpu`, not by `transformers`' own code."""
        return self._decoder is not None

    @property
    def is_fused(self) -> bool:
        """Return whether steps are computed by `engine.cuda.fused_pass`, not by `transformers`' own code."""
        return self._fused is not None

    @property
    def can_leave_out(self) -> bool:
        """Return whether `run` skips logits that its argument `wanted` leaves out."""
        return self._decoder is not None and not self._wants_states

    def run(self, batch: Batch, wanted: WantedLogits | None = None) -> Tensor:
        """Write keys and values of the batch's tokens; return logits [R, V] float32 of its sampled rows, in order: 1 +
        `drafted` rows each, for the next token and after every draft token. Valid until the next call. Logits that
        `wanted` leaves out are undefined if `can_leave_out`.

        Running the same batch again writes the same values to the same places, unless it succeeded and there are
        recurrent layers: it then raises.
        """
        return self._run(self.inputs_of(batch.rows), wanted)

    def inputs_of(self, rows: Seq[BatchRow]) -> StepInputs:
        """Lay out rows in the order of a batch. Ids of tokens still being drawn are 0 and must be filled in; see
        `StepInputs.of`."""
        made = StepInputs.of(rows, self.pool.block_size)
        return made if self._decoder is not None else made.trimmed(self.pool.block_size)

    def compute(self, inputs: StepInputs) -> Tensor:
        """Compute logits as `run` does, from inputs laid out by `inputs_of`."""
        return self._run(inputs)

    def features(self, inputs: StepInputs) -> Tensor:
        """Compute features [R, 2 i] of tokens of a guard's texts, which its model returns in place of logits."""
        return self._run(inputs)

    def _run(self, inputs: StepInputs, wanted: WantedLogits | None = None) -> Tensor:
        compiled = all(adapter.table is not None for _, _, adapter in inputs.spans)
        if self._decoder is not None and compiled and len(inputs.ids) <= self._decoder.max_tokens:
            logits = _by(self._decoder, inputs, None if self._wants_states else wanted)
            self._states = self._decoder.states(len(logits)) if self._wants_states else None
            if self._watched is not None:
                self._layer_states = self._decoder.layer_states(len(inputs.ids))
            return logits
        found = self._run_module(inputs)
        if self._watched is not None:
            self._layer_states = [room[: len(inputs.ids)] for room in self._watched.rooms]
        return found

    @property
    def layer_states(self) -> list[Tensor]:
        """Return the states [T, d] float32 of each watched layer after the last call, in layer order; valid until the
        next call."""
        return self._layer_states

    def probed(self) -> list[list[float]]:
        """Return the log-odds of each probe for each token of the last call: one list per token, in the order of the
        probes. Waits for the device."""
        assert self._probes is not None
        found: list[list[float]] = self._probes.scores(self._layer_states).tolist()
        return found

    def _run_module(self, inputs: StepInputs) -> Tensor:
        if self._mirror is None:
            return self.follow(inputs)
        with self._mirror.computing(inputs):
            return self.follow(inputs)

    def follow(self, inputs: StepInputs) -> Tensor:
        """Run the model's own code for this process's shard of a pass; the whole pass where the model is not
        sharded."""
        stretches = inputs.cut(self.pool.block_size)
        if self._graphs is not None and not inputs.spans:
            replayed = self._graphs.run(inputs.ids, inputs.positions, inputs.slots, stretches)
            if replayed is not None:
                return self._pick(inputs, *replayed)
        ids, positions, slots, wanted = self._send(inputs.ids, inputs.positions, inputs.slots, inputs.wanted)
        layout = self._layout(self.pool, stretches, slots)
        with self._model.lora.adding(inputs.spans, inputs.wanted), advancing(self._recurrent, stretches):
            if self._fused is not None:
                return self._fused.logits(ids, positions, wanted, layout, adapted=bool(inputs.spans)).float()
            return self._model.logits(ids, positions, wanted, layout)

    def _pick(self, inputs: StepInputs, logits: Tensor, states: Tensor | None) -> Tensor:
        """Return the wanted rows of `logits` [T, V]; store those of `states` [T, d]."""
        if len(inputs.wanted) < len(inputs.ids):
            wanted = self._upload(inputs.wanted)
            logits, states = logits[wanted], None if states is None else states[wanted]
        self._states = states
        return logits

    def _warm_up(self) -> None:
        """Compile the kernels now, not under the first request."""
        stretch = TokenSpan(0, 1, np.zeros(1, np.int64))
        layout = InPlaceLayout(self.pool, [stretch], torch.zeros(1, dtype=torch.int64))
        for layer, shape in enumerate(self.pool.layers):
            if shape.is_empty:
                continue
            layout.attend_short(layer, torch.zeros(1, shape.query_heads, shape.key_dim), Scoring())

    @torch.inference_mode()
    def score(self, ids: I64, chunk: int) -> Tensor:
        """Return the logprob [T - 1] of each of `ids` [T] after the first, given those before it, computed in chunks.
        For measurements; overwrites the first blocks of the pool."""
        steps = (first_blocks(ids, start, end, self.pool.block_size) for start, end in _chunks(len(ids), chunk))
        found = torch.cat([self._run(inputs).clone() for inputs in steps])
        following = self._upload(ids[1:])[:, None]
        return torch.log_softmax(found[:-1], -1).gather(1, following)[:, 0]

    @torch.inference_mode()
    def expected(self) -> Expected:
        """Compute the reference logits of the comparison (two chunks and a single token) by the model's own code.
        Overwrites the first blocks of the pool."""
        return tuple(self._run_module(inputs).clone() for inputs in self._trials())

    @torch.inference_mode()
    def _proven(self, decoder: Decoder | None, tolerance: float, expected: Expected | None) -> Decoder | None:
        """Return `decoder` if its logits equal those of the model's own code within `tolerance`; else None.

        The tolerance is looser where numbers are rounded to 8 or 4 bits: there a difference in the last bit can change
        a rounded value, and the model's own path does not read a first chunk back from the pool.
        """
        if decoder is None:
            return None
        worst = worst_difference((_by(decoder, inputs) for inputs in self._trials()), expected or self.expected())
        if worst < tolerance:
            return decoder
        _LOG.warning("%s: the compiled forward pass differs (%.2g); using the model's own", self._model.name, worst)
        return None

    @torch.inference_mode()
    def _fitting_pass(self) -> FusedForward | None:
        """Return the fused CUDA pass if its logits equal those of the model's own code; else None. The tolerance allows
        for half precision, whose sums are rounded in another order."""
        from sluicegate.engine.cuda.fused_pass import fused_pass

        expected = self.expected()
        try:
            self._fused = fused_pass(self._model.module, self.pool)
            if self._fused is None:
                return None
            found = self.expected()
        except Exception as error:
            _LOG.warning("%s: the fused forward pass failed (%s); using the model's own", self._model.name, error)
            return None
        worst = worst_difference(found, expected)
        if worst < (1e-3 if self._model.dtype == torch.float32 else 0.05 * max(1.0, len(self.pool.layers) / 8) ** 0.5):
            return self._fused
        _LOG.warning("%s: the fused forward pass differs (%.2g); using the model's own", self._model.name, worst)
        return None

    def _trials(self) -> list[StepInputs]:
        return trial_steps(self._trial_length, self._model.vocab_size, self.pool.block_size)

    def give_up(self) -> None:
        """Free the pool's memory while the thread that uses it hangs. Should that thread wake, it has no memory to
        write to."""
        self._graphs = None
        self.pool.give_up()
        if self._recurrent is not None:
            self._recurrent.give_up()

    def close(self) -> None:
        """End the threads of the compiled program and free the pool, here and in other processes."""
        if self._mirror is not None:
            self._mirror.close()
        if self._decoder is not None:
            self._decoder.close()
        self._decoder = self._fused = None  # they look into the pool
        self.give_up()

    def scrub(self, blocks: Seq[int]) -> None:
        if self._mirror is not None:
            self._mirror.scrub(list(blocks))
        self.pool.scrub(blocks)

    def copy(self, copies: Seq[tuple[int, int]]) -> None:
        if copies:
            if self._mirror is not None:
                self._mirror.copy(list(copies))
            self.pool.copy(copies)

    def _send(self, *numbers: I64) -> Seq[Tensor]:
        """Copy arrays to the device in one transfer; return them as tensors."""
        sizes = [len(part) for part in numbers]
        np.concatenate(numbers, out=self._staging.room(sum(sizes)))
        sent: Seq[Tensor] = self._staging.send(sum(sizes)).split(sizes)
        return sent

    def _upload(self, values: I64) -> Tensor:
        return to_device(torch.from_numpy(values), self._model.device)


def _alive(method: weakref.WeakMethod[Any]) -> Any:
    found = method()
    assert found is not None, "a graph outlived its runner"
    return found


def _by(decoder: Decoder, inputs: StepInputs, wanted: WantedLogits | None = None) -> Tensor:
    spans = [(first, count, adapter.table) for first, count, adapter in inputs.spans if adapter.table is not None]
    return decoder.run(inputs.ids, inputs.positions, inputs.slots, inputs.wanted, inputs.stretches, spans, wanted)


def _chunks(total: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(total, start + size)) for start in range(0, total, size)]
