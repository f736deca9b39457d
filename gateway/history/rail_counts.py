"""What rails said and found, counted in slices of five minutes: the last week of them, in the console's file."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate.gateway.telemetry import FinishedRequest
from sluicegate.gateway.telemetry.labels import Labels

SLICE_S = 300
KEPT = 7 * 24 * 12
"""Slices kept: one week."""
MOST_ROWS = 200_000
"""Most rows in the file; the oldest slices are removed first."""
RAILS, CATEGORIES = 64, 200
"""Most names that one process counts separately; all others count as `other`."""
GUARDED = ("screen", "moderate")
TABLE = """
create table if not exists rail_counts (at_s integer, slot text, rail text, category text, outcome text, n integer,
    primary key (at_s, slot, rail, category, outcome)) without rowid;
"""
RailKey = tuple[int, str, str, str, str]
"""Start of the slice in Unix seconds, slot, rail, category (empty: the rail's verdict), outcome."""


class RailCounter:
    """Bounds the names that rails and their categories bring. Used from one thread at a time."""

    def __init__(self) -> None:
        self._rails, self._categories = Labels(RAILS), Labels(CATEGORIES)

    def of(self, requests: Iterable[FinishedRequest]) -> Counter[RailKey]:
        """Count verdicts, and requests in which a rail found something of a category, when each ended."""
        found: Counter[RailKey] = Counter()
        for done in requests:
            at_s = int(done.began_ns / 1e9 + done.duration_s) // SLICE_S * SLICE_S
            for decision in done.decisions:
                if decision.slot not in GUARDED:
                    continue
                rail = self._rails[decision.stage]
                found[at_s, decision.slot, rail, "", decision.outcome] += 1
                for category in filter(None, decision.detail.get("categories") or ()):
                    name = self._categories[category]
                    found[at_s, decision.slot, rail, name, decision.outcome] += 1
        return found


def add_counts(db: sqlite3.Connection, counts: Mapping[RailKey, int], now_s: float) -> None:
    """Add to what is there, and forget what is older than a week or one row too many."""
    if not counts:
        return
    db.executemany(
        "insert into rail_counts values (?, ?, ?, ?, ?, ?) "
        "on conflict (at_s, slot, rail, category, outcome) do update set n = n + excluded.n",
        [(*key, n) for key, n in counts.items()],
    )
    db.execute("delete from rail_counts where at_s <= ?", (now_s - KEPT * SLICE_S,))
    [(rows,)] = db.execute("select count(*) from rail_counts").fetchall()
    if rows > MOST_ROWS:
        least = "select at_s from rail_counts order by at_s limit 1 offset ?"
        db.execute(f"delete from rail_counts where at_s <= ({least})", (rows - MOST_ROWS,))


def rail_history(rows: Iterable[tuple[Any, ...]], wide_s: int) -> dict[str, Any]:
    """Join rows of the table into slices of `wide_s`, oldest first, and into sums; slices without any are left out."""
    slices: dict[int, Counter[RailKey]] = {}
    whole: Counter[RailKey] = Counter()
    for at_s, slot, rail, category, outcome, n in rows:
        began_s = at_s // wide_s * wide_s
        slices.setdefault(began_s, Counter())[began_s, slot, rail, category, outcome] += n
        whole[0, slot, rail, category, outcome] += n
    return {"slices": [{"at_s": at_s, **_as_rows(slices[at_s])} for at_s in sorted(slices)], **_as_rows(whole)}


def bounds_of(last_s: float, most: int, now_s: float) -> tuple[int, int]:
    """Return the seconds of a slice, so that there are at most `most`, and where the first of them begins."""
    wide_s = SLICE_S * max(1, -(-int(last_s) // (SLICE_S * most)))
    return wide_s, (int(now_s - last_s) // wide_s + 1) * wide_s


def _as_rows(counts: Mapping[RailKey, int]) -> dict[str, Any]:
    rows = sorted(counts.items())
    return {
        "verdicts": [[slot, rail, outcome, n] for (_, slot, rail, name, outcome), n in rows if not name],
        "categories": [[slot, rail, name, outcome, n] for (_, slot, rail, name, outcome), n in rows if name],
    }
