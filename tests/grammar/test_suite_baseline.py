"""The JSON-Schema-Test-Suite: what fails is listed with its reason, and the list may only become shorter.

The suite is not part of this repository. Set SLUICEGATE_JSON_SCHEMA_SUITE to a tar archive of it (its folder `tests`
on top) to run this; required tests only.
"""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from grammar import GrammarError, GrammarOptions, Unsatisfiable, Vocabulary, compile_json_schema
from tests.grammar.grammar_checks import byte_vocabulary

BASELINE = Path(__file__).with_name("suite_baseline.json")
ARCHIVE = os.environ.get("SLUICEGATE_JSON_SCHEMA_SUITE", "")
DRAFTS = ("draft7", "draft2019-09", "draft2020-12")


def groups(draft: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    with tarfile.open(ARCHIVE) as archive:
        for name in sorted(archive.getnames()):
            parts = name.split("/")
            if len(parts) == 3 and parts[:2] == ["tests", draft] and name.endswith(".json"):
                file = archive.extractfile(name)
                assert file is not None
                found += [(f"{parts[2][:-5]}#{i}", group) for i, group in enumerate(json.load(file))]
    return found


def verdict(group: dict[str, Any], vocabulary: Vocabulary) -> str:
    """ "" if every instance of the group is judged right, else what is wrong."""
    try:
        compiled = compile_json_schema(group["schema"], vocabulary, options=GrammarOptions(property_order="any"))
    except Unsatisfiable:
        return "" if not any(test["valid"] for test in group["tests"]) else "called unsatisfiable"
    except GrammarError as error:
        return f"refused: {type(error).__name__}"
    wrong = set()
    for test in group["tests"]:
        matcher, accepted = compiled.matcher(), True
        for byte in json.dumps(test["data"], ensure_ascii=False).encode():
            try:
                matcher.accept(byte)
            except Exception:
                accepted = False
                break
        if (accepted and matcher.can_stop) != test["valid"]:
            wrong.add("refuses a valid instance" if test["valid"] else "ACCEPTS AN INVALID INSTANCE")
    return "; ".join(sorted(wrong))


@pytest.mark.skipif(not ARCHIVE, reason="SLUICEGATE_JSON_SCHEMA_SUITE is not set")
@pytest.mark.slow
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_suite_is_judged_no_worse_than_before(draft: str) -> None:
    known = json.loads(BASELINE.read_text("utf-8"))[draft]
    failing = {name: found for name, group in groups(draft) if (found := verdict(group, byte_vocabulary()))}
    new = {name: found for name, found in failing.items() if name not in known["failing"]}
    assert not new, f"fail now: {new}"
    fixed = sorted(set(known["failing"]) - set(failing))
    assert not fixed, f"pass now, take them off the list: {fixed}"
    assert not any("INVALID" in found for found in failing.values())
