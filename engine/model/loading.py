"""Load checkpoints into memory. A model that the engine cannot serve exactly is refused, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from sluicegate.engine.checkpoints.digests import file_digest, folder_digest
from sluicegate.engine.checkpoints.draft_heads import load_heads
from sluicegate.engine.checkpoints.folders import refuse_irregular
from sluicegate.engine.checkpoints.generation_config import draw_defaults, end_tokens, what_is_unheeded, what_never_ends
from sluicegate.engine.checkpoints.gguf.files import GgufFile
from sluicegate.engine.checkpoints.gguf.metadata import file_notes
from sluicegate.engine.checkpoints.lora import LowRank, adapter_folder, merge_adapter, read_adapter
from sluicegate.engine.checkpoints.misfits.strange_fields import naming_strange_fields
from sluicegate.engine.checkpoints.progress import OnProgress, reporting, watching
from sluicegate.engine.cpu import (
    EIGHT,
    FAMILIES,
    MOST_RANK,
    Q4_0,
    Packed,
    factor_table,
    rounds_activations,
    settle_beside,
    shrink_module,
    weight_tensors,
)
from sluicegate.engine.cuda.memory import fitting, usable_device
from sluicegate.engine.failures import typed_loading
from sluicegate.engine.model.checks import own_logits, trusted, usable_context, verify
from sluicegate.engine.model.dense import NotDenseError
from sluicegate.engine.model.few_threads import least_parameters, threads_for
from sluicegate.engine.model.files import weight_files
from sluicegate.engine.model.kept_load import KeptLoad, keep_load, load_key, load_of, loads_folder, read_load
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.engine.model.model import GuardModel, LoadedModel
from sluicegate.engine.model.notes import what_is_in_blocks, what_is_kept, what_is_whole, what_is_zero
from sluicegate.engine.model.reading import config_fields, read_kept, read_pretrained
from sluicegate.engine.parallel.shard import Shard
from sluicegate.engine.settings import GgufKind, WeightsKind
from sluicegate.engine.text.detokenizer import Detokenizer
from sluicegate.plugins import ModelLoadError

BUNDLED = "bundled"
ENGINE = Path(__file__).parents[1]


def load_model(
    path_or_name: str | Path,
    *,
    name: str | None = None,
    version: str | None = None,
    dtype: str | None = None,
    device: str = "cpu",
    adapter: str | None = None,
    weights: WeightsKind = "full",
    gguf: GgufKind = "blocks",
    on_progress: OnProgress | None = None,
    shard: Shard | None = None,
    proves: bool = True,
) -> LoadedModel:
    """Load a checkpoint: a local folder, a name on the Hugging Face hub, or `"bundled"`.

    `weights`: on a CPU in float32, round them to 8 or 4 bits once the model was proven with its own.
    `gguf`: on a CPU in float32, whether a GGUF file's matrices stay in their blocks; of no effect beside `weights`.
    `adapter`: a LoRA adapter, merged into the weights.
    `version` comes before the digest in the model's version; `on_progress` is called on this thread.
    `shard`: load only this process's shard of the layers; not `proves`: another process has compared it with itself,
    and `layers` are for the caller to fill in.

    `dtype` defaults to float32 on CPU (bfloat16 products are slower there without matrix extensions) and to the
    checkpoint's own elsewhere. Left out, weights in half precision stay so where the compiled pass computes the model:
    the answers are those of the widened ones, in half their memory. Raises `ModelLoadError` with the reason: not found,
    not a decoder, not served exactly.
    """
    where = _bundled() if str(path_or_name) == BUNDLED else str(path_or_name)
    name = name or (BUNDLED if str(path_or_name) == BUNDLED else Path(where).name)
    asked = _LoadArguments(
        where, name, version, dtype, usable_device(device, where), adapter, weights, gguf, on_progress, shard, proves
    )
    refuse_irregular(Path(where), where)
    with fitting(f"{where!r}"), threads_for(least_parameters(Path(where))), typed_loading(where):
        if (key := _key_of_load(asked)) is None:
            return _loaded(asked)
        folder = loads_folder()
        if (kept := read_load(folder, key)) is not None:
            try:
                return _loaded(asked, kept)
            except (ModelLoadError, NotDenseError, ValueError) as error:
                folder.discard(key, f"is not what {name!r} is ({error})")
        return _loaded(asked, keep=partial(keep_load, folder, key))


@dataclass(frozen=True, slots=True)
class _LoadArguments:
    """The arguments of `load_model`, resolved."""

    where: str
    name: str
    version: str | None
    dtype: str | None
    place: torch.device
    adapter: str | None
    weights: WeightsKind
    gguf: GgufKind
    on_progress: OnProgress | None
    shard: Shard | None
    proves: bool


def _key_of_load(asked: _LoadArguments) -> str | None:
    """Return the cache key of a load; None if only `transformers` can load it. Our own code computes dense decoders in
    float32 on CPUs, from safetensors files in a folder."""
    where, folder = asked.where, Path(asked.where)
    as_float = asked.place.type == "cpu" and asked.dtype in (None, "float32")
    if not as_float or asked.shard is not None or not asked.proves or not folder.is_dir():
        return None
    try:
        said = json.loads((folder / "config.json").read_text("utf-8"))
        dense = said.get("architectures") in [[family] for family in FAMILIES] and not said.get("quantization_config")
        if not dense or not weight_files(folder, where):
            return None
        adapted = "" if asked.adapter is None else folder_digest(adapter_folder(asked.adapter), "adapter")
        return load_key(folder_digest(folder, f"{asked.weights} {adapted}"))
    except (OSError, ValueError, AttributeError, ModelLoadError):
        return None  # the load itself says what is wrong


def _loaded(
    asked: _LoadArguments, kept: KeptLoad | None = None, keep: Callable[[KeptLoad], object] | None = None
) -> LoadedModel:
    """Load with `transformers`, or from `kept` with our own code. Raises `ModelLoadError`, and with `kept` also
    `NotDenseError` and `ValueError`."""
    where, name, weights = asked.where, asked.name, asked.weights
    file = GgufFile(Path(where), where) if where.endswith(".gguf") else None
    if kept is None:
        with reporting(name, asked.on_progress):
            config, tokenizer, module, known = read_pretrained(
                where, asked.dtype, asked.place, weights, asked.adapter is None, asked.shard, asked.gguf, file
            )
    else:
        with watching(name, asked.on_progress):
            config, tokenizer, module, known = read_kept(where, kept, asked.dtype, weights, asked.adapter is None)
    rounded = rounds_activations(module)
    merged = _merged(module, asked.adapter)
    text_config = config.get_text_config(decoder=True)
    if asked.shard is not None:
        asked.shard.wait_for_peers()
    with naming_strange_fields(partial(config_fields, where)):
        logits = kept.logits if kept is not None else own_logits(module, text_config, where) if asked.proves else None
        layers, rowwise, states = (
            verify(module, text_config, where, rounded=rounded, expected=logits) if asked.proves else trusted(module)
        )
    if keep is not None and logits is not None and (made := load_of(module, tokenizer, layers, logits)) is not None:
        keep(made)
    kept_as = str(module.dtype)
    kind, vocab_size = _kind(module)
    temperature, defaults = draw_defaults(module.generation_config, where)
    heads = load_heads(checkpoint_folder(where), module) if asked.shard is None else None
    notes: tuple[str, ...] = what_is_in_blocks(module) if file is not None and weights == "full" else ()
    if weights != "full":
        if not rounded:
            _shrink(module, weights, where, {} if merged else known)
        notes = what_is_whole(module, weights, name)
        is_in_blocks = weights == "int4" and module.device.type == "cpu"
        kept_as = f"{kept_as} {weights}{' in blocks' if is_in_blocks else ''}"
    elif rounded:
        kept_as = f"{kept_as} blocks"
    ends, odd = end_tokens(module, tokenizer, vocab_size, where)
    notes += what_never_ends(odd) + what_is_zero(module, name)
    if file is not None:
        notes += file_notes(file)
    else:
        notes += what_is_unheeded(checkpoint_folder(where))
    settle_beside(weight_tensors(module))
    digest = folder_digest(checkpoint_folder(where), kept_as + merged + file_digest(where))
    return kind(
        name=name,
        version=f"{asked.version}+{digest}" if asked.version else digest,
        context_length=usable_context(text_config, where),
        vocab_size=vocab_size,
        eos_token_ids=ends,
        tokenizer=tokenizer,
        usable_vocab=min(vocab_size, 1 + max(tokenizer.get_vocab().values())),
        default_temperature=temperature,
        defaults=defaults,
        notes=notes + what_is_kept(states, name),
        module=module,
        layers=layers,
        states=states,
        dtype=module.dtype,
        device=asked.place,
        detokenizer=Detokenizer(tokenizer),
        heads=heads,
        rowwise=rowwise,
        is_sharded=asked.shard is not None,
    )


def _kind(module: Any) -> tuple[type[LoadedModel], int]:
    """Return the model's class and its vocabulary size. The output columns of a guard are features, not tokens."""
    if hasattr(module, "guard_heads"):
        return GuardModel, int(module.config.vocab_size)
    return LoadedModel, int(module.get_output_embeddings().out_features)  # a rounded weight is no tensor to look at


