"""The table of attacks in docs/mcp.md: each with the tests that try it, written with what they found.

python -m tests.gateway.mcp_gateway.attacks           # runs the tests, and writes the table
python -m tests.gateway.mcp_gateway.attacks --print   # runs nothing, and prints the table as it is when all cases hold
"""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "mcp.md"
BEGIN, END = "| attack | what happens | cases held | tests |\n|---|---|---|---|\n", "\nNot covered: a tool that"
MODULES = ("test_attacks", "test_faults", "test_floods", "test_keys", "test_not_served")
Cases = Mapping[str, Counter[str]]
"""By test: how many of its cases `held`, and how many ended as `failure`, `error` or `skipped`."""
ATTACKS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "tool poisoning: orders in a description, a schema's names, enums, defaults, annotations",
        "waits for an operator, with rail and reason",
        ("test_a_poisoned_description_waits_for_an_operator", "test_no_text_of_a_definition_escapes_the_rails"),
    ),
    (
        "orders that no description needs: to keep something from the user, to hand over files of keys, credentials or "
        "the conversation, to be used instead of others; tags for models",
        "waits at the first listing too, with place and kind",
        ("test_orders_that_no_description_needs_wait_at_the_first_listing",),
    ),
    (
        "characters that a reviewer does not see",
        "waits, with place and code point",
        ("test_characters_that_a_reviewer_does_not_see_are_pointed_out",),
    ),
    (
        "rug pull: a definition changes after it was agreed to",
        "gone until approved, also after a restart",
        ("test_a_tool_that_becomes_another_one_waits_until_somebody_agrees",),
    ),
    (
        "a definition changes while it is being approved",
        "the approval is refused",
        ("test_a_tool_that_becomes_another_one_waits_until_somebody_agrees",),
    ),
    (
        "a denied definition is listed again",
        "stays out, and asks nobody twice",
        ("test_a_tool_that_turns_back_is_served_again_and_a_denied_one_never_is",),
    ),
    (
        "a tool that appears after the first listing",
        "waits",
        ("test_tools_that_come_later_wait_and_what_was_approved_by_hand_stays",),
    ),
    (
        "shadowing: two servers, one tool name",
        "two tools with names of their own",
        ("test_tools_of_the_same_name_are_two_tools_and_each_call_goes_to_its_own_server",),
    ),
    (
        "shadowing: a description speaks of another server's tool",
        "waits, whichever lists first",
        ("test_a_description_that_speaks_of_another_servers_tools_waits_whichever_lists_first",),
    ),
    (
        "shadowing: a server that was quiet when the others were listed",
        "takes nothing over; its tool waits",
        ("test_a_server_that_comes_later_takes_nothing_over",),
    ),
    (
        "exfiltration: arguments carry another server's result, plain, in capitals, wide, with invisible characters, "
        "accents or look-alikes, with something else or nothing between letters or words, as base64 (in lines, twice), "
        "base32, base85, hexadecimal, quoted-printable, percent signs, entities, numbers, in two arguments, also "
        "letter by letter in turn, in names of members",
        "`carried_over`, nothing is sent",
        ("test_what_one_server_returned_is_not_sent_to_another",),
    ),
    (
        "the same in pieces over several calls",
        "refused as soon as the pieces make one",
        ("test_pieces_sent_one_by_one_are_joined_and_an_operator_may_allow_a_flow",),
    ),
    (
        "a target that only a result named",
        "the rail `provenance` refuses, with the source in the log",
        ("test_a_target_that_only_a_result_named_is_not_written_to",),
    ),
    (
        "keys and passwords in arguments",
        "replaced before they are sent",
        ("test_secrets_in_arguments_are_replaced_before_they_are_sent",),
    ),
    (
        "arguments that the tool's schema does not allow",
        "`invalid_arguments`, nothing is sent",
        ("test_arguments_are_judged_by_the_whole_draft",),
    ),
    (
        "injection in results: text, errors, structure, names, links, resources, in pieces over several blocks",
        "`content_filter` with the source",
        (
            "test_no_text_of_a_result_escapes_the_rails",
            "test_what_a_rail_replaces_may_not_stand_across_blocks",
            "test_orders_in_a_result_are_found_by_the_rail_for_injections",
        ),
    ),
    (
        "keys and passwords in results",
        "replaced in text and structure",
        (
            "test_secrets_in_a_result_are_replaced_in_text_and_structure",
            "test_blocks_with_something_to_replace_in_each_are_passed_on",
        ),
    ),
    (
        "results that break the tool's own schema",
        "`invalid_result`, nothing is passed on",
        ("test_a_result_that_breaks_its_own_schema_is_not_passed_on",),
    ),
    (
        "injection in the words of a JSON-RPC error",
        "its number alone is passed on",
        ("test_words_of_a_servers_error_reach_nobody",),
    ),
    (
        "orders in pictures",
        "pictures are left out, or reported as unread",
        ("test_pictures_are_left_out_and_said_to_be_unless_an_operator_lets_them_through",),
    ),
    (
        "results and lists of any size, compressed ones, endless lines, floods of notifications",
        "cut at `max_result_bytes`; the call fails",
        ("test_slow_large_and_many_answers_over_http_cost_one_call", "test_a_program_that_misbehaves_costs_one_call"),
    ),
    (
        "floods beside calls: a listening stream without end, questions of the server, calls that are resumed for "
        "ever, answers that drip, heads that begin no answer",
        "no such stream is opened; bounded with the call",
        (
            "test_no_stream_is_opened_on_which_a_server_could_send_without_end",
            "test_questions_of_a_server_are_bounded_for_each_call",
            "test_a_call_that_a_server_lets_be_resumed_ends_with_the_call",
            "test_what_resumes_a_call_counts_towards_its_bytes",
            "test_a_server_that_drips_is_read_no_longer_than_a_call_may_take",
            "test_heads_that_begin_no_answer_are_bounded",
        ),
    ),
    (
        "a server that never answers, or dies in the middle",
        "the call fails, the next one gets a new connection",
        ("test_slow_large_and_many_answers_over_http_cost_one_call", "test_a_program_that_misbehaves_costs_one_call"),
    ),
    (
        "malformed JSON-RPC of a server",
        "passed over, or a trouble that `/readyz` names",
        ("test_a_server_that_does_not_speak_the_protocol_is_a_trouble",),
    ),
    (
        "malformed JSON-RPC of an agent",
        "an error, never a 500",
        ("test_nonsense_of_an_agent_is_an_error_and_never_a_500",),
    ),
    (
        "schema bombs: references in circles, 2^60 branches, patterns that never end, remote documents",
        "the tool, or the call, is refused",
        (
            "test_a_schema_bomb_ends_a_call_and_not_the_gateway",
            "test_a_schema_that_judges_nothing_or_costs_too_much_keeps_its_tool_out",
        ),
    ),
    (
        "session fixation: another key's session id",
        "means nothing; servers see a session for each tenant",
        ("test_another_keys_session_gives_nothing", "test_tenants_share_no_session_of_a_server"),
    ),
    (
        "a server asks for the caller's model",
        "told that there is none",
        ("test_a_server_that_asks_for_the_callers_model_is_told_that_there_is_none",),
    ),
    (
        "reading the gateway's environment",
        "a program gets PATH, HOME and the like",
        ("test_a_program_gets_no_secret_of_the_gateways_environment",),
    ),
    (
        "an agent that calls for ever",
        "`run_limit_exceeded`",
        ("test_a_run_that_goes_on_for_ever_is_stopped", "test_a_run_ends_at_its_tokens_cost_or_time"),
    ),
    (
        "agents that call agents without end",
        "`run_limit_exceeded` past `run_depth`",
        ("test_the_depth_of_a_run_goes_on_and_is_bounded",),
    ),
    (
        "resources and prompts, which no pin holds",
        "refused by name",
        ("test_what_is_no_tool_is_refused_in_words_of_its_own",),
    ),
)


