"""Writes docs/fields.md from the table of fields: `python -m sluicegate.gateway.api.fields_page > docs/fields.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.dialect import Dialect
from sluicegate.gateway.fields import PARTS, Row, SamplingRow

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
refused, with the name that was probably meant; or its name or value is like a constraint's or an option's of a
draw (`json_mode`, `stop_strings`, a schema under another name): then it is refused too. More than 50 fields
without a use are refused. Two fields that say different things of one matter are refused. A socket takes what
chat takes, a batch's line what its endpoint takes, without `stream`. A body nests at most 200 levels.

*upstream* says what becomes of an option where another server answers: sent to every server, to those with one of
these settings of `dialect` and else refused, or refused.
"""
_SAID = {"served": "yes", "refused": "refused", "reported": "reported", None: "-"}


def page(dialects: Sequence[Dialect] = DIALECTS) -> str:
    return "\n".join([HEAD, *(line for title, rows in PARTS.items() for line in _part(title, rows, dialects))])


def _part(title: str, rows: Iterable[Row], dialects: Sequence[Dialect]) -> Iterator[str]:
    rows = tuple(rows)
    drawn = any(isinstance(row, SamplingRow) for row in rows)
    names = [dialect.name for dialect in dialects]
    heads = ["field", "of", *names, "passes", *(["upstream"] if drawn else []), "what it asks for"]
    yield f"## {title}\n"
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_cells(row, drawn, dialects))} |"
    yield ""


def _cells(row: Row, drawn: bool, dialects: Sequence[Dialect]) -> list[str]:
    said = [_SAID[dialect.fields.status_of(row)] for dialect in dialects]
    passes = ", ".join(f"`{_json(value)}`" for value in row.neutral)
    upstream = [_forwarded(row)] if isinstance(row, SamplingRow) else [""] if drawn else []
    about = f"{row.about} *{row.why[0].upper()}{row.why[1:]}.*" if row.why else row.about
    bounds = _bounds(row.bounds or {}) if isinstance(row, SamplingRow) else ""
    return [f"`{row.path}`", row.by, *said, passes, *upstream, (about + bounds).replace("|", "\\|")]


def _forwarded(row: SamplingRow) -> str:
    if row.upstream is None:
        return ""
    if "every" in row.upstream:
        return "sent"
    return ", ".join(f"`{dialect}`" for dialect in row.upstream) or "refused"


def _bounds(bounds: object) -> str:
    assert isinstance(bounds, dict)
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "max_length": "at most so many:"}
    found = ", ".join(f"{words[name]} {value}" for name, value in bounds.items())
    return f" ({found})" if found else ""


def _json(value: object) -> str:
    return {True: "true", False: "false"}.get(value) if isinstance(value, bool) else repr(value).replace("'", '"')  # type: ignore[return-value]


if __name__ == "__main__":
    print(page(), end="")
