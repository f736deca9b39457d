"""A sweep as one SVG: throughput, latencies and goodput over the number of callers. No library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from sluicegate.gateway.commands.bench.load import LoadLevel

WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 190, 56, 56, 70
COLOURS = ("#0b5f7d", "#b4552d", "#1d6b42")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#33413e} .title{font-weight:600;font-size:13px;fill:#16211f} "
    ".head{font-weight:600;font-size:16px;fill:#16211f} .grid{stroke:#e2e6e4} .axis{stroke:#8a9693}"
)
Line = tuple[str, Callable[[LoadLevel], float | None]]


def plot(levels: Sequence[LoadLevel], title: str) -> str:
    panels: list[tuple[str, str, list[Line]]] = [
        ("Throughput", "tokens a second", [("tokens/s", lambda level: level.tokens_per_s)]),
        ("First text", "milliseconds", [_of("first_s", "p50"), _of("first_s", "p99")]),
        ("Between two texts", "milliseconds", [_of("gap_s", "p50"), _of("gap_s", "p99")]),
        ("Goodput", "per cent", [("kept", lambda level: 100 * level.goodput)]),
    ]
    drawn = [_panel(levels, at, *panel) for at, panel in enumerate(panels)]
    wide, high = 2 * (WIDTH + LEFT + GAP), 2 * (HEIGHT + GAP) + TOP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" role="img">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        f'<rect width="{wide}" height="{high}" fill="#ffffff"/>'
        f'<text class="head" x="{LEFT}" y="28">{escape(title)}</text>' + "".join(drawn) + "</svg>\n"
    )


def _of(name: str, share: str) -> Line:
    def read(level: LoadLevel) -> float | None:
        found = getattr(level, name).get(share)
        return None if found is None else found * 1e3

    return share, read


def _panel(levels: Sequence[LoadLevel], at: int, title: str, unit: str, lines: list[Line]) -> str:
    x0, y0 = LEFT + at % 2 * (WIDTH + LEFT + GAP), TOP + 12 + at // 2 * (HEIGHT + GAP)
    values = [value for _, read in lines for level in levels if (value := read(level)) is not None]
    most = rounded(max(values, default=1.0))
    step = WIDTH / max(1, len(levels) - 1)
    parts = [
        f'<text class="title" x="{x0}" y="{y0 - 10}">{title}</text>'
        f'<text x="{x0 + WIDTH}" y="{y0 - 10}" text-anchor="end">{unit}</text>'
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = y0 + HEIGHT * (1 - share)
        kind = "axis" if share == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{x0}" x2="{x0 + WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{x0 - 8}" y="{y + 4:.1f}" text-anchor="end">{most * share:.4g}</text>')
    for i, level in enumerate(levels):
        parts.append(
            f'<text x="{x0 + i * step:.1f}" y="{y0 + HEIGHT + 18}" text-anchor="middle">{level.concurrency}</text>'
        )
    for number, (name, read) in enumerate(lines):
        points = [
            (x0 + i * step, y0 + HEIGHT * (1 - v / most))
            for i, level in enumerate(levels)
            if (v := read(level)) is not None
        ]
        parts.append(_line(points, COLOURS[number], name, labelled=len(lines) > 1))
    return "".join(parts)


def _line(points: list[tuple[float, float]], colour: str, name: str, *, labelled: bool) -> str:
    if not points:
        return ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
    x, y = points[-1]
    label = f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{escape(name)}</text>' if labelled else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}{label}'


def rounded(value: float) -> float:
    """Round up to the next of 1, 2, 2.5, 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = (
        10.0 ** (len(str(int(value))) - 1)
        if value >= 1
        else 10.0 ** -next(i for i in range(1, 12) if value * 10**i >= 1)
    )
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if value <= power * factor * 1.0001)
