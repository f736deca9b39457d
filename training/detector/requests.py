"""Harmless requests composed from the phrase banks: tasks on texts, everyday wishes, code, play, mails, sums, puzzles,
short turns of a conversation, and what agent frameworks put into one.

Each function draws one text from `rng` and is otherwise pure. What detectors call attacks most often is an order about
an answer ("reply only with the label"), so orders of that kind stand in most of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from training.detector.phrases import bank

_SLOT = re.compile(r"\{(\w+)\}")
_MARKS = ("===", "---", "***", "")
_QUOTES = ('"{}"', "'{}'", "“{}”", "{}", "{}", "{}")


def request(rng: random.Random, passages: Sequence[str] = ()) -> str:
    """Compose a request of any kind; `passages` are texts to work on beside those of the bank."""
    kind = rng.choices(
        ("task", "everyday", "code", "play", "long_play", "mail", "sum", "puzzle", "alike", "tongue"), _OFTEN
    )[0]
    return task(rng, passages) if kind == "task" else KINDS[kind](rng)


def task(rng: random.Random, passages: Sequence[str] = ()) -> str:
    """Compose an order about a text, with or without the text, before or after it, with labels, options and
    examples."""
    order = _ordered(rng)
    if rng.random() < 0.15:
        return order
    layout = rng.choices((_before, _after, _examples, _around), (6, 4, 1, 2))[0]
    text = layout(rng, order, passages)
    return f"{text}{_gap(rng)}{_draw(rng, 'tasks', 'end')}" if rng.random() < 0.3 else text


def filled(rng: random.Random, runs: Sequence[str], passages: Sequence[str]) -> str:
    """Put something to work on behind or before some of the words of one template (`wording`)."""
    parts = []
    for run in rng.sample(runs, min(len(runs), 3)):
        pair = [run, _material(rng, passages)]
        parts += pair if rng.random() < 0.5 else pair[::-1]
    return "\n".join(parts)


def _ordered(rng: random.Random) -> str:
    """Compose one order, its opening, and sometimes riders ("answer in one word")."""
    order = _draw(rng, "tasks", "order")
    opening = _draw(rng, "tasks", "opening", order=order, lower=order[:1].lower() + order[1:])
    riders = [_draw(rng, "tasks", "rider") for _ in range(rng.choices((0, 1, 2), (6, 3, 1))[0])]
    parts = [opening, *riders] if rng.random() < 0.85 else [*riders, opening]
    return " ".join(parts)


def _before(rng: random.Random, order: str, passages: Sequence[str]) -> str:
    return f"{order}{_gap(rng)}{_material(rng, passages)}"


def _after(rng: random.Random, order: str, passages: Sequence[str]) -> str:
    return f"{_material(rng, passages)}{_gap(rng)}{order}"


def _around(rng: random.Random, order: str, passages: Sequence[str]) -> str:
    """Put the order before the text, a second one after it."""
    return f"{order}{_gap(rng)}{_material(rng, passages)}{_gap(rng)}{_draw(rng, 'tasks', 'order')}"


def _examples(rng: random.Random, order: str, passages: Sequence[str]) -> str:
    """Compose solved examples, then one to solve."""
    given, answer = rng.choice((("Input:", "Output:"), ("Q:", "A:"), ("Text:", "Label:"), ("Example:", "Answer:")))
    done = [
        f"{given} {_passage(rng, passages)}\n{answer} {_draw(rng, 'tasks', 'answer')}" for _ in range(rng.randint(1, 3))
    ]
    return "\n\n".join([order, *done, f"{given} {_passage(rng, passages)}\n{answer}"])


def _material(rng: random.Random, passages: Sequence[str]) -> str:
    parts = []
    for _ in range(rng.choices((1, 2, 3), (6, 3, 1))[0]):
        label = f"{_draw(rng, 'tasks', 'label')}{rng.choice((' ', chr(10)))}" if rng.random() < 0.5 else ""
        parts.append(label + rng.choice(_QUOTES).format(_passage(rng, passages)))
    if rng.random() < 0.25:
        parts.append(_options(rng, passages))
    return _gap(rng).join(parts)


def _options(rng: random.Random, passages: Sequence[str]) -> str:
    mark = rng.choice(("- ", "* ", "{}. ", "({}) ", "{}) ", "- {}: ", "{}: "))
    letters = rng.choice(("ABCD", "abcd", "1234"))
    drawn = [_passage(rng, passages)[:80] if rng.random() < 0.3 else _draw(rng, "tasks", "answer") for _ in letters]
    lines = [mark.format(letter) + text for letter, text in zip(letters, drawn, strict=True)]
    head = rng.choice(("", "Options:\n", "Choices:\n", "Possible answers:\n"))
    return head + "\n".join(lines[: rng.randint(2, 4)])


def _passage(rng: random.Random, passages: Sequence[str]) -> str:
    draw = rng.random()
    if passages and draw < 0.4:
        return rng.choice(passages)
    own = bank("tasks").sections["passage"]
    if draw < 0.5:
        return dialogue(rng) if rng.random() < 0.7 else _diary(rng)
    if draw < 0.6:
        return " ".join(rng.sample(bank("documents").sections["article"], rng.randint(1, 4)))
    return " ".join(rng.sample(own, rng.choice((1, 1, 2, 3, 5))))


def dialogue(rng: random.Random) -> str:
    """Compose small talk between two or three people."""
    words = bank("talk").sections
    people = rng.sample(words["who"], rng.choice((2, 2, 3)))
    end = rng.choice(("\n", "\n", "\r\n", "\n\n", " "))
    lines = rng.sample(words["line"], rng.randint(1, 12))
    return end.join(f"{people[i % len(people)]}: {line}" for i, line in enumerate(lines))


def _diary(rng: random.Random) -> str:
    return " ".join(rng.sample(bank("talk").sections["blog"], rng.randint(1, 5)))


def _gap(rng: random.Random) -> str:
    if rng.random() < 0.15:
        return f"\n\n{rng.choice(_MARKS)}\n\n"
    return rng.choice((" ", "\n", "\n", "\n\n"))


def everyday(rng: random.Random) -> str:
    wish = _draw(rng, "everyday", "wish")
    return f"{wish} {_draw(rng, 'tasks', 'rider')}" if rng.random() < 0.15 else wish


def code(rng: random.Random) -> str:
    return _draw(rng, "everyday", "codeask")


def play(rng: random.Random) -> str:
    """Compose role-play without a wish to get around anything."""
    scenes = rng.sample(bank("everyday").sections["scene"], rng.choices((0, 1, 3, 5), (5, 3, 2, 1))[0])
    return " ".join([_draw(rng, "everyday", "play"), *scenes])


def long_play(rng: random.Random) -> str:
    """Compose a role-play at length, as such requests are passed around: who, what happens, how to answer, how it
    begins."""
    words = [_draw(rng, "play", "open")]
    words += [_draw(rng, "play", "brief") for _ in range(rng.randint(0, 4))]
    words += [_draw(rng, "play", "manner") for _ in range(rng.randint(0, 5))]
    if rng.random() < 0.6:
        words.append(_draw(rng, "play", "begin"))
    return rng.choice((" ", " ", " ", "\n", "\n\n")).join(words)


def wrapped(rng: random.Random) -> str:
    """Draw a harmless wish in a setting, with assurances and pressure, as attacks are wrapped."""
    return wrapping(rng, [_draw(rng, "wrapped", "wish") for _ in range(rng.choice((1, 1, 1, 2)))])


def wrapping(rng: random.Random, wishes: Sequence[str]) -> str:
    """Put `wishes` between a setting and how to answer; what stands before them may change places."""
    before = [_draw(rng, "wrapped", "setting") for _ in range(rng.choice((1, 1, 1, 2)))]
    before += [_draw(rng, "wrapped", "assure") for _ in range(rng.choice((0, 0, 1, 2)))]
    before += [_draw(rng, "wrapped", "pressure") for _ in range(rng.choice((0, 0, 0, 1)))]
    if rng.random() < 0.3:
        rng.shuffle(before)
    after = [_draw(rng, "wrapped", "manner") for _ in range(rng.choice((0, 1, 1, 2, 4)))]
    return rng.choice((" ", " ", " ", "\n", "\n\n")).join([*before, *wishes, *after])


def mail(rng: random.Random) -> str:
    return _draw(rng, "everyday", "mailask")


def word_problem(rng: random.Random) -> str:
    return _draw(rng, "everyday", "sum")


def puzzle(rng: random.Random) -> str:
    return _draw(rng, "everyday", "puzzle")


def alike(rng: random.Random) -> str:
    """Compose something harmless in the words of attacks."""
    text = _draw(rng, "alike", "alike")
    return f"{text} {_draw(rng, 'alike', 'alike')}" if rng.random() < 0.2 else text


def turn(rng: random.Random) -> str:
    """Compose what people type between two answers, in any case and with any mark at its end."""
    text = _draw(rng, "turns", "turn")
    if rng.random() < 0.25:
        text = text.rstrip(".!") + rng.choice(("", "!", "...", " :)", " please", ", please."))
    text = text if rng.random() < 0.7 else text.lower()
    return f"{text} {_draw(rng, 'turns', 'turn')}" if rng.random() < 0.15 else text


def agent(rng: random.Random) -> str:
    """Compose orders about formats, tools, errors and other agents, as frameworks write them."""
    return _draw(rng, "agents", "agent").replace("\\n", "\n")


def tongue(rng: random.Random) -> str:
    """Compose a request in one of the languages of the bank."""
    words = bank("requests").sections
    lines = words[rng.choice(list(words))]
    return " ".join(rng.sample(lines, rng.choice((1, 1, 1, 2, 3))))


def long_tongue(rng: random.Random) -> str:
    """Compose many requests in one of the languages of the bank."""
    words = bank("requests").sections
    lines = words[rng.choice(list(words))]
    return rng.choice((" ", "\n", "\n\n")).join(rng.sample(lines, min(len(lines), rng.randint(4, 14))))


def _draw(rng: random.Random, name: str, section: str, **given: str) -> str:
    """Draw a phrase with every slot filled anew, so that two numbers of one problem differ; `{Work}` is `{work}` with a
    capital."""
    words = bank(name)

    def fill(found: re.Match[str]) -> str:
        slot = found[1]
        if slot in given:
            return given[slot]
        if slot.lower() not in words.sections:
            return found[0]
        text = _SLOT.sub(fill, rng.choice(words.sections[slot.lower()]))
        return text[:1].upper() + text[1:] if slot[0].isupper() else text

    return _SLOT.sub(fill, rng.choice(words.sections[section]))


KINDS: dict[str, Callable[[random.Random], str]] = {
    "task": task,
    "everyday": everyday,
    "code": code,
    "play": play,
    "long_play": long_play,
    "mail": mail,
    "sum": word_problem,
    "puzzle": puzzle,
    "alike": alike,
    "tongue": tongue,
    "turn": turn,
    "agent": agent,
    "wrapped": wrapped,
}
_OFTEN = (8, 5, 3, 3, 4, 2, 1.5, 0.6, 4, 4)
