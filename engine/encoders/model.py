"""Load a checkpoint that embeds or scores, prove that padding changes nothing, and run it on batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sluicegate.engine.checkpoints.digests import folder_digest
from sluicegate.engine.checkpoints.fitting import refuse_damaged, refuse_missing_files, refuse_unfitting
from sluicegate.engine.checkpoints.folders import refuse_irregular
from sluicegate.engine.checkpoints.misfits.token_ids import refuse_strange_token_ids
from sluicegate.engine.checkpoints.plausible import refuse_codes, refuse_pickled_codes
from sluicegate.engine.checkpoints.stored_tensors import stored_tensors
from sluicegate.engine.cuda.memory import fitting, usable_device
from sluicegate.engine.encoders.sentence_modules import SentenceModules, read_modules
from sluicegate.engine.encoders.settings import EncoderModelSettings
from sluicegate.engine.encoders.tokens import TextReader, TokenRow
from sluicegate.engine.failures import typed_loading
from sluicegate.engine.model.files import weight_files
from sluicegate.plugins import ModelLoadError

TOLERANCE = 1e-3
"""Largest relative difference between a text computed alone and beside a longer one; in float32 it is about 1e-6."""
SCORING = "ForSequenceClassification"
UNLIMITED = 1_000_000
"""Tokenizers without a limit report a huge one."""


@dataclass(slots=True, eq=False)
class EncoderModel:
    """A `ServedModel` and `ReadingModel`. `module` is used by the thread of the encoders alone."""

    name: str
    version: str
    """Hex digest over all files of the folder; an operator's version precedes it, followed by `+`."""
    context_length: int
    """Longest text in tokens, special tokens included."""
    vocab_size: int
    tokenizer: Any
    reads_for: Literal["embed", "score"]
    dimensions: tuple[int, ...]
    """Vector lengths that may be requested, the model's own first."""
    normalises: bool
    reader: TextReader = field(repr=False)
    module: Any = field(repr=False)
    device: torch.device
    after: SentenceModules | None = field(default=None, repr=False)
    sigmoid: bool = True
    """Whether scores are the sigmoid of the model's output; False = the output itself."""
    eos_token_ids: tuple[int, ...] = ()
    default_temperature: float = 0.0
    defaults: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remote: bool = False
    base: None = None

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters())

    @torch.inference_mode()
    def run(self, rows: Sequence[TokenRow]) -> Tensor:
        """Return vectors [B, n], or scores [B, 1], float32 on the CPU."""
        ids, mask, segments = self._padded(rows)
        more = {} if segments is None else {"token_type_ids": segments}
        out = self.module(input_ids=ids, attention_mask=mask, **more)
        if self.after is not None:
            return self.after.vectors(out.last_hidden_state, mask).cpu()
        logits: Tensor = out.logits.float()
        return (logits.sigmoid() if self.sigmoid else logits).cpu()

    def _padded(self, rows: Sequence[TokenRow]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return ids, mask and segments [B, T], padded on the right."""
        longest = max(len(row.ids) for row in rows)
        pad = self.tokenizer.pad_token_id or 0
        ids = torch.full((len(rows), longest), pad, dtype=torch.int64)
        mask = torch.zeros((len(rows), longest), dtype=torch.int64)
        segments = torch.zeros_like(ids) if rows[0].segments is not None else None
        for at, row in enumerate(rows):
            ids[at, : len(row.ids)] = torch.tensor(row.ids)
            mask[at, : len(row.ids)] = 1
            if segments is not None and row.segments is not None:
                segments[at, : len(row.ids)] = torch.tensor(row.segments)
        there = None if segments is None else segments.to(self.device)
        return ids.to(self.device), mask.to(self.device), there


def load_encoder(wanted: EncoderModelSettings) -> EncoderModel:
    """Load a folder or a name on the hub. Raises `ModelLoadError` with the reason: not found, tensors that are missing,
    a module that is not run here, or a model that lets padding change its answers."""
    where, device = wanted.path, usable_device(wanted.device, wanted.path)
    folder = _folder(where)
    refuse_irregular(folder, where)
    with fitting(f"{where!r}"), typed_loading(where):
        model = _loaded(wanted, folder, device)
        _refuse_leaks(model, where)
    return model


def _loaded(wanted: EncoderModelSettings, folder: Path, device: torch.device) -> EncoderModel:
    where = wanted.path
    inner, after = read_modules(folder, where, device)
    config, tokenizer = _described(inner, where)
    scores = wanted.task == "score" or (wanted.task == "auto" and _is_classifier(config))
    module = _module(inner, config, where, scores)
    most = _longest(wanted, tokenizer, module, None if scores else after.max_tokens)
    digest = _digest(folder)
    has_segments = scores and "token_type_ids" in tokenizer.model_input_names
    return EncoderModel(
        name=wanted.served_name,
        version=f"{wanted.version}+{digest}" if wanted.version else digest,
        context_length=most,
        vocab_size=int(module.get_input_embeddings().num_embeddings),
        tokenizer=tokenizer,
        reads_for="score" if scores else "embed",
        dimensions=() if scores else _dimensions(wanted, config),
        normalises=not scores and after.normalises,
        reader=TextReader(
            _backend(tokenizer, where),
            wanted.served_name,
            most,
            int(module.get_input_embeddings().num_embeddings),
            wanted.truncate,
            has_segments,
            not scores and after.lower_case,
            "" if scores else after.prompt,
        ),
        module=module.to(device),
        device=device,
        after=None if scores else after,
        sigmoid=not scores or _ends_in_sigmoid(config, where),
    )


def _digest(folder: Path) -> str:
    """Return 16 hex digits over the files of a folder and of those in it, where modules lie."""
    parts = (part for part in folder.iterdir() if part.is_dir() and not part.name.startswith("."))
    joined = "".join(folder_digest(part, part.name) for part in sorted(parts))
    return sha256(f"{folder_digest(folder, 'encoder')}{joined}".encode()).hexdigest()[:16]


def _described(inner: Path, where: str) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoTokenizer

    try:
        refuse_missing_files(inner, where)
        config = AutoConfig.from_pretrained(inner, trust_remote_code=False)
        refuse_strange_token_ids(inner, int(getattr(config, "vocab_size", None) or 0), where)
        return config, AutoTokenizer.from_pretrained(inner, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelLoadError(f"{where!r} cannot be read: {error}") from error


def _module(inner: Path, config: Any, where: str, scores: bool) -> Any:
    import transformers

    if config.is_encoder_decoder:
        raise ModelLoadError(f"{where!r} is an encoder-decoder ({config.model_type}); encoders alone are served")
    if scores and config.num_labels != 1:
        raise ModelLoadError(
            f"{where!r} sorts texts into {config.num_labels} classes; a cross-encoder that scores pairs has one number"
        )
    kind = transformers.AutoModelForSequenceClassification if scores else transformers.AutoModel
    _refuse_codes(inner, where)
    try:
        module, found = kind.from_pretrained(
            inner,
            config=config,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            trust_remote_code=False,
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        raise ModelLoadError(f"{where!r} cannot be loaded: {error}") from error
    refuse_unfitting(found if scores else _without_heads(found, module), where, type(module).__name__)
    refuse_damaged(module, where)
    return module.eval().requires_grad_(False)


def _refuse_codes(inner: Path, where: str) -> None:
    """Raise `ModelLoadError` for weights in whole numbers or FP8, which `transformers` would take for their codes."""
    if files := weight_files(inner, where):
        refuse_codes(stored_tensors(files, where), where)
    else:
        refuse_pickled_codes(inner, where)


def _without_heads(found: Mapping[str, Any], module: nn.Module) -> dict[str, Any]:
    """Drop load findings that do not affect vectors: missing poolers, and heads for other tasks."""
    parts = {name for name, _ in module.named_children()}
    return {
        **found,
        "missing_keys": {name for name in found["missing_keys"] if not name.startswith("pooler.")},
        "unexpected_keys": {name for name in found["unexpected_keys"] if name.partition(".")[0] in parts},
    }


def _longest(wanted: EncoderModelSettings, tokenizer: Any, module: nn.Module, said: int | None) -> int:
    """Return the most tokens of a text, limited by the model's positions. Raises `ModelLoadError` if no limit is
    known."""
    limits = [wanted.max_tokens, said, tokenizer.model_max_length, _positions(module)]
    usable = [int(limit) for limit in limits if limit is not None and 0 < limit < UNLIMITED]
    if not usable:
        raise ModelLoadError(f"{wanted.path!r}: nothing says how many tokens it reads; set max_tokens")
    return min(usable)


def _positions(module: Any) -> int | None:
    """Return the positions of the model; some tables have rows up to the padding token's that no text uses."""
    for name, part in module.named_modules():
        if name.rpartition(".")[2] == "position_embeddings" and isinstance(part, nn.Embedding):
            before = 0 if part.padding_idx is None else part.padding_idx + 1
            return int(part.num_embeddings - before)
    found: int | None = getattr(module.config, "max_position_embeddings", None)
    return found


def _dimensions(wanted: EncoderModelSettings, config: Any) -> tuple[int, ...]:
    """Return the shorter lengths that the operator or the configuration (as vLLM reads it) names."""
    named = getattr(config, "matryoshka_dimensions", None) or ()
    return tuple(sorted({int(length) for length in (*wanted.dimensions, *named)}, reverse=True))


def _backend(tokenizer: Any, where: str) -> Any:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelLoadError(f"{where!r} has no tokenizer.json; save it by a fast tokenizer of transformers")
    backend.no_truncation()
    backend.no_padding()
    return backend


def _is_classifier(config: Any) -> bool:
    return any(str(name).endswith(SCORING) for name in getattr(config, "architectures", None) or ())


def _ends_in_sigmoid(config: Any, where: str) -> bool:
    """Return whether sentence-transformers applies a sigmoid to the model's output. Raises `ModelLoadError` for a
    function other than sigmoid and identity."""
    said = (getattr(config, "sentence_transformers", None) or {}).get("activation_fn")
    said = said or getattr(config, "sbert_ce_default_activation_function", None)
    name = "Sigmoid" if said is None else str(said).rpartition(".")[2]
    if name not in ("Sigmoid", "Identity"):
        raise ModelLoadError(f"{where!r} ends in {name}; cross-encoders end in Sigmoid or Identity")
    return name == "Sigmoid"


def _refuse_leaks(model: EncoderModel, where: str) -> None:
    """Set the dimensions of vectors. Raises `ModelLoadError` if padding a text beside a longer one changes its
    result."""
    scoring = model.reads_for == "score"
    short, long = [
        model.reader.pair("one", text, 0) if scoring else model.reader.text(text, 0) for text in ("a", "a b c d")
    ]
    try:
        alone, beside = model.run([short])[0], model.run([short, long])[0]
    except (TypeError, RuntimeError, IndexError, AttributeError) as error:
        raise ModelLoadError(f"{where!r}: {type(model.module).__name__} does not run: {error}") from error
    if not bool(alone.isfinite().all()) or (not scoring and not bool(alone.any())):
        raise ModelLoadError(
            f"{where!r}: {type(model.module).__name__} gives numbers that are NaN or infinite, or zeros alone; its "
            "weights are damaged. Fetch it anew"
        )
    worst = float((alone - beside).abs().max() / (alone.abs().max() + 1e-6))
    if not worst < TOLERANCE:
        raise ModelLoadError(
            f"{where!r}: padding changes what {type(model.module).__name__} computes (relative difference {worst:.2g})"
        )
    if not scoring:
        own = len(alone)
        if wrong := [length for length in model.dimensions if length > own]:
            raise ModelLoadError(f"{where!r} has {own} dimensions and cannot be cut to {wrong[0]}")
        model.dimensions = (own, *(length for length in model.dimensions if length != own))


def _folder(where: str) -> Path:
    """Return the folder of a checkpoint; one that is not here is fetched from the hub. Raises `ModelLoadError`."""
    if Path(where).is_dir():
        return Path(where)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(where, allow_patterns=["*.json", "*.txt", "*.model", "*.safetensors", "*/*.bin"]))
    except Exception as error:
        raise ModelLoadError(f"there is no folder {where!r}, and the hub does not give it: {error}") from error
