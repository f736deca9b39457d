"""The table of docs/grammar.md about the two dialects of patterns, row by row as it is printed there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.grammar import GrammarError, compile_json_schema, compile_regex
from tests.grammar.grammar_checks import accepts, byte_vocabulary

PAGE = (Path(__file__).parents[2] / "docs" / "grammar.md").read_text("utf-8")


def ecma(pattern: str, text: str) -> bool:
    import json

    return accepts(compile_json_schema({"type": "string", "pattern": pattern}, byte_vocabulary()), json.dumps(text))


def python(pattern: str, text: str) -> bool:
    return accepts(compile_regex(pattern, byte_vocabulary()), text)


def refused(read: Callable[[str, str], bool], pattern: str) -> bool:
    try:
        read(pattern, "")
    except GrammarError:
        return True
    return False


def noted(pattern: str) -> bool:
    """Enforced as Python reads it, and said so."""
    compiled = compile_json_schema({"type": "string", "pattern": pattern}, byte_vocabulary())
    return bool(compiled.notes) and accepts(compiled, '"a"')


ROWS: dict[str, Callable[[], list[tuple[bool, bool]]]] = {
    "where it must match": lambda: [
        (ecma("b", "abc"), python("b", "abc")),
        (ecma("(?:a|b)c", "xbcx"), python("(?:a|b)c", "xbcx")),
    ],
    "`$`": lambda: [(not ecma("a$", "a\n"), not python("a$\\n?", "a\n"))],
    "`\\d \\w \\s \\b`": lambda: [
        (not ecma(r"^\d$", "٣"), not python(r"\d", "٣")),
        (not ecma(r"^\w$", "é"), not python(r"\w", "é")),
        (not ecma(r"^é\b", "é"), not python(r"é\b", "é")),
        (ecma(r"^\s$", "\ufeff"), python(r"\s", "\ufeff")),
    ],
    "`.`": lambda: [
        (not ecma("^.$", "\u2028"), not python(".", "\u2028")),
        (not ecma("^.$", "\r"), not python(".", "\r")),
    ],
    "`\\u{...}`, `\\cX`": lambda: [
        (ecma(r"^\u{1F600}$", "😀"), not refused(python, r"\u{1F600}")),
        (ecma(r"^\cJ$", "\n"), not refused(python, r"\cJ")),
    ],
    "`(?P<n>...)`, `\\A`, `\\Z`": lambda: [
        (noted("(?P<n>a)"), not python("(?P<n>a)", "a")),
        (noted(r"\Aa"), not python(r"\Aa", "a")),
        (noted(r"a\Z"), not python(r"a\Z", "a")),
    ],
}
"""Each pair: it is so with ECMA 262, it is so with Python. The dialects differ in every one."""


def test_every_row_of_the_table_is_tried() -> None:
    begin = PAGE.index("| | ECMA 262 (in schemas) | Python |")
    table = PAGE[begin:].split("\n\n", 1)[0].splitlines()[2:]
    assert [row.split("|")[1].strip() for row in table] == list(ROWS)


@pytest.mark.parametrize("row", ROWS)
def test_the_dialects_differ_as_the_table_says(row: str) -> None:
    for with_ecma, with_python in ROWS[row]():
        assert with_ecma
        assert not with_python


@pytest.mark.parametrize("read", [ecma, python])
def test_looking_around_is_exact_in_both(read: Callable[[str, str], bool]) -> None:
    assert read(r"^(?=.*\d)(?!.*x)[a-z\d]+(?<!0)$", "ab1")
    assert not read(r"^(?=.*\d)(?!.*x)[a-z\d]+(?<!0)$", "ab")
    assert not read(r"^(?=.*\d)(?!.*x)[a-z\d]+(?<!0)$", "ax1")
    assert not read(r"^(?=.*\d)(?!.*x)[a-z\d]+(?<!0)$", "a10")


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?>a)", "(?<=(?=a))b", r"(?<=a\b)b", "(?<=a$)b"])
def test_what_no_automaton_can_do_is_refused_with_its_pointer(pattern: str) -> None:
    schema = {"properties": {"a": {"items": {"pattern": pattern}}}}
    with pytest.raises(GrammarError, match=r"position \d+") as raised:
        compile_json_schema(schema, byte_vocabulary())
    assert raised.value.pointer.startswith("/properties/a/items")


def test_classes_of_unicode_are_read_in_both() -> None:
    for read in (lambda p, t: ecma(f"^{p}$", t), python):
        assert read(r"\p{Lu}", "É")
        assert not read(r"\p{Lu}", "é")
