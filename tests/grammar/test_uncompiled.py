"""Where nothing is compiled yet, Python computes the same masks as compiled code, over real vocabularies.

A process of its own computes them: in this one, everything is compiled. `python -m tests.grammar.test_uncompiled`
prints what the test compares.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

from sluicegate.grammar import (
    LazyGrammar,
    Vocabulary,
    compile_choices,
    compile_json_object,
    compile_json_schema,
    compile_lark,
    compile_regex,
)
from sluicegate.plugins.compiled.builder import compiling
from tests.grammar.grammar_checks import allowed, byte_vocabulary
from tests.grammar.test_matcher import SCHEMAS

STEPS = 6
ROOT = Path(__file__).resolve().parents[2]
WORDS = 'start: w ("," w)*\nw: /[a-z_]+/ | /[0-9]+(\\.[0-9]+)?/ | "(" start ")"\n%ignore " "'
LINES = 'root ::= line+\nline ::= [^,\\n]* ("," [^,\\n]*)* "\\n"'


def grammars(vocabulary: Vocabulary) -> list[LazyGrammar]:
    """Return every notation, and the shapes that walk the vocabulary in different ways: strings, counts, blanks,
    numbers."""
    schemas = [
        *SCHEMAS,
        {"type": "string", "pattern": "^[a-zé]{2,40}$"},
        {"type": "string", "minLength": 3, "maxLength": 60},
        {"type": "string", "format": "date-time"},
    ]
    return [
        *(compile_json_schema(schema, vocabulary) for schema in schemas),
        compile_json_object(vocabulary),
        compile_regex(r"[\w.]{1,30}@\S+", vocabulary),
        compile_choices(["positive", "neutral", "none of both"], vocabulary),
        compile_lark(WORDS, vocabulary),
        compile_lark(LINES, vocabulary),
    ]


def digests() -> list[str]:
    """Return one digest a grammar: of all masks along a way that is drawn from what they allow."""
    bundled = Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(ROOT / "engine" / "bundled"))
    return [_along(grammar) for vocabulary in (byte_vocabulary(), bundled) for grammar in grammars(vocabulary)]


def _along(grammar: LazyGrammar) -> str:
    vocabulary, matcher, pick = grammar.vocabulary, grammar.matcher(), random.Random(5)
    row, found = np.zeros(vocabulary.row_words, np.int32), hashlib.sha256()
    for _ in range(STEPS):
        matcher.fill_mask(row)
        found.update(row.tobytes())
        if matcher.is_finished:
            break
        matcher.accept(pick.choice(sorted(allowed(matcher, vocabulary))))
    return found.hexdigest()


def test_python_computes_the_masks_that_compiled_code_does(tmp_path: Path) -> None:
    """With nothing kept on the disk and nothing to compile it, every loop runs as Python."""
    nothing_kept = {"SLUICEGATE_CACHE_DIR": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.grammar.test_uncompiled"],
        env={**os.environ, **nothing_kept},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == digests()
    assert not list(tmp_path.rglob("*.compiled"))


if __name__ == "__main__":
    with compiling("never"):
        print(json.dumps(digests()))
