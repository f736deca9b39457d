"""Fuzz the grammar package: what is made at random is compiled, walked under its masks, and judged by others.

    python -m tests.fuzz.grammar [--minutes 5] [--seed 0] [--only schemas]

Every case has a seed of its own and is printed with it if it fails: `--case schemas:123` runs one again. A case fails
if anything but a `GrammarError` is raised, a mask differs from trying every token, a mask is empty, there is no way to
the end, or an independent judge sees a text otherwise (jsonschema-rs, Python's `re`, Lark, `gateway.tagged`).
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from decimal import Decimal

import jsonschema_rs
import lark as lark_library
import numpy as np

from sluicegate.gateway.answer.validation import Validator
from sluicegate.grammar import (
    GrammarError,
    GrammarOptions,
    LazyGrammar,
    LazyMatcher,
    compile_json_schema,
    compile_lark,
    compile_regex,
    compile_structural_tags,
)
from sluicegate.plugins import Answer, Constraint
from sluicegate.plugins.testing import make_request
from tests.fuzz import made
from tests.fuzz.cases import Finding, run, unexpected
from tests.grammar.grammar_checks import allowed, byte_vocabulary, reads
from tests.reference.mask_by_trial import mask_by_trial

FREE = GrammarOptions(whitespace=r"[ \t\r\n]{0,3}", property_order="any")
_SLOW_S = 10.0


def offered(matcher: LazyMatcher, text: bytes, *, compared: bool) -> list[int]:
    """Return the tokens of the mask after `text`, but for those that end it; none where it may only end. `compared`:
    with trial of every token."""
    vocabulary = byte_vocabulary()
    if compared:
        row = np.zeros(vocabulary.row_words, np.int32)
        matcher.fill_mask(row)
        if not np.array_equal(row, mask_by_trial(matcher, vocabulary)):
            raise Finding(f"the mask differs from trial after {text!r}")
    tokens = sorted(allowed(matcher, vocabulary) - set(vocabulary.eos_token_ids))
    if not tokens and not matcher.can_stop:
        raise Finding(f"dead end after {text!r}")
    return tokens


def walk(compiled: LazyGrammar, pick: random.Random, steps: int = 30) -> str:
    """Draw a text under the masks and finish it the short way. Every few steps the mask is compared with trial."""
    vocabulary, matcher, text = byte_vocabulary(), compiled.matcher(), b""
    for _ in range(pick.randrange(1, steps)):
        tokens = offered(matcher, text, compared=pick.random() < 0.1)
        if not tokens:
            break
        likely = [t for t in tokens if vocabulary.words[t][:1] in b'{}[]":,ab0<>\n/']
        token = pick.choice(likely if likely and pick.random() < 0.7 else tokens)
        matcher.accept(token)
        text += vocabulary.words[token]
    return (text + finish(matcher, text)).decode()


def finish(matcher: LazyMatcher, text: bytes) -> bytes:
    found = matcher.shortest_completion()
    if found is None:
        raise Finding(f"no way to the end after {text!r}")
    for token in found.tokens:
        matcher.accept(token)
    if not matcher.can_stop:
        raise Finding(f"not at the end after {text + found.text!r}")
    return found.text


def schemas(pick: random.Random) -> str:
    schema = made.schema(pick)
    if pick.random() < 0.1:
        schema = made.damaged(pick, schema)
    compiled = compile_json_schema(schema, byte_vocabulary(), options=FREE)
    try:
        judge = jsonschema_rs.validator_for(schema, validate_formats=True)
    except ValueError:
        return "malformed where nobody looks"  # in $defs that nothing refers to; the gateway refuses these too
    for _ in range(3):
        text = walk(compiled, pick)
        if not judge.is_valid(json.loads(text, parse_float=Decimal)) and "format" not in str(schema):
            raise Finding(f"invalid: {text}")
    for _ in range(25):
        value = made.value(pick)
        if reads(compiled, json.dumps(value)) and not judge.is_valid(value) and "format" not in str(schema):
            raise Finding(f"accepts the invalid {value!r}")
        if not reads(compiled, json.dumps(value)) and judge.is_valid(value) and "format" not in str(schema):
            raise Finding(f"refuses the valid {value!r}")
    return "compiled"


def patterns(pick: random.Random) -> str:
    pattern = made.pattern(pick)
    compiled = compile_regex(pattern, byte_vocabulary())
    theirs = re.compile(pattern)
    for _ in range(20):
        text = made.text(pick)
        if reads(compiled, text) != bool(theirs.fullmatch(text)):
            raise Finding(f"{text!r} is judged otherwise by re")
    text = walk(compiled, pick, 12)
    if not theirs.fullmatch(text):
        raise Finding(f"re does not match {text!r}")
    return "compiled"


def larks(pick: random.Random) -> str:
    grammar = made.lark(pick)
    compiled = compile_lark(grammar, byte_vocabulary())
    theirs = lark_library.Lark(grammar, parser="earley", lexer="dynamic_complete")
    for _ in range(3):
        text = walk(compiled, pick, 10)
        if len(text) > 10:
            continue  # Lark's time grows without bounds
        try:
            theirs.parse(text)
        except lark_library.exceptions.LarkError as error:
            raise Finding(f"Lark does not read {text!r}") from error
    return "compiled"


def tags(pick: random.Random) -> str:
    value = made.tag(pick)
    compiled = compile_structural_tags(value, byte_vocabulary(), options=FREE)
    request, judge = make_request(constraint=Constraint("structural_tag", value)), Validator()
    for _ in range(3):
        text = walk(compiled, pick, 40)
        wrong = judge.complaint(request, Answer(0, text, "stop"))
        if wrong is not None:
            raise Finding(f"{text!r}: {wrong}")
    return "compiled"


def blocked(pick: random.Random) -> str:
    phrases = tuple(pick.sample(["a", "ab", "b a", "é", "x", "true", "😀"], 2))
    options = GrammarOptions(property_order="any", blocklist=phrases, blocklist_patterns=("bb",))
    compiled = compile_json_schema(made.schema(pick), byte_vocabulary(), options=options)
    for _ in range(3):
        json.loads(walk(compiled, pick))
    return "compiled"


TARGETS: dict[str, Callable[[random.Random], str]] = {
    "schemas": schemas,
    "patterns": patterns,
    "larks": larks,
    "tags": tags,
    "blocked": blocked,
}


def case(name: str, seed: int) -> str:
    """Try one case. Return what came of it: a kind of refusal, "compiled", or a finding."""
    began = time.thread_time()
    try:
        outcome = TARGETS[name](random.Random(f"{name}:{seed}"))
    except GrammarError as error:
        outcome = type(error).__name__
    except Finding as error:
        outcome = f"FINDING {error}"
    except Exception as error:
        outcome = unexpected(error)
    if time.thread_time() - began > _SLOW_S:
        outcome = f"FINDING took {time.thread_time() - began:.0f} s; {outcome}"
    return outcome


if __name__ == "__main__":
    run(__doc__, case, list(TARGETS))
