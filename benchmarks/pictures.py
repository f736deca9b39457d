"""The pictures of the README, from what the other programs printed: one SVG each, for light and dark pages alike.

    python -m benchmarks.pictures [--results FOLDER] [--out FOLDER]

`leaks.json` is the last line of `python -m benchmarks.leaks --json`; `masks.json` holds quantiles of the table on masks
(benchmarks/README.md says how they are taken beside the peer); `calibration.json` is the field `calibration` of `python
-m benchmarks.detection --json`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#33413e}.head{font-weight:600;font-size:15px}.small{font-size:11.5px}"
    ".ours{fill:#0b6f92}.peer{fill:#b4552d}.box{fill:none;stroke:#0b6f92;stroke-width:1.5}"
    ".frame{fill:none;stroke:#8a9693;stroke-dasharray:5 4}.arrow{stroke:#8a9693;stroke-width:1.5;fill:none}"
    "@media(prefers-color-scheme:dark){text{fill:#d5dedb}.ours{fill:#58c4e8}.peer{fill:#e08a5f}.box{stroke:#58c4e8}}"
)
_ROW, _LEFT, _WIDE = 28, 250, 420
_LEFT_OF_CURVE, _WIDE_CURVE, _HIGH_CURVE, _FOOT_OF_CURVE = 60, 660, 240, 314
_TICKS = (0, 0.25, 0.5, 0.75, 1)
_CURVES = (
    ".k0,.k1,.k2{fill:none;stroke-width:2}.k0{stroke:#0b6f92}.k1{stroke:#b4552d}.k2{stroke:#6b5ca5}"
    ".whisker{stroke-width:1;opacity:.7}.k0 circle{fill:#0b6f92}.k1 circle{fill:#b4552d}.k2 circle{fill:#6b5ca5}"
    ".line{stroke:#8a9693;opacity:.35}"
    "@media(prefers-color-scheme:dark){.k0{stroke:#58c4e8}.k1{stroke:#e08a5f}.k2{stroke:#b19fe0}"
    ".k0 circle{fill:#58c4e8}.k1 circle{fill:#e08a5f}.k2 circle{fill:#b19fe0}}"
)
STAGES = (
    ("admit", "keys, limits"),
    ("screen", "attacks, secrets"),
    ("route", "which model"),
    ("retrieve", "documents"),
    ("assemble", "prompt"),
    ("recall", "cached answers"),
    ("constrain", "schema to masks"),
    ("generate", "engine, streams"),
    ("moderate", "rails hold back"),
    ("record", "trace, usage"),
)
"""The slots, in the order in which a request passes them."""
Bar = tuple[str, str, float, str]
"""Label, class, share of the width, what is written behind it."""


def leaks(found: dict[str, Any]) -> str:
    title = f"Forbidden characters that reach the client, {found['cases']:,} streams, a perfect detector"
    bars: list[Bar] = []
    for name, row in found["ways"].items():
        share = row["characters"]
        is_ours = name == "sluicegate"
        label = "Sluicegate, its own detector" if is_ours else name
        bars.append((label, "ours" if is_ours else "peer", share, f"{share:.1%}"))
    return _bars(title, bars)


def masks(found: dict[str, Any]) -> str:
    title = f"Time of one mask, {found['unit']}, {found['schemas']:,} schemas of real life, 128,000 tokens (log scale)"
    values = [value for row in found["engines"].values() for value in row.values()]
    low, high = math.log10(min(values) / 2), math.log10(max(values))
    bars: list[Bar] = []
    for name in next(iter(found["engines"].values())):
        for engine, row in found["engines"].items():
            share = (math.log10(row[name]) - low) / (high - low)
            bars.append((f"{name}, {engine}", "ours" if engine == "Sluicegate" else "peer", share, f"{row[name]:,g}"))
    return _bars(title, bars)


def pipeline() -> str:
    wide, gap, high = 104, 10, 178
    parts = [f'<rect class="frame" x="6" y="34" width="{len(STAGES) * (wide + gap) + 18}" height="106" rx="10"/>']
    parts.append('<text class="head" x="8" y="22">One process: what a request passes, and its trace</text>')
    for at, (name, what) in enumerate(STAGES):
        x = 18 + at * (wide + gap)
        parts.append(f'<rect class="box" x="{x}" y="56" width="{wide}" height="58" rx="7"/>')
        parts.append(f'<text x="{x + wide / 2}" y="82" text-anchor="middle" font-weight="600">{name}</text>')
        parts.append(f'<text class="small" x="{x + wide / 2}" y="100" text-anchor="middle">{what}</text>')
        if at:
            parts.append(f'<path class="arrow" d="M{x - gap} 85h{gap - 2}m-4-4l4 4l-4 4"/>')
    end = "valid, screened text, as it streams"
    first, last = 30 + wide / 2, 18 + (len(STAGES) - 2) * (wide + gap) + wide / 2
    parts.append(f'<text class="small" x="{first}" y="164" text-anchor="middle">prompt + JSON schema</text>')
    parts.append(f'<path class="arrow" d="M{first} 150V118m-4 5l4-5l4 5"/>')
    parts.append(f'<text class="small" x="{last}" y="164" text-anchor="middle">{end}</text>')
    parts.append(f'<path class="arrow" d="M{last} 116V148m-4-5l4 5l4-5"/>')
    return _svg("What a request passes", len(STAGES) * (wide + gap) + 32, high, parts)


def long_context(found: dict[str, Any]) -> str:
    """Draw accuracy over length: a line for each kind of case; whiskers are Wilson's intervals; a dashed line shows how
    long the texts were that the model learned from."""
    title = (
        f"Right answers by length of the prompt: {found['model']} (cases made here, {found['rows'][0]['n']} a point)"
    )
    rows = [row for row in found["rows"] if row["n"]]
    most = max(row["tokens"] for row in rows)
    parts = [f'<text class="head" x="8" y="22">{escape(title)}</text>', *_grid(most, found.get("trained_to"))]
    for at, kind in enumerate(dict.fromkeys(row["kind"] for row in rows)):
        parts += _curve([row for row in rows if row["kind"] == kind], most, at)
        parts += _key(kind, at)
    return _svg(title, _LEFT_OF_CURVE + _WIDE_CURVE + 40, _FOOT_OF_CURVE + 54, parts, _CURVES)


def calibration(found: dict[str, list[dict[str, float]]]) -> str:
    """Draw, for each head and range of scores, the share of attacks over the mean score; on the dashed line both are
    equal."""
    title = "What a score says and what is found, held-out texts by range of scores"
    right = _LEFT_OF_CURVE + _WIDE_CURVE
    parts = [f'<text class="head" x="8" y="22">{title}</text>', *_levels()]
    parts.append(f'<path class="frame" d="M{_LEFT_OF_CURVE} {_up(0):.1f}L{right} {_up(1):.1f}"/>')
    for share in _TICKS:
        x = _LEFT_OF_CURVE + share * _WIDE_CURVE
        parts.append(
            f'<text class="small" x="{x:.1f}" y="{_FOOT_OF_CURVE + 18}" text-anchor="middle">{share:.0%}</text>'
        )
    middle = _LEFT_OF_CURVE + _WIDE_CURVE / 2
    parts.append(f'<text class="small" x="{middle}" y="{_FOOT_OF_CURVE + 38}" text-anchor="middle">mean score</text>')
    for at, (head, ranges) in enumerate(found.items()):
        points = [(_LEFT_OF_CURVE + row["said"] * _WIDE_CURVE, _up(row["found"])) for row in ranges]
        line, dots = _line_and_dots(points)
        parts += [f'<g class="k{at}">{line}{dots}</g>', *_key(head, at)]
    return _svg(title, right + 40, _FOOT_OF_CURVE + 54, parts, _CURVES)


def _levels() -> list[str]:
    """Return the lines across, and their shares at the left."""
    parts = []
    for share in _TICKS:
        y = _FOOT_OF_CURVE - share * _HIGH_CURVE
        parts.append(f'<path class="line" d="M{_LEFT_OF_CURVE} {y:.1f}h{_WIDE_CURVE}"/>')
        parts.append(f'<text x="{_LEFT_OF_CURVE - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    return parts


def _grid(most: int, trained_to: int | None) -> list[str]:
    parts = _levels()
    for tokens in (found for found in range(0, most + 1, 128 if most < 900 else 256 if most < 1800 else 512)):
        x = _at(tokens, most)
        parts.append(
            f'<text class="small" x="{x:.1f}" y="{_FOOT_OF_CURVE + 18}" text-anchor="middle">{tokens:,}</text>'
        )
    parts.append(f'<path class="frame" d="M{_LEFT_OF_CURVE} {_up(0.5):.1f}h{_WIDE_CURVE}"/>')
    parts.append('<path class="frame" d="M470 46h22"/><text x="498" y="50">one of the two facts, by chance</text>')
    middle = _LEFT_OF_CURVE + _WIDE_CURVE / 2
    parts.append(
        f'<text class="small" x="{middle}" y="{_FOOT_OF_CURVE + 38}" text-anchor="middle">tokens of the prompt</text>'
    )
    if trained_to is not None and trained_to <= most:
        x = _at(trained_to, most)
        parts.append(f'<path class="frame" d="M{x:.1f} {_FOOT_OF_CURVE}v-{_HIGH_CURVE}"/>')
        y = _FOOT_OF_CURVE - _HIGH_CURVE + 14
        parts.append(f'<text class="small" x="{x + 6:.1f}" y="{y}">longer than what it learned from</text>')
    return parts


def _curve(rows: Sequence[dict[str, Any]], most: int, at: int) -> list[str]:
    """Draw the curve of one kind. Kinds stand a little beside each other, so that whiskers do not cover each other."""
    points = [(_at(row["tokens"], most) + 5 * (at - 1), row) for row in sorted(rows, key=lambda row: row["tokens"])]
    line, dots = _line_and_dots([(x, _up(row["value"])) for x, row in points])
    whiskers = "".join(f"M{x:.1f} {_up(row['low']):.1f}V{_up(row['high']):.1f}" for x, row in points)
    return [f'<g class="k{at}">{line}<path class="whisker" d="{whiskers}"/>{dots}</g>']


def _line_and_dots(points: Sequence[tuple[float, float]]) -> tuple[str, str]:
    """Return the line through the points, and a dot on each."""
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{line}"/>', "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points)


def _key(name: str, at: int) -> list[str]:
    """Return what says which curve is which, for the curve number `at`."""
    return [
        f'<g class="k{at}"><path d="M{60 + 130 * at} 46h22"/></g>',
        f'<text x="{88 + 130 * at}" y="50">{escape(name)}</text>',
    ]


def _at(tokens: float, most: int) -> float:
    return _LEFT_OF_CURVE + tokens / most * _WIDE_CURVE


def _up(share: float) -> float:
    return _FOOT_OF_CURVE - share * _HIGH_CURVE


def _bars(title: str, rows: Sequence[Bar]) -> str:
    parts = [f'<text class="head" x="8" y="22">{escape(title)}</text>']
    for at, (label, kind, share, value) in enumerate(rows):
        y = 40 + at * _ROW
        length = max(1.0, share * _WIDE)
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{length:.1f}" height="18" rx="3"/>')
        parts.append(f'<text x="{_LEFT + length + 8:.1f}" y="{y + 14}">{value}</text>')
    return _svg(title, _LEFT + _WIDE + 90, 52 + len(rows) * _ROW, parts)


def _svg(title: str, wide: float, high: float, parts: Sequence[str], style: str = "") -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style>{''.join(parts)}</svg>\n"
    )


PICTURES = (
    ("leaks", leaks),
    ("masks", masks),
    ("long_context", long_context),
    ("long_context_bundled", long_context),
    ("calibration", calibration),
)
"""Names of results, each with what draws it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parsed = parser.parse_args()
    for name, draw in PICTURES:
        found = json.loads((parsed.results / f"{name}.json").read_text("utf-8"))
        (parsed.out / f"{name}.svg").write_text(draw(found), "utf-8")
    (parsed.out / "pipeline.svg").write_text(pipeline(), "utf-8")


if __name__ == "__main__":
    main()
