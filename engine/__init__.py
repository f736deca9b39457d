"""Tokens in, tokens out: decoder-only models of `transformers` behind a paged KV cache and continuous batching."""

from pathlib import Path as _Path

from sluicegate.engine.checkpoints.progress import LoadProgress
from sluicegate.engine.engine import Engine
from sluicegate.engine.memory.blocks import BlockPool
from sluicegate.engine.model.loading import load_model
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.sequences.delivery import LiveGeneration
from sluicegate.engine.settings import EngineSettings, ModelSettings
from sluicegate.engine.text.detokenizer import Detokenizer
from sluicegate.engine.text.prompt import RESERVED_VARIABLES, render_chat, schema_sketch
from sluicegate.engine.text.stopping import StopChecker
from sluicegate.plugins.numba_cache import forget_stale as _forget_stale

__all__ = [
    "RESERVED_VARIABLES",
    "BlockPool",
    "Detokenizer",
    "Engine",
    "EngineSettings",
    "LiveGeneration",
    "LoadProgress",
    "LoadedModel",
    "ModelSettings",
    "StopChecker",
    "load_model",
    "render_chat",
    "schema_sketch",
]

_forget_stale(_Path(__file__).parent)
