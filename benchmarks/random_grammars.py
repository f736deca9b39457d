"""Draw grammars in Lark and GBNF and structural tags: of all shapes, and of shapes that are known to be dear."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks import random_schemas


class Notation(NamedTuple):
    """How rules are written: `terminals` to draw from, what stands behind the name of a rule, the first rule's name,
    and signs of repetition."""

    terminals: tuple[str, ...]
    define: str
    first: str
    repeated: tuple[str, ...]


LARK = Notation(
    (
        *('"a"', '"if"', '"in"', '"("', '")"', '","', '"+"', '"-"', '"\\n"', '"<"', '">"', '":"', '" "'),
        *("/[a-z]+/", "/[A-Za-z_]\\w*/", "/[0-9]+/", "/-?[0-9]+(\\.[0-9]+)?/", '/"[^"]*"/', "/[^<&]+/", "/.*/"),
        *("/(ab|ba)+/", "/[a-z]{1,20}/", "/\\w+@\\w+/", "/#[^\\n]*\\n/", "/[^ ]+/", "/.{0,30}/", "/\\s+/"),
        *('/"([^"\\\\]|\\\\.)*"/', "/\\w+/", "/[^\\w\\s]+/", "/\\d+/", "/./", "/(.|\\n)+/", "/é|ü|[à-ÿ]+/"),
        *("/(?!end)[a-z]+x/", "/[a-f0-9]{200}/", "/[^\\x00-\\x1f]*[a-z]/", "/(a|b)*a(a|b){9}/"),
    ),
    ":",
    "start",
    ("?", "*", "+", "~2", "~0..40", "~1..5"),
)
GBNF = Notation(
    (
        *('"a"', '"if"', '"("', '")"', '","', '"+"', "[a-z]", "[a-z]+", "[0-9]+", "[ \\t\\n]*", '[^"]*', "[^<]+"),
        *("[a-z0-9_]*", '("ab" | "ba")+', "[a-z]{1,20}", '"\\"" [^"]* "\\""', ".", "[^\\n]*", "[é-ÿ]", '""'),
        *('[^"\\\\]', "[a-z]{0,300}", ".{0,40}"),
    ),
    " ::=",
    "root",
    ("?", "*", "+", "{2}", "{0,40}", "{3,}"),
)
IGNORED = ('%ignore " "', "%ignore /\\s+/", "%ignore /#[^\\n]*/", "%ignore /[a-c]/", "%ignore /[ \\t\\f]*\\n/")
PATTERNS = ("[a-z]*", "(a|b)+", "\\w+ ?", "(a?){50}", "[^<]*", ".{0,200}", "(.|\\n)*", "\\d+(\\.\\d+)?", "[^\\n]+\\n")


# --- rules ------------------------------------------------------------------------------------------------------------


def rules(pick: random.Random, notation: Notation) -> str:
    """Draw rules of all shapes: ambiguous, empty, recursive from either side or in the middle, useless."""
    names = [notation.first, "x", "y", "z", "v", "w"][: pick.randint(1, 6)]

    def expression(depth: int) -> str:
        kind = pick.random()
        if depth == 0 or kind < 0.35:
            return pick.choice(names if pick.random() < 0.5 else notation.terminals)
        if kind < 0.65:
            return " ".join(expression(depth - 1) for _ in range(pick.randint(1, 4)))
        inner = " | ".join(expression(depth - 1) for _ in range(pick.randint(1, 4)))
        return f"({inner})" if kind < 0.8 else f"({inner}){pick.choice(notation.repeated[:3])}"

    return "\n".join(
        f"{name}{notation.define} " + " | ".join(expression(2) for _ in range(pick.randint(1, 3))) for name in names
    )


def dear(pick: random.Random, notation: Notation) -> str:
    """Draw rules of one of the shapes that are known to be dear, over a few terminals."""
    first, define = notation.first, notation.define
    a, b, c = pick.sample(notation.terminals, 3)
    made = pick.choice(_SHAPES)
    if callable(made):
        return made(pick, notation)
    return made.format(S=first, d=define, a=a, b=b, c=c, r=pick.choice(notation.repeated)).replace(";", "\n")


def _many_words(pick: random.Random, notation: Notation) -> str:
    """Draw many words that begin alike, perhaps beside a terminal that reads them all."""
    form = pick.choice(("{:04d}", "word{}", "{0:b}x", "same beginning of all {}", "{0}{0}"))
    words = [f'"{form.format(n)}"' for n in range(pick.choice((40, 300, 1_500)))]
    beside = f" | {pick.choice(notation.terminals)}" if pick.random() < 0.5 else ""
    again = pick.choice(("", "+", "*"))
    return f"{notation.first}{notation.define} x{again}\nx{notation.define} {' | '.join(words)}{beside}"


def _many_rules(pick: random.Random, notation: Notation) -> str:
    """Draw a chain or a tree of rules, each of which may be empty or refers to two others."""
    count = pick.choice((5, 20, 60))
    form = pick.choice(("{n}? {m}", "{n} {t} | {m}", "{t} {n} | {t} {m} | {n}", "{n} {m} | {t}", "({n} | {m})* {t}"))
    lines = [f"{notation.first}{notation.define} r0"]
    for at in range(count):
        after = [f"r{min(count, at + 1)}", f"r{pick.randint(0, count)}"]
        written = form.format(n=after[0], m=after[1], t=pick.choice(notation.terminals))
        lines.append(f"r{at}{notation.define} {written}")
    return "\n".join([*lines, f"r{count}{notation.define} {pick.choice(notation.terminals)}"])


def _nested_counts(pick: random.Random, notation: Notation) -> str:
    inner = pick.choice(notation.terminals)
    for _ in range(pick.randint(2, 4)):
        inner = f"({inner} {pick.choice(notation.terminals)}?){pick.choice(notation.repeated)}"
    return f"{notation.first}{notation.define} {inner}"


_Shape = str | Callable[[random.Random, Notation], str]
_SHAPES: tuple[_Shape, ...] = (
    "{S}{d} x;x{d} {a} x | {a} | {b}",
    "{S}{d} x;x{d} x x | {a} | {b}",
    "{S}{d} x;x{d} x x x | x x | {a}",
    "{S}{d} x {b};x{d} {a} x {a} | {a}",
    "{S}{d} (x y?)* x;x{d} {a}?;y{d} {b}*",
    "{S}{d} x? y? x? y? z?;x{d} {a}* y;y{d} {b}? z;z{d} {c}?",
    "{S}{d} x ({a} x)*;x{d} {b} | {c} | x {c} x",
    "{S}{d} ({a} | {b} | {c})+",
    "{S}{d} (({a} | {b})+ {c}?)+",
    "{S}{d} x{r};x{d} ({a}{r} {b}?){r}",
    "{S}{d} x x x x x x x x;x{d} {a}? {b}?",
    "{S}{d} ({a} {b} | {b} {a} | {a} {a} {b})* {c}",
    "{S}{d} x;x{d} y x | y;y{d} z y | z;z{d} {a} z | {b}",
    "{S}{d} x;x{d} y {a};y{d} x {b} | {c}",
    "{S}{d} x{r} {c};x{d} {a}? {b}?",
    "{S}{d} (x{r} {c}?){r};x{d} {a}{r} | {b}?",
    "{S}{d} (({a}?){r} ({b}?){r}){r}",
    _many_words,
    _many_rules,
    _nested_counts,
)


def lark(pick: random.Random) -> str:
    ignored = "".join(f"\n{pick.choice(IGNORED)}" for _ in range(pick.choice((0, 0, 1, 2))))
    return with_extension(pick, (rules if pick.random() < 0.5 else dear)(pick, LARK)) + ignored


def gbnf(pick: random.Random) -> str:
    return with_macro(pick, (rules if pick.random() < 0.5 else dear)(pick, GBNF))


def with_macro(pick: random.Random, grammar: str, chance: float = 0.35) -> str:
    """Add a rule of what XGrammar reads beside GBNF to a grammar in GBNF, or leave the grammar alone."""
    if pick.random() > chance or not re.search("(?m)^root ::=", grammar):
        return grammar
    a, b = pick.sample([each for each in GBNF.terminals if each != '""'], 2)
    names = [name for name in ("v", "w", "z", "y", "x") if f"\n{name} ::=" in grammar]
    inner = names[0] if names else a
    most, pattern = pick.choice((0, 1, 3, 50)), json.dumps(pick.choice(PATTERNS))
    words = ", ".join(json.dumps(f"w{n * n % 17} ") for n in range(pick.choice((1, 20, 300))))
    written = pick.choice(
        (
            f"ext ::= Regex({pattern})",
            f'ext ::= Regex({pattern}, flags="i") | "\\"" Regex(".+", json_string=true) "\\""',
            f"ext ::= Substring({words})",
            f'ext ::= TagDispatch(("<t>", ext_a), ("u:", ext_b))\next_a ::= {a}\next_b ::= {inner} | {b}',
            f'ext ::= TagDispatch(("<t>", ext_a), excludes=("</a>", "bb"))\next_a ::= {a} {b}',
            f'ext ::= TagDispatch(("<t>", ext_a), ("<u>", ext_a), loop_after_dispatch=false)\next_a ::= {a}',
            "ext ::= TagDispatch(" + ", ".join(f'("<{n}>", ext_a)' for n in range(60)) + f")\next_a ::= {a}",
            f"ext ::= Token({pick.randint(0, 255)}, {pick.randint(256, 99_999)}) {a} | Token(65)",
            f"ext[max_tokens={most}] ::= {a}",
            f"ext[max_tokens={most}] ::= Regex({pattern})",
            f"ext[max_chars={pick.choice((1, 40, 300, 5_000))}] ::= {a} | {b}",
            f"ext[max_chars={pick.choice((3, 300))}, max_tokens=20] ::= {a}",
            f"ext[lazy] ::= {a} {b}",
            f"ext ::= ext_a {b}\next_a ::= {a} (={b})",
        )
    )
    place = pick.choice((f"root ::= ({inner} | ext)+", "root ::= ext root | ext", "root ::= body ext{0,20} | ext body"))
    return re.sub("(?m)^root ::=", "body ::=", grammar, count=1).replace(" root", " body") + f"\n{place}\n{written}"


def with_extension(pick: random.Random, grammar: str, chance: float = 0.25) -> str:
    """Add a rule of what llguidance's Lark reads besides to a grammar in Lark, or leave the grammar alone."""
    if pick.random() > chance:
        return grammar
    a, b = pick.sample([each for each in LARK.terminals if each != "/.*/"], 2)
    token = pick.randint(256, 90_000)
    written = pick.choice(
        (
            f"ext[lazy]: EXT_A\nEXT_A: {a} {b}",
            f"ext[stop=EXT_B]: EXT_A\nEXT_A: {a}\nEXT_B: {b}",
            f"ext[suffix=EXT_B]: EXT_A\nEXT_A: {a}\nEXT_B: {b}",
            f"ext[max_tokens={pick.choice((1, 3, 50))}]: EXT_A\nEXT_A: {a}",
            f"ext[max_tokens={pick.choice((2, 20))}]: EXT_A | EXT_B\nEXT_A: {a}\nEXT_B: {b}",
            f'ext[lazy, max_tokens=9]: EXT_A "!"\nEXT_A: {a}',
            f"ext: <[{pick.randint(97, 122)}]> EXT_A | <[{token}-{token + 4_000}]>\nEXT_A: {a}",
            f"ext: (EXT_A? EXT_B?)~0..5\nEXT_A: {a}\nEXT_B: {b}",
            f"ext: EXT_C\nEXT_C: EXT_A & ~EXT_B\nEXT_A: {a}\nEXT_B: {b}",
            f"ext: EXT_A\nEXT_A: {a} & ~({b})",
            'ext: %regex {"substring_words": "' + " ".join(f"w{n * n % 17}" for n in range(200)) + '"}',
            'ext: %json {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}',
            'ext: %json {"type": "integer"} | %json {"type": "string", "pattern": "^(a|b)*a(a|b){9}$"}',
            "ext: %lark {\nstart: (X | Y)+\nX: " + a + "\nY: " + b + "\n}",
        )
    )
    names = [name for name in ("v", "w", "z", "y", "x") if f"\n{name}:" in grammar]
    place = pick.choice((f"\nstart: ({names[0] if names else a} | ext)+", "\nstart: ext start | ext"))
    return grammar.replace("start:", "body:", 1) + place.replace("start |", "body |") + f"\n{written}"


