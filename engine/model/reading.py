"""Read a checkpoint from its files: with `transformers`, or with our own code if an earlier load is cached."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from sluicegate.engine.attention.latent_layers import serve_latent
from sluicegate.engine.attention.recurrent_layers import serve_recurrent
from sluicegate.engine.attention.shared_layers import serve_shared_attention
from sluicegate.engine.checkpoints.fitting import refuse_damaged, refuse_missing_files, refuse_unfitting
from sluicegate.engine.checkpoints.generation_config import generation_config_of
from sluicegate.engine.checkpoints.gguf.fields import refuse_mistyped
from sluicegate.engine.checkpoints.gguf.files import (
    GgufFile,
    places_of,
    refuse_skipped,
    scale_frequencies,
    scale_positions,
    size_experts,
)
from sluicegate.engine.checkpoints.gguf.metadata import (
    heed_fields,
    refuse_incomplete,
    refuse_misplaced,
    refuse_strange_ids,
)
from sluicegate.engine.checkpoints.gguf.outline import config_of_file, tokenizer_of_file
from sluicegate.engine.checkpoints.gguf.tensors import gguf_tensors
from sluicegate.engine.checkpoints.guard_heads import is_token_guard
from sluicegate.engine.checkpoints.misfits.strange_fields import field_refusal, refuse_strange_values
from sluicegate.engine.checkpoints.misfits.token_ids import refuse_strange_token_ids
from sluicegate.engine.checkpoints.mtp_layers import mtp_names
from sluicegate.engine.checkpoints.packed import Scheme, read_packed, scheme_of
from sluicegate.engine.checkpoints.plausible import (
    refuse_codes,
    refuse_oversized,
    refuse_pickled_codes,
    refuse_positions,
)
from sluicegate.engine.checkpoints.quantised import fields_of, reads
from sluicegate.engine.cpu import (
    EIGHT,
    Q4_0,
    Packed,
)
from sluicegate.engine.failures import first_line
from sluicegate.engine.model.checks import refuse_config
from sluicegate.engine.model.dense import DenseConfig, DenseDecoder
from sluicegate.engine.model.files import dense_module_of, module_from, module_of, weight_files
from sluicegate.engine.model.kept_load import KeptLoad
from sluicegate.engine.parallel.shard import Shard
from sluicegate.engine.parallel.split import refuse_unsplittable
from sluicegate.engine.settings import GgufKind, WeightsKind
from sluicegate.engine.text.chat_rendering import refuse_malformed
from sluicegate.engine.text.fast_tokenizer import FastTokenizer
from sluicegate.plugins import ModelLoadError

_FORMS = {"int8": EIGHT, "int4": Q4_0}
_MIMO = "mimo"
_OF_A_KIND = ("model_type", "architectures", "auto_map")


def read_kept(
    where: str, kept: KeptLoad, dtype: str | None, weights: WeightsKind, as_read: bool
) -> tuple[DenseConfig, FastTokenizer, DenseDecoder, dict[str, Packed]]:
    """Read a checkpoint as `read_pretrained` does, but from a cached load and without importing `transformers`. Raises
    `NotDenseError`, `ValueError` and `ModelLoadError`."""
    refuse_positions(kept.config, where)
    form = _FORMS.get(weights) if as_read else None
    halves = as_read and weights == "full" and dtype is None
    module = dense_module_of(weight_files(Path(where), where), kept.config, kept.heads, where, form, halves)
    module.generation_config = kept.generation_config
    refuse_damaged(module, where)
    tokenizer = FastTokenizer(kept.tokenizer, partial(_whole_tokenizer, where))
    return kept.config, tokenizer, module.eval(), {}


def _whole_tokenizer(where: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(where, trust_remote_code=False)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a checkpoint is read from. `place`, `more`: the arguments of `from_pretrained`."""

    where: str
    place: str
    more: dict[str, str]
    file: GgufFile | None = None


@dataclass(frozen=True, slots=True)
class _Wish:
    """How weights are to be read. `kind`: their dtype, or "auto". `as_read`: round them, or keep stored formats, while
    reading where possible."""

    kind: Any
    weights: WeightsKind
    gguf: GgufKind
    as_read: bool
    halves: bool
    """Keep halves as they are stored."""
    shard: Shard | None

    @property
    def form(self) -> Any:
        """Return the format that weights are rounded to while they are read, or none."""
        return _FORMS.get(self.weights) if self.as_read else None


