"""docs/fields.md, made from the table: `python -m sluicegate.gateway.fields.page > docs/fields.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluicegate.gateway.fields.nested import INSIDE
from sluicegate.gateway.fields.row import DIALECTS, Drawn, Row
from sluicegate.gateway.fields.sampling import DRAWING
from sluicegate.gateway.fields.shaping import SHAPING
from sluicegate.gateway.fields.unsupported import FOREIGN

HEAD = """# Every field of a request

This page is made from the table in `gateway/fields/`, which the parsers, the OpenAPI document and what is sent
on to other servers are made from too.

- **yes**: the field has its effect.
- **refused**: it could change the answer and has no effect: a 400 that names it. `null` passes, and so does a
  value that asks for nothing (the column *passes*).
- **reported**: it changes no answer; `sluicegate.ignored` of the answer and the header `x-sluicegate-ignored`
  name it.
- **-**: the dialect has no such place.

A field that this page does not name is reported, unless it looks like one mistyped (`temprature`): then it is
refused, with the name that was probably meant. More than 50 fields without a use are refused. Two fields that
say different things of one matter are refused. A socket takes what chat takes, a batch's line what its endpoint
takes, without `stream`. A body nests at most 200 levels.

*upstream* says what becomes of an option where another server answers: sent to every server, to those with
`dialect = "vllm"`, or refused.
"""
PARTS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("How tokens are drawn", DRAWING),
    ("What is read, and what comes back", SHAPING),
    ("Inside fields", INSIDE),
    ("Fields of other servers that are not served", FOREIGN),
)
_SAID = {"served": "yes", "refused": "refused", "reported": "reported"}
_FORWARDED = {"openai": "sent", "vllm": "sent to vLLM", "never": "refused", None: ""}


def page() -> str:
    return "\n".join([HEAD, *(line for title, rows in PARTS for line in _part(title, rows))])


def _part(title: str, rows: Iterable[Row]) -> Iterator[str]:
    rows = tuple(rows)
    drawn = any(isinstance(row, Drawn) for row in rows)
    heads = ["field", "of", *DIALECTS, "passes", *(["upstream"] if drawn else []), "what it asks for"]
    yield f"## {title}\n"
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_cells(row, drawn))} |"
    yield ""


def _cells(row: Row, drawn: bool) -> list[str]:
    said = [_SAID[row.status[dialect]] if dialect in row.status else "-" for dialect in DIALECTS]
    passes = ", ".join(f"`{_json(value)}`" for value in row.neutral)
    upstream = [_FORWARDED[row.upstream]] if isinstance(row, Drawn) else [""] if drawn else []
    about = f"{row.about} *{row.why[0].upper()}{row.why[1:]}.*" if row.why else row.about
    bounds = _bounds(row.bounds or {}) if isinstance(row, Drawn) else ""
    return [f"`{row.path}`", row.by, *said, passes, *upstream, (about + bounds).replace("|", "\\|")]


def _bounds(bounds: object) -> str:
    assert isinstance(bounds, dict)
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "max_length": "at most so many:"}
    found = ", ".join(f"{words[name]} {value}" for name, value in bounds.items())
    return f" ({found})" if found else ""


def _json(value: object) -> str:
    return {True: "true", False: "false"}.get(value) if isinstance(value, bool) else repr(value).replace("'", '"')  # type: ignore[return-value]


if __name__ == "__main__":
    print(page(), end="")
