"""Harmless English prose full of orders to its reader: the docstrings of Python's standard library.

"Return the number of items", "Ignore errors if true", "Do not call this method directly": nobody who writes so attacks
anything. They are read from the interpreter that trains (licence of the Python Software Foundation).
"""

from __future__ import annotations

import ast
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_SHORTEST, _LONGEST = 40, 600
_LEFT_OUT = frozenset({"test", "tests", "idlelib", "lib2to3", "site-packages", "ensurepip", "pydoc_data", "turtledemo"})


def paragraphs(most: int, seed: int = 0) -> list[str]:
    """Return at most `most` paragraphs, drawn the same way each time from one version of Python."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(folder.rglob("*.py")) if not _LEFT_OUT & set(path.relative_to(folder).parts)]
    found = sorted({text for path in files for text in _of(path)})
    return random.Random(seed).sample(found, min(most, len(found)))


def _of(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _paragraphs(ast.get_docstring(node) or "")


def _paragraphs(text: str) -> Iterator[str]:
    for block in text.split("\n\n"):
        joined = " ".join(block.split())
        if _SHORTEST <= len(joined) <= _LONGEST and ">>>" not in joined:
            yield joined