def _merged(module: Any, adapter: str | None) -> str:
    """Merge the adapter; return its part of the model's digest."""
    if adapter is None:
        return ""
    folder = adapter_folder(adapter)
    merge_adapter(module, folder)
    return folder_digest(folder, "adapter")


def _shrink(module: Any, weights: WeightsKind, where: str, known: Mapping[str, Packed]) -> None:
    """Round the weights in place. Raises `ModelLoadError` where device or dtype do not allow it."""
    if module.device.type == "cuda" and find_spec("triton") is not None:
        from sluicegate.engine.cuda.small_layers import refusal, shrink

        if reason := refusal(weights, module.device, module.dtype):
            raise ModelLoadError(f"{where!r}: {reason}; serve it with other weights, such as 'full'")
        shrink(module, weights)
        return
    if weights == "fp8" or module.device.type != "cpu" or module.dtype != torch.float32:
        raise ModelLoadError(
            f"{where!r} is in {module.dtype} on {module.device}; weights = {weights!r} is for "
            + ("CUDA devices: " if weights == "fp8" else "float32 on a CPU, or half precision on CUDA with triton: ")
            + "take 'int8', leave out dtype and device, or serve it with weights = 'full'"
        )
    shrink_module(module, EIGHT if weights == "int8" else Q4_0, known)


