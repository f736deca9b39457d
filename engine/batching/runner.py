"""Run one forward pass over a step's row of tokens; return logits for the rows that are sampled."""

from __future__ import annotations

import logging
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import torch
from torch import Tensor

from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.module_pass import ModulePass
from sluicegate.engine.batching.step_inputs import I64, StepInputs
from sluicegate.engine.batching.trial import Expected, first_blocks, trial_steps, worst_difference
from sluicegate.engine.cpu import Decoder, LinearProbing, WantedLogits, decoder_for, rounds_activations
from sluicegate.engine.cuda.capture import Capture
from sluicegate.engine.cuda.staging import to_device
from sluicegate.engine.memory.kv import KVPool
from sluicegate.engine.memory.states import StatePool
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.parallel.group import ShardedPool
from sluicegate.engine.parallel.messages import OpenPool
from sluicegate.engine.probes.probe import ProbeSet
from sluicegate.engine.probes.score_pool import ScorePool
from sluicegate.engine.probes.states import LayerStates
from sluicegate.engine.settings import AttentionKind, ForwardKind, KVKind

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    attention: AttentionKind = "auto"
    forward: ForwardKind = "auto"
    kv: KVKind = "full"
    max_tokens: int = 512
    """Most new tokens of a step."""
    state_slots: int = 1
    """Most sequences that run."""
    threads: int = 1
    """Threads of the compiled pass."""
    compiled: bool = True
    """Whether to use kernels that must be compiled first."""


