"""Layouts of the train family: how a list of facts becomes a text."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

from training.concepts import Concept
from training.tables import words
from training.values import Value


@dataclass(frozen=True, slots=True)
class Fact:
    """One value in a document: `label` for layouts with labels, `sentence` (already filled in) for prose."""

    concept: Concept
    value: Value
    label: str
    sentence: str | None
    bit: str | None = None

    @property
    def shown(self) -> str:
        return self.value.text

    @property
    def told(self) -> str:
        return self.sentence or f"{self.label}: {self.shown}."


Layout = Callable[[list[Fact], random.Random], str]
CASES: list[Callable[[str], str]] = [str, str, str.upper, str.lower, str.title]


def distracted(sentences: list[str], rng: random.Random, pool: list[str]) -> list[str]:
    """Put up to three (one text in fourteen: up to twenty-four) sentences that say nothing between the others."""
    out = list(sentences)
    for _ in range(rng.randint(6, 24) if rng.random() < 0.07 else rng.choice([0, 0, 1, 1, 2, 3])):
        out.insert(rng.randint(0, len(out)), rng.choice(pool))
    return out


def paragraphs(sentences: list[str], rng: random.Random) -> str:
    text = sentences[0]
    for before, sentence in itertools.pairwise(sentences):
        break_ = "\n\n" if rng.random() < 0.15 else "\n" if rng.random() < 0.08 or "\n" in before else " "
        text += break_ + sentence
    return text


def prose(facts: list[Fact], rng: random.Random) -> str:
    return paragraphs(distracted([fact.told for fact in facts], rng, words("distractors")), rng)


def compound(facts: list[Fact], rng: random.Random) -> str:
    """Tell facts in sentences of two to five fragments each; what has no fragment follows in sentences of its own."""
    bits = [fact.bit for fact in facts if fact.bit]
    sentences, start = [], 0
    while start < len(bits):
        end = start + rng.randint(2, 5)
        sentences.append(_strung(bits[start:end], rng))
        start = end
    rest = [fact.told for fact in facts if not fact.bit]
    return paragraphs(distracted(sentences + rest, rng, words("distractors")), rng)


def _strung(bits: list[str], rng: random.Random) -> str:
    text = bits[0]
    for bit in bits[1:]:
        text += rng.choice([", ", ", ", " ", " ", " and ", " - ", ", and "]) + bit
    return text + rng.choice([".", ".", ".", "", "!"])


def clauses(facts: list[Fact], rng: random.Random) -> str:
    join = rng.choice([" ", ": ", " = "])
    parts = [f"{cased(fact.label, rng)}{join}{fact.shown}" for fact in facts]
    opening = rng.choice(["", "Please note: ", "Summary: ", "For the file: ", "Noted: ", "We have ", "FYI "])
    return opening + rng.choice([", ", "; ", " - ", " / ", " | "]).join(parts) + rng.choice(["", "."])


def email(facts: list[Fact], rng: random.Random) -> str:
    body = prose(facts, rng)
    head = rng.choice(["", "Subject: your message\n", "Subject: for your information\n\n"])
    name = rng.choice(["Your team", "The office", "Customer service", "Support"])
    return f"{head}{rng.choice(words('greetings'))}\n\n{body}\n\n{rng.choice(words('closings'))}\n{name}"


def cased(label: str, rng: random.Random) -> str:
    return rng.choice([label, label, label.lower()])


def _rare_join(rng: random.Random) -> str:
    """Draw any run of one or two marks, so that a sheet is recognised by its shape and not by its mark."""
    return (
        rng.choice(["", " "]) + rng.choice("=~:»•*#@&%+)>^_") * rng.choice([1, 1, 2, 3]) + rng.choice(["", " ", "\n"])
    )


def wrapped(facts: list[Fact], rng: random.Random) -> str:
    """Write label and value in brackets of one kind or another, on lines or in a row."""
    shape = rng.choice(
        ["[{l}] {v}", "{{{l}}} {v}", "{l} ({v})", "{l} [{v}]", "({l}) {v}", "{l} '{v}'", '{l} "{v}"', "{v} ({l})"]
    )
    lines = [shape.format(l=cased(fact.label, rng), v=fact.shown) for fact in facts]
    return rng.choice(["\n", "\n", " ", ", ", "\n\n"]).join(lines)


def sheet(facts: list[Fact], rng: random.Random) -> str:
    join = rng.choice([": ", ": ", ": ", " - ", " = ", ":\t", " : ", " .... ", "\t", _rare_join(rng)])
    case = rng.choice(CASES)
    title = rng.choice(["", "", "DETAILS\n\n", "Record\n------\n", "# Summary\n\n", "=== DATA ===\n"])
    gap = rng.choice(["\n", "\n", "\n", "\n\n"])
    return title + gap.join(f"{case(fact.label)}{join}{fact.shown}" for fact in facts)


def bullets(facts: list[Fact], rng: random.Random) -> str:
    mark, join = rng.choice(["- ", "* ", "• ", "+ "]), rng.choice([": ", " - ", " "])
    bold = rng.random() < 0.2
    lines = [
        f"{mark}**{fact.label}**{join}{fact.shown}" if bold else f"{mark}{fact.label}{join}{fact.shown}"
        for fact in facts
    ]
    return rng.choice(["", "", "Here are the details:\n", "Notes:\n\n"]) + "\n".join(lines)


def numbered(facts: list[Fact], rng: random.Random) -> str:
    use_labels = rng.random() < 0.5
    return "\n".join(
        f"{i}. {f'{fact.label}: {fact.shown}' if use_labels else fact.told}" for i, fact in enumerate(facts, 1)
    )


def table(facts: list[Fact], rng: random.Random) -> str:
    join = rng.choice([" | ", "\t", " ; "])
    flat = [fact for fact in facts if "\n" not in fact.shown]
    rest = [fact.told for fact in facts if "\n" in fact.shown]
    head = join.join(fact.label for fact in flat)
    rule = "\n" + "-" * rng.randint(5, 30) if rng.random() < 0.4 else ""
    return "\n\n".join([f"{head}{rule}\n{join.join(fact.shown for fact in flat)}", *rest])


def log_line(facts: list[Fact], rng: random.Random) -> str:
    def pair(fact: Fact) -> str:
        key = fact.label.lower().replace(" ", "_").replace(".", "").replace("#", "no")
        value = f'"{fact.shown}"' if " " in fact.shown or "\n" in fact.shown else fact.shown
        return f"{key}={value}"

    opening = rng.choice(["", "", f"[{rng.randint(1, 9999)}] ", "event: ", f"12:{rng.randint(10, 59)} app "])
    return opening + " ".join(pair(fact) for fact in facts)


def chat(facts: list[Fact], rng: random.Random) -> str:
    asker, answerer = rng.choice(_SPEAKERS)
    if rng.random() < 0.3:
        asker, answerer = rng.sample("BCDEFGHIJKLMNOPRSTUVWXYZ", 2)
    asks = ["{}?", "What is the {}?", "Could you tell me the {}?", "And the {}?", "{}, please?", "May I have the {}?"]
    lines = []
    for fact in facts:
        said = rng.choice([fact.told, fact.shown, fact.told, f"It's {fact.shown}."])
        if said == fact.told and rng.random() < 0.4:
            lines.append(f"{answerer}: {said}")
        else:
            lines.append(f"{asker}: {rng.choice(asks).format(fact.label.lower())}\n{answerer}: {said}")
    return "\n".join(lines)


_SPEAKERS = (
    *(("Agent", "Customer"), ("Bot", "User"), ("A", "B"), ("Support", "Client"), ("Clerk", "Visitor"), ("1", "2")),
    *(("Interviewer", "Guest"), ("Me", "Her"), ("Teacher", "Pupil"), ("Desk", "Caller"), ("Ask", "Reply"), (">", "<")),
)


def form(facts: list[Fact], rng: random.Random) -> str:
    gap = rng.choice(["\n", "\n\n"])
    return gap.join(f"{fact.label}\n{fact.shown}" for fact in facts)


def record(facts: list[Fact], rng: random.Random) -> str:
    """Write a YAML-like or JSON-like dump under the document's own labels."""
    yaml = rng.random() < 0.5
    lines = []
    for fact in facts:
        key = fact.label.lower().replace(" ", "_").replace(".", "").replace("#", "no")
        lines.append(f"{key}: {fact.shown}" if yaml else f'  "{key}": "{fact.shown}"')
    return "\n".join(lines) if yaml else "{\n" + ",\n".join(lines) + "\n}"


