"""Load the models that settings name, and build the core that runs a model."""

from __future__ import annotations

import logging
from math import inf
from pathlib import Path

import torch

from sluicegate.engine.attention.latent_layers import latent_note
from sluicegate.engine.batching.prefill_chunking import PrefillChunker
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.batching.scheduler import Scheduler
from sluicegate.engine.batching.trial import Expected
from sluicegate.engine.checkpoints.draft_heads import read_heads
from sluicegate.engine.checkpoints.eagle3 import is_eagle3, read_eagle3
from sluicegate.engine.checkpoints.progress import LoadProgress, OnProgress
from sluicegate.engine.cpu import program_kernels
from sluicegate.engine.cuda.capture import CudaCapture
from sluicegate.engine.cuda.memory import cache_bytes, fitting, memory_of, refuse_too_small, using
from sluicegate.engine.failures import typed_loading
from sluicegate.engine.kernel_list import ADAPTER_KERNELS
from sluicegate.engine.loop.core import EngineCore
from sluicegate.engine.memory.blocks import BlockPool
from sluicegate.engine.memory.kept_states import KeptStates
from sluicegate.engine.memory.offload import OffloadStore
from sluicegate.engine.model.few_threads import threads_for
from sluicegate.engine.model.loading import checkpoint_folder, load_lora, load_model
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.engine.model.model import LoadedModel, describe
from sluicegate.engine.model.mtp import MTP, mtp_note, read_mtp
from sluicegate.engine.model.notes import what_chats_become
from sluicegate.engine.parallel.group import TensorParallelGroup
from sluicegate.engine.parallel.messages import LoadShard
from sluicegate.engine.probes.probe import ProbeSet, read_probe
from sluicegate.engine.sequences.delivery import Outbox
from sluicegate.engine.settings import EngineSettings, GgufKind, ModelSettings, WeightsKind, thread_count
from sluicegate.engine.speculation.chain_drafter import ChainDrafter
from sluicegate.engine.speculation.draft_model import ModelDrafter
from sluicegate.engine.speculation.head_drafter import HeadDrafter
from sluicegate.engine.speculation.proposer import BatchDrafter, Speculation
from sluicegate.plugins import ModelLoadError

CPU_CACHE_BYTES = 512 << 20
PATIENCE_S = 60.0
"""Longest time that one process of a sharded model waits for the others within a pass."""
_LOG = logging.getLogger(__name__)


def load(
    wanted: ModelSettings,
    on_progress: OnProgress | None = None,
    *,
    weights: WeightsKind = "full",
    gguf: GgufKind = "blocks",
) -> LoadedModel:
    """Load one model, with a line in the log for each quarter of it. Raises `ModelLoadError`."""
    model = load_model(
        wanted.path,
        name=wanted.served_name,
        version=wanted.version,
        dtype=wanted.dtype,
        device=wanted.device,
        adapter=wanted.adapter,
        weights=weights,
        gguf=gguf,
        on_progress=_logged(on_progress),
    )
    if model.states and (asked := "heads" if wanted.heads is not None else "draft" if wanted.draft is not None else ""):
        raise ModelLoadError(
            f"{model.name!r} has recurrent layers, whose states cannot go back behind a wrong guess; leave out {asked}"
        )
    if wanted.heads is not None:
        with typed_loading(wanted.heads):
            _give_heads(model, wanted, wanted.heads)
    model.notes += mtp_note(wanted.path, checkpoint_folder(wanted.path), model.module, used=wanted.heads == MTP)
    model.notes += latent_note(model.module) + what_chats_become(model.tokenizer, model.name)
    if wanted.probes:
        with typed_loading(", ".join(wanted.probes)):
            model.probes = _probes(wanted, model)
        if model.chain is not None:
            raise ModelLoadError(
                f"{model.name!r} has probes and heads that read its layers' states, in two ways; leave out either"
            )
    if wanted.draft is not None:
        model.draft = load_model(wanted.draft, dtype=wanted.dtype, device=wanted.device, gguf=gguf)
        refuse_unfit_draft(model, model.draft)
    _LOG.info("loaded %s", describe(model))
    return model


