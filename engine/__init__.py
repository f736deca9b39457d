"""Tokens in, tokens out: decoder-only models of `transformers` behind a paged KV cache and continuous batching."""

from pathlib import Path as _Path

from sluicegate.engine.blocks import BlockPool
from sluicegate.engine.delivery import LiveGeneration
from sluicegate.engine.detokenizer import Detokenizer
from sluicegate.engine.engine import Engine
from sluicegate.engine.model import LoadedModel, load_model
from sluicegate.engine.progress import LoadProgress
from sluicegate.engine.prompt import RESERVED_VARIABLES, render_chat, schema_sketch
from sluicegate.engine.settings import EngineSettings, ModelSettings
from sluicegate.engine.stopping import StopWatch
from sluicegate.plugins.compiled import forget_stale as _forget_stale

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
    "StopWatch",
    "load_model",
    "render_chat",
    "schema_sketch",
]

_forget_stale(_Path(__file__).parent)
