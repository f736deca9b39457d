"""The prompts and the prose of one published package, read from its wheel; nothing of it is run.

A prompt is a text that is assigned, passed or filed under the name of one (`_NAMED`), or that stands in a file with
such a name; prose is docstrings and the package's own description; what a user says are records of that role, and the
lines of intents and dialogs of voice assistants. What a template leaves open is filled.

Not covered: prompts that a program composes of many short pieces.
"""

from __future__ import annotations

import ast
import hashlib
import json
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

ABOUT_ATTACKS = re.compile(
    "harm|jail|reject|attack|inject|saf(?:e|ety)(?!tensors)|red_?team|cyber|toxi|threat|guardrail|adversar|vulnerab"
)
"""Files that hold attacks, or what guards against them; they are not read."""
LARGEST_FILE = 400_000
PROSE = "prose"
PROMPT = "prompt"
SAID = "said"

_NAMED = re.compile(
    "prompt|templ|tmpl|instruct|prefix|suffix|system|messag|persona|criteri|rubric|guideline|content|example|descri"
    "|role|goal"
)
_PROMPT_FILE = re.compile(r"prompt|templ|tmpl|instruct|persona|criteri|rubric|jinja|/skills?/|example")
_TEXT_FILES = (".txt", ".md", ".mdx", ".jinja", ".jinja2", ".j2", ".prompt", ".prompty", ".mustache", ".tmpl")
_BLANK = re.compile(
    r"\{%.*?%\}|\{#.*?#\}|\{\{.*?\}\}|\$?\{[\w.\[\]'\"]+(?:![rs])?(?::[^{}]*)?\}|<<\w+>>|\$[a-z_]+\b", re.S
)
_FILLINGS = (
    "3", "Amsterdam", "the first one", "the report of last week", "apples, pears and plums", "yes",
    "We met on Tuesday.", "a list of names", "The price went up by two per cent.", "How many are left?", "[]", "None",
    "blue", "query", "42.5",
    "The meeting was moved to the larger room because more people came than were expected.",
)  # fmt: skip
_SPOKEN_FILES = (".intent", ".dialog")
_CHOICES = re.compile(r"[\[\]()<>|]")
"""Marks of a line of intents that stands for several."""
_SHORTEST_DOCSTRING = 250
_PART_OF_DESCRIPTION = 900

Texts = Iterator[tuple[str, str]]
"""(kind, text)."""


