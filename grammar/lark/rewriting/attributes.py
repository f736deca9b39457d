"""Read what stands in brackets behind the name of a rule: `lazy`, `stop`, `suffix` and `max_tokens`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluicegate.grammar.lark.rewriting.definitions import Definition, solid
from sluicegate.grammar.lark.rewriting.pieces import GrammarPiece, Refuse
from sluicegate.plugins.errors import InvalidGrammar, UnsupportedGrammar

_ATTRIBUTES = {
    "capture": "answers are not cut into parts: give the part a field of a JSON schema, or a tag of a structural tag",
    "stop_capture": "answers are not cut into parts",
    "temperature": "one temperature holds for a whole answer: set it in the request",
}
_LONGEST_NUMBER = 9
_NO_TERMINALS = frozenset({"json", "lark", "parameter", "if", "special", "grammar"})


@dataclass(frozen=True, slots=True)
class Composed:
    """A terminal that Lark cannot read: the pieces of its body, and how it ends. `at`: its offset."""

    body: list[GrammarPiece]
    at: int
    lazy: bool = False
    suffix: list[GrammarPiece] | None = None
    stop: list[GrammarPiece] | None = None
    most_tokens: int | None = None


def read_attributes(each: Definition, pieces: Sequence[GrammarPiece], refuse: Refuse) -> Composed | None:
    """Read the attributes of a rule; None where they change nothing."""
    begin, end = each.attributes
    if begin < 0:
        return None
    at = pieces[each.first].at
    body = solid(pieces[each.body : each.last])
    given: dict[str, list[GrammarPiece]] = {}
    for part in _split([p for p in pieces if begin < p.at < end - 1], ","):
        name = _attribute(part, begin, refuse)
        given[name] = part[2:]
    stop = given.get("stop")
    if _is_empty_text(stop):
        if given.keys() == {"stop"}:
            return None
        stop = None
    most = _most_tokens(given, body, begin, refuse) if "max_tokens" in given else None
    return Composed(body, at, "lazy" in given, given.get("suffix"), stop, most)


def _most_tokens(given: dict[str, list[GrammarPiece]], body: list[GrammarPiece], at: int, refuse: Refuse) -> int:
    """Return the number of `max_tokens`. Raises where nothing says how the rule ends early."""
    value = given["max_tokens"]
    if len(value) != 1 or value[0].kind != "number" or len(value[0].text) > _LONGEST_NUMBER:
        refuse(InvalidGrammar, "max_tokens is a whole number, as in max_tokens=400", at)
    if "suffix" in given:
        what = (
            "max_tokens with suffix: a text that ends early has none; write stop= in place of suffix=, and the "
            "suffix behind the name of the rule"
        )
        refuse(UnsupportedGrammar, what, at)
    inner = next((piece for piece in body if piece.kind in _NO_TERMINALS or _is_rule(piece)), None)
    if inner is not None:
        what = (
            "max_tokens stands at a rule that is a terminal, as in text[max_tokens=9]: /[a-z ]*/; rules and values "
            "cannot end in their middle: give max_tokens to the texts in them, or maxLength in a schema"
        )
        refuse(UnsupportedGrammar, what, inner.at)
    return int(value[0].text)


def _attribute(part: list[GrammarPiece], begin: int, refuse: Refuse) -> str:
    """Return the name of one attribute. Raises for those that are not enforced."""
    name, at = (part[0].text, part[0].at) if part else ("", begin)
    if name in _ATTRIBUTES:
        refuse(UnsupportedGrammar, f"the attribute {name} is not supported; {_ATTRIBUTES[name]}", at)
    if name == "lazy" and len(part) == 1:
        return name
    if name in ("stop", "suffix", "max_tokens") and len(part) > 2 and part[1].text == "=":
        return name
    what = f"unknown attribute {name!r}; read are lazy, stop=TERMINAL, suffix=TERMINAL and max_tokens=NUMBER"
    return refuse(InvalidGrammar, what, at)


def _is_rule(piece: GrammarPiece) -> bool:
    return piece.kind == "name" and not piece.text.lstrip("_").isupper()


def _is_empty_text(pieces: list[GrammarPiece] | None) -> bool:
    return pieces is not None and [piece.text for piece in pieces] == ['""']


def _split(pieces: list[GrammarPiece], mark: str) -> Iterator[list[GrammarPiece]]:
    part: list[GrammarPiece] = []
    for piece in solid(pieces):
        if piece.text == mark and piece.kind == "mark":
            yield part
            part = []
        else:
            part.append(piece)
    yield part