def load_for(settings: EngineSettings, wanted: ModelSettings, on_progress: OnProgress | None = None) -> LoadedModel:
    """Load one model as the engine's settings say, in as many processes as its own say. Raises `ModelLoadError`."""
    if wanted.tensor_parallel == 1:
        return load(wanted, on_progress, weights=settings.weights, gguf=settings.gguf)
    if refusal := settings.refusal_to_share(wanted):
        raise ModelLoadError(refusal)
    size, name = wanted.tensor_parallel, wanted.served_name
    begin = LoadShard(0, size, wanted.path, wanted.dtype, wanted.device, settings.threads)
    device = _first_device(wanted)
    group = TensorParallelGroup(begin, name, device, min(PATIENCE_S, (settings.watchdog_s or inf) / 2))
    try:
        model = load_model(
            wanted.path,
            name=name,
            version=wanted.version,
            dtype=wanted.dtype,
            device=str(device),
            on_progress=_logged(on_progress),
            shard=group.shard,
        )
        group.confirm(model.version.removeprefix(f"{wanted.version}+"))
        if wanted.draft is not None:
            model.draft = load_model(wanted.draft, dtype=wanted.dtype, device=str(device))
            refuse_unfit_draft(model, model.draft)
    except BaseException:
        group.close()
        raise
    model.group = group
    model.notes += what_chats_become(model.tokenizer, name)
    _LOG.info("loaded %s, shared by %d processes", describe(model), size)
    return model


def _give_heads(model: LoadedModel, wanted: ModelSettings, heads: str) -> None:
    """Attach draft heads to `model`: MTP layers, EAGLE-3 or Medusa-style ones. Raises `ModelLoadError`."""
    path = Path(heads)
    if heads == MTP:
        model.heads, model.chain = None, read_mtp(wanted.path, checkpoint_folder(wanted.path), model.module)
    elif is_eagle3(path):
        model.heads, model.chain = None, read_eagle3(path, model.module)
    else:
        model.heads = read_heads(path, model.module)


def _first_device(wanted: ModelSettings) -> torch.device:
    """Return the device of the first tensor-parallel process. Raises `ModelLoadError` unless each process has a
    device."""
    if wanted.device == "cpu":
        return torch.device("cpu")
    there = torch.cuda.device_count()
    if wanted.device != "cuda" or there < wanted.tensor_parallel:
        raise ModelLoadError(
            f"{wanted.served_name!r} is to be shared by {wanted.tensor_parallel} processes on {wanted.device!r}, and "
            f"{there} CUDA devices are there; name device = 'cuda' or 'cpu', and no more processes than devices"
        )
    return torch.device("cuda", 0)


def _probes(wanted: ModelSettings, model: LoadedModel) -> ProbeSet:
    """Read the probes that the settings name. Raises `ModelLoadError` for a probe of another model."""
    facts = {"name": model.name, "version": model.version, "module": model.module}
    return ProbeSet([read_probe(Path(folder), **facts) for folder in wanted.probes], model.device)


def load_adapter(wanted: ModelSettings, model: LoadedModel) -> Adapter:
    """Load a LoRA adapter to serve beside `model`, and compile its kernels. Raises `ModelLoadError`."""
    with typed_loading(wanted.path):
        adapter = load_lora(model, wanted.path, wanted.served_name, wanted.version)
    if adapter.table is not None:
        for kernel in ADAPTER_KERNELS:  # now, not under its first request
            kernel.build()
    _LOG.info("loaded adapter %s beside %s", adapter.name, model.name)
    return adapter


