"""The pictures of docs/scale.md, from what `benchmarks.scale --json` printed last.

python -m benchmarks.scale_plot benchmarks/results/scale.json docs/images
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.bench.plot import rounded

_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#33413e}.head{font-weight:600;font-size:15px}"
    ".grid{stroke:#8a9693;stroke-opacity:.3}.bar,.dot0{fill:#0b6f92}.dot1{fill:#b4552d}.dot2{fill:#1d6b42}"
    "polyline{fill:none;stroke-width:2}.line0{stroke:#0b6f92}.line1{stroke:#b4552d}.line2{stroke:#1d6b42}"
    "@media(prefers-color-scheme:dark){text{fill:#d5dedb}.bar,.dot0{fill:#58c4e8}.line0{stroke:#58c4e8}"
    ".dot1{fill:#e08a5f}.line1{stroke:#e08a5f}.dot2{fill:#6fc495}.line2{stroke:#6fc495}}"
)
_LEFT, _WIDE, _ROW, _HIGH, _TOP = 270, 380, 26, 220, 48
WAYS = {"prefix": "by prefix", "load": "least loaded", "random": "drawn at random"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the last line of `benchmarks.scale --json`")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    asked = parser.parse_args()
    found, folder = json.loads(asked.results.read_text("utf-8")), asked.folder
    (folder / "scale-nodes.svg").write_text(nodes(found["days"]["nodes"]), "utf-8")
    (folder / "scale-load.svg").write_text(load(found["days"]["curve"]), "utf-8")


def nodes(found: Mapping[str, Mapping[str, int]]) -> str:
    """Draw the nodes for a hundred million requests a day, a bar each; those for a million stand behind."""
    most = max(row["100000000"] for row in found.values())
    parts = []
    for at, (name, row) in enumerate(found.items()):
        y, wide = _TOP + at * _ROW, _WIDE * row["100000000"] / most
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="bar" x="{_LEFT}" y="{y + 2}" width="{wide:.1f}" height="16"/>')
        said = f"{row['100000000']:,} ({row['1000000']:,} for 1 M)"
        parts.append(f'<text x="{_LEFT + wide + 8:.1f}" y="{y + 14}">{said}</text>')
    return _svg("Nodes for 100 M requests a day", parts, _LEFT + _WIDE + 130, _TOP + len(found) * _ROW + 12)


def load(rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw the first text's p99 over the load of eight nodes, a line for each way of choosing."""
    left, most = 70, rounded(min(10.0, max(row[way]["first_p99_s"] for row in rows for way in WAYS)))
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = _TOP + _HIGH * (1 - share)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + _WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{most * share:.3g} s</text>')
    for number, (way, name) in enumerate(WAYS.items()):
        parts += _line(rows, way, name, number, left, most)
    for row in rows:
        x = left + _WIDE * row["share"]
        parts.append(f'<text x="{x:.1f}" y="{_TOP + _HIGH + 18}" text-anchor="middle">{row["share"]:.0%}</text>')
    foot = "load, of what eight nodes could compute if no prompt were read before"
    parts.append(f'<text x="{left + _WIDE / 2}" y="{_TOP + _HIGH + 38}" text-anchor="middle">{foot}</text>')
    return _svg("First text, p99, eight nodes", parts, left + _WIDE + 140, _TOP + _HIGH + 52)


def _line(rows: Sequence[Mapping[str, Any]], way: str, name: str, number: int, left: int, most: float) -> list[str]:
    points = [
        (left + _WIDE * row["share"], _TOP + _HIGH * (1 - min(1.0, row[way]["first_p99_s"] / most))) for row in rows
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle class="dot{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    label = f'<text x="{left + 12}" y="{_TOP + 14 + 18 * number}"><tspan class="dot{number}">■</tspan> {name}</text>'
    return [f'<polyline class="line{number}" points="{path}"/>', *dots, label]


def _svg(title: str, parts: Sequence[str], wide: float, high: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" role="img">'
        f'<title>{escape(title)}</title><style>{_STYLE}</style><text class="head" x="10" y="24">{escape(title)}</text>'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    main()
