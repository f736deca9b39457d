"""Define the engine's settings and their defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from sluicegate.plugins.contract.disk_paths import WrittenFolder
from sluicegate.plugins.settings import Count, Positive, Share, Within, read_settings, wrong_value

AttentionKind = Literal["auto", "reference", "triton"]
ForwardKind = Literal["auto", "transformers"]
WeightsKind = Literal["full", "int8", "int4", "fp8"]
GgufKind = Literal["blocks", "full"]
KVKind = Literal["full", "int8", "fp8"]
StepsAheadKind = Literal["auto", "always", "never"]


STAGE = "stages.generate.engine"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model, its adapter or draft, and where it runs."""

    path: str = "bundled"
    """A local folder, a name on the Hugging Face hub, or `bundled`."""
    name: str | None = None
    """What requests call it; none = the last part of `path`."""
    version: str | None = None
    """The operator's own word for these weights; it comes before the digest of the files, which stays what counts."""
    aliases: tuple[str, ...] = ()
    """Other names that requests may use."""
    adapter: str | None = None
    """A LoRA adapter (a folder in peft's format, or a name on the hub), merged into the weights."""
    base: str | None = None
    """Name of another model here: `path` is then a LoRA adapter, computed beside that model's layers for the requests
    that ask for it."""
    draft: str | None = None
    """A smaller model with the same tokenizer, which drafts tokens for this one."""
    heads: str | None = None
    """Draft heads instead of any that lie beside the weights: a file or its folder; a folder of EAGLE-3 heads; or `mtp`
    for the checkpoint's own multi-token prediction layer."""
    probes: tuple[str, ...] = ()
    """Folders of probes on its hidden states, as `sluicegate probe train` writes them."""
    dtype: str | None = None
    """Data type of the weights, such as `bfloat16`; none = float32 on a CPU, elsewhere as they are stored."""
    device: str = "cpu"
    """`cpu`, `cuda` or `cuda:N`."""
    tensor_parallel: Count = 1
    """Processes of this machine that share its layers: on a CPU, or with `device = "cuda"` a device each."""

    @classmethod
    def of(cls, entry: Any) -> ModelSettings:
        """Read a string (the path), a table, or settings. Raises `ConfigurationError`."""
        return read_settings(cls, _as_table(entry), f"{STAGE}.models")

    def __post_init__(self) -> None:
        """Raise `ValueError` for contradictory settings: an adapter with a `base` has no weights to configure, and
        `tensor_parallel` excludes adapters, heads and probes."""
        wrong = [name for name in ("adapter", "draft", "heads", "dtype") if getattr(self, name) is not None]
        wrong += ["probes"] if self.probes else []
        if self.base is not None and (wrong or self.device != "cpu"):
            raise ValueError(
                f"{self.served_name!r} has a base, so {(wrong or ['device'])[0]} means nothing: an adapter is computed "
                "as its base is; set it there"
            )
        whole = [name for name in ("adapter", "base", "heads") if getattr(self, name) is not None]
        whole += ["probes"] if self.probes else []
        if self.tensor_parallel > 1 and whole:
            raise ValueError(
                f"{self.served_name!r} has tensor_parallel = {self.tensor_parallel} and {whole[0]}, which needs a "
                "model that one process computes; leave out either"
            )

    @property
    def served_name(self) -> str:
        own = self.path if self.path == "bundled" else Path(self.path).name
        return self.name or (own if self.base is None else f"{self.base}:{own}")

    @property
    def other_names(self) -> tuple[str, ...]:
        """Return the aliases; an adapter with a name of its own is also `base:name`."""
        both = f"{self.base}:{self.name}"
        more = self.base is not None and self.name is not None and self.name != both and ":" not in self.name
        return (*self.aliases, both) if more and both not in self.aliases else self.aliases