def cases_there() -> Cases:
    """Count the cases that each test has, read from its parameters, as if all of them had held."""
    tests: dict[str, Callable[..., None]] = {}
    for module in MODULES:
        found = vars(importlib.import_module(f"tests.gateway.mcp_gateway.{module}"))
        tests |= {name: test for name, test in found.items() if name.startswith("test_")}
    return {name: Counter(held=_cases_of(test)) for name, test in tests.items()}


def _cases_of(test: Callable[..., None]) -> int:
    marks = getattr(test, "pytestmark", [])
    return math.prod(len(list(mark.args[1])) for mark in marks if mark.name == "parametrize")


def run_attacks() -> Cases:
    """Run every test of the table, and count how its cases ended. Raises `SystemExit` where pytest says nothing."""
    names = {test for _, _, tests in ATTACKS for test in tests}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", "-k", " or ".join(names), str(HERE)]
        ended = subprocess.run(command, check=False).returncode
        if not report.exists():
            sys.exit(f"pytest ended with {ended} and left no report")
        ran = list(ElementTree.parse(report).iter("testcase"))
    found: dict[str, Counter[str]] = {}
    for case in ran:
        outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "held")
        found.setdefault(case.get("name", "").partition("[")[0], Counter())[outcome] += 1
    return found


def table(cases: Cases) -> str:
    """Return the rows as they stand in the page."""
    return "".join(_row(attack, happens, tests, _counted(tests, cases)) for attack, happens, tests in ATTACKS)


def _counted(tests: tuple[str, ...], cases: Cases) -> Counter[str]:
    return sum((cases.get(test, Counter()) for test in tests), Counter[str]())


def _row(attack: str, happens: str, tests: tuple[str, ...], counted: Counter[str]) -> str:
    named = ", ".join(f"`{test}`" for test in tests)
    return f"| {attack} | {happens} | {counted['held']} of {counted.total()} | {named} |\n"


def got_through(cases: Cases) -> list[str]:
    """Return the tests that did not run, or of which a case did not hold."""
    names = {test for _, _, tests in ATTACKS for test in tests}
    return sorted(name for name in names if set(cases.get(name, Counter())) != {"held"})


def main(arguments: list[str]) -> int:
    if "--print" in arguments:
        print(table(cases_there()), end="")
        return 0
    cases = run_attacks()
    head, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{PAGE} has no table to replace: it begins with {BEGIN!r} and ends before {END!r}")
    PAGE.write_text(head + begin + table(cases) + end + tail, "utf-8")
    missed = got_through(cases)
    print("\n".join([f"{len(ATTACKS)} attacks written to {PAGE.name}", *(f"did not hold: {name}" for name in missed)]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
