"""Whether the grammar runs compiled is told truly, and what is stale does not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from sluicegate.grammar import compile_regex, compiled, is_compiled
from sluicegate.grammar.matching import matcher
from tests.grammar.grammar_checks import byte_vocabulary

ROOT = Path(__file__).parents[2]


def test_what_a_module_was_loaded_from_is_told() -> None:
    assert is_compiled() == (not str(matcher.__file__).endswith(".py"))


def test_modules_that_changed_since_they_were_compiled_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = tmp_path / "compiled_in_place.json"
    monkeypatch.setattr(compiled, "IN_PLACE", record)
    compiled.refuse_stale()  # nothing was compiled in place
    stamps = compiled.stamps()
    record.write_text(json.dumps(stamps))
    compiled.refuse_stale()
    first = compiled.names()[0]
    for other in ({**stamps, first: [1, 2]}, {name: stamp for name, stamp in stamps.items() if name != first}):
        record.write_text(json.dumps(other))
        with pytest.raises(ImportError, match=f"{first} has changed .* `make compiled`"):
            compiled.refuse_stale()


@pytest.mark.parametrize(
    ("value", "order", "says"),
    [("yes", "--version", "found 'yes'"), ("1", "editable_wheel", "compiled modules would be stale unnoticed")],
)
def test_a_build_that_would_go_wrong_is_refused(value: str, order: str, says: str) -> None:
    environment = {**os.environ, "SLUICEGATE_COMPILE": value}
    done = subprocess.run(
        [sys.executable, "setup.py", order], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert says in done.stderr


def test_a_grammar_can_be_held_weakly() -> None:
    """The engine notes which grammars were slow, and keeps none of them alive for that."""
    grammar = compile_regex("a", byte_vocabulary())
    assert weakref.ref(grammar)() is grammar
