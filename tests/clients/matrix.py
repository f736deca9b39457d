"""Try every client on real gateways, and write what worked, what was refused and why into docs/clients.md.

    make clients                                       # all, in environments made once
    python -m tests.clients.matrix openai cohere       # these; the rows of others stay
    python -m tests.clients.matrix --anew              # with the newest versions of today
    python -m tests.clients.matrix --print openai      # writes nothing

Environments lie in `~/.cache/sluicegate/clients` (`SLUICEGATE_CLIENTS`). The command ends with 1 where a feature fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from tests.clients.catalogue import CLIENTS, Client
from tests.clients.environments import NotInstalled, drive, install, version
from tests.clients.gateways import gateways
from tests.clients.page import PAGE, RESULTS, Row, features_of, page, read_rows


@dataclass(frozen=True, slots=True)
class Tried:
    rows: tuple[Row, ...]
    said: str = ""
    """What the script wrote to stderr, where something failed."""


def tried(client: Client, where: dict[str, str], *, anew: bool) -> Tried:
    """Return a row for each feature of a client; where it cannot be installed or its script breaks, they say so."""
    try:
        install(client, anew=anew)
    except NotInstalled as error:
        return Tried(_all(client, "", f"not installed: {error}"))
    found = version(client)
    done = drive(client, where)
    rows = tuple(Row(client.name, found, **json.loads(line)) for line in done.stdout.splitlines() if line[:1] == "{")
    if [row.feature for row in rows] != features_of(client):
        words = (done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"])[-1]
        return Tried(_all(client, found, f"the script broke: {words[:200]}"), done.stderr)
    return Tried(rows, done.stderr if any(row.outcome == "fails" for row in rows) else "")


def _all(client: Client, found: str, words: str) -> tuple[Row, ...]:
    return tuple(Row(client.name, found, feature, "fails", words) for feature in features_of(client))


def write(rows: Iterable[Row]) -> None:
    """Keep the rows in the order of the catalogue, and make the page of them."""
    order = {client.name: at for at, client in enumerate(CLIENTS)}
    kept = sorted((row for row in rows if row.client in order), key=lambda row: order[row.client])
    lines = (json.dumps(asdict(row), ensure_ascii=False) for row in kept)
    RESULTS.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    PAGE.write_text(page(kept), "utf-8")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="clients; all where none is named")
    parser.add_argument("--anew", action="store_true", help="install the newest versions")
    parser.add_argument("--print", action="store_true", dest="prints", help="write no page")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - {client.name for client in CLIENTS}:
        parser.error(f"no client {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in CLIENTS)}")
    failed = 0
    with gateways() as where:
        for client in CLIENTS:
            if given.names and client.name not in given.names:
                continue
            found = tried(client, where, anew=given.anew)
            failed += sum(row.outcome == "fails" for row in found.rows)
            for row in found.rows:
                print(f"{row.client} {row.version} | {row.feature} | {row.outcome} {row.words}", flush=True)
            print(found.said[-6000:], end="", file=sys.stderr)
            if not given.prints:
                write([*(row for row in read_rows() if row.client != client.name), *found.rows])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
