"""The report of an evaluation: one JSON object, a table for a terminal, and one HTML page without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from sluicegate.gateway.commands.eval.judge import reply_text
from sluicegate.gateway.commands.eval.summary import ScoredCase
from sluicegate.plugins.errors import plain

Report = Mapping[str, Any]
WIDTH, ROW, LEFT = 560, 30, 220
LONGEST = 28
"""Most characters of a label, which stands left of its bar."""
STYLE = """
:root{color-scheme:light dark;--line:#8886;--bar:#0b5f7d;--bad:#b4552d;--good:#1d6b42}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
table{border-collapse:collapse;margin:1rem 0;width:100%}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line)}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0}
details{border-bottom:1px solid var(--line);padding:.4rem 0}summary{cursor:pointer}
.pass{color:var(--good)}.fail{color:var(--bad)}svg text{font:13px system-ui,sans-serif;fill:currentColor}
.wide{overflow-x:auto}@media(prefers-color-scheme:dark){:root{--bar:#5bb5d5;--bad:#e58b62;--good:#62c08d}}
"""
ROWS = ("quality", "passed", "valid_json", "valid", "refused", "false_alarms", "missed", "leaks")


def table(report: Report) -> str:
    """Return the figures of each version, as text. How far a judge can be trusted stands before what it says."""
    lines = [*_agreement(report), *(f"note: {note}" for note in report["notes"])]
    for name, figures in report["variants"].items():
        lines.append(f"{name}: {figures['answers']} answers, {figures['errors']} could not be asked")
        for row, found in _intervals(figures):
            lines.append(f"  {row:24} {_share(found)}")
        latency = ", ".join(f"{q} {value:.2f} s" for q, value in figures["latency_s"].items() if value is not None)
        tokens = f"{figures['prompt_tokens']} + {figures['completion_tokens']} tokens"
        lines.append(f"  {latency or 'no latency'}; {tokens}; {_cost(figures)}")
    return "\n".join([*lines, *_compared(report)])


def _agreement(report: Report) -> Iterator[str]:
    if (agreement := report["judge_agreement"]) is not None:
        yield f"judge and people: {agreement['equal']:.0%} of {agreement['n']} marks equal, {_kappa(agreement)}"


def _compared(report: Report) -> Iterator[str]:
    compared = report["comparison"]
    if compared is not None and compared["difference"] is not None:
        found = compared["difference"]
        yield (
            f"{compared['right']} - {compared['left']}: {found['value']:+.1%} "
            f"({found['low']:+.1%} to {found['high']:+.1%}), p = {compared['p']:.4f}, "
            f"{compared['better']} cases better, {compared['worse']} worse"
        )
        if preferred := compared.get("preferences"):
            counts = ", ".join(f"{compared[side]} {preferred[side]} times" for side in ("left", "right"))
            lost = f"; {preferred['unjudged']} could not be judged" if preferred["unjudged"] else ""
            yield f"the judge prefers {counts}, of {preferred['pairs']}{lost}"


def _kappa(agreement: Mapping[str, Any]) -> str:
    return "kappa unknown" if agreement["kappa"] is None else f"kappa {agreement['kappa']:.2f}"


def _intervals(figures: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for row in ROWS:
        if figures[row] is not None:
            yield row.replace("_", " "), figures[row]
    for kind in ("checks", "tags"):
        for name, found in figures[kind].items():
            yield f"{kind[:-1]} {name}", found


def _share(found: Mapping[str, Any]) -> str:
    return f"{found['value']:6.1%}  ({found['low']:.1%} to {found['high']:.1%}, n = {found['n']})"


def page(report: Report, judged: Mapping[str, Sequence[ScoredCase]]) -> str:
    """Return one page of HTML: figures, bars with their intervals, and every case to open. All texts in it are
    escaped."""
    title = escape(f"{report['suite']}: evaluation")
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{STYLE}</style><main><h1>{title}</h1><p>{escape(report['when'])}, {report['cases']} cases</p>",
        *(f"<p>{escape(line)}</p>" for line in (*report["notes"], *_agreement(report), *_compared(report))),
        '<div class="wide" role="region" aria-label="Shares with intervals" tabindex="0">',
        bars(report),
        "</div><h2>Figures</h2>",
        *(_figures(name, figures) for name, figures in report["variants"].items()),
        "<h2>Cases</h2>",
        *_cases(judged),
        "</main></html>\n",
    ]
    return "\n".join(parts)


def bars(report: Report) -> str:
    """Draw quality and shares of each version as bars with whiskers (SVG)."""
    drawn = []
    for row in ROWS:
        drawn += [(f"{row} {name}", f[row]) for name, f in report["variants"].items() if f[row] is not None]
    high = ROW * len(drawn) + 30
    parts = [f'<svg viewBox="0 0 {LEFT + WIDTH + 90} {high}" width="{LEFT + WIDTH + 90}" role="img">']
    parts.append("<title>Shares with 95 % intervals</title>")
    for i, (label, found) in enumerate(drawn):
        y = 10 + i * ROW
        x0, x1, at = (LEFT + WIDTH * found[side] for side in ("low", "high", "value"))
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(_short(label.replace("_", " ")))}</text>'
            f'<rect x="{LEFT}" y="{y}" width="{max(1.0, at - LEFT):.1f}" height="20" fill="var(--bar)" opacity=".75"/>'
            f'<path d="M{x0:.1f} {y + 10}H{x1:.1f}M{x0:.1f} {y + 5}v10M{x1:.1f} {y + 5}v10" stroke="currentColor"/>'
            f'<text x="{LEFT + WIDTH + 8}" y="{y + 15}">{found["value"]:.1%}</text>'
        )
    return "".join([*parts, "</svg>"])


def _short(label: str) -> str:
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 3]}..."


def _figures(name: str, figures: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td>{escape(row)}<td class="n">{found["value"]:.1%}'
        f'<td class="n">{found["low"]:.1%} to {found["high"]:.1%}<td class="n">{found["n"]}'
        for row, found in _intervals(figures)
    )
    latency = ", ".join(f"{q} {value:.2f} s" for q, value in figures["latency_s"].items() if value is not None)
    return (
        f"<h3>{escape(name)}</h3><p>{figures['answers']} answers, {figures['errors']} could not be asked; {latency}; "
        f"{figures['prompt_tokens']} + {figures['completion_tokens']} tokens; {_cost(figures)}</p>"
        f'<table><tr><th>what<th class="n">value<th class="n">95 %<th class="n">n{rows}</table>'
    )


def _cases(judged: Mapping[str, Sequence[ScoredCase]]) -> Iterator[str]:
    by_case: dict[str, list[ScoredCase]] = {}
    for found in judged.values():
        for one in found:
            by_case.setdefault(one.asked.case.id, []).append(one)
    for case_id, found in by_case.items():
        marks = " ".join(
            f'<span class="{"pass" if one.passed else "fail"}">{escape(one.asked.variant)} {one.score:.2f}</span>'
            for one in found
        )
        case = found[0].asked.case
        asked = "\n".join(f"{m['role']}: {_text(m.get('content'))}" for m in case.messages)
        wanted = "" if case.expected is None else f"<p>wanted</p><pre>{escape(_text(case.expected))}</pre>"
        replies = "".join(_reply(one) for one in found)
        head = f"<summary>{escape(case_id)} {marks}</summary>"
        yield f"<details>{head}<pre>{escape(asked)}</pre>{wanted}{replies}</details>"


def _reply(one: ScoredCase) -> str:
    reply = one.asked.reply
    checks = "".join(
        f'<li class="{"pass" if c.passed else "fail"}">{escape(c.check)} {c.score:.2f} {escape(c.note)}'
        for c in one.checks
    )
    told = f"error: {reply.error}" if reply.error else reply_text(one.asked)
    checks += f'<li class="fail">{escape(one.error)}' if one.unjudged else ""
    head = f"{one.asked.variant}, repeat {one.asked.repeat + 1}, {reply.seconds:.2f} s, {reply.finish_reason or 'none'}"
    return f"<p>{escape(head)}</p><pre>{escape(told)}</pre><ul>{checks}</ul>"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cost(figures: Mapping[str, Any]) -> str:
    return f"cost {plain(figures['cost'])}" if figures["cost"] else "no cost (--price)"