def minutes(facts: list[Fact], rng: random.Random) -> str:
    lines = [
        f"[{i:02d}] {fact.told}" if rng.random() < 0.5 else f"[{i:02d}] {fact.label}: {fact.shown}"
        for i, fact in enumerate(facts, 1)
    ]
    return "NOTES\n" + "\n".join(lines)


def mixed(facts: list[Fact], rng: random.Random) -> str:
    cut = rng.randint(1, max(1, len(facts) - 1))
    parts = [prose(facts[:cut], rng)] + (
        [rng.choice([sheet, bullets, clauses])(facts[cut:], rng)] if facts[cut:] else []
    )
    rng.shuffle(parts)
    return "\n\n".join(parts)


def drawn(facts: list[Fact], rng: random.Random) -> str:
    """Write label and value between marks drawn at random, the same for every fact: only the shape tells them apart."""
    open_, close = rng.choice(_AROUND_LABEL)
    before, after = rng.choice(_AROUND_VALUE)
    start = rng.choice(_STARTS)
    middle = rng.choice(_MIDDLES) if not close else rng.choice([" ", "", "\n", "  ", ": ", " "])
    if not close and not middle.strip(" ") and not before:
        before, after = "'", "'"
    case = rng.choice(CASES)
    say = rng.choice(["{}", "{}", "{}", "the {}", "{}?", "Your {}", "{} of it", "This {}", "{} (required)"])
    pairs = [(f"{open_}{say.format(case(fact.label))}{close}", f"{before}{fact.shown}{after}") for fact in facts]
    if rng.random() < 0.12:  # the value first
        pairs = [(value, label) for label, value in pairs]
        middle = rng.choice([" is the ", " = ", " as ", " (", " for the ", " <- ", ", our "])
    end = ")" if middle == " (" else rng.choice(["", "", "", ".", ";", ",", " |", " *"])
    lines = [f"{start.replace('1', str(i))}{left}{middle}{right}{end}" for i, (left, right) in enumerate(pairs, 1)]
    return (
        rng.choice(_HEADS) + rng.choice(_LINE_GAPS).join(lines) + rng.choice(["", "", "", "\nEND", "\n***", "\nOver."])
    )


