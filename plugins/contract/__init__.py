"""What the slots of the pipeline promise each other: facts about a request, and one narrow Protocol per slot.

    admit -> screen -> route -> assemble -> recall -> constrain -> generate -> moderate -> record

Facts are frozen. A stage gets what it needs and returns what it decides; only the pipeline keeps state of a request.
This package imports none of ours but the errors, so that a plug-in needs nothing else.
"""

from plugins.contract.answers import Answer, CacheKey, Decision, Embeddings, Outcome, Piece, TokenLogprob, Usage
from plugins.contract.models import CompiledGrammar, Generation, Job, Load, Matcher, ServedModel
from plugins.contract.names import API_VERSION, SLOTS, Channel, ConstraintKind, FinishReason, Mask, Role, SlotName
from plugins.contract.registering import RegistryLike, StageFactory
from plugins.contract.requests import (
    Caller,
    Constraint,
    Document,
    Message,
    Parts,
    Prompt,
    Request,
    Reuse,
    Sampling,
    Tool,
    ToolCall,
    ToolChoice,
)
from plugins.contract.slots import (
    Admitter,
    Assembler,
    Constrainer,
    Generator,
    InputRail,
    Lifecycle,
    LoadReporter,
    ModelHost,
    OutputRail,
    RailSession,
    Recorder,
    ResponseCache,
    Router,
    Stage,
    TextEmbedder,
)
from plugins.contract.verdicts import RailExample, RailProperties, ScreenResult, Span, Verdict

__all__ = [
    "API_VERSION",
    "SLOTS",
    "Admitter",
    "Answer",
    "Assembler",
    "CacheKey",
    "Caller",
    "Channel",
    "CompiledGrammar",
    "Constrainer",
    "Constraint",
    "ConstraintKind",
    "Decision",
    "Document",
    "Embeddings",
    "FinishReason",
    "Generation",
    "Generator",
    "InputRail",
    "Job",
    "Lifecycle",
    "Load",
    "LoadReporter",
    "Mask",
    "Matcher",
    "Message",
    "ModelHost",
    "Outcome",
    "OutputRail",
    "Parts",
    "Piece",
    "Prompt",
    "RailExample",
    "RailProperties",
    "RailSession",
    "Recorder",
    "RegistryLike",
    "Request",
    "ResponseCache",
    "Reuse",
    "Role",
    "Router",
    "Sampling",
    "ScreenResult",
    "ServedModel",
    "SlotName",
    "Span",
    "Stage",
    "StageFactory",
    "TextEmbedder",
    "TokenLogprob",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "Usage",
    "Verdict",
]
