"""The changes that are tried, one at a time.

A comparison is turned round, `and` becomes `or`, plus becomes minus, `not` and the sign of a number go, and a returned
truth becomes the other. Finer ones, on demand: a comparison's border is moved by one, and every truth as written
becomes the other; more of these change nothing that anyone could see.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
MOVED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
SIGNS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}


@dataclass(frozen=True, order=True, slots=True)
class Change:
    """Puts `after` in the place of characters `start` to `end` of the file, which read `before`."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"

    def made_in(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.end :]

    def __str__(self) -> str:
        return f"{self.place}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}"


def changes(path: Path, root: Path, finer: bool = False) -> list[Change]:
    """Return every change of one module, in the order of its lines."""
    text = (root / path).read_text("utf-8")
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def offset(line: int, byte: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:byte].decode())

    found = set()
    for node in running(ast.parse(text)):
        start, end = offset(node.lineno, node.col_offset), offset(node.end_lineno or 0, node.end_col_offset or 0)
        for after in variants(node, finer):
            written = ast.unparse(after)
            found.add(
                Change(
                    path,
                    node.lineno,
                    start,
                    end,
                    text[start:end],
                    written if isinstance(after, ast.Return) else f"({written})",
                )
            )
    return sorted(found)


def running(tree: ast.AST) -> Iterator[ast.expr | ast.Return]:
    """Expressions and returns that run, and whose place in the file is known: no annotations, no compiled loops, and
    nothing inside f-strings, whose places Python 3.11 gets wrong."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.Assert) or is_compiled(node):
                continue
            if isinstance(node, ast.expr | ast.Return):
                yield node
            yield from running(node)


def is_compiled(node: ast.AST) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any("jit" in ast.unparse(decorator) for decorator in decorators)


def variants(node: ast.expr | ast.Return, finer: bool) -> Iterator[ast.expr | ast.Return]:
    """Yield what may stand in the place of `node`."""
    match node:
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                for others in (TURNED, MOVED) if finer else (TURNED,):
                    if type(op) in others:
                        yield ast.Compare(left, [*ops[:i], others[type(op)](), *ops[i + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.BinOp(left, op, right) if type(op) in SIGNS and not is_text(left) and not is_text(right):
            yield ast.BinOp(left, SIGNS[type(op)](), right)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.Return(ast.Constant(bool(value))):
            yield ast.Return(ast.Constant(not value))
        case ast.Constant(bool(value)) if finer:
            yield ast.Constant(not value)


def is_text(node: ast.expr) -> bool:
    """Return whether `node` is a text, a list or a tuple as written, which have no minus: such a change fails at
    once."""
    return isinstance(node, ast.List | ast.Tuple | ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )
