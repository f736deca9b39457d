"""Serve decoder-only models of `transformers` from a paged KV cache with continuous batching: tokens in, tokens out."""

from typing import TYPE_CHECKING

from sluicegate.plugins.lazy import lazily

if TYPE_CHECKING:
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
    from sluicegate.engine.text.template_bounds import FewSteps, LongRendering
    from sluicegate.engine.text.tool_prompt import knows_tools
    from sluicegate.engine.text.written_schema import written_schema

__all__ = [
    "RESERVED_VARIABLES",
    "BlockPool",
    "Detokenizer",
    "Engine",
    "EngineSettings",
    "FewSteps",
    "LiveGeneration",
    "LoadProgress",
    "LoadedModel",
    "LongRendering",
    "ModelSettings",
    "StopChecker",
    "knows_tools",
    "load_model",
    "render_chat",
    "schema_sketch",
    "written_schema",
]

__getattr__ = lazily(
    __name__,
    {
        "BlockPool": "memory.blocks",
        "Detokenizer": "text.detokenizer",
        "Engine": "engine",
        "EngineSettings": "settings",
        "LiveGeneration": "sequences.delivery",
        "LoadProgress": "checkpoints.progress",
        "LoadedModel": "model.model",
        "ModelSettings": "settings",
        "LongRendering": "text.template_bounds",
        "FewSteps": "text.template_bounds",
        "RESERVED_VARIABLES": "text.prompt",
        "StopChecker": "text.stopping",
        "knows_tools": "text.tool_prompt",
        "load_model": "model.loading",
        "render_chat": "text.prompt",
        "schema_sketch": "text.prompt",
        "written_schema": "text.written_schema",
    },
)
