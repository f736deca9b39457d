"""Any Unicode, in any cut, through all built-in rails: nothing breaks, depends on the cut, or leaves that was planted.

`HYPOTHESIS_MAX_EXAMPLES=20000 python -m pytest tests/safety/test_unicode_fuzz.py` fuzzes for longer.
"""

from __future__ import annotations

import json
import os

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.safety import (
    HoldbackWindow,
    JsonWindow,
    MatchPolicy,
    MatchRail,
    compile_patterns,
    compile_phrases,
    compile_pii,
    compile_secrets,
)
from sluicegate.safety.window.released import joined
from tests.safety.driving import CALLER, REQUEST, cut, cuts

EXAMPLES = int(os.environ.get("HYPOTHESIS_MAX_EXAMPLES", "60"))
MAIL = "ada.lovelace@example.com"
KEY = "ghp_" + "a1B2c3D4e5F6" * 3
RAILS = [
    MatchRail("pii", compile_pii(), MatchPolicy("redact")),
    MatchRail("secrets", compile_secrets(), MatchPolicy("redact")),
    MatchRail("phrases", compile_phrases(["project nightjar"]), MatchPolicy("redact")),
    MatchRail("patterns", compile_patterns({"ticket": r"\bOPS-[0-9]{4}\b"}), MatchPolicy("redact")),
]
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\u2066\u2069\ufe0f"
odd = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(
    ["\u0301", "ﬀ", "İ", "ß", "\U000e0041", "Ａ@", "\x00", "\u2028", "🇩🇪", "e\u0301\u0327", "\ud7a3", *INVISIBLE]
)
disguises = st.lists(st.tuples(st.integers(0, 40), st.sampled_from(INVISIBLE)), max_size=4)


def disguised(text: str, marks: list[tuple[int, str]]) -> str:
    for place, mark in marks:
        at = 1 + place % (len(text) - 1)
        text = text[:at] + mark + text[at:]
    return text


def visible(text: str) -> str:
    return "".join(character for character in text if character not in INVISIBLE)


def out(window: HoldbackWindow | JsonWindow, pieces: list[str]) -> tuple[str, str | None]:
    whole = joined(*map(window.feed, pieces), window.close())
    return whole.text, window.blocked


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(odd, max_size=12).map("".join), cuts)
def test_any_text_has_one_outcome_however_it_is_cut(text: str, places: list[int]) -> None:
    found = [out(HoldbackWindow(RAILS, REQUEST, CALLER), pieces) for pieces in ([text], list(text), cut(text, places))]
    assert found[0] == found[1] == found[2]


@settings(max_examples=EXAMPLES, deadline=None)
@given(odd, st.sampled_from([MAIL, KEY, "project nightjar", "OPS-2041"]), disguises, odd, cuts)
def test_what_is_planted_never_leaves(
    before: str, planted: str, marks: list[tuple[int, str]], after: str, places: list[int]
) -> None:
    """Written with invisible characters inside, between blanks, after and before anything."""
    text = f"{before} {disguised(planted, marks)} {after}"
    if planted in visible(before) or planted in visible(after):
        return
    for pieces in ([text], list(text), cut(text, places)):
        assert planted not in visible(out(HoldbackWindow(RAILS, REQUEST, CALLER), pieces)[0])


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(odd, max_size=6).map("".join), st.booleans(), st.sampled_from([MAIL, KEY]), cuts)
def test_in_a_json_string_too_and_what_leaves_is_json(
    text: str, ascii_only: bool, planted: str, places: list[int]
) -> None:
    written = json.dumps({"a": f"{text} {planted} {text}", "b": [text]}, ensure_ascii=ascii_only)
    found = {
        out(JsonWindow(RAILS, REQUEST, CALLER), pieces) for pieces in ([written], list(written), cut(written, places))
    }
    assert len(found) == 1
    [(left, blocked)] = found
    assert blocked is None
    assert planted not in visible(json.loads(left)["a"])
