"""Rails, and the hold-back window, which keeps streamed text back until every rail has cleared it."""

from typing import TYPE_CHECKING

from sluicegate.plugins.lazy import lazily

if TYPE_CHECKING:
    from sluicegate.safety.built_in import BuiltIn, is_built_in, reads_borders
    from sluicegate.safety.detection.guards import NoJudgement
    from sluicegate.safety.judging.cascade import CascadeJudge
    from sluicegate.safety.judging.guard_reading import GuardAnswerJudge, GuardOutput
    from sluicegate.safety.judging.session import Joined, JudgeRail, JudgeSession
    from sluicegate.safety.judging.states import ProbeAnswerJudge
    from sluicegate.safety.judging.token_guard import QUESTION_PREFIX, TokenGuardJudge
    from sluicegate.safety.matching.automaton import Automaton, Match
    from sluicegate.safety.matching.scanner import Scanner, find_all
    from sluicegate.safety.rail_policy import RailPolicy, WindowLimits
    from sluicegate.safety.rails.match_rails import MatchPolicy, MatchRail, MatchScreen, MatchSession
    from sluicegate.safety.rails.pseudonyms import Pseudonyms, Restorer, restored
    from sluicegate.safety.rules.blocklist import compile_phrases
    from sluicegate.safety.rules.credentials import compile_secrets
    from sluicegate.safety.rules.patterns import compile_patterns
    from sluicegate.safety.rules.pii import compile_pii
    from sluicegate.safety.stage import register
    from sluicegate.safety.window.active_rail import RAIL_FAILURES
    from sluicegate.safety.window.continuation import LEAD
    from sluicegate.safety.window.escaped import UnescapedSession
    from sluicegate.safety.window.holdback import HoldbackWindow, UnchangedWindow
    from sluicegate.safety.window.json_position import JsonPosition, decoded_escape
    from sluicegate.safety.window.json_window import JsonLocation, JsonWindow, Redactor, replace_in_strings
    from sluicegate.safety.window.redactable import redactor_for, schemas_at
    from sluicegate.safety.window.released import Redaction, Released
    from sluicegate.safety.window.verdict_check import CheckedSession, check_verdict, is_whole_text

__all__ = [
    "LEAD",
    "QUESTION_PREFIX",
    "RAIL_FAILURES",
    "Automaton",
    "BuiltIn",
    "CascadeJudge",
    "CheckedSession",
    "GuardAnswerJudge",
    "GuardOutput",
    "HoldbackWindow",
    "Joined",
    "JsonLocation",
    "JsonPosition",
    "JsonWindow",
    "JudgeRail",
    "JudgeSession",
    "Match",
    "MatchPolicy",
    "MatchRail",
    "MatchScreen",
    "MatchSession",
    "NoJudgement",
    "ProbeAnswerJudge",
    "Pseudonyms",
    "RailPolicy",
    "Redaction",
    "Redactor",
    "Released",
    "Restorer",
    "Scanner",
    "TokenGuardJudge",
    "UnchangedWindow",
    "UnescapedSession",
    "WindowLimits",
    "check_verdict",
    "compile_patterns",
    "compile_phrases",
    "compile_pii",
    "compile_secrets",
    "decoded_escape",
    "find_all",
    "is_built_in",
    "is_whole_text",
    "reads_borders",
    "redactor_for",
    "register",
    "replace_in_strings",
    "restored",
    "schemas_at",
]

__getattr__ = lazily(
    __name__,
    {
        "Automaton": "matching.automaton",
        "BuiltIn": "built_in",
        "HoldbackWindow": "window.holdback",
        "JsonPosition": "window.json_position",
        "JsonWindow": "window.json_window",
        "CascadeJudge": "judging.cascade",
        "NoJudgement": "detection.guards",
        "GuardAnswerJudge": "judging.guard_reading",
        "GuardOutput": "judging.guard_reading",
        "JudgeRail": "judging.session",
        "JudgeSession": "judging.session",
        "Joined": "judging.session",
        "ProbeAnswerJudge": "judging.states",
        "QUESTION_PREFIX": "judging.token_guard",
        "TokenGuardJudge": "judging.token_guard",
        "RAIL_FAILURES": "window.active_rail",
        "LEAD": "window.continuation",
        "WindowLimits": "rail_policy",
        "Match": "matching.automaton",
        "MatchRail": "rails.match_rails",
        "MatchScreen": "rails.match_rails",
        "MatchSession": "rails.match_rails",
        "JsonLocation": "window.json_window",
        "MatchPolicy": "rails.match_rails",
        "Pseudonyms": "rails.pseudonyms",
        "RailPolicy": "rail_policy",
        "Redaction": "window.released",
        "Redactor": "window.json_window",
        "Released": "window.released",
        "Restorer": "rails.pseudonyms",
        "Scanner": "matching.scanner",
        "UnchangedWindow": "window.holdback",
        "UnescapedSession": "window.escaped",
        "CheckedSession": "window.verdict_check",
        "check_verdict": "window.verdict_check",
        "is_whole_text": "window.verdict_check",
        "compile_patterns": "rules.patterns",
        "decoded_escape": "window.json_position",
        "compile_phrases": "rules.blocklist",
        "compile_pii": "rules.pii",
        "compile_secrets": "rules.credentials",
        "find_all": "matching.scanner",
        "is_built_in": "built_in",
        "reads_borders": "built_in",
        "redactor_for": "window.redactable",
        "register": "stage",
        "replace_in_strings": "window.json_window",
        "restored": "rails.pseudonyms",
        "schemas_at": "window.redactable",
    },
)