def _bundled() -> str:
    folder = ENGINE / "bundled"
    if not (folder / "config.json").exists():
        raise ModelLoadError("the bundled model is not in engine/bundled; run `make train-model` or name another model")
    return str(folder)


def checkpoint_folder(where: str) -> Path:
    """Return the local folder of a checkpoint; for a name on the hub, that of its downloaded files."""
    if where == BUNDLED:
        return Path(_bundled())
    if where.endswith(".gguf"):
        return Path(where).parent
    if Path(where).is_dir():
        return Path(where)
    from transformers.utils import cached_file

    return Path(str(cached_file(where, "config.json"))).parent


def load_lora(model: LoadedModel, path: str, name: str, version: str | None = None) -> Adapter:
    """Load the adapter at `path` to serve beside `model`; `version`: the operator's label. Raises `ModelLoadError`."""
    if model.is_sharded:
        raise ModelLoadError(
            f"model {model.name!r} is shared by processes (tensor_parallel), beside which no adapter is computed; "
            "merge it into a checkpoint of its own"
        )
    folder = adapter_folder(path)
    factors = read_adapter(model.module, folder)
    if others := sorted(set(factors) - model.rowwise):
        raise ModelLoadError(
            f"the adapter {str(folder)!r} changes {others[0]!r}, which {type(model.module).__name__} does not give one "
            "row for each token: it cannot stand beside others. Merge it into a model of its own: `adapter` instead of "
            "`base`"
        )
    if (rank := max(pair.rank for pair in factors.values())) > MOST_RANK:
        raise ModelLoadError(
            f"the adapter {str(folder)!r} has rank {rank}; beside a model up to {MOST_RANK} are served. Merge it into "
            "a model of its own: `adapter` instead of `base`"
        )
    own = {
        layer: LowRank(*(side.to(model.device, model.dtype).contiguous() for side in (pair.down, pair.up)))
        for layer, pair in factors.items()
    }
    digest = f"{model.version}-{folder_digest(folder, 'adapter')}"
    return Adapter(
        name=name,
        version=f"{version}+{digest}" if version else digest,
        label=version,
        base=model.name,
        path=path,
        context_length=model.context_length,
        vocab_size=model.vocab_size,
        eos_token_ids=model.eos_token_ids,
        tokenizer=model.tokenizer,
        default_temperature=model.default_temperature,
        defaults=model.defaults,
        notes=model.notes,
        factors=own,
        table=factor_table(factors, len(model.layers)),
    )