class ModelRunner:
    """Owns the KV pool of a model. Used by the engine thread alone, under `torch.inference_mode`.

    A step is computed by the compiled CPU pass, where there is one, else by `ModulePass`.
    """

    def __init__(
        self,
        model: LoadedModel,
        num_blocks: int,
        block_size: int,
        options: RunnerOptions = RunnerOptions(),
        *,
        expected: Expected | None = None,
        probes: ProbeSet | None = None,
        watched: Seq[int] = (),
    ) -> None:
        """Make the pool, and choose how steps are computed.

        `expected`: logits of the model's own code for the comparison, where another thread is running the model.
        `watched`: layers whose states are stored unnormalised; ignored where there are probes.
        """
        self._model = model
        self._uses_compiled = options.compiled
        self.pool = KVPool(model.layers, num_blocks, block_size, model.dtype, model.device, kv=options.kv)
        self._recurrent = StatePool(model.states, options.state_slots, model.device) if model.states else None
        self._probes = probes
        self.scores: ScorePool | None = None
        """The probes' scores of the tokens in `pool`; None where there are no probes."""
        if probes is not None:
            self.scores = ScorePool(num_blocks, block_size, probes.labels, model.device)
        layers = tuple(watched) if probes is None else probes.layers
        self._watched = LayerStates(model.module, layers, options.max_tokens, raw=probes is None) if layers else None
        self._layer_states: list[Tensor] = []
        self._states: Tensor | None = None
        self._wants_states = False
        self._trial_length = min(24, block_size * num_blocks, model.context_length, options.max_tokens)
        self._module = ModulePass(model, self.pool, self._recurrent, options.attention, compiled=options.compiled)
        self._sharded_pool = _open_shards(model, num_blocks, block_size, options)
        self._decoder: Decoder | None = None
        if options.forward == "auto" and not model.is_sharded:
            self._choose_faster_pass(options, layers, expected)

    def _choose_faster_pass(self, options: RunnerOptions, watched: Seq[int], expected: Expected | None) -> None:
        if self._module.can_capture and self._watched is None:
            with torch.inference_mode():
                self._module.fuse(self._trials())
        if options.attention == "auto" and options.compiled:
            decoder = decoder_for(
                self._model.module,
                self._model.layers,
                self.pool,
                tokens=options.max_tokens,
                threads=options.threads,
                watched=watched,
                raw=self._probes is None,
                probing=self._probing(),
            )
            rounds = self.pool.is_small or rounds_activations(self._model.module)
            self._decoder = self._proven(decoder, 0.2 if rounds else 1e-3, expected)

    def _probing(self) -> LinearProbing | None:
        """Return the probes as products of the compiled pass; None where there are none, or not all are linear."""
        if self._probes is None or self.scores is None or (linear := self._probes.linear()) is None:
            return None
        return LinearProbing(self._probes.layers, *linear, out=self.scores.tensor)

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
        self._module.keep_states()
        self._wants_states = True

    @torch.inference_mode()
    def capture(self, capture: Capture, most_tokens: int) -> None:
        """Replay steps of at most `most_tokens` tokens as CUDA graphs from now on, see `ModulePass.capture`."""
        self._module.capture(capture, most_tokens)

    @torch.inference_mode()
    def warm_up_graphs(self) -> None:
        """Capture all graphs now, not under the first requests. Call `keep_states` before, if at all."""
        self._module.warm_up_graphs()

    @property
    def can_capture(self) -> bool:
        """Return whether attention uses the CUDA kernels, which graphs need."""
        return self._module.can_capture

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
        return self._module.is_fused

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
            if self._watched is not None and not self._decoder.is_probing:
                self._note_states(inputs, self._decoder.layer_states(len(inputs.ids)))
            return logits
        found = self._run_module(inputs)
        if self._watched is not None:
            self._note_states(inputs, [room[: len(inputs.ids)] for room in self._watched.rooms])
        return found

    def _note_states(self, inputs: StepInputs, states: list[Tensor]) -> None:
        """Remember the watched layers' `states` [T, d] of a pass, and store what the probes make of them."""
        self._layer_states = states
        if self._probes is not None and self.scores is not None:
            slots = to_device(torch.from_numpy(inputs.slots), self._model.device)
            self.scores.write(slots, self._probes.scores(states))

    @property
    def layer_states(self) -> list[Tensor]:
        """Return the states [T, d] float32 of each watched layer after the last call, in layer order; valid until the
        next call."""
        return self._layer_states

    def _run_module(self, inputs: StepInputs) -> Tensor:
        if self._sharded_pool is None:
            return self.follow(inputs)
        with self._sharded_pool.computing(inputs):
            return self.follow(inputs)

    def follow(self, inputs: StepInputs) -> Tensor:
        """Run the model's own code for this process's shard of a pass; the whole pass where the model is not
        sharded."""
        logits = self._module.run(inputs)
        self._states = self._module.states
        return logits

    @torch.inference_mode()
    def score(self, ids: I64, chunk: int) -> Tensor:
        """Return the logprob [T - 1] of each of `ids` [T] after the first, given those before it, computed in chunks.
        For measurements; overwrites the first blocks of the pool."""
        steps = (first_blocks(ids, start, end, self.pool.block_size) for start, end in _chunks(len(ids), chunk))
        found = torch.cat([self._run(inputs).clone() for inputs in steps])
        following = to_device(torch.from_numpy(ids[1:]), self._model.device)[:, None]
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

    def _trials(self) -> list[StepInputs]:
        return trial_steps(self._trial_length, self._model.vocab_size, self.pool.block_size)

    def give_up(self) -> None:
        """Free the pool's memory while the thread that uses it hangs. Should that thread wake, it has no memory to
        write to."""
        self._module.drop_graphs()
        self.pool.give_up()
        if self._recurrent is not None:
            self._recurrent.give_up()

    def close(self) -> None:
        """End the threads of the compiled program and free the pool, here and in other processes."""
        if self._sharded_pool is not None:
            self._sharded_pool.close()
        if self._decoder is not None:
            self._decoder.close()
        self._decoder = None  # it looks into the pool
        self._module.drop_fused()
        self.give_up()

    def scrub(self, blocks: Seq[int]) -> None:
        if self._sharded_pool is not None:
            self._sharded_pool.scrub(list(blocks))
        self.pool.scrub(blocks)

    def copy(self, copies: Seq[tuple[int, int]]) -> None:
        if copies:
            if self._sharded_pool is not None:
                self._sharded_pool.copy(list(copies))
            self.pool.copy(copies)


def _by(decoder: Decoder, inputs: StepInputs, wanted: WantedLogits | None = None) -> Tensor:
    spans = [(first, count, adapter.table) for first, count, adapter in inputs.spans if adapter.table is not None]
    return decoder.run(inputs.ids, inputs.positions, inputs.slots, inputs.wanted, inputs.stretches, spans, wanted)


def _chunks(total: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(total, start + size)) for start in range(0, total, size)]


def _open_shards(model: LoadedModel, num_blocks: int, block_size: int, options: RunnerOptions) -> ShardedPool | None:
    """Open the KV pools of the other processes of a tensor-parallel model."""
    if model.group is None:
        return None
    attention = options.attention if options.compiled else "reference"
    return model.group.open(
        OpenPool(0, model.layers, num_blocks, block_size, attention, options.kv, options.max_tokens)
    )
