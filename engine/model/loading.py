"""Load checkpoints into memory. What the engine cannot serve exactly is refused here, with the reason."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from sluicegate.engine.checkpoints.digests import file_digest, folder_digest
from sluicegate.engine.checkpoints.draft_heads import load_heads
from sluicegate.engine.checkpoints.fitting import refuse_damaged, refuse_missing_files, refuse_unfitting
from sluicegate.engine.checkpoints.generation_config import draw_defaults, end_tokens
from sluicegate.engine.checkpoints.gguf_files import (
    GgufFile,
    places_of,
    refuse_skipped,
    scale_frequencies,
    scale_positions,
)
from sluicegate.engine.checkpoints.lora import LowRank, adapter_folder, merge_adapter, read_adapter
from sluicegate.engine.checkpoints.packed import Scheme, read_packed, scheme_of
from sluicegate.engine.checkpoints.progress import OnProgress, reporting
from sluicegate.engine.checkpoints.quantised import fields_of, reads
from sluicegate.engine.cpu import (
    EIGHT,
    FOUR,
    MOST_RANK,
    CpuSmallLinear,
    Packed,
    factor_table,
    shrink_module,
    weight_count,
    whole_weights,
)
from sluicegate.engine.cuda.memory import fitting, usable_device
from sluicegate.engine.model.checks import refuse_config, trusted, usable_context, verify
from sluicegate.engine.model.files import module_of, weight_files
from sluicegate.engine.model.lora_batch import Adapter
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.parallel.share import Share
from sluicegate.engine.parallel.split import refuse_unsplittable
from sluicegate.engine.settings import WeightsKind
from sluicegate.engine.text.detokenizer import Detokenizer
from sluicegate.plugins import ModelLoadError

BUNDLED = "bundled"
_FORMS = {"int8": EIGHT, "int4": FOUR}
_LOG = logging.getLogger(__name__)
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
    on_progress: OnProgress | None = None,
    share: Share | None = None,
    proves: bool = True,
) -> LoadedModel:
    """Load a checkpoint: a local folder, a name on the Hugging Face hub, or `"bundled"`.

    `weights`: on a CPU in float32, round them to 8 or 4 bits once the model was proven with its own.
    `adapter`: a LoRA adapter, merged into the weights.
    `version` comes before the digest in the model's version; `on_progress` is called on this thread.
    `share`: load only this process's share of the layers; not `proves`: another process has compared it with itself,
    and `layers` are for the caller to fill in.

    `dtype` defaults to float32 on CPU (bfloat16 products are slower there without matrix extensions) and to the
    checkpoint's own elsewhere. Raises `ModelLoadError` with the reason: not found, not a decoder, not served exactly.
    """
    where = _bundled() if str(path_or_name) == BUNDLED else str(path_or_name)
    name = name or (BUNDLED if str(path_or_name) == BUNDLED else Path(where).name)
    place = usable_device(device, where)
    with fitting(f"{where!r}"):
        with reporting(name, on_progress):
            config, tokenizer, module, known = _from_pretrained(where, dtype, place, weights, adapter is None, share)
        rounded = any(isinstance(part, CpuSmallLinear) for part in module.modules())
        merged = _merged(module, adapter)
        text_config = config.get_text_config(decoder=True)
        if share is not None:
            share.meet()
        layers, rowwise = verify(module, text_config, where, rounded=rounded) if proves else trusted(module)
        kept = str(module.dtype)
    vocab_size = int(module.get_output_embeddings().out_features)  # a rounded weight is no tensor to look at
    temperature, defaults = draw_defaults(module.generation_config, where)
    heads = load_heads(_folder(where), module) if share is None else None
    notes: tuple[str, ...] = ()
    if weights != "full":
        if not rounded:
            _shrink(module, weights, where, {} if merged else known)
        notes = what_is_whole(module, weights, name)
        kept = f"{kept} {weights}"
    digest = folder_digest(_folder(where), kept + merged + file_digest(where))
    return LoadedModel(
        name=name,
        version=f"{version}+{digest}" if version else digest,
        context_length=usable_context(text_config, where),
        vocab_size=vocab_size,
        eos_token_ids=end_tokens(module, tokenizer),
        tokenizer=tokenizer,
        usable_vocab=min(vocab_size, 1 + max(tokenizer.get_vocab().values())),
        default_temperature=temperature,
        defaults=defaults,
        notes=notes,
        module=module,
        layers=layers,
        dtype=module.dtype,
        device=place,
        detokenizer=Detokenizer(tokenizer),
        heads=heads,
        rowwise=rowwise,
        is_shared=share is not None,
    )


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
    shrink_module(module, EIGHT if weights == "int8" else FOUR, known)


def what_is_whole(module: Any, weights: WeightsKind, name: str) -> tuple[str, ...]:
    """Warn of matrices that were not rounded, and return the sentence: experts on a CUDA device or of a form that is
    not known, layers of a kind of their own."""
    kept = whole_weights(module)
    share = sum(kept.values()) / max(1, weight_count(module))
    if share <= 0.01:  # routers may stay
        return ()
    note = (
        f"weights = {weights!r} left {100 * share:.0f} % of the weights in full precision, in {len(kept)} "
        f"{'matrix' if len(kept) == 1 else 'matrices'} such as {next(iter(kept))}"
    )
    _LOG.warning("%s: %s", name, note)
    return (note,)


def _bundled() -> str:
    folder = ENGINE / "bundled"
    if not (folder / "config.json").exists():
        raise ModelLoadError("the bundled model is not in engine/bundled; run `make train-model` or name another model")
    return str(folder)


def _from_pretrained(
    where: str,
    dtype: str | None,
    device: torch.device,
    weights: WeightsKind,
    as_read: bool,
    share: Share | None = None,
) -> tuple[Any, Any, Any, dict[str, Packed]]:
    """Return (configuration, tokenizer, model, layers of a quantised checkpoint that have our form of 4 bits).
    `as_read`: weights may be rounded as they are read, where that is possible."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    place, more = _place(where)
    try:
        refuse_missing_files(Path(place), where)
        config = AutoConfig.from_pretrained(place, trust_remote_code=False, **more)
        refuse_config(config, where)
        if share is not None:
            _refuse_unshared(config, where, share.size)
        file = GgufFile(Path(where), where) if where.endswith(".gguf") else None
        if file is not None:
            scale_positions(config, file)
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=False, **more)
        kind = _dtype(dtype, device)
        known: dict[str, Packed] = {}
        if (scheme := scheme_of(config, where)) is not None:
            module, known = _from_packed(where, config, scheme, kind, weights == "int4")
        elif files := _files(where, config):
            early = as_read and kind == torch.float32 and device.type == "cpu" and config.model_type != "bloom"
            module = module_of(files, config, kind, where, _FORMS.get(weights) if early else None, share)
        else:
            module, found = AutoModelForCausalLM.from_pretrained(
                place,
                config=config,
                dtype=kind,
                attn_implementation="eager",
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                trust_remote_code=False,
                **more,
            )
            refuse_unfitting(found, where, type(module).__name__)
        if file is not None:
            refuse_skipped(module, file, places_of(module))
            scale_frequencies(module, file)
        refuse_damaged(module, where)
    except ModelLoadError:
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise ModelLoadError(
                f"{where!r} brings Python code of its own (auto_map in its config.json), which is never run here; name "
                "a checkpoint of an architecture that transformers has"
            ) from error
        raise ModelLoadError(
            f"{where!r} could not be loaded ({type(error).__name__}: {error}); "
            "expected a folder with config.json, safetensors weights and a tokenizer, a name on the hub, or a GGUF file"
        ) from error
    if config.model_type == "bloom":
        from sluicegate.engine.model.bloom import serve_bloom

        serve_bloom(module)
    if config.model_type in ("codegen", "falcon", "gptj", "mpt"):
        from sluicegate.engine.model.own_attention import serve_own_attention

        serve_own_attention(module, where)
    _refuse_signature(module, where)
    _quieten(module)
    return config, tokenizer, module.to(device).eval().requires_grad_(False), known


