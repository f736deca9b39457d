"""Plant personal data in every string of answers to real schemas, and check that the released answer still satisfies
the schema.

    python -m benchmarks.redaction --data FILE [--limit N] [--json]

For each schema with a valid instance, every string of the instance in turn holds personal data: a sentence with a mail
address, else a bare mail address, an IP address or a URL of one, whichever first leaves the instance valid; a position
where none does cannot hold any. The answer is then streamed, three characters a piece, through the window of structured
answers with the rail `pii` set to redact. Instances of more than 2,000 characters are left out. Reported, in positions:

    redacted    what left is valid JSON, satisfies the schema, and has nothing of the planted value
    refused     the answer was stopped: the value could not be replaced in its place. Whole answers are then generated
                again under a grammar that cannot write it (not in this program); streams end as refused
    invalid     what left breaks the schema (goal 0)
    leaked      planted values of which six or more characters left (goal 0)
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from benchmarks import common
from sluicegate.plugins import Caller, Message, Request
from sluicegate.safety import JsonWindow, MatchPolicy, MatchRail, compile_pii, redactor_for

PIECE = 3
LONGEST = 2000
"""Characters of an instance; each of its strings costs one answer of that length."""
REQUEST = Request(id="benchmark", model="none", messages=(Message("user", "go on"),))
PLANTS = (
    ("Please write to ada.lovelace@qzvornik.org about it.", "ada.lovelace@qzvornik.org"),
    ("ada.lovelace@qzvornik.org", "ada.lovelace@qzvornik.org"),
    ("203.0.113.77", "203.0.113.77"),
    ("http://203.0.113.77/", "203.0.113.77"),
)
Path = tuple[str | int, ...]


def strings(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of the strings of a JSON value. Names of properties are none."""
    if isinstance(value, str):
        yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from strings(part, (*path, key))


def planted(instance: Any, path: Path, text: str) -> Any:
    if not path:
        return text
    made = copy.deepcopy(instance)
    place = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = text
    return made


def released(rail: MatchRail, schema: Any, text: str) -> tuple[str, str | None]:
    window = JsonWindow([rail], REQUEST, Caller(), redactor=redactor_for(schema))
    out = "".join([window.feed(text[i : i + PIECE]).text for i in range(0, len(text), PIECE)])
    return out + window.close().text, window.blocked


def judge(rail: MatchRail, schema: Any, validator: Any, instance: Any, path: Path) -> str:
    for text, secret in PLANTS:
        answer = planted(instance, path, text)
        if not validator.is_valid(answer):
            continue
        out, blocked = released(rail, schema, json.dumps(answer, ensure_ascii=False))
        if any(secret[i : i + 6] in out for i in range(len(secret) - 5)):
            return "leaked"
        if blocked is not None:
            return "refused"
        return "redacted" if validator.is_valid(json.loads(out)) else "invalid"
    return "cannot hold any"


def measure(cases: list[Any], schemas: int) -> dict[str, Any]:
    rail = MatchRail("pii", compile_pii(["email", "ip_address"]), MatchPolicy("redact"))
    counts = dict.fromkeys(("redacted", "refused", "invalid", "leaked", "cannot hold any"), 0)
    used, failures = 0, []
    for case in cases:
        instance = next((test["data"] for test in case["tests"] if test["valid"]), None)
        places = list(strings(instance))
        if (schemas and used == schemas) or not places or len(json.dumps(instance)) > LONGEST:
            continue
        validator = _validator(case["schema"])
        if validator is None or not validator.is_valid(instance):
            continue
        found = [judge(rail, case["schema"], validator, instance, path) for path in places]
        if set(found) == {"cannot hold any"}:
            continue
        used += 1
        for outcome, path in zip(found, places, strict=True):
            counts[outcome] += 1
            failures += [[case["id"], list(path), outcome]] if outcome in ("invalid", "leaked") else []
    return {"schemas": used, "positions": sum(counts.values()), **counts, "failures": failures}


def _validator(schema: Any) -> Any:
    try:
        return jsonschema_rs.validator_for(schema, validate_formats=True)
    except ValueError:
        return None


def main() -> None:
    args = common.parser(__doc__, "maskbench.jsonl.gz", 200, "schemas of which an instance holds strings").parse_args()
    found = measure(common.records(args.data, fields=("id", "schema", "tests")), args.limit)
    for name, value in found.items():
        print(f"{name:18} {value}")
    common.report(args, found)


if __name__ == "__main__":
    main()
