"""Tokens in, tokens out: decoder-only models of `transformers` behind a paged KV cache and continuous batching."""

from pathlib import Path as _Path

from engine.blocks import BlockPool
from engine.delivery import LiveGeneration
from engine.detokenizer import Detokenizer
from engine.engine import Engine
from engine.model import LoadedModel, load_model
from engine.progress import LoadProgress
from engine.prompt import RESERVED_VARIABLES, render_chat, schema_sketch
from engine.settings import EngineSettings, ModelSettings
from engine.stopping import StopWatch
from plugins.compiled import forget_stale as _forget_stale

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
