"""The plug-in author's kit: texts cut in every way, an obvious window, contract checks, and doubles.

Needs nothing but the contract. `sluicegate.gateway.testing.TestApp` puts stages into a whole gateway.
"""

from sluicegate.plugins.testing.chunking import Chunking, chunkings
from sluicegate.plugins.testing.contracts import RailContract, ScreenContract
from sluicegate.plugins.testing.doubles import (
    FakeModel,
    FakeTokenizer,
    KeepingRecorder,
    PlainAssembler,
    ScriptedGeneration,
    ScriptedModel,
    Unconstrained,
    make_outcome,
    make_request,
)
from sluicegate.plugins.testing.faults import Fault
from sluicegate.plugins.testing.rails import check_rail
from sluicegate.plugins.testing.reference_window import Driven, Step, drive
from sluicegate.plugins.testing.screens import check_screen
from sluicegate.plugins.testing.stages import check_stage

__all__ = [
    "Chunking",
    "Driven",
    "FakeModel",
    "FakeTokenizer",
    "Fault",
    "KeepingRecorder",
    "PlainAssembler",
    "RailContract",
    "ScreenContract",
    "ScriptedGeneration",
    "ScriptedModel",
    "Step",
    "Unconstrained",
    "check_rail",
    "check_screen",
    "check_stage",
    "chunkings",
    "drive",
    "make_outcome",
    "make_request",
]
