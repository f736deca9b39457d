"""Requests that are kept for the console: filters find exactly what fits, figures count it, and bounds hold."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.cache.stores.sealing import TenantSealer
from sluicegate.gateway.history import HistoryFilter, RequestLine, rail_counts
from sluicegate.gateway.history.figures import LEEWAY, SLOTS, Figures, step_of
from sluicegate.gateway.history.rail_counts import KEPT, SLICE_S, RailKey, bounds_of, rail_history
from sluicegate.gateway.history.rows import ENDINGS, Verdict
from sluicegate.gateway.history.store import HistoryBounds, HistoryStore
from sluicegate.gateway.telemetry.metrics import Objectives

NOW_S = 1_800_000_000.0
NAMES = st.sampled_from(["", "a", "b", "a'; drop table requests; --", "%", "é"])
RAILS = st.sampled_from(["pii", "secrets", "it's"])
VERDICTS = st.sampled_from(["pass", "redact", "block"])
WIDE = HistoryBounds(10_000, 10**9, 365)


@st.composite
def lines(draw: st.DrawFn) -> tuple[RequestLine, list[Verdict]]:
    known = st.one_of(st.none(), st.integers(0, 5).map(float))
    line = RequestLine(
        id=draw(st.text("ab'%", max_size=4)),
        trace=f"{draw(st.integers(0, 3)):032x}",
        at_s=NOW_S - draw(st.integers(0, 500)),
        **{name: draw(NAMES) for name in ("model", "version", "tenant", "key", "team", "route", "feature", "ended")},
        outcome=draw(st.sampled_from(ENDINGS)),
        status=200,
        output="text",
        stream=draw(st.booleans()),
        cached=draw(st.booleans()),
        sampled=False,
        ms=float(draw(st.integers(0, 5))),
        first_ms=draw(known),
        token_ms=draw(known),
        met=draw(st.sampled_from([None, True, False])),
        prompt_tokens=draw(st.integers(0, 9)),
        cached_tokens=0,
        completion_tokens=draw(st.integers(0, 9)),
        cost_nanos=draw(st.integers(0, 10**17)),
    )
    return line, draw(st.lists(st.tuples(st.just("screen"), RAILS, VERDICTS), max_size=3))


WANTED = st.builds(
    HistoryFilter,
    from_s=st.one_of(st.none(), st.integers(0, 500).map(lambda ago: NOW_S - ago)),
    until_s=st.one_of(st.none(), st.integers(0, 500).map(lambda ago: NOW_S - ago)),
    model=NAMES,
    key=st.one_of(NAMES, st.just("-")),
    feature=st.one_of(NAMES, st.just("-")),
    outcome=st.sampled_from(["", *ENDINGS]),
    rail=st.one_of(st.just(""), RAILS),
    verdict=st.one_of(st.just(""), VERDICTS),
    q=st.text("ab'%", max_size=2),
    cached=st.sampled_from([None, True, False]),
    met=st.sampled_from([None, True, False]),
    over_ms=st.one_of(st.none(), st.integers(0, 5).map(float)),
    first_over_ms=st.one_of(st.none(), st.integers(0, 5).map(float)),
)
FEW = st.fixed_dictionaries({}, optional={})


def fits(line: RequestLine, said: list[Verdict], wanted: HistoryFilter) -> bool:
    """Judge a line by the filters, in plain words."""
    for name in ("model", "version", "key", "tenant", "route", "feature", "outcome", "ended"):
        asked = getattr(wanted, name)
        if asked and getattr(line, name) != ("" if asked == "-" else asked):
            return False
    over = [(wanted.over_ms, line.ms), (wanted.first_over_ms, line.first_ms), (wanted.token_over_ms, line.token_ms)]
    if any(limit is not None and (value is None or value <= limit) for limit, value in over):
        return False
    if wanted.cached is not None and line.cached is not wanted.cached:
        return False
    if wanted.met is not None and line.met is not wanted.met:
        return False
    if wanted.rail or wanted.verdict:
        named = [v for _, rail, v in said if not wanted.rail or rail == wanted.rail]
        if not any(v == wanted.verdict if wanted.verdict else v != "pass" for v in named):
            return False
    return (
        (wanted.from_s is None or line.at_s >= wanted.from_s)
        and (wanted.until_s is None or line.at_s < wanted.until_s)
        and (not wanted.q or wanted.q in line.id or line.trace == wanted.q)
    )


def filled(found: list[tuple[RequestLine, list[Verdict]]], bounds: HistoryBounds = WIDE) -> HistoryStore:
    store = HistoryStore(None, bounds)
    store.add([(line, said, None) for line, said in found], NOW_S)
    return store


@settings(max_examples=150, deadline=None)
@given(st.lists(lines(), max_size=25), WANTED, st.integers(1, 7))
def test_filters_find_exactly_what_fits_page_by_page(
    kept: list[tuple[RequestLine, list[Verdict]]], wanted: HistoryFilter, limit: int
) -> None:
    store = filled(kept)
    expected = [line for line, said in reversed(kept) if fits(line, said, wanted)]
    found: list[RequestLine] = []
    before: int | None = None
    while True:
        page, total = store.rows(wanted, before, limit)
        assert total == len(expected)
        if not page:
            break
        found += [line for _, line in page]
        before = page[-1][0]
    assert found == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(lines(), max_size=25), WANTED)
def test_every_figure_is_as_large_as_the_list_it_leads_to(
    kept: list[tuple[RequestLine, list[Verdict]]], wanted: HistoryFilter
) -> None:
    """Drill-down: what a tile, a row of a table or a bar counts is what its link lists."""
    store = filled(kept)
    objectives = Objectives(0.002, 0.002, 0.002)
    found = Figures(store, objectives).of(wanted, NOW_S + 1)

    def listed(**more: Any) -> int:
        return store.rows(dataclasses.replace(wanted, **more), None, 1)[1]

    assert found["requests"] == sum(found["outcomes"].values()) == listed()
    if not wanted.outcome:
        for outcome, count in found["outcomes"].items():
            assert count == listed(outcome=outcome)
    if wanted.met is None:
        assert found["judged"] - found["met"] == listed(met=False)
    if wanted.cached is None:
        assert found["cached"] == listed(cached=True)
    if not wanted.rail and not wanted.verdict:
        for _, rail, verdict, count in found["verdicts"]:
            assert count == listed(rail=rail, verdict=verdict)
    if not wanted.key:
        for group in found["by_key"]:
            assert group["requests"] == listed(key=group["name"] or "-")
    assert sum(found["series"][at].get(name, 0) for at in range(len(found["series"])) for name in ENDINGS) == listed()
    assert all(sum(data["counts"]) == data["count"] for data in found["latency"].values())


@given(st.floats(0, 10**9))
def test_a_chart_has_only_so_many_bars(seconds: float) -> None:
    assert step_of(seconds) * SLOTS * LEEWAY >= seconds


def line_of(at: int, **more: Any) -> RequestLine:
    plain: dict[str, Any] = {field.name: "" for field in dataclasses.fields(RequestLine)}
    numbers = {"status": 200, "prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 1, "cost_nanos": 0}
    flags = {"stream": False, "cached": False, "sampled": False, "met": None}
    times = {"at_s": NOW_S + at, "ms": 1.0, "first_ms": None, "token_ms": None}
    return RequestLine(**{**plain, "id": f"r{at}", "outcome": "answered", **numbers, **flags, **times, **more})


def test_the_oldest_go_where_rows_bytes_or_days_are_too_many(tmp_path: Path) -> None:
    said: list[Verdict] = [("screen", "pii", "pass")]
    few = HistoryStore(None, HistoryBounds(10, 10**9, 365))
    few.add([(line_of(at), said, None) for at in range(25)], NOW_S)
    assert [line.id for _, line in few.rows(HistoryFilter(), None, 100)[0]] == [f"r{at}" for at in range(24, 14, -1)]
    assert few.query("select count(*) from verdicts") == [(10,)]
    short = HistoryStore(None, HistoryBounds(100, 10**9, 1))
    short.add([(line_of(at * -43_200), said, None) for at in range(5)], NOW_S)
    assert {line.id for _, line in short.rows(HistoryFilter(), None, 100)[0]} == {"r0", "r-43200", "r-86400"}
    small = HistoryStore(tmp_path / "few.sqlite3", HistoryBounds(10**6, 1_000_000, 365))
    for batch in range(60):
        rows = [(line_of(batch * 50 + at), said, {"text": f"{batch}/{at}" * 2000}) for at in range(50)]
        small.add([(line, kept, {**text, "noise": list(range(batch, 300))}) for line, kept, text in rows], NOW_S)
    found, total = small.rows(HistoryFilter(), None, 1)
    assert found[0][1].id == "r2999"
    assert 0 < total < 3000
    assert (tmp_path / "few.sqlite3").stat().st_size < 2_000_000


def test_what_lies_on_the_disk_is_sealed_for_its_tenant_and_request(tmp_path: Path) -> None:
    path = tmp_path / "requests.sqlite3"
    sealed = HistoryStore(path, WIDE, TenantSealer(b"s" * 32))
    sealed.add([(line_of(1, tenant="acme"), [], {"text": "the walrus"})], NOW_S)
    assert sealed.details("r1") == {"text": "the walrus"}
    sealed.close()
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(Exception, match="sealed"):
        HistoryStore(path, WIDE, TenantSealer(b"t" * 32)).details("r1")


def test_a_file_of_another_layout_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "requests.sqlite3"
    with sqlite3.connect(path) as old:
        old.executescript("create table requests (other text); pragma user_version = 99;")
    store = HistoryStore(path, WIDE)
    store.add([(line_of(1), [], None)], NOW_S)
    assert store.rows(HistoryFilter(), None, 10)[1] == 1


def test_a_request_too_large_to_keep_in_full_keeps_its_line(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "requests.sqlite3", WIDE)
    noise = [((at * 2654435761) % 2**32) ** 3 for at in range(60_000)]
    store.add([(line_of(1), [], {"noise": noise})], NOW_S)
    assert store.rows(HistoryFilter(), None, 10)[1] == 1
    assert store.details("r1") is None


# --- what rails said ----------------------------------------------------------------------------------------------

KEYS = st.tuples(
    st.integers(0, 4000).map(lambda ago: (int(NOW_S) // SLICE_S - ago) * SLICE_S),
    st.sampled_from(["screen", "moderate"]),
    RAILS,
    st.sampled_from(["", "email", "it's; --"]),
    VERDICTS,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(KEYS, st.integers(1, 9), max_size=12), max_size=4),
    st.integers(SLICE_S, SLICE_S * KEPT),
    st.integers(1, 80),
)
def test_counts_of_rails_add_up_over_batches_and_restarts(
    tmp_path_factory: pytest.TempPathFactory, batches: list[dict[RailKey, int]], last_s: int, most: int
) -> None:
    """Within the week and the range that was asked for; at most so many slices, oldest first."""
    path = tmp_path_factory.mktemp("rails") / "h.sqlite3"
    expected: Counter[RailKey] = Counter()
    for batch in batches:
        store = HistoryStore(path, WIDE)
        store.add([], NOW_S, batch)
        store.close()
        expected.update(batch)
    wide_s, first_s = bounds_of(last_s, most, NOW_S)
    store = HistoryStore(path, WIDE)
    told = rail_history(store.query("select * from rail_counts where at_s >= ?", (first_s,)), wide_s)
    store.close()
    wanted = {key: n for key, n in expected.items() if key[0] >= first_s and key[0] > NOW_S - KEPT * SLICE_S}
    for what, is_category in (("verdicts", False), ("categories", True)):
        sums: Counter[tuple[str, ...]] = Counter()
        for (_, slot, rail, category, outcome), n in wanted.items():
            if bool(category) is is_category:
                sums[(slot, rail, *([category] if category else []), outcome)] += n
        assert {tuple(key): n for *key, n in told[what]} == sums
        assert sum(n for one in told["slices"] for *_, n in one[what]) == sums.total()
    begins = [one["at_s"] for one in told["slices"]]
    assert begins == sorted(set(begins))
    assert len(begins) <= most


def test_counts_of_rails_are_bounded_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rail_counts, "MOST_ROWS", 50)
    store = HistoryStore(None, WIDE)
    for slice_ in range(30):
        at_s = (int(NOW_S) // SLICE_S - 30 + slice_) * SLICE_S
        store.add([], NOW_S, {(at_s, "screen", f"r{n}", "", "pass"): 1 for n in range(5)})
    rows = store.query("select at_s, count(*) from rail_counts group by at_s order by at_s")
    assert sum(n for _, n in rows) <= 50
    assert rows[-1] == ((int(NOW_S) // SLICE_S - 1) * SLICE_S, 5)
    store.close()


def test_figures_read_no_request_in_full(tmp_path: Path) -> None:
    """Nor do counts: full accounts are nearly all of the file."""
    store = HistoryStore(tmp_path / "h.sqlite3", WIDE)
    store.open()
    asked: list[tuple[str, Any]] = []
    plain = store.query

    def query(sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
        asked.append((sql, list(values)))
        return plain(sql, values)

    store.query = query  # type: ignore[method-assign]  # only watched
    for wanted in (
        HistoryFilter(),
        HistoryFilter(from_s=NOW_S),
        HistoryFilter(model="a", outcome="failed", q="x", over_ms=3.0),
    ):
        Figures(store, Objectives(1, 1, 1)).of(wanted, NOW_S)
    for sql, values in asked:
        plan = " ".join(str(step[3]) for step in plain(f"explain query plan {sql}", values))
        assert "requests USING INTEGER PRIMARY KEY" in plan or "COVERING INDEX requests_lines" in plan, (sql, plan)
    store.close()