@dataclass(frozen=True, slots=True)
class RepetitionSettings:
    """A pattern of at most `max_pattern_size` tokens that fills the last `min_tokens` tokens, and is there at least
    `min_count` times in a row, is taken for a loop."""

    max_pattern_size: Annotated[int, Within(0, 1_024)] = 128
    """0 = never."""
    min_count: Annotated[int, Within(2, 10_000)] = 12
    """Consecutive repetitions that the pattern must have."""
    min_tokens: Annotated[int, Within(32, 1_000_000)] = 384
    """Tokens that the repetitions must fill."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    models: tuple[ModelSettings, ...] = (ModelSettings(),)
    """Loaded at start: a list, or a table by name."""
    block_size: Annotated[int, Within(1, 4096)] = 16
    """Positions in a KV block; prefixes are reused in whole blocks."""
    num_blocks: Count | None = None
    """Blocks of each model; None = as many as fit into `kv_cache_bytes`."""
    kv_cache_bytes: Count | None = None
    """For each model; None = 512 MiB on a CPU, and on a CUDA device what is left of `device_memory`. A CPU's memory is
    taken as blocks are first used, a CUDA device's at start."""
    device_memory: Share = 0.9
    """Share of a CUDA device's memory that weights and KV cache may fill together; the rest is for steps."""
    graphs: bool = True
    """On CUDA devices, replay decode steps as captured graphs where that is possible."""
    steps_ahead: StepsAheadKind = "auto"
    """Launch a step's forward pass before the host's work for the step before is done: `auto`: on CUDA devices, where
    it pays; `always`: on every device, to try it out. Answers do not change."""
    max_batch_size: Annotated[int, Within(1, 65_536)] = 32
    """Requests that run at the same time."""
    max_batch_tokens: Annotated[int, Within(1, 1_048_576)] = 512
    """New tokens of a step, prompts' chunks and decode rows together: bounds how long a prompt can hold up others."""
    prefill_slowdown: float = 1.8
    """How many times longer than a plain decode step one may take that also reads a part of a prompt longer than
    `max_batch_tokens`; 0 = no limit but that. What decodes keeps its pace, a long prompt starts later."""
    max_waiting: Count = 256
    """Requests beyond this are refused with `Overloaded`."""
    threads: Count | None = None
    """Threads of a forward pass; None = one for tiny models, else all cores but one, left to the event loop."""
    prefix_caching: bool = True
    """Keep KV blocks after a request, for prompts that begin alike."""
    offload_bytes: int = 0
    """For each model: evicted blocks of the prefix cache go to a file of at most this size, and come back from there;
    0 = they are forgotten."""
    offload_path: WrittenFolder | None = None
    """The folder that the file is made in; None = it is in memory, beside a device's."""
    jump_forward: bool = True
    """Append tokens that a grammar forces without sampling them."""
    draft_tokens: int = 6
    """Longest guess to be confirmed in one step; 0 = none. Answers do not change, only their speed."""
    prompt_lookup: bool = True
    """Guess that what followed the last few tokens before follows them again."""
    draft_heads: bool = True
    """Let heads that lie beside a checkpoint guess, where there are any and no draft model."""
    drafts_per_step: int = 16
    """Guesses of all sequences together; more sequences than this leave none."""
    attention: AttentionKind = "auto"
    """`auto`: kernels that read blocks in place where there are any; `reference`: gather and SDPA everywhere; `triton`:
    the kernels for CUDA devices, or an error that says why not."""
    forward: ForwardKind = "auto"
    """`auto`: the compiled forward pass of `engine.cpu` for models it knows; `transformers`: always the model's own."""
    grammar_cpu_s: Positive = 1.0
    """CPU time that a grammar may take for one mask or token; past it the request ends with `grammar_too_costly`. What
    takes longer than a few milliseconds is done beside the steps, so that only the request itself waits."""
    grammar_request_s: Positive = 10.0
    """CPU time that grammars may take for a whole request, and a hundredth of a second more for each of its tokens."""
    repetition: RepetitionSettings = RepetitionSettings()
    """When a constrained answer that goes round in circles is ended, where the request says nothing of it."""
    watchdog_s: Positive | None = 120.0
    """A step that takes longer is given up: its requests fail, a new engine thread goes on. None = wait forever."""
    weights: WeightsKind = "full"
    """Of every model: as the checkpoint has them, or rounded at load to 8 or 4 bits; fp8 on CUDA devices alone."""
    gguf: GgufKind = "blocks"
    """Of GGUF files on CPUs in float32, with `weights` = "full": `blocks` keeps matrices in Q8_0, Q4_0, Q4_K and Q6_K
    as the file has them, those in Q5_0, IQ4_NL and Q3_K as Q8_0 and Q6_K, and rounds activations to 8 bits; `full`
    widens all of them to float32."""
    kv: KVKind = "full"
    """What the KV cache keeps: the model's own numbers, or int8 or fp8 (e4m3) with a scale for each head of each
    position."""
    drain_s: float = 10.0
    """How long a shutdown waits for running requests before it cancels them."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> EngineSettings:
        """Read the stage's table, whose `models` may be a list or a table by name. Raises `ConfigurationError`."""
        return read_settings(cls, {**table, "models": _models(table["models"])} if "models" in table else table, STAGE)

    def __post_init__(self) -> None:
        if self.max_batch_tokens <= self.max_batch_size:
            raise ValueError(
                f"max_batch_tokens ({self.max_batch_tokens}) must be greater than max_batch_size "
                f"({self.max_batch_size}), or a full batch would leave no room for any prompt"
            )
        if self.offload_bytes and not self.prefix_caching:
            raise ValueError(f"offload_bytes is {self.offload_bytes}, which needs prefix_caching; or set it to 0")
        if self.prefill_slowdown != 0 and self.prefill_slowdown <= 1:
            raise ValueError(f"prefill_slowdown is {self.prefill_slowdown:g}; give more than 1, or 0 for no limit")
        self._check_models()

    def refusal_to_share(self, model: ModelSettings) -> str | None:
        """Return why a model cannot have `tensor_parallel` with these settings; None = it can."""
        odd = {"weights": self.weights != "full", "offload_bytes": self.offload_bytes > 0}
        if model.tensor_parallel == 1 or not any(odd.values()):
            return None
        name = next(name for name, is_odd in odd.items() if is_odd)
        return (
            f"{model.served_name!r} has tensor_parallel = {model.tensor_parallel}, and {name} is "
            f"{getattr(self, name)!r}, which only models of one process have; leave out either"
        )

    def _check_models(self) -> None:
        if not self.models:
            raise ValueError("models is empty; name at least one, such as {path = 'bundled'}")
        names = [name for model in self.models for name in (model.served_name, *model.other_names)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} would lead to more than one model; set other names")
        bases = {model.served_name for model in self.models if model.base is None}
        for model in self.models:
            if refusal := self.refusal_to_share(model):
                raise ValueError(refusal)
            if model.base is not None and model.base not in bases:
                raise ValueError(
                    f"{model.served_name!r} is to stand beside {model.base!r}, which is not among the models "
                    f"({', '.join(sorted(bases)) or 'none'}); name one of them as its base"
                )


def thread_count(parameters: int) -> int:
    """Return the threads of a forward pass: below some 20 million parameters a second thread costs more than it
    saves."""
    return 1 if parameters < 20_000_000 else max(1, (os.cpu_count() or 2) - 1)


def _models(found: Any) -> Any:
    """Return one table for each entry of a list, or of a table by name."""
    if isinstance(found, Mapping):
        return [_as_table(entry, name=name) for name, entry in found.items()]
    return [_as_table(entry) for entry in found] if isinstance(found, list | tuple) else found


def _as_table(entry: Any, **named: Any) -> Any:
    if isinstance(entry, ModelSettings):
        return replace(entry, **named)
    table = {"path": entry} if isinstance(entry, str) else entry
    if not isinstance(table, Mapping):
        raise wrong_value(STAGE, "models", "paths or tables such as {path = '...'}", entry)
    return {**table, **named}