_AROUND_LABEL = (
    *(("", ""),) * 8,
    *(("[", "]"), ("{", "}"), ("(", ")"), ("**", "**"), ("__", "__"), ("'", "'"), ('"', '"'), ("#", "#"), ("`", "`")),
    *(("%", "%"), ("@", ""), ("$", ""), ("\\", ""), ("<", ">"), ("[[", "]]"), ("--", ""), ("§ ", ""), ("key=", "")),
)
_AROUND_VALUE = (
    *(("", ""),) * 9,
    *(('"', '"'), ("'", "'"), ("[", "]"), ("(", ")"), ("**", "**"), ("`", "`"), ("“", "”"), ("  ", "  "), ("is ", "")),
    *(("value=", ""), ("given as ", ""), ("we have ", ""), ("reads ", ""), ("| ", " |"), ("\n", "\n"), ("- ", "")),
)
_STARTS = (
    "",
    "",
    "",
    "",
    "- ",
    "* ",
    "1. ",
    "1) ",
    "(1) ",
    "> ",
    "| ",
    "+ ",
    "§1 ",
    "· ",
    "  ",
    "\t",
    "No. 1: ",
    "& ",
    "And ",
)
_MIDDLES = (
    *(
        ": ",
        " = ",
        " - ",
        " : ",
        "\t",
        "\n",
        "\n  ",
        ":\n",
        " | ",
        " => ",
        " := ",
        " .. ",
        "; ",
        ", ",
        ": \t",
        "   ",
        " .: ",
    ),
    *(" being ", " has been set to ", " equals ", " reads ", " stays ", ", namely ", " (see form): ", " = = ", " __ "),
)
_HEADS = (
    "",
    "",
    "",
    "",
    "Form 12\n\n",
    "*** \n",
    "Page 1\n",
    "Hello,\n\n",
    "begin\n",
    "-- file --\n",
    "Copy of the card:\n",
    "FYI\n",
)
_LINE_GAPS = ("\n", "\n", "\n", "\n", "\n\n", " ", "; ", ", ", "  ", "\n\n\n", "\n-\n")

LAYOUTS: tuple[Layout, ...] = (
    chat,
    drawn,
    drawn,
    drawn,
    drawn,
    drawn,
    prose,
    prose,
    prose,
    prose,
    email,
    email,
    sheet,
    sheet,
    bullets,
    numbered,
    table,
    log_line,
    chat,
    form,
    record,
    minutes,
    mixed,
    mixed,
    clauses,
    wrapped,
    compound,
    compound,
    compound,
    compound,
)
