"""Slot `screen`, stage `presidio`: names, addresses and what else Presidio's recognisers find, taken out of prompts.

    [stages.screen.presidio]
    nlp_model = "en_core_web_lg"      # installed, or a folder that holds a spaCy pipeline; "blank": patterns only
    language = "en"
    entities = ["PERSON", "LOCATION", "ORGANIZATION"]          # default: all that are known
    deny = { PROJECT_LEAD = ["Wilhelmina Oduya"] }             # words of your own, by entity
    score = 0.5
    action = "redact"                                          # or "block", "escalate"

Not covered: streams (Presidio reads whole texts, so that this is an input rail only), and names without a model: with
"blank" nothing is recognised by meaning.
"""

from __future__ import annotations

from sluicegate.plugins import RegistryLike, add_stage
from sluicegate_presidio_screen.screen import PresidioScreen, PresidioSettings

__all__ = ["PresidioScreen", "PresidioSettings", "register"]


def register(registry: RegistryLike) -> None:
    add_stage(registry, "screen", "presidio", PresidioSettings, PresidioScreen, api_version=1)