def _refuse_unshared(config: Any, where: str, size: int) -> None:
    """Raise `ModelLoadError` where a model cannot be shared by `size` processes."""
    refuse_unsplittable(config, size, where)
    if where.endswith(".gguf") or fields_of(config) or not _files(where, config):
        raise ModelLoadError(
            f"{where!r} is no folder of whole numbers in safetensors files; only those can be shared by processes: "
            "leave out tensor_parallel, or name the unquantised checkpoint"
        )


def _files(where: str, config: Any) -> list[Path]:
    """Return the files of weights that are read here; [] = `transformers` reads the checkpoint."""
    fields = fields_of(config)
    if where.endswith(".gguf") or (fields and not reads(fields, where)):
        return []
    folder = Path(where)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(where, allow_patterns=["*.json", "model*.safetensors"]))
        refuse_missing_files(folder, where)
    return weight_files(folder, where)


def _from_packed(where: str, config: Any, scheme: Scheme, dtype: Any, keep_four: bool) -> tuple[Any, dict[str, Packed]]:
    """Load a GPTQ or AWQ checkpoint in full precision, through `transformers`' own loading. Raises `ModelLoadError`."""
    from transformers import AutoModelForCausalLM, GenerationConfig

    folder = _with_weights(where)
    state, known = read_packed(folder, scheme, where, half=dtype != torch.float32, keep_four=keep_four)
    del config.quantization_config
    kind = AutoModelForCausalLM._model_mapping[type(config)]
    module, found = kind.from_pretrained(
        None,
        config=config,
        state_dict=state,
        dtype=dtype,
        attn_implementation="eager",
        ignore_mismatched_sizes=True,
        output_loading_info=True,
    )
    refuse_unfitting(found, where, kind.__name__)
    if (folder / "generation_config.json").exists():
        module.generation_config = GenerationConfig.from_pretrained(folder)
    return module, known