def read_pretrained(
    where: str,
    dtype: str | None,
    device: torch.device,
    weights: WeightsKind,
    as_read: bool,
    shard: Shard | None = None,
    gguf: GgufKind = "full",
    file: GgufFile | None = None,
) -> tuple[Any, Any, Any, dict[str, Packed]]:
    """Return (configuration, tokenizer, model, layers of a quantised checkpoint that fit our 4-bit format).

    `as_read`: round weights, or keep stored formats, while reading where possible. `file`: the GGUF file, if `where` is
    one. Raises `ModelLoadError`.
    """
    place, more = _place(where)
    try:
        source = _checked_source(where, place, more, file)
        config = _checked_config(source, shard)
        tokenizer = _tokenizer_of(source, config)
        refuse_malformed(tokenizer.chat_template, where)
        kind = _dtype(dtype, device)
        wide = as_read and kind == torch.float32 and device.type == "cpu"
        wish = _Wish(kind, weights, gguf, wide, wide and weights == "full" and dtype is None, shard)
        module, known = _module_of(source, config, wish)
        if source.file is not None:
            scale_frequencies(module, source.file)
        refuse_damaged(module, where)
    except ModelLoadError:
        raise
    except Exception as error:
        raise _named(error, where, place) from error
    _serve_peculiarities(config, module, where)
    _refuse_signature(module, where)
    _quieten(module)
    return config, tokenizer, module.to(device).eval().requires_grad_(False), known


def _checked_source(where: str, place: str, more: dict[str, str], file: GgufFile | None) -> _Source:
    """Return the files of a checkpoint, none of them missing, and what they say in range. Raises `ModelLoadError`."""
    refuse_missing_files(Path(place), where)
    if not more and (said := config_fields(place)):
        refuse_strange_values(said, where)
    if file is not None:
        _refuse_unsound(file)
    return _Source(where, place, more, file)


def _checked_config(source: _Source, shard: Shard | None) -> Any:
    """Return the configuration of a checkpoint that can be served. Raises `ModelLoadError`."""
    where, file = source.where, source.file
    config = config_of(source.place) if file is None else config_of_file(file)
    refuse_config(config, where)
    refuse_positions(config.get_text_config(decoder=True), where)
    if shard is not None:
        _refuse_unsharded(config, where, shard.size)
    if file is not None:
        scale_positions(config, file)
        refuse_positions(config.get_text_config(decoder=True), where)
        size_experts(config, file)
        heed_fields(config, file)
    if not source.more and Path(source.place).is_dir():
        refuse_strange_token_ids(Path(source.place), config.get_text_config(decoder=True).vocab_size, where)
    return config


def _module_of(source: _Source, config: Any, wish: _Wish) -> tuple[Any, dict[str, Packed]]:
    """Return the model, and layers of a quantised checkpoint that fit our 4-bit format."""
    where, file = source.where, source.file
    if (scheme := scheme_of(config, where)) is not None:
        return _from_packed(where, config, scheme, wish.kind, wish.weights == "int4")
    if files := _files(where, config):
        form, halves = (wish.form, wish.halves) if config.model_type != "bloom" else (None, False)
        return module_of(files, config, wish.kind, where, form, wish.shard, halves), {}
    if file is not None and (tensors := gguf_tensors(file, config)) is not None:
        in_blocks = wish.as_read and wish.gguf == "blocks"
        return module_from(tensors, config, wish.kind, where, wish.form, in_blocks, wish.halves), {}
    return _from_transformers(source, config, wish.kind), {}


