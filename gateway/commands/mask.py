"""`sluicegate mask SCHEMA TEXT`: for each token of a text, the mask before it and what it cost, part by part."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.arguments import cannot_read
from sluicegate.grammar import is_compiled
from sluicegate.plugins import ConfigurationError, GrammarError, TokenRejected

WIDTH = 16
NOTES = """\
SCHEMA is JSON or a file that holds some; TEXT is what an answer might say, or @FILE. Times are CPU microseconds under
Python's profiler: Python code counts about double, so compare parts with parts."""


def define(mask: argparse.ArgumentParser) -> None:
    """Add the arguments of `mask`."""
    mask.epilog = NOTES
    mask.add_argument("schema", help="JSON, or a file with it; of another notation with --kind")
    mask.add_argument("text", help="an answer or its beginning; @FILE reads it")
    mask.add_argument("--kind", choices=("json_schema", "regex", "lark"), default="json_schema", help="of SCHEMA")
    mask.add_argument("--tokenizer", default="bundled", help="`bundled`, a folder, or a tiktoken rank file")
    mask.add_argument("--order", choices=("schema", "any"), default="schema", help="of an object's properties")
    mask.add_argument("--again", action="store_true", help="follow the text a second time and show that")
    mask.add_argument("--json", action="store_true", help="print one JSON object")
    mask.set_defaults(run=_mask)


def _mask(parsed: argparse.Namespace) -> int:
    """Print the mask of each step; return 1 where a token is refused, else 0. Raises `ConfigurationError` for what
    cannot be read or compiled."""
    from sluicegate.grammar.inspection import inspect

    vocabulary = _vocabulary(parsed.tokenizer)
    try:
        compiled = _compiled(parsed, vocabulary)
    except GrammarError as error:
        raise ConfigurationError(error.message) from error
    tokens = _tokens(vocabulary, _read(parsed.text, at="@"))
    for _ in range(2 if parsed.again else 1):
        steps, refused = [], ""
        try:
            for step in inspect(compiled, tokens):
                steps.append(_step_row(step))
        except TokenRejected as error:
            refused = (
                f"token {error.token_id} {vocabulary.words[error.token_id]!r} is refused after {len(steps)} tokens"
            )
    print(json.dumps({"steps": steps, "refused": refused}) if parsed.json else _table(steps, refused))
    return 1 if refused else 0


def _vocabulary(name: str) -> Any:
    from sluicegate.grammar import Vocabulary

    try:
        if name != "bundled" and Path(name).is_file():
            return Vocabulary.from_tiktoken(name)
        from transformers import AutoTokenizer

        folder = _bundled() if name == "bundled" else Path(name)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return Vocabulary.from_tokenizer(tokenizer)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read the tokenizer {name!r}: {str(error).splitlines()[0]}") from error


def _bundled() -> Path:
    from sluicegate import engine

    return Path(engine.__file__).parent / "bundled"


def _compiled(parsed: argparse.Namespace, vocabulary: Any) -> Any:
    from sluicegate.grammar import GrammarOptions, compile_json_schema, compile_lark, compile_regex

    text = _read(parsed.schema)
    if parsed.kind == "regex":
        return compile_regex(text, vocabulary)
    if parsed.kind == "lark":
        return compile_lark(text, vocabulary)
    return compile_json_schema(text, vocabulary, options=GrammarOptions(property_order=parsed.order))


def _read(text: str, at: str = "") -> str:
    """Return the text itself, or the content of the file that it names. With `at`, only a text that begins with it
    names a file."""
    if at and not text.startswith(at):
        return text
    path = Path(text.removeprefix(at))
    try:
        return path.read_text("utf-8") if at or (len(text) < 4096 and path.is_file()) else text
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, error) from error


def _tokens(vocabulary: Any, text: str) -> list[int]:
    """Return the ids of a text as the tokenizer writes it; from a bare rank file, the longest token each time."""
    if vocabulary.encode is not None:
        return list(vocabulary.encode(text))
    ids = {word: token for token, word in enumerate(vocabulary.words) if word}
    longest, data, found = max(map(len, ids)), text.encode(), []
    while data:
        size = next(n for n in range(min(longest, len(data)), 0, -1) if data[:n] in ids)
        found.append(ids[data[:size]])
        data = data[size:]
    return found


def _step_row(step: Any) -> dict[str, Any]:
    return {
        "token_id": step.token_id,
        "token": step.token.decode("utf-8", "replace"),
        "readings": step.readings,
        "allowed": step.allowed,
        "mask_us": round(step.mask_s * 1e6, 1),
        "accept_us": round(step.accept_s * 1e6, 1),
        "made": step.made,
        "parts_us": {part: round(seconds * 1e6, 1) for part, seconds in step.parts.items()},
    }


def _table(steps: list[dict[str, Any]], refused: str) -> str:
    head = f"{'token':{WIDTH}} {'readings':>8} {'allowed':>8} {'mask us':>9} {'accept us':>9} {'made':>6}  parts (us)"
    lines = [head]
    for step in steps:
        parts = "  ".join(f"{part} {us:.0f}" for part, us in step["parts_us"].items() if us >= 1)
        counts = f"{step['readings']:8} {step['allowed']:8} {step['mask_us']:9.1f} {step['accept_us']:9.1f}"
        lines.append(f"{json.dumps(step['token'])[:WIDTH]:{WIDTH}} {counts} {step['made']:6}  {parts}")
    whole = sum(step["mask_us"] + step["accept_us"] for step in steps)
    lines.append(f"{len(steps)} tokens, {whole:.0f} us in all")
    if is_compiled():
        lines.append("the grammar runs compiled: what its compiled modules take is part of what calls them")
    return "\n".join([*lines, *([refused] if refused else [])])
