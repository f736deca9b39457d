"""The phrase books `phrases/FAMILY/*.txt`, read once: rules, frames, label sets and forms of asking.

A section begins with `[KIND NAME]`. `words`: alternatives between commas. `rule`: alternatives on lines of their own or
between `|`. `labels`: a set of labels a line, `class=label, class=label`; with a number after the name, drawn so
many times as often as others. `classes`: `class: label, label`, of which a
question may offer any. `near`: classes on one line are never offered together. `forms`: how `@ask` and `@text` become
messages. `frame NAME WEIGHT`: what a text can be about; its lines are

    $slot > group = maker : key, key : note | note     a value that its texts can hold
    ? slot, slot: asking                               an instruction for these slots (none named: for any)
    ! slot: question                                   a question that the value of a slot answers
    = question                                         is answered by yes, by no where a `{*slot}` was changed
    ~ slot yes class, class no class @ key: question   is answered by yes or no, depending on a label
    & slot: question                                   with `@label`, a label of the right class or of another
    anything else                                      a text

`passages NAME WEIGHT`: a frame whose texts have questions of their own. Its lines are slots and

    any text           of which the lines below it ask
    + question         is answered by yes
    - question         is answered by no
    ! slot: question   that the value of a slot answers

`+ sentence` in a frame adds nothing but a text, so that a sentence may begin with one of these signs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from training.everyday.phrases import Choice, Phrase, compiled

Family = Literal["train", "heldout"]
_FOLDER = Path(__file__).resolve().parent / "phrases"
_SECTION = re.compile(r"\[(words|rule|labels|classes|near|frame|passages|forms) ([\w-]+) ?([\d.]*)\]")
_PIPE = re.compile(r" \| ")


@dataclass(frozen=True, slots=True)
class Slot:
    name: str
    make: tuple[str, ...]
    keys: tuple[str, ...]
    notes: tuple[str, ...] = ()
    group: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """`slots` are those it names, `changing` those that may become wrong in it."""

    phrase: Phrase
    slots: tuple[str, ...]
    changing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class YesNo:
    """A yes-or-no question. With `yes` and `no` the class of `slot` decides, else what was put into the question."""

    questions: tuple[Question, ...]
    slot: str = ""
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    key: str = ""


@dataclass(slots=True)
class Passage:
    """What one text is asked: questions that it answers by yes, by no, and by a value."""

    yes: list[Question] = field(default_factory=list)
    no: list[Question] = field(default_factory=list)
    spans: list[tuple[str, Question]] = field(default_factory=list)


@dataclass(slots=True)
class Frame:
    name: str
    weight: float
    slots: dict[str, Slot] = field(default_factory=dict)
    texts: list[Phrase] = field(default_factory=list)
    asks: list[tuple[tuple[str, ...], Phrase]] = field(default_factory=list)
    spans: list[tuple[str, Question]] = field(default_factory=list)
    checks: list[YesNo] = field(default_factory=list)
    passages: dict[Phrase, Passage] = field(default_factory=dict)


@dataclass(slots=True)
class Book:
    trains: bool = False
    rules: dict[str, Choice] = field(default_factory=dict)
    label_sets: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    classes: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    near: dict[str, list[set[str]]] = field(default_factory=dict)
    frames: dict[str, Frame] = field(default_factory=dict)
    forms: dict[str, list[str]] = field(default_factory=dict)
    words: dict[str, set[str]] = field(default_factory=dict)
    lines: set[str] = field(default_factory=set)

    def top_frames(self) -> list[Frame]:
        return [frame for frame in self.frames.values() if frame.weight]


@cache
def book(family: Family) -> Book:
    read = Book(trains=family == "train")
    for path in sorted((_FOLDER / family).glob("*.txt")):
        for kind, name, rest, lines in _sections(path):
            read.lines.update(() if kind == "near" else lines)
            _READERS[kind](read, name, rest, lines)
    return read


def _sections(path: Path) -> list[tuple[str, str, str, list[str]]]:
    found: list[tuple[str, str, str, list[str]]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("# "):
            continue
        head = _SECTION.fullmatch(line)
        if head:
            found.append((head[1], head[2], head[3], []))
        elif not found:
            raise ValueError(f"{path.name}:{number}: a line before the first section")
        else:
            found[-1][3].append(line)
    return found


def _read_words(read: Book, name: str, rest: str, lines: list[str]) -> None:
    listed = [word.strip() for line in lines for word in line.split(",") if word.strip()]
    read.words.setdefault(name, set()).update(listed)
    _add(read, name, listed)


def _read_rule(read: Book, name: str, rest: str, lines: list[str]) -> None:
    _add(read, name, [option for line in lines for option in _PIPE.split(line)])


def _add(read: Book, name: str, options: list[str]) -> None:
    before = read.rules[name].options if name in read.rules else ()
    read.rules[name] = Choice((*before, *map(compiled, options)))


def _read_labels(read: Book, name: str, rest: str, lines: list[str]) -> None:
    for line in lines:
        pairs = (pair.partition("=") for pair in line.split(", "))
        labels = {left.strip(): right.strip() for left, _, right in pairs}
        read.label_sets.setdefault(name, []).extend([labels] * int(rest or 1))


def _read_classes(read: Book, name: str, rest: str, lines: list[str]) -> None:
    for line in lines:
        left, _, right = line.partition(":")
        read.classes.setdefault(name, {})[left.strip()] = tuple(label.strip() for label in right.split(","))


def _read_near(read: Book, name: str, rest: str, lines: list[str]) -> None:
    read.near.setdefault(name, []).extend({one.strip() for one in line.split(",")} for line in lines)


def _read_forms(read: Book, name: str, rest: str, lines: list[str]) -> None:
    read.forms.setdefault(name, []).extend(line.replace("\\n", "\n") for line in lines)


def _read_frame(read: Book, name: str, rest: str, lines: list[str]) -> None:
    frame = read.frames.setdefault(name, Frame(name, 0.0))
    if rest:
        frame.weight = float(rest)
    for line in lines:
        sign, body = line[0], line[2:]
        if line.startswith("$"):
            slot = _slot(line[1:])
            frame.slots[slot.name] = slot
        elif line.startswith("? "):
            names, _, asking = body.partition(": ")
            slots = tuple(name.strip() for name in names.split(",") if name.strip())
            frame.asks += [(slots, compiled(option)) for option in _PIPE.split(asking)]
        elif line.startswith("! "):
            names, _, question = body.partition(": ")
            frame.spans += [(names.strip(), _question(option)) for option in _PIPE.split(question)]
        elif line.startswith("= "):
            frame.checks.append(YesNo(tuple(map(_question, _PIPE.split(body)))))
        elif line.startswith("& "):
            names, _, question = body.partition(": ")
            frame.checks.append(YesNo(tuple(map(_question, _PIPE.split(question))), names.strip()))
        elif line.startswith("~ "):
            frame.checks.append(_labelled(body))
        else:
            frame.texts.append(compiled(body if sign == "+" else line))


def _read_passages(read: Book, name: str, rest: str, lines: list[str]) -> None:
    frame = read.frames.setdefault(name, Frame(name, float(rest)))
    passage = Passage()
    for line in lines:
        sign, body = line[0], line[2:]
        if line.startswith("$"):
            slot = _slot(line[1:])
            frame.slots[slot.name] = slot
        elif line.startswith("+ "):
            passage.yes += map(_question, _PIPE.split(body))
        elif line.startswith("- "):
            passage.no += map(_question, _PIPE.split(body))
        elif sign == "!":
            names, _, question = body.partition(": ")
            passage.spans += [(names.strip(), _question(option)) for option in _PIPE.split(question)]
        else:
            passage = Passage()
            frame.texts.append(compiled(line))
            frame.passages[frame.texts[-1]] = passage
    for text, told in frame.passages.items():
        if not (told.yes and told.no):
            raise ValueError(f"frame {name!r} has a passage without a yes or a no: {text!r}")


_LABELLED = re.compile(r"(\w+) yes ([\w, -]+) no ([\w, -]+?)(?: @ ?(\w+))?: (.*)")


def _labelled(body: str) -> YesNo:
    match = _LABELLED.fullmatch(body)
    if match is None:
        raise ValueError(f"not `slot yes class no class @key: question`: {body!r}")
    slot, yes, no, key, questions = match.groups()
    yes_labels, no_labels = (tuple(label.strip() for label in part.split(",")) for part in (yes, no))
    return YesNo(tuple(map(_question, _PIPE.split(questions))), slot, yes_labels, no_labels, key or "")


def _question(source: str) -> Question:
    names = re.findall(r"\{([*^]?)(\w+)\}", source)
    changing = tuple(name for sign, name in names if sign == "*")
    return Question(compiled(source), tuple(name for _, name in names), changing)


def _slot(line: str) -> Slot:
    head, _, rest = line.partition(" = ")
    name, _, group = head.partition(" > ")
    make, keys, notes = ([*rest.split(" : "), "", ""])[:3]
    listed = tuple(key.strip() for key in keys.split(",") if key.strip())
    said = tuple(note.strip() for note in notes.split("|") if note.strip())
    return Slot(name.strip(), tuple(make.strip().split(":")), listed or (name.strip(),), said, group.strip())


_READERS = {
    "words": _read_words,
    "rule": _read_rule,
    "labels": _read_labels,
    "classes": _read_classes,
    "near": _read_near,
    "forms": _read_forms,
    "frame": _read_frame,
    "passages": _read_passages,
}