def found(wheel: Path) -> Texts:
    """Yield every text of a wheel, blanks filled, in the order of its files' names."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
            name = entry.filename.lower()
            read = _reader(name)
            if read is not None and entry.file_size <= LARGEST_FILE and not ABOUT_ATTACKS.search(name):
                source = archive.read(entry).decode("utf-8", "replace")
                yield from ((kind, filled(text)) for kind, text in read(name, source))


def filled(text: str) -> str:
    """Return a template with its blanks filled, the same way for the same template."""
    rng = random.Random(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return _BLANK.sub(lambda blank: "" if blank[0].startswith(("{%", "{#")) else rng.choice(_FILLINGS), text).strip()


def _reader(name: str) -> Callable[[str, str], Texts] | None:
    if name.endswith(".dist-info/metadata"):
        return _description
    if ".dist-info/" in name:
        return None
    if name.endswith(".py"):
        return _python
    if name.endswith((".yaml", ".yml")):
        return _yaml
    if name.endswith(_SPOKEN_FILES):
        return _spoken
    if name.endswith(".jsonl") or (name.endswith(".json") and not _PROMPT_FILE.search(name)):
        return _records
    if not _PROMPT_FILE.search(name):
        return None
    return _whole if name.endswith(_TEXT_FILES) else _json if name.endswith(".json") else None


def _description(_: str, source: str) -> Texts:
    """Yield the description that a package gives of itself, without code and addresses, in parts of some paragraphs."""
    body = re.sub(r"```.*?```", "", source.split("\n\n", 1)[-1], flags=re.S)
    body = re.sub(r"!?\[([^\]]*)\]\([^)]*\)|<[^>]+>|https?://\S+", r"\1", body)
    part = ""
    for paragraph in re.split(r"\n\s*\n", body):
        part = f"{part}\n\n{paragraph.strip()}" if part else paragraph.strip()
        if len(part) > _PART_OF_DESCRIPTION:
            yield PROSE, part
            part = ""
    yield PROSE, part


def _whole(_: str, source: str) -> Texts:
    yield PROMPT, source


def _yaml(name: str, source: str) -> Texts:
    """Yield the values of prompts' keys; tags are not followed, as only their package knows them."""
    try:
        documents = list(yaml.compose_all(source, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError:
        return
    stack = [(node, bool(_PROMPT_FILE.search(name))) for node in documents if node]
    while stack:
        node, named = stack.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value.lower() if isinstance(key, yaml.ScalarNode) else "" for key, _ in node.value]
            stack += [(pair[1], named or bool(_NAMED.search(key))) for key, pair in zip(keys, node.value, strict=True)]
        elif isinstance(node, yaml.SequenceNode):
            stack += [(value, named) for value in node.value]
        elif isinstance(node, yaml.ScalarNode) and named:
            yield PROMPT, node.value


def _json(_: str, source: str) -> Texts:
    try:
        tree = json.loads(source)
    except ValueError:
        return
    yield from ((PROMPT, node) for node in _nodes([tree]) if isinstance(node, str))


def _nodes(trees: list[Any]) -> Iterator[Any]:
    """Yield JSON values and all that they hold, what stands last first. Empties `trees`."""
    while trees:
        node = trees.pop()
        yield node
        if isinstance(node, dict):
            trees += node.values()
        elif isinstance(node, list):
            trees += node


def _spoken(_: str, source: str) -> Texts:
    yield from ((SAID, line) for line in source.splitlines() if line and line[0] != "#" and not _CHOICES.search(line))


def _records(_: str, source: str) -> Texts:
    """Yield what a user says in one JSON value, or in one a line."""
    trees = []
    for part in (source,) if source.count("\n") < 2 or source[:2] in ("{\n", "[\n") else source.splitlines():
        try:
            trees.append(json.loads(part))
        except ValueError:
            continue
    for node in _nodes(trees):
        if isinstance(node, dict) and node.get("role") == "user" and isinstance(node.get("content"), str):
            yield SAID, node["content"]


def _python(name: str, source: str) -> Texts:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    everything = bool(_PROMPT_FILE.search(name))
    stack: list[tuple[ast.AST, bool]] = [(tree, everything)]
    while stack:
        node, named = stack.pop()
        text = _text(node) if named else None
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring and len(docstring) >= _SHORTEST_DOCSTRING:
                yield PROSE, docstring
            inside = everything or _is_prompt(node)
            stack += [(child, inside) for child in (node.body[1:] if docstring else node.body)]
        elif text is not None:
            yield PROMPT, text
        else:
            stack += _within(node, named)


def _is_prompt(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and bool(_NAMED.search(node.name.lower()))


def _within(node: ast.AST, named: bool) -> list[tuple[ast.AST, bool]]:
    """Return what stands in `node`, and whether under the name of a prompt."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.keyword):
        return [] if node.value is None else [(node.value, named or bool(_NAMED.search(_name_of(node))))]
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else "" for key in node.keys]
        called = [named or (isinstance(key, str) and bool(_NAMED.search(key.lower()))) for key in keys]
        return list(zip(node.values, called, strict=True))
    return [(child, named) for child in ast.iter_child_nodes(node)]


def _name_of(node: ast.Assign | ast.AnnAssign | ast.keyword) -> str:
    if isinstance(node, ast.keyword):
        return (node.arg or "").lower()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return " ".join(map(ast.unparse, targets)).lower()


def _text(node: ast.AST) -> str | None:
    """Return a text as far as it is written out, with blanks for the rest; None for what is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
        return "".join(part if isinstance(part, str) else "{x}" for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = _text(node.left), _text(node.right)
        return None if sides == (None, None) else "".join("{x}" if side is None else side for side in sides)
    return None