def _from_transformers(source: _Source, config: Any, kind: Any) -> Any:
    """Return a model that none of our own readers knows, as `transformers` reads it."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import cached_file

    where, file = source.where, source.file
    if is_pickled := file is None and not fields_of(config):
        refuse_pickled_codes(Path(where), where)
    module, found = AutoModelForCausalLM.from_pretrained(
        source.place,
        config=config,
        dtype=kind,
        attn_implementation="eager",
        ignore_mismatched_sizes=True,
        output_loading_info=True,
        trust_remote_code=False,
        **source.more,
    )
    refuse_unfitting(found, where, type(module).__name__)
    if is_pickled and not Path(where).is_dir():  # what was fetched only now
        refuse_pickled_codes(Path(str(cached_file(where, "config.json"))).parent, where)
    if file is not None:
        refuse_skipped(module, file, places_of(module, file))
    return module


def _named(error: Exception, where: str, place: str) -> ModelLoadError:
    """Return what reading a checkpoint failed of, as an error that says what to do."""
    if "trust_remote_code" in str(error):
        return ModelLoadError(
            f"{where!r} brings Python code of its own (auto_map in its config.json), which is never run here; name "
            "a checkpoint of an architecture that transformers has"
        )
    is_gguf = where.endswith(".gguf")
    said: Mapping[str, Any] = {}
    with suppress(Exception):  # what cannot be read has no fields to blame
        said = {} if is_gguf else config_fields(place)
    if (refusal := field_refusal(said, error, where)) is not None:
        return refusal
    if is_gguf:
        return ModelLoadError(
            f"{where!r}: no model can be made of what this GGUF file says ({' '.join(str(error).split())[:200]}). "
            "Name the checkpoint that it was made of, or convert it anew"
        )
    return ModelLoadError(
        f"{where!r} could not be loaded ({type(error).__name__}: {error}); "
        "expected a folder with config.json, safetensors weights and a tokenizer, a name on the hub, or a GGUF file"
    )


def _serve_peculiarities(config: Any, module: Any, where: str) -> None:
    """Replace the layers of architectures that compute something of their own by layers that can be batched."""
    if config.model_type == "bloom":
        from sluicegate.engine.model.bloom import serve_bloom

        serve_bloom(module)
    if config.model_type in ("codegen", "falcon", "gptj", "mpt"):
        from sluicegate.engine.model.own_attention import serve_own_attention

        serve_own_attention(module, where)
    if module.config.model_type == "llama4_text":
        from sluicegate.engine.model.llama4 import serve_llama4

        serve_llama4(module)
    serve_latent(module)
    serve_recurrent(module)
    serve_shared_attention(module)


def _refuse_unsound(file: GgufFile) -> None:
    """Raise `ModelLoadError` unless header, places of tensors, fields and special tokens of a file are sound."""
    refuse_misplaced(file)
    refuse_mistyped(file)
    refuse_incomplete(file)
    refuse_strange_ids(file)


def _tokenizer_of(source: _Source, config: Any) -> Any:
    """Return the tokenizer of a checkpoint. Raises `ModelLoadError` with what its files say wrongly."""
    from transformers import AutoTokenizer

    where, file = source.where, source.file
    try:
        if file is None:
            made = AutoTokenizer.from_pretrained(source.place, trust_remote_code=False)
        else:
            made = tokenizer_of_file(file, config)
        if not isinstance(made.model_max_length, int | float):
            raise ValueError(f"model_max_length is {str(made.model_max_length)[:80]!r}; expected a number")
        return made
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise
        files = "its fields" if file is not None else "tokenizer.json and tokenizer_config.json"
        reason = first_line(error) or type(error).__name__
        raise ModelLoadError(
            f"{where!r}: no tokenizer can be made of {files}: {reason}. Correct what this names, or fetch them anew"
        ) from error


def config_of(place: str) -> Any:
    """Return the configuration of a checkpoint. MiMo is read as the Qwen2 it is apart from its MTP layers."""
    from transformers import AutoConfig, Qwen2Config

    said = config_fields(place)
    if said.get("model_type") == _MIMO:
        return Qwen2Config.from_dict({name: value for name, value in said.items() if name not in _OF_A_KIND})
    return AutoConfig.from_pretrained(place, trust_remote_code=False)


def config_fields(place: str) -> dict[str, Any]:
    """Return the fields of a checkpoint's config.json as they are written; {} of a GGUF file. Raises `ModelLoadError`
    if they are no object, and what reading and parsing raises."""
    from transformers.utils import cached_file

    if place.endswith(".gguf"):
        return {}
    found = json.loads(Path(str(cached_file(place, "config.json"))).read_text("utf-8"), object_hook=_special)
    if not isinstance(found, dict):
        raise ModelLoadError(f"{place!r}: config.json is no object but a {type(found).__name__}; fetch it anew")
    return found


def _special(found: dict[str, Any]) -> Any:
    """Return the infinity or NaN that `transformers` writes as an object; any other object as it is."""
    said = found.get("__float__")
    return float(said) if len(found) == 1 and said in ("Infinity", "-Infinity", "NaN") else found


def _refuse_unsharded(config: Any, where: str, size: int) -> None:
    """Raise `ModelLoadError` if a model cannot be split among `size` processes."""
    if is_token_guard(config):
        raise ModelLoadError(
            f"{where!r} judges tokens, and one process computes such a guard: leave out tensor_parallel"
        )
    refuse_unsplittable(config, size, where)
    if where.endswith(".gguf") or fields_of(config) or not _files(where, config):
        raise ModelLoadError(
            f"{where!r} is no folder of whole numbers in safetensors files; only those can be shared by processes: "
            "leave out tensor_parallel, or name the unquantised checkpoint"
        )


def _files(where: str, config: Any) -> list[Path]:
    """Return the weight files to read here; [] if `transformers` must read the checkpoint."""
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
    from transformers import AutoModelForCausalLM

    folder = _with_weights(where)
    state, known = read_packed(folder, scheme, where, half=dtype != torch.float32, keep_four=keep_four)
    for name in mtp_names(state, config.get_text_config(decoder=True).num_hidden_layers, where):
        del state[name]
    refuse_codes(state, where)
    refuse_oversized((tuple(one.shape) for one in state.values()), config, where)
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
        module.generation_config = generation_config_of(folder, where)
    return module, known


def _place(where: str) -> tuple[str, dict[str, str]]:
    """Return the arguments of `from_pretrained` for a folder, a name or a GGUF file. Raises `ModelLoadError` without
    the packages for GGUF."""
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
    """Disable the padding check that code of `transformers` makes in every step: it would make the host wait for the
    device, and prevent capturing graphs. A flattened step has no padding."""
    for part in module.modules():
        if hasattr(part, "warn_if_padding_and_no_attention_mask"):
            part.warn_if_padding_and_no_attention_mask = _silent


def _silent(*_: Any, **__: Any) -> None:
    """Replace a method that only warns."""


def _with_weights(where: str) -> Path:
    """Return the folder of a checkpoint, downloading its weights if needed."""
    if Path(where).is_dir():
        return Path(where)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(where, allow_patterns=["*.json", "*.safetensors"]))
