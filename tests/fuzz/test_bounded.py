"""The search for slow calls draws all notations, changes real grammars into others, and goes on whatever it meets."""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import bounded, bounded_search, changed_grammars, grammar_sources, random_grammars, timed_calls
from benchmarks.bounded_search import Broken, Search, Suspect, Tried
from benchmarks.grammar_samples import SAMPLES
from benchmarks.smaller_grammars import worst
from benchmarks.timed_calls import Drawn, TimedCall
from sluicegate.grammar import GrammarError, LazyGrammar, compile_lark
from tests.grammar.grammar_checks import byte_vocabulary

VALUE = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"items": {"enum": [1, 2]}}}}
SEARCH = Search(Path("none"), ("lark",))


def encode(text: str) -> list[int]:
    return list(text.encode())


def test_all_notations_are_drawn_and_most_real_grammars_stay_grammars() -> None:
    sources = grammar_sources.Sources([(VALUE, ('{"a": "x"}',))])
    kinds = [sources.drawn(random.Random(seed), grammar_sources.KINDS["all"]).kind for seed in range(40)]
    assert set(kinds) == set(timed_calls.COMPILERS)
    for notation in ("lark", "gbnf"):
        texts = [each.grammar for each in SAMPLES if changed_grammars.is_gbnf(each.grammar) == (notation == "gbnf")]
        changed = [changed_grammars.grammar(random.Random(seed), texts[seed % len(texts)]) for seed in range(12)]
        assert set(changed) - set(texts)
        assert sum(_compiles(text) for text in changed) > 6


def _compiles(text: str) -> bool:
    try:
        compile_lark(text, byte_vocabulary())
    except GrammarError:
        return False
    return True


def test_parts_of_real_schemas_are_exchanged() -> None:
    changed = {json.dumps(changed_grammars.schema(random.Random(seed), VALUE, [VALUE] * 2)) for seed in range(20)}
    assert len(changed - {json.dumps(VALUE)}) > 10


def test_tags_of_all_formats_are_drawn() -> None:
    drawn = [random_grammars.Tags()(random.Random(seed)) for seed in range(150)]
    found = json.dumps(drawn)
    for kind in ("dispatch", "repeat", "star", "triggered_tags", "tags_with_separator", "json_string", "any_text"):
        assert f'"type": "{kind}"' in found
    for option in ("max_tokens", "max_chars", "any_order", "additionalProperties", "style"):
        assert f'"{option}": ' in found


def test_macros_and_options_are_drawn_and_most_of_them_are_grammars() -> None:
    drawn = [random_grammars.with_macro(random.Random(seed), 'root ::= "a" x\nx ::= [b]', 1.0) for seed in range(60)]
    for part in ("Regex(", "Substring(", "TagDispatch(", "Token(", "[max_tokens=", "[max_chars=", "[lazy]", "(="):
        assert any(part in text for text in drawn), part
    assert sum(map(_compiles, [text for text in drawn if "Token(" not in text])) > 40


@pytest.mark.parametrize(("error", "wrong"), [(KeyError("x"), "KeyError"), (GrammarError("too much"), "names no rule")])
def test_what_no_call_may_end_with_is_found(error: Exception, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def matcher(self) -> Failing:
            return self

        def fill_mask(self, _: object) -> bool:
            return True

        def forced_tokens(self) -> list[int]:
            raise error

    monkeypatch.setitem(timed_calls.COMPILERS, "lark", lambda *_: cast(LazyGrammar, Failing()))
    found = worst(timed_calls.calls_of(Drawn("lark", ""), byte_vocabulary(), encode, 0))
    assert found is not None
    assert (found.name, found.wrong[: len(wrong)]) == ("forced_tokens", wrong)


def test_the_text_of_the_real_grammar_leads() -> None:
    text = "(1+2)*(3-x)"
    calls = timed_calls.calls_of(Drawn("lark", SAMPLES[0].grammar, text), byte_vocabulary(), encode, 3)
    assert calls is not None
    assert any(call.text == text[:4] for call in calls)


# --- processes --------------------------------------------------------------------------------------------------------


def breaking(_: Search, at: int, found: Any) -> None:
    """Hang at seed 2, die at 5, and make room at 7."""
    while True:
        found.send(bounded_search._Begun(at))
        if at == 2:
            time.sleep(60)
        if at == 5:
            os._exit(3)
        if at == 7:
            found.send(bounded_search._Paused(8))
            return
        found.send(Tried(at, "lark", [("accept", 1.0, False)], []))
        at += 1


def test_the_search_goes_on_behind_a_grammar_that_hangs_or_kills() -> None:
    tried: list[int] = []
    broken: list[Broken] = []
    for event in bounded_search.events(SEARCH, 0, time.monotonic() + 60, breaking, stall_s=0.5):
        if isinstance(event, Broken):
            broken.append(event)
        elif isinstance(event, Tried):
            tried.append(event.at)
            if event.at == 9:
                break
    assert tried == [0, 1, 3, 4, 6, 8, 9]
    assert [(each.at, each.wrong) for each in broken] == [(2, "nothing within 0.5 s"), (5, "the process died with 3")]


def test_a_search_that_fails_itself_tells_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def events(*_: object) -> Iterator[Tried]:
        yield Tried(3, "gbnf", [("accept", 1.0, True)], [])
        raise OSError("no more processes")

    monkeypatch.setattr(bounded, "events", events)
    result = bounded.Result(SEARCH)
    bounded._run(SEARCH, result, 0, 1.0, 0, None)
    whole = result.whole()
    assert (whole["grammars"], whole["refused accept"], whole["processes that broke"]) == (1, 1, 1)
    assert whole["broken"][0]["wrong"].startswith("the search failed: OSError")


CALL = TimedCall("fill_mask", 80.0, "ab", False, "", "start")


@pytest.mark.parametrize(("again", "fact"), [([90.0, 60.0, 55.0], True), ([90.0, 60.0, 20.0], False)])
def test_a_fact_is_slow_each_time_it_is_measured(
    again: list[float], fact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "measured_again", lambda *_: [CALL._replace(ms=ms) for ms in again])
    monkeypatch.setattr(bounded, "smaller_grammar", lambda *_: "smaller")
    result = bounded.Result(SEARCH)
    result.add(Tried(4, "lark", [("fill_mask", 80.0, False)], [Suspect(4, Drawn("lark", "start: X"), 0, CALL)]))
    assert result.whole()["noisy"][0]["again_ms"] == []
    (found,) = result.measure()
    assert (found.fact, found.again_ms, found.smaller) == (fact, again, "smaller" if fact else "")
    whole = result.whole()
    assert (whole["found"], whole["noise"], whole["by call"]["fill_mask"]["above 50"]) == (fact, not fact, 1)
    listed = whole["findings" if fact else "noisy"]
    assert [(each["rule"], each["notation"], each["grammar"]) for each in listed] == [("start", "lark", "start: X")]


def test_what_was_found_is_told_where_the_run_is_interrupted(tmp_path: Path) -> None:
    ranks = tmp_path / "ranks"
    ranks.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(bytes([value])), value) for value in range(256)))
    command = [sys.executable, "-m", "benchmarks.bounded", "--data", str(ranks), "--most-ms", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        run.stdout.readline()
        run.send_signal(signal.SIGTERM)
        lines = run.stdout.read().splitlines()
    assert run.returncode == 0
    assert lines[0].startswith("interrupted")
    assert json.loads(lines[-1])["findings"] == []
