"""Cache the results of loading a checkpoint with `transformers`, so that the next start need not import its modelling
code.

The first load of a folder on a machine always uses `transformers`. For a dense decoder of the Llama family it stores,
under a digest of the folder's files: the configuration with all defaults, rotary frequencies, the tokenizer, and the
logits of the trial. Later loads use our own code (`engine.model.dense`) and compare its logits with those. If they
differ, or the cache cannot be read, the checkpoint is loaded with `transformers` again.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.checkpoints.quantised import fields_of
from sluicegate.engine.cpu import FAMILIES
from sluicegate.engine.memory.kv import LayerShape
from sluicegate.engine.model.dense import DenseConfig, DenseHeads
from sluicegate.engine.text.fast_tokenizer import TokenizerFacts, facts_of
from sluicegate.plugins.cache_folder import CacheFolder, default_folder

MOST_BYTES = 256 << 20
_LIBRARIES = ("transformers", "tokenizers", "torch")
"""Whose versions have a part in what was made."""
_GENERATION = ("eos_token_id", "do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_NEEDS_TRANSFORMERS = ("dynamic", "longrope")
"""Kinds of positions whose frequencies change with a sequence's length."""


class LoadFolder(CacheFolder):
    """A cache folder with one file per load."""

    kind = "load"
    what = "what transformers made of checkpoints"
    log = logging.getLogger("sluicegate.engine")


def loads_folder() -> LoadFolder:
    return LoadFolder(default_folder() / "loads", MOST_BYTES)


@dataclass(frozen=True, slots=True)
class KeptLoad:
    """The stored results of one load."""

    config: DenseConfig
    heads: DenseHeads
    generation: Mapping[str, Any]
    tokenizer: TokenizerFacts
    logits: Tensor
    """float32 [T, V], those of the trial by the model's own attention."""

    @property
    def generation_config(self) -> SimpleNamespace:
        """Return the fields of generation_config.json that the engine reads."""
        return SimpleNamespace(**self.generation)


def load_key(folder_digest: str) -> str:
    """Return the cache key for files with this digest and the installed library versions."""
    parts = (folder_digest, *(version(name) for name in _LIBRARIES))
    return sha256("\0".join(parts).encode()).hexdigest()[:32]


def read_load(folder: CacheFolder, key: str) -> KeptLoad | None:
    """Return the load stored under `key`; None if it is missing or unreadable."""
    if (body := folder.read_bytes(key)) is None:
        return None
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as found:
            facts = json.loads(found["facts"].tobytes())
            return KeptLoad(
                DenseConfig(**facts["config"]),
                DenseHeads(**facts["heads"], turns=torch.from_numpy(found["turns"])),
                facts["generation"],
                TokenizerFacts(**facts["tokenizer"]),
                torch.from_numpy(found["logits"]),
            )
    except (ValueError, KeyError, TypeError, OSError, EOFError):
        folder.discard(key, "cannot be read")
        return None


def keep_load(folder: CacheFolder, key: str, load: KeptLoad) -> bool:
    """Store `load`; return False if it cannot be written."""
    heads = {"dim": load.heads.dim, "count": load.heads.count, "kv_count": load.heads.kv_count}
    facts = {
        "config": asdict(load.config),
        "heads": {**heads, "turned_by": load.heads.turned_by},
        "generation": load.generation,
        "tokenizer": asdict(load.tokenizer),
    }
    body, text = io.BytesIO(), json.dumps(facts).encode()
    arrays = {"facts": np.frombuffer(text, np.uint8), "turns": load.heads.turns.numpy(), "logits": load.logits.numpy()}
    np.savez(body, allow_pickle=False, **arrays)
    return folder.write_bytes(key, body.getvalue())


def load_of(module: Any, tokenizer: Any, layers: tuple[LayerShape, ...], logits: Tensor) -> KeptLoad | None:
    """Return the results to store for a model loaded by `transformers`; None if our own code does not support it."""
    if type(module).__name__ not in FAMILIES or not _is_dense(module, layers):
        return None
    facts = facts_of(tokenizer)
    if facts is None:
        return None
    said = {field.name: getattr(module.config, field.name) for field in fields(DenseConfig)}
    first, rotary = layers[0], module.model.rotary_emb
    return KeptLoad(
        DenseConfig(**said),
        DenseHeads(
            first.key_dim, first.query_heads, first.kv_heads, rotary.inv_freq.float(), float(rotary.attention_scaling)
        ),
        {name: getattr(module.generation_config, name, None) for name in _GENERATION},
        facts,
        logits.float(),
    )


def _is_dense(module: Any, layers: tuple[LayerShape, ...]) -> bool:
    config, rotary = module.config, module.model.rotary_emb
    plain = all(layer.window is None and layer.key_dim == layer.value_dim for layer in layers)
    same = len({(layer.query_heads, layer.kv_heads, layer.key_dim) for layer in layers}) == 1
    turned = (config.rope_parameters or {}).get("rope_type", "default") not in _NEEDS_TRANSFORMERS
    return (
        plain and same and turned and config.hidden_act == "silu" and not fields_of(config)
    ) and rotary.inv_freq.numel() * 2 == layers[0].key_dim
