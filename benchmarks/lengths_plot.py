"""The rows of `benchmarks.lengths --json` (standard input, the last line) as one SVG, for light and dark pages alike.

python -m benchmarks.lengths --json | python -m benchmarks.lengths_plot [TITLE] > lengths.svg
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from html import escape

from sluicegate.gateway.commands.bench.plot import rounded

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 220, 180, 60, 64, 44
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#33413e}.head{font-weight:600;font-size:15px}.title{font-weight:600}"
    ".grid{stroke:#8a9693;stroke-opacity:.3}.line{fill:none;stroke:#0b6f92;stroke-width:2}.dot{fill:#0b6f92}"
    "@media(prefers-color-scheme:dark){text{fill:#d5dedb}.line{stroke:#58c4e8}.dot{fill:#58c4e8}}"
)
_PANELS = (
    ("To the first token", "CPU s", "prompt_cpu_s"),
    ("A token after it", "CPU ms", "token_cpu_ms"),
    ("Resident memory", "MB", "resident_mb"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("title", nargs="*", default=["What", "length", "costs"])
    asked = parser.parse_args()
    lines = sys.stdin.read().strip().splitlines()
    if not lines:
        raise SystemExit("standard input is empty; send the last line of `benchmarks.lengths --json` there")
    sys.stdout.write(plot(list(json.loads(lines[-1]).values()), " ".join(asked.title)))


def plot(rows: Sequence[dict[str, float]], title: str) -> str:
    wide, high = len(_PANELS) * (_LEFT + _WIDTH + _GAP), _TOP + _HEIGHT + 52
    panels = [_panel(rows, _LEFT + at * (_LEFT + _WIDTH + _GAP), *panel) for at, panel in enumerate(_PANELS)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f'<text class="head" x="{_LEFT}" y="24">{escape(title)}</text>{"".join(panels)}</svg>\n'
    )


def _panel(rows: Sequence[dict[str, float]], left: int, title: str, unit: str, name: str) -> str:
    most, longest = rounded(max(row[name] for row in rows)), max(row["tokens"] for row in rows)
    parts = [
        f'<text class="title" x="{left}" y="{_TOP - 12}">{title}</text>'
        f'<text x="{left + _WIDTH}" y="{_TOP - 12}" text-anchor="end">{unit}</text>'
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = _TOP + _HEIGHT * (1 - share)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{most * share:.4g}</text>')
    points = [(left + _WIDTH * row["tokens"] / longest, _TOP + _HEIGHT * (1 - row[name] / most)) for row in rows]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts.append(f'<polyline class="line" points="{path}"/>')
    parts += [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    for share in (0.0, 0.5, 1.0):
        x, tokens = left + _WIDTH * share, longest * share
        parts.append(f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{tokens:,.0f}</text>')
    parts.append(f'<text x="{left + _WIDTH / 2}" y="{_TOP + _HEIGHT + 36}" text-anchor="middle">prompt tokens</text>')
    return "".join(parts)


if __name__ == "__main__":
    main()
