"""What a replay found, in counts with intervals."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluicegate.gateway.commands.statistics import Interval, mean, paired, quantile, share

Found = Mapping[str, Any]
COMPARED = ("cost", "seconds", "completion_tokens")
"""Compared only for requests that were generated originally: a cached answer cost nothing and took no time, whichever
version made it."""


def report_of(found: Sequence[Found], failed: Sequence[Found], seed: int) -> dict[str, Any]:
    with_json = [one for one in found if one["json"]]
    fields = Counter((field["path"], field["change"]) for one in with_json for field in one["fields"])
    generated = [one for one in found if not one["before"]["cached"]]
    verdicts = Counter((one["before"]["verdict"], one["after"]["verdict"]) for one in found)
    return {
        "replayed": len(found),
        "failed": list(failed),
        "same": _plain(share(sum(one["same"] for one in found), len(found))),
        "fields": [
            {"path": path, "change": change, **_share(count, len(with_json))}
            for (path, change), count in fields.most_common()
        ],
        "verdicts": [
            {"before": before, "after": after, **_share(count, len(found))}
            for (before, after), count in verdicts.most_common()
        ],
        "from_cache": len(found) - len(generated),
        **{name: _compared(generated, name, seed) for name in COMPARED},
        "requests": list(found),
    }


def table(report: Mapping[str, Any]) -> str:
    return "\n".join(_lines(report))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"{report['replayed']} requests asked again, {len(report['failed'])} could not be"
    for one in report["failed"][:5]:
        yield f"  {one['id']}: {one['error']}"
    if report["same"] is None:
        return
    yield f"the same answer   {_with_interval(report['same'])}"
    yield "verdict before -> after"
    for one in report["verdicts"]:
        yield f"  {one['before']:>16} -> {one['after']:<16} {one['n']:6}  {_with_interval(one)}"
    if report["fields"]:
        yield "fields that differ"
    for one in report["fields"][:30]:
        yield f"  {one['change']:>8}  {one['path'] or '(the value itself)':40} {one['n']:6}  {_with_interval(one)}"
    if report["from_cache"]:
        yield f"{report['from_cache']} were answered by the cache before; the figures below leave them out"
    if report["cost"] is not None:
        yield "                      before        now  difference [95 %]              p"
    for name in (name for name in COMPARED if report[name] is not None):
        one = report[name]
        spread = f"{one['difference']:+.6g} [{one['low']:+.6g}, {one['high']:+.6g}]"
        yield f"  {name:17} {one['before']:>10.6g} {one['after']:>10.6g}  {spread:30} {one['p']:.3f}"


def _compared(found: Sequence[Found], name: str, seed: int) -> dict[str, float] | None:
    """Return means before and after, and the mean difference by request; None of nothing."""
    before = [float(one["before"][name]) for one in found]
    after = [float(one["after"][name]) for one in found]
    differences = [b - a for a, b in zip(before, after, strict=True)]
    interval = mean(differences, seed)
    if interval is None:
        return None
    return {
        "before": sum(before) / len(before),
        "after": sum(after) / len(after),
        "before_p95": quantile(before, 0.95) or 0.0,
        "after_p95": quantile(after, 0.95) or 0.0,
        "difference": interval.value,
        "low": interval.low,
        "high": interval.high,
        "p": paired(differences, seed),
    }


def _share(count: int, of: int) -> dict[str, Any]:
    interval = share(count, of)
    assert interval is not None
    return {**dataclasses.asdict(interval), "n": count, "of": of}


def _plain(interval: Interval | None) -> dict[str, Any] | None:
    return None if interval is None else dataclasses.asdict(interval)


def _with_interval(one: Mapping[str, Any]) -> str:
    return f"{one['value']:6.1%} [{one['low']:.1%}, {one['high']:.1%}]"