def _place(where: str) -> tuple[str, dict[str, str]]:
    """Return what `from_pretrained` takes for a folder, a name or a GGUF file. Raises `ModelLoadError`."""
    if not where.endswith(".gguf"):
        return where, {}
    if find_spec("gguf") is None or find_spec("accelerate") is None:
        raise ModelLoadError(f"{where!r} is a GGUF file; to read it, pip install 'sluicegate[gguf]'")
    return str(Path(where).parent), {"gguf_file": Path(where).name}


def _dtype(dtype: str | None, device: torch.device) -> Any:
    if dtype is None:
        return torch.float32 if device.type == "cpu" else "auto"
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ModelLoadError(f"dtype {dtype!r} is unknown; use float32, bfloat16 or float16")
    return found


def _refuse_signature(module: Any, where: str) -> None:
    takes = inspect.signature(module.forward).parameters
    missing = [name for name in ("position_ids", "logits_to_keep") if name not in takes]
    if missing:
        raise ModelLoadError(
            f"{where!r}: {type(module).__name__}.forward takes no {' and no '.join(missing)}, "
            "so sequences cannot share a flattened step; choose a model with explicit positions"
        )


def _quieten(module: Any) -> None:
    """Stop code of `transformers` from looking for padding in every step, which a flattened step has none of: the host
    would wait for the device in the middle of it, and no graph could be captured."""
    for part in module.modules():
        if hasattr(part, "warn_if_padding_and_no_attention_mask"):
            part.warn_if_padding_and_no_attention_mask = _say_nothing


def _say_nothing(*_: Any, **__: Any) -> None:
    """Do nothing, in place of a method that only warns."""


def _folder(where: str) -> Path:
    if where.endswith(".gguf"):
        return Path(where).parent
    if Path(where).is_dir():
        return Path(where)
    from transformers.utils import cached_file

    return Path(str(cached_file(where, "config.json"))).parent


def _with_weights(where: str) -> Path:
    """Return the folder of a checkpoint, its weights downloaded."""
    if Path(where).is_dir():
        return Path(where)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(where, allow_patterns=["*.json", "*.safetensors"]))


def load_lora(model: LoadedModel, path: str, name: str, version: str | None = None) -> Adapter:
    """Load the adapter at `path`, to be served beside `model`; `version`: the operator's own word for it. Raises
    `ModelLoadError`."""
    if model.is_shared:
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
