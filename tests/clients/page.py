"""The page of clients, made from what the matrix last found."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.clients.catalogue import SCRIPTS, Client

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
RESULTS = Path(__file__).parent / "results.jsonl"
HEAD = """# Clients

What clients of other people do with this gateway, tried by `make clients`: {clients} clients, {features} features,
{works} of them work, {refused} are refused by name, {fails} fail. Each client ran in an environment of its own, in its
newest version of that day, against a gateway with the bundled model and one whose model follows a script; the programs
are in `tests/clients/scripts`.

*refused*: the gateway answers with a typed error that names what is not served; the words are from that error.
A client that is not in the list is not one that fails: what speaks one of the [dialects](api.md) should do.

| client | version | works | refused, fails |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Row:
    """`outcome`: works, refused or fails; `words`: why."""

    client: str
    version: str
    feature: str
    outcome: str
    words: str = ""


def read_rows() -> list[Row]:
    lines = RESULTS.read_text("utf-8").splitlines() if RESULTS.is_file() else []
    return [Row(**json.loads(line)) for line in lines]


def features_of(client: Client) -> list[str]:
    """Return the features that a script tries, as its text names them."""
    return re.findall(r'^(?:@|await )?feature\("([^"]+)"', (SCRIPTS / client.script).read_text("utf-8"), re.MULTILINE)


def page(rows: Sequence[Row]) -> str:
    outcomes = [row.outcome for row in rows]
    counts = {name: outcomes.count(name) for name in ("works", "refused", "fails")}
    head = HEAD.format(clients=len({row.client for row in rows}), features=len(rows), **counts)
    return head + "".join(_line(list(found)) for _, found in groupby(rows, lambda row: row.client))


def _line(rows: list[Row]) -> str:
    works = "; ".join(row.feature for row in rows if row.outcome == "works")
    others = "; ".join(f"{row.feature}: {_said(row)}" for row in rows if row.outcome != "works")
    return f"| {rows[0].client} | {rows[0].version} | {works} | {others} |\n"


def _said(row: Row) -> str:
    words = row.words.replace("|", "/").replace("<", "&lt;")
    return f"*{row.outcome}* ({words})" if row.words else f"*{row.outcome}*"
