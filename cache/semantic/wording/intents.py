"""Wordings of one intent, written as one: a table of templates, loaded on first use.

A file of `intents/` holds groups: a line `> how do i V X` and below it the templates that are written so. In a
template a capital letter is a gap, `(a|b)` one of several wordings, `[a]` a wording or nothing, `{name}` a word of a
class. Gaps are X, Y and Z (words), W (one word), V (a verb that the lexicon knows), G (its gerund) and D (its
participle). What stands in a gap stays word for word, so that names, numbers, negation and direction decide as before.

A wording belongs to a group only if it says all that the head says and no more: "which wine" is not "which sauce".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.frames import DONE, base
from sluicegate.cache.semantic.lexicon import stem
from sluicegate.cache.semantic.wording.senses import is_act

FOLDER = files("sluicegate.cache.semantic.wording").joinpath("intents")
FILES = ("trouble", "fields", "fields_more", "money_and_time", "things", "plain", "doing")
MAX_CHARS = 160
"""Of a text that is tried; a longer one has more than one thing to say."""
ASKS = listed("how what which who whom whose where when why")
"""What stands in no gap: the text would hold a second question."""
NOUNS = listed(
    """
    shipping parking training building meeting booking processing mailing packaging housing billing banking cooking
    heating lighting swimming clothing wedding opening closing marketing programming spelling painting boarding
    """
)
"""Gerunds that name a thing as often as what somebody does."""
STANDS_FOR = listed("it this that these those them one so")
"""Words that stand for another thing than the gap's."""
PIECE = re.compile(r"[()\[\]|]|\{\w+\}|[,:.]|[^\s()\[\]{}|,:.]+")
GAPS = {
    "X": r"(?P<X>(?: [^ ,]+){1,9}?)",
    "Y": r"(?P<Y>(?: [^ ,]+){1,7}?)",
    "Z": r"(?P<Z>(?: [^ ,]+){1,7}?)",
    "W": r"(?P<W> [^ ,]+)",
    "V": r" (?P<V>[a-z-]+)",
    "G": r" (?P<G>[a-z-]+ing)",
    "D": r" (?P<D>[a-z-]+)",
}


@dataclass(frozen=True, slots=True)
class IntentTemplate:
    """A template as a pattern of " " + text; a text must have one of the words of each set in `needs`. The pattern is
    compiled when a text first has them: of some hundred, a process meets few."""

    pattern: str
    needs: tuple[frozenset[str], ...]
    becomes: str

    def __call__(self, text: str) -> str | None:
        """Return what the text is written as; None where it has another form."""
        found = _compiled(self.pattern).fullmatch(" " + text)
        if found is None:
            return None
        gaps = {name.partition("_")[0]: gap.strip() for name, gap in found.groupdict().items() if gap}
        if any(gap in STANDS_FOR or gap.startswith("to ") or not ASKS.isdisjoint(gap.split()) for gap in gaps.values()):
            return None
        if any(word in GAPS and word != "V" and word not in gaps for word in self.becomes.split()):
            return None  # an optional gap that the text left out
        verb = _verb(gaps)
        if verb is None:
            return None
        words = (gaps.get(word.strip("{}"), word) if word != "V" else verb for word in self.becomes.split())
        return " ".join(word for word in words if word)


def _verb(gaps: dict[str, str]) -> str | None:
    """Return the verb in the gaps, in base form; "" where they have none, None where the lexicon does not know it."""
    if "G" in gaps:
        verb = stem(gaps["G"])
        if gaps["G"] in NOUNS:
            return None
        return verb if verb != gaps["G"] and is_act(verb) else None
    if "D" in gaps and "V" not in gaps:
        return base(gaps["D"]) if gaps["D"] in DONE or (gaps["D"].endswith("ed") and is_act(base(gaps["D"]))) else None
    if "V" in gaps:
        return gaps["V"] if is_act(gaps["V"]) else None
    return ""


def as_intent(text: str) -> str:
    """Return the plain wording of lower-case text with articles; the text itself where it fits no template."""
    if len(text) > MAX_CHARS:
        return text
    words = frozenset(re.findall(r"[^\s,:.]+", text))
    index = _by_word()
    for number in sorted({number for word in words for number in index.get(word, ())}):
        template = _templates()[number]
        if all(not words.isdisjoint(needed) for needed in template.needs):
            written = template(text)
            if written is not None and written != text:
                return written
    return text


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _by_word() -> dict[str, list[int]]:
    """Return the numbers of the templates by the words of that set of their needs which is rarest."""
    count = Counter(word for template in _templates() for needed in template.needs for word in needed)
    index: dict[str, list[int]] = {}
    for number, template in enumerate(_templates()):
        for word in min(template.needs, key=lambda needed: sum(count[word] for word in needed)):
            index.setdefault(word, []).append(number)
    return index


@cache
def _templates() -> tuple[IntentTemplate, ...]:
    return tuple(template for name in FILES for template in _read(FOLDER.joinpath(f"{name}.txt").read_text("utf-8")))


def _read(text: str) -> Iterator[IntentTemplate]:
    """Yield the templates of a file. Raises `ValueError` for a line that is no template."""
    classes: dict[str, str] = {}
    becomes = ""
    for line in text.splitlines():
        if line.startswith("@ "):
            name, _, words = line[2:].partition(" = ")
            classes[name] = "|".join(map(re.escape, words.split()))
        elif line.startswith("> "):
            becomes = line[2:]
        elif line and not line.startswith("#"):
            yield _template(line, becomes, classes)


def _template(line: str, becomes: str, classes: dict[str, str]) -> IntentTemplate:
    """Return a line as a template. Raises `ValueError` where its brackets do not close or no group has begun."""
    pattern, depth, starts = "", 0, False
    first: list[str] = []
    needs: list[frozenset[str]] = []
    for number, piece in enumerate(PIECE.findall(line)):
        if piece in "([":
            depth += 1
            pattern += "(?:"
            if depth == 1:
                first, starts = [], True
        elif piece == "|":
            pattern += "|"
            if depth == 1:
                first += ["*"] if starts else []
                starts = True
        elif piece in ")]":
            depth -= 1
            pattern += ")" if piece == ")" else ")?"
            if depth == 0 and piece == ")":
                needs.append(frozenset([*first, "*"] if starts else first))
        else:
            joined = pattern.endswith(")") and piece in ("s", "ing") and "{" in line
            pattern += piece if joined else _piece(piece, number, classes)
            known = piece.isalpha() and piece not in GAPS
            if starts or (depth == 0 and not joined):
                first.append(piece if known else "*")
                starts = False
            if depth == 0 and known and not joined:
                needs.append(frozenset((piece,)))
    needs = [words for words in needs if "*" not in words]
    if depth or not becomes or not needs:
        raise ValueError(
            f"{line!r} is no template: its brackets must close, a word of it must always be there, and its group begins"
            " with a line '> '; mend that line"
        )
    return IntentTemplate(pattern, tuple(needs), becomes)


def _piece(piece: str, number: int, classes: dict[str, str]) -> str:
    """Return the pattern of a gap, a word of a class, a sign or a word; a gap's name ends in its place in the line."""
    if piece in GAPS:
        return GAPS[piece].replace(f"<{piece}>", f"<{piece}_{number}>")
    if piece[0] == "{":
        return f" (?P<{piece[1:-1]}_{number}>{classes[piece[1:-1]]})"
    if piece in ",:.":
        return "[,.]" if piece == "," else re.escape(piece)
    return " " + re.escape(piece)