def refuse_unfit_draft(model: LoadedModel, draft: LoadedModel) -> None:
    """Raise `ModelLoadError` unless `draft` has the model's vocabulary, at least its context length, and no recurrent
    layers, whose states cannot be rolled back."""
    if draft.states:
        raise ModelLoadError(
            f"{draft.name!r} cannot guess for {model.name!r}: it has recurrent layers, whose states cannot go back "
            "behind a wrong guess; choose a draft model that only attends"
        )
    same = draft.tokenizer.get_vocab() == model.tokenizer.get_vocab() and draft.vocab_size == model.vocab_size
    if not same:
        raise ModelLoadError(
            f"{draft.name!r} cannot guess for {model.name!r}: their vocabularies differ "
            f"({draft.vocab_size} and {model.vocab_size} columns); choose a draft model with the same tokenizer"
        )
    if draft.context_length < model.context_length:
        raise ModelLoadError(
            f"{draft.name!r} cannot guess for {model.name!r}: it reads {draft.context_length} tokens, the model "
            f"{model.context_length}; choose one with as much context"
        )


def make_core(
    model: LoadedModel,
    settings: EngineSettings,
    outbox: Outbox,
    *,
    compiled: bool = True,
    expected: Expected | None = None,
) -> EngineCore:
    """Build the core of a model: KV pool, runner, drafter, scheduler.

    Not `compiled`: run the model's own code and no kernel that must be compiled first. `expected`: see `ModelRunner`.
    Raises `ModelLoadError` where the KV cache does not fit into memory.
    """
    if settings.kv != "full" and model.module.config.model_type in ("bloom", "mpt"):
        raise ModelLoadError(f"{model.name!r} keeps positions in its keys, which rounding would blur: set kv to 'full'")
    num_blocks, kept = _rooms(settings, model)
    if compiled:
        _LOG.info("engine: preparing %s (its loops are compiled the first time on a machine)", model.name)
    with (
        using(model.device),
        threads_for(model.parameter_count),
        fitting(f"the KV cache of {model.name!r} ({num_blocks} blocks)"),
    ):
        runner = _runner(model, settings, num_blocks, compiled, expected, kept)
        drafts = 0 if model.states else settings.draft_tokens
        drafter = _batch_drafter(model, settings, num_blocks, runner) if drafts else None
        runner.warm_up_graphs()
        has_program = not model.is_sharded and program_kernels(model.module, model.layers)
        later = runner.expected() if not compiled and has_program else None
    reuse, states = settings.prefix_caching, None
    if runner.recurrent is not None:  # blocks alone do not say what a recurrent layer has seen
        reuse, states = kept > 0, KeptStates(runner.recurrent, settings.max_batch_size, kept) if kept else None
    offload = None
    if settings.offload_bytes and reuse and states is None:
        offload = OffloadStore(runner.pool, settings.offload_bytes, settings.offload_path)
    pool = BlockPool(num_blocks, settings.block_size, reuse=reuse, offload=offload, states=states)
    return EngineCore(
        model,
        runner,
        Scheduler(pool, max_batch_size=settings.max_batch_size, max_batch_tokens=settings.max_batch_tokens),
        outbox,
        jump_forward=settings.jump_forward,
        speculation=Speculation(drafts, settings.drafts_per_step, settings.prompt_lookup),
        batch_drafter=drafter,
        steps_ahead=settings.steps_ahead,
        grammar_cpu_s=settings.grammar_cpu_s,
        grammar_request_s=settings.grammar_request_s,
        repetition=settings.repetition,
        chunker=None
        if settings.prefill_slowdown == 0
        else PrefillChunker(settings.prefill_slowdown, settings.max_batch_tokens),
        is_compiled=compiled,
        expected=later,
    )


def _batch_drafter(
    model: LoadedModel, settings: EngineSettings, num_blocks: int, runner: ModelRunner
) -> BatchDrafter | None:
    if model.draft is not None:
        pool = BlockPool(num_blocks, settings.block_size, reuse=False)
        own = _runner(model.draft, settings, num_blocks, runner.uses_compiled)
        own.warm_up_graphs()
        return ModelDrafter(model.draft, own, pool, budget=settings.max_batch_tokens)
    if model.chain is not None and settings.draft_heads and runner.uses_compiled:
        return ChainDrafter(model, model.chain, runner, num_blocks)
    if model.heads is None or not settings.draft_heads or not runner.uses_compiled:
        return None
    runner.keep_states()
    return HeadDrafter(model, model.heads)


