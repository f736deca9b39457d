"""Rails and the hold-back window: what must not be said is found while it is being said, and never leaves."""

from safety.automaton import Automaton, Match
from safety.blocklist import compile_phrases
from safety.breaker import Breaker
from safety.conduct import Conduct, Limits
from safety.continued import LEAD
from safety.credentials import compile_secrets
from safety.holdback import HoldbackWindow, UnchangedWindow
from safety.json_text import JsonWindow, Place, Redactor, replace_in_strings
from safety.patterns import compile_patterns
from safety.pii import compile_pii
from safety.pseudonyms import Pseudonyms, Restorer, restored
from safety.rails import MatchRail, MatchScreen, MatchSession, Policy
from safety.redactable import redactor_for
from safety.released import Redaction, Released
from safety.scanner import Scanner, find_all
from safety.stage import BuiltIn, is_built_in, register

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