# --- tags -------------------------------------------------------------------------------------------------------------

Draw = Callable[[random.Random], Any]
_ENDS = ("</f>", "END", ".", "\n", "a", ">>", "</tool_call>")
_STYLES = ("qwen_xml", "minimax_xml", "deepseek_xml", "deepseek_v4_1_xml", "glm_xml", "cohere_xml", "kimi_k3_xml")


class Tags:
    """Draws structural tags in both shapes, over schemas and grammars that others draw."""

    def __init__(self, schema: Draw = random_schemas.schema, lark: Draw = lark, gbnf: Draw = gbnf) -> None:
        self._schema, self._lark, self._gbnf = schema, lark, gbnf

    def __call__(self, pick: random.Random) -> dict[str, Any]:
        return self._older(pick) if pick.random() < 0.25 else {"format": self._format(pick, 0)}

    def _older(self, pick: random.Random) -> dict[str, Any]:
        begins = [f"<{pick.choice(('f', 'call', 'fn='))}{n}>" for n in range(pick.choice((1, 2, 5, 60)))]
        ends = [pick.choice(("</f>", "END", ".")) for _ in begins]
        structures = [
            {"begin": begin, "schema": self._schema(pick) if at < 5 else {"type": "object"}, "end": end}
            for at, (begin, end) in enumerate(zip(begins, ends, strict=True))
        ]
        return {"structures": structures, "triggers": [pick.choice(("<", begins[0][:2]))]}

    def _format(self, pick: random.Random, depth: int) -> dict[str, Any]:
        return self._part(pick) if depth > 2 or (depth and pick.random() < 0.5) else self._whole(pick, depth)

    def _part(self, pick: random.Random) -> dict[str, Any]:
        ways: tuple[Callable[[], dict[str, Any]], ...] = (
            lambda: {"type": "json_schema", "json_schema": self._schema(pick), **self._options(pick)},
            lambda: {"type": "json_schema", "json_schema": self._schema(pick)},
            self._styled(pick),
            lambda: {"type": "grammar", "grammar": self._lark(pick)},
            lambda: {"type": "grammar", "grammar": self._gbnf(pick)},
            lambda: {"type": "regex", "pattern": pick.choice(PATTERNS)},
            lambda: {"type": "json_string", "content": {"type": "regex", "pattern": pick.choice(PATTERNS)}},
            lambda: {"type": "any_text", **self._bounded_text(pick)},
            lambda: {"type": "const_string", "value": pick.choice(("<think>", "a", "{", '"', "\n"))},
        )
        return pick.choice(ways)()

    def _bounded_text(self, pick: random.Random) -> dict[str, Any]:
        found: dict[str, Any] = pick.choice(
            ({}, {}, {"max_chars": 300}, {"max_tokens": pick.choice((0, 3, 50, 4_000))})
        )
        return found | ({"excludes": pick.choice((["<|end|>", "aa"], ["\n"]))} if pick.random() < 0.25 else {})

    def _options(self, pick: random.Random) -> dict[str, Any]:
        found: dict[str, Any] = {"any_order": True} if pick.random() < 0.5 else {}
        if pick.random() < 0.3:
            found["max_whitespace_cnt"] = pick.choice((0, 2, 40))
        return found | ({"excludes": ["<|end|>", "aa"]} if pick.random() < 0.3 else {})

    def _styled(self, pick: random.Random) -> Callable[[], dict[str, Any]]:
        def draw() -> dict[str, Any]:
            names = [f"p{n}" for n in range(pick.choice((1, 3, 12, 40)))]
            schema: dict[str, Any] = {
                "type": "object",
                "properties": {name: self._schema(pick) if at < 4 else {} for at, name in enumerate(names)},
                "required": pick.sample(names, pick.randint(0, len(names))),
            }
            if pick.random() < 0.5:  # names that are not listed
                schema["additionalProperties"] = pick.choice((True, False, {"type": "integer"}, self._schema(pick)))
            style = {"type": "json_schema", "json_schema": schema, "style": pick.choice(_STYLES)}
            return style | (self._options(pick) if pick.random() < 0.6 else {})

        return draw

    def _whole(self, pick: random.Random, depth: int) -> dict[str, Any]:
        def inner() -> dict[str, Any]:
            return self._format(pick, depth + 1)

        def tags(most: int = 4) -> list[dict[str, Any]]:
            begins = ["<a>", "<a", "aa", "<f=x>", "<|call|>"][: pick.randint(1, most)]
            return [{"type": "tag", "begin": begin, "content": inner(), "end": ends()} for begin in begins]

        def maybe_empty() -> dict[str, Any]:
            text = {"type": "any_text", **self._bounded_text(pick)}
            optional = {"type": "optional", "content": inner()}
            return pick.choice((optional, text, {"type": "sequence", "elements": [optional, text]}))

        def ends() -> Any:
            return pick.sample(_ENDS, 2) if pick.random() < 0.15 else pick.choice(_ENDS)

        counts = {
            name: value
            for name, value in (("at_least_one", True), ("stop_after_first", True), ("max_count", 3), ("min_count", 1))
            if pick.random() < 0.2
        }
        ways: tuple[Callable[[], dict[str, Any]], ...] = (
            lambda: {"type": "triggered_tags", "triggers": ["<", "aa"], "tags": tags(), **counts},
            lambda: {
                "type": "tags_with_separator",
                "separator": pick.choice(("", ",", "\n")),
                "tags": tags(),
                **counts,
            },
            lambda: {"type": "sequence", "elements": [inner() for _ in range(pick.randint(1, 4))]},
            lambda: {"type": "or", "elements": [inner() for _ in range(pick.randint(1, 4))]},
            lambda: {"type": "optional", "content": inner()},
            lambda: {"type": pick.choice(("plus", "star")), "content": inner()},
            lambda: {"type": "repeat", "min": pick.choice((0, 2)), "max": pick.choice((2, 64, -1)), "content": inner()},
            lambda: {"type": "repeat", "min": 0, "max": pick.choice((3, 64)), "content": maybe_empty()},
            lambda: {"type": "dispatch", "rules": [["<a>", inner()], ["bb", inner()]], "loop": pick.random() < 0.7},
            lambda: tags()[0],
        )
        return pick.choice(ways)()