def _runner(
    model: LoadedModel,
    settings: EngineSettings,
    num_blocks: int,
    compiled: bool,
    expected: Expected | None = None,
    kept_states: int = 0,
) -> ModelRunner:
    runner = ModelRunner(
        model,
        num_blocks,
        settings.block_size,
        RunnerOptions(
            attention=settings.attention,
            forward=settings.forward,
            kv=settings.kv,
            max_tokens=settings.max_batch_tokens,
            state_slots=settings.max_batch_size + kept_states,
            threads=settings.threads or thread_count(model.parameter_count),
            compiled=compiled,
        ),
        expected=expected,
        probes=model.probes,
        watched=() if model.chain is None or not settings.draft_tokens else sorted({*model.chain.layers}),
    )
    if model.device.type == "cuda" and settings.graphs and runner.can_capture and not model.is_sharded:
        runner.capture(CudaCapture(model.device), _tokens_of_a_graph(settings))
    return runner


def _tokens_of_a_graph(settings: EngineSettings) -> int:
    """Return the most tokens of a decode step: one per sequence, and all drafts."""
    return settings.max_batch_size + (settings.drafts_per_step if settings.draft_tokens else 0)


def _rooms(settings: EngineSettings, model: LoadedModel) -> tuple[int, int]:
    """Return the number of KV blocks, and of recurrent states to store for prefix reuse.

    Blocks fill the cache's bytes, but are no more than a full batch of longest sequences can use. States for reuse get
    a quarter of the bytes that the states of a full batch leave, or of the blocks' bytes where `num_blocks` is set.
    """
    kept_as = torch.int8 if settings.kv != "full" else model.dtype
    block_bytes = model.kv_bytes_in(kept_as) * settings.block_size
    if settings.num_blocks:
        return settings.num_blocks, _states_in(settings.num_blocks * block_bytes // 4, settings, model)
    states, budget = settings.max_batch_size * model.state_bytes, _cache_bytes(settings, model, block_bytes)
    if states and budget - states < block_bytes:
        raise ModelLoadError(
            f"{model.name!r} keeps {model.state_bytes:,} bytes of each of {settings.max_batch_size} sequences, and the "
            f"cache may take {budget:,}: lower max_batch_size, or raise kv_cache_bytes"
        )
    kept = _states_in((budget - states) // 4, settings, model)
    affordable = (budget - states - kept * model.state_bytes) // block_bytes
    useful = settings.max_batch_size * -(-model.context_length // settings.block_size)
    return max(1, min(affordable, useful)), kept


def _states_in(room: int, settings: EngineSettings, model: LoadedModel) -> int:
    """Return how many recurrent states `room` bytes hold; 0 without prefix caching."""
    return room // model.state_bytes if model.states and settings.prefix_caching else 0


def _cache_bytes(settings: EngineSettings, model: LoadedModel, block_bytes: int) -> int:
    """Return the bytes for the KV cache: the setting, else a share of the free memory of a CUDA device or a default on
    CPUs. Raises `ModelLoadError` where no block fits."""
    if settings.kv_cache_bytes is not None:
        return settings.kv_cache_bytes
    if model.device.type != "cuda":
        return CPU_CACHE_BYTES
    memory = memory_of(model.device)
    logits = 2 * 4 * model.vocab_size * _tokens_of_a_graph(settings)  # those of graphs, and a copy while drawing
    budget = cache_bytes(memory, settings.device_memory, step_bytes=logits)
    if model.draft is not None:  # as many blocks again, of its own size
        own = model.draft.kv_bytes_per_token * settings.block_size
        budget = budget * block_bytes // (block_bytes + own)
    if model.chain is not None:
        own = model.chain.shape.bytes_per_token(model.dtype) * settings.block_size
        budget = budget * block_bytes // (block_bytes + own)
    refuse_too_small(model.name, budget, block_bytes, memory)
    return budget


def _logged(on_progress: OnProgress | None) -> OnProgress:
    def report(progress: LoadProgress) -> None:
        if 4 * progress.done // progress.total > 4 * (progress.done - 1) // progress.total:
            _LOG.info("loading %s: %d of %d tensors", progress.model, progress.done, progress.total)
        if on_progress is not None:
            on_progress(progress)

    return report
