"""Rails and the hold-back window: what must not be said is found while it is being said, and never leaves."""

from sluicegate.safety.automaton import Automaton, Match
from sluicegate.safety.blocklist import compile_phrases
from sluicegate.safety.breaker import Breaker
from sluicegate.safety.conduct import Conduct, Limits
from sluicegate.safety.continued import LEAD
from sluicegate.safety.credentials import compile_secrets
from sluicegate.safety.holdback import HoldbackWindow, UnchangedWindow
from sluicegate.safety.json_text import JsonWindow, Place, Redactor, replace_in_strings
from sluicegate.safety.patterns import compile_patterns
from sluicegate.safety.pii import compile_pii
from sluicegate.safety.pseudonyms import Pseudonyms, Restorer, restored
from sluicegate.safety.rails import MatchRail, MatchScreen, MatchSession, Policy
from sluicegate.safety.redactable import redactor_for
from sluicegate.safety.released import Redaction, Released
from sluicegate.safety.scanner import Scanner, find_all
from sluicegate.safety.stage import BuiltIn, is_built_in, register

__all__ = [
    "LEAD",
    "Automaton",
    "Breaker",
    "BuiltIn",
    "Conduct",
    "HoldbackWindow",
    "JsonWindow",
    "Limits",
    "Match",
    "MatchRail",
    "MatchScreen",
    "MatchSession",
    "Place",
    "Policy",
    "Pseudonyms",
    "Redaction",
    "Redactor",
    "Released",
    "Restorer",
    "Scanner",
    "UnchangedWindow",
    "compile_patterns",
    "compile_phrases",
    "compile_pii",
    "compile_secrets",
    "find_all",
    "is_built_in",
    "redactor_for",
    "register",
    "replace_in_strings",
    "restored",
]
