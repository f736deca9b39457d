"""A stop string and what follows it never show, wherever the text was cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.engine.text.stopping import StopChecker

SMALL = st.text(alphabet="ab", max_size=12)
STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3)


def slow_cut(text: str, stops: list[str]) -> tuple[str, bool]:
    """Cut as the reference twin: grow the text by one character until it ends in a stop string."""
    for end in range(len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            if text[:end].endswith(stop):
                return text[: end - len(stop)], True
    return text, False


def feed(stops: list[str], parts: list[str]) -> tuple[str, bool]:
    watch, out = StopChecker(stops), ""
    for part in parts:
        ready, stopped = watch.feed(part)
        out += ready
        if stopped:
            return out, True
    return out + watch.close(), False


@settings(max_examples=400)
@given(STOPS, st.lists(SMALL, max_size=6))
def test_the_outcome_does_not_depend_on_the_cutting(stops: list[str], parts: list[str]) -> None:
    text = "".join(parts)
    assert feed(stops, parts) == feed(stops, list(text)) == feed(stops, [text]) == slow_cut(text, stops)


def test_only_what_may_become_a_stop_string_is_held() -> None:
    watch = StopChecker(["###"])
    assert watch.feed("a#b##") == ("a#b", False)
    assert watch.feed("c") == ("##c", False)
    assert watch.feed("##") == ("", False)
    assert watch.feed("# rest") == ("", True)


def test_without_stop_strings_nothing_is_held() -> None:
    assert StopChecker(()).feed("abc") == ("abc", False)
