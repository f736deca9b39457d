"""Changes documents of real kinds at random: what a validator takes must be read under the masks, in any order of
members, and what it does not take must be refused. Walks under the masks must be valid and find a way to the end.

    python -m tests.fuzz.documents [--minutes 5] [--seed 0] [--case NAME:SEED]
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs

from sluicegate.grammar import GrammarOptions, LazyGrammar, compile_json_schema
from tests.fuzz.cases import Finding, run, unexpected
from tests.fuzz.document_schemas import DOCUMENTS
from tests.fuzz.grammar import walk
from tests.grammar.grammar_checks import byte_vocabulary, reads

_FREE = GrammarOptions(property_order="any")
_SCALARS: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2.5,
        65536,
        "",
        "a",
        "b c",
        "x-a",
        "true",
        "push",
        "Point",
        "./a",
        "$ref",
        "1970-13",
    ),
    *([], {}, [1, 2], {"a": 1}, ["a", "a"]),
)


@cache
def compiled(name: str) -> tuple[LazyGrammar, Any]:
    schema = DOCUMENTS[name][0]
    judge = jsonschema_rs.validator_for(schema, validate_formats=True)
    return compile_json_schema(schema, byte_vocabulary(), options=_FREE), judge


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(below, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(pick: random.Random, document: Any, others: list[Any]) -> Any:
    """Return `document` with one part dropped, added, replaced or repeated, members in another order."""
    found = json.loads(json.dumps(document))
    path = pick.choice(list(places(found)))
    other = pick.choice(others)
    part = pick.choice((pick.choice(_SCALARS), at(other, pick.choice(list(places(other))))))
    target, kind = at(found, path), pick.randrange(5)
    if kind == 0 and path:
        container = at(found, path[:-1])
        del container[path[-1]]
    elif kind == 1 and isinstance(target, dict):
        names = [key for where in places(other) for key in where if isinstance(key, str)] or ["a"]
        target[pick.choice((*names, "x-new", "_new", "other"))] = part
    elif kind == 1 and isinstance(target, list):
        target.insert(pick.randrange(len(target) + 1), pick.choice((part, *target)))
    elif kind == 2 and isinstance(target, dict):
        members = pick.sample(list(target.items()), len(target))
        target.clear()
        target.update(members)
    elif path:
        at(found, path[:-1])[path[-1]] = part
    return found


def case(name: str, seed: int) -> str:
    pick = random.Random(f"{name}:{seed}")
    documents = DOCUMENTS[name][1]
    grammar, judge = compiled(name)
    document = pick.choice(documents)
    try:
        for _ in range(pick.randrange(1, 5)):
            document = changed(pick, document, documents)
            text = json.dumps(document, indent=pick.choice((None, 2)))
            if reads(grammar, text) != judge.is_valid(document):
                raise Finding(f"{'refuses the valid' if judge.is_valid(document) else 'accepts the invalid'} {text}")
        text = walk(grammar, pick, 60)
        if not judge.is_valid(json.loads(text)):
            raise Finding(f"invalid: {text}")
    except Finding as error:
        return f"FINDING {error}"
    except Exception as error:
        return unexpected(error)
    return "right"


if __name__ == "__main__":
    run(__doc__, case, list(DOCUMENTS))
