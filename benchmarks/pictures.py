"""The pictures of the README, from what the other programs printed: one SVG each, for light and dark pages alike.

    python -m benchmarks.pictures [--results FOLDER] [--out FOLDER]

`leaks.json` is the last line of `python -m benchmarks.leaks --json`; `masks.json` holds quantiles of the table on masks
(benchmarks/README.md says how they are taken beside the peer).
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
    """Accuracy over length, a row for each kind of case and length, with its count."""
    title = (
        f"Right answers of {found['model']} by length of the prompt (cases made here, {found['rows'][0]['n']} a bar)"
    )
    bars: list[Bar] = [
        (f"{row['kind']}, {row['tokens']:,} tokens", "ours", row["value"], f"{row['value']:.0%}")
        for row in found["rows"]
        if row["n"]
    ]
    return _bars(title, bars)


def _bars(title: str, rows: Sequence[Bar]) -> str:
    parts = [f'<text class="head" x="8" y="22">{escape(title)}</text>']
    for at, (label, kind, share, value) in enumerate(rows):
        y = 40 + at * _ROW
        length = max(1.0, share * _WIDE)
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{length:.1f}" height="18" rx="3"/>')
        parts.append(f'<text x="{_LEFT + length + 8:.1f}" y="{y + 14}">{value}</text>')
    return _svg(title, _LEFT + _WIDE + 90, 52 + len(rows) * _ROW, parts)


def _svg(title: str, wide: float, high: float, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>{''.join(parts)}</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parsed = parser.parse_args()
    for name, draw in (("leaks", leaks), ("masks", masks), ("long_context", long_context)):
        found = json.loads((parsed.results / f"{name}.json").read_text("utf-8"))
        (parsed.out / f"{name}.svg").write_text(draw(found), "utf-8")
    (parsed.out / "pipeline.svg").write_text(pipeline(), "utf-8")


if __name__ == "__main__":
    main()
