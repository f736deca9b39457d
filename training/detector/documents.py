"""Documents composed from the phrase banks, with and without an instruction that somebody planted in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from training.detector import generate
from training.detector.phrases import bank, languages


@dataclass(frozen=True, slots=True)
class Document:
    """`planted` is the span of the planted instruction in `text`, None in a clean document."""

    text: str
    planted: tuple[int, int] | None = None


def clean(rng: random.Random) -> Document:
    return Document("\n".join(_lines(rng)))


def planted(rng: random.Random) -> Document:
    """Compose a document with one instruction at the beginning, in the middle or at the end; on a line of its own or
    inside one."""
    lines = _lines(rng)
    text, own = instruction(rng)
    at = rng.choice((0, rng.randint(0, len(lines)), len(lines)))
    if rng.random() < 0.75 or not lines[at - 1 : at]:
        lines.insert(at, text)
        before = sum(len(line) + 1 for line in lines[:at])
    else:
        before = sum(len(line) + 1 for line in lines[:at])
        lines[at - 1] += f" {text}"
    whole = "\n".join(lines)
    return Document(whole, (before, before + len(own)))


def instruction(rng: random.Random) -> tuple[str, str]:
    """Return a text to plant, and the part of it that is an instruction (code may follow)."""
    words = bank("documents")
    kind = rng.choices(("style", "insert", "errand", "command", "code", "attack", "foreign"), (4, 5, 6, 4, 4, 4, 1))[0]
    if kind == "code":
        order = words.draw(rng, "codeplant")
        return f"{order}\n```\n{words.draw(rng, 'payload')}\n```", order
    if kind == "attack":
        text = bank("attacks").draw(rng, rng.choice(("override", "leak", "plant", "ask", "persona", "rule", "rule")))
    elif kind == "foreign":
        bank_of = rng.choice(list(languages().values()))
        text = f"{rng.choice(bank_of['o'])} {rng.choice(bank_of['a'])}"
    else:
        text = words.draw(rng, kind)
    return text, text


def _lines(rng: random.Random) -> list[str]:
    kinds: tuple[Callable[[random.Random], list[str]], ...] = (_mail, _table, _code, _article, _records, _question)
    return rng.choices(kinds, (5, 2, 3, 3, 1, 1))[0](rng)


def _mail(rng: random.Random) -> list[str]:
    words = bank("documents").sections
    body = rng.sample(words["mail"], rng.randint(1, 7))
    if rng.random() < 0.1:
        body.append(bank("benign").draw(rng, "about"))
    head = [f"Subject: {rng.choice(words['article'])[:40]}"] if rng.random() < 0.4 else []
    lines = [*head, rng.choice(words["greeting"]), *body, rng.choice(words["closing"])]
    return lines if rng.random() < 0.6 else _flowing(rng, lines)


def _table(rng: random.Random) -> list[str]:
    words = bank("documents").sections
    width = rng.randint(2, 6)
    rows = [rng.sample(words["column"], width)]
    rows += [[rng.choice(words["cell"]) for _ in range(width)] for _ in range(rng.randint(3, 12))]
    if rng.random() < 0.3:
        return [",".join(row) for row in rows]
    return ["| " + " | ".join(row) + " |" for row in rows]


def _code(rng: random.Random) -> list[str]:
    words = bank("documents").sections
    return [rng.choice(words["code"]) for _ in range(rng.randint(4, 18))]


def _article(rng: random.Random) -> list[str]:
    words = bank("documents").sections
    lines = rng.sample(words["article"], rng.randint(3, 9))
    if rng.random() < 0.4:
        lines.insert(rng.randint(0, len(lines)), bank("benign").draw(rng, "about"))
    if rng.random() < 0.1:
        lines = [f"<p>{line}</p>" for line in lines]
    return _flowing(rng, lines) if rng.random() < 0.6 else lines


def _records(rng: random.Random) -> list[str]:
    words = bank("documents").sections
    return [rng.choice(words[rng.choice(("json", "log"))]) for _ in range(rng.randint(2, 8))]


def _question(rng: random.Random) -> list[str]:
    """Compose a forum post, a ticket or notes in some language: harmless requests between people."""
    if rng.random() < 0.5:
        language = rng.choice(list(languages().values()))
        return rng.sample(language["b"], 3)
    return [generate.harmless(rng), *rng.sample(bank("documents").sections["article"], 2)]


def _flowing(rng: random.Random, lines: list[str]) -> list[str]:
    """Put the same sentences into paragraphs."""
    paragraphs: list[str] = []
    for line in lines:
        if paragraphs and rng.random() < 0.6:
            paragraphs[-1] += f" {line}"
        else:
            paragraphs.append(line)
    return paragraphs
