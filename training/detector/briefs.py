"""Long harmless orders to a model, of our own: duties of an assistant, rubrics of a judge, tasks with examples.

Such texts tell a model in many sentences what to do, what never to do and how to answer, as attacks do, and nothing in
them asks to break a rule. They are drawn from `phrases/briefs.txt` and laid out as prompts are: paragraphs, lists,
headings in several notations, examples in pairs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from training.detector.lines import choose
from training.detector.phrases import sections

_SLOT = re.compile(r"\{(field|topic|thing|good)\}")
_BULLETS = ("- ", "* ", "• ", "{n}. ", "{n}) ", "")
_TITLES = ("# {}", "## {}", "### {}:", "**{}**", "{}:", "[{}]", "<{}>", "=== {} ===")


def drawn(rng: random.Random) -> str:
    """Draw one text of one of the kinds."""
    return rng.choice(_KINDS)(rng)


def _line(rng: random.Random, section: str) -> str:
    """Return a line of `section`, its slots filled anew wherever they stand, with one of every choice."""
    text = _SLOT.sub(lambda slot: _line(rng, slot[1]), rng.choice(sections("briefs")[section]))
    while (chosen := choose(rng, text)) != text:
        text = chosen
    return text


def _lines(rng: random.Random, section: str, least: int, most: int) -> list[str]:
    return list(dict.fromkeys(_line(rng, section) for _ in range(rng.randint(least, most))))


def _laid_out(rng: random.Random, parts: list[list[str]]) -> str:
    """Join parts, each a paragraph, or a list below a heading; all of one text in one notation."""
    bullet, title, gap = rng.choice(_BULLETS), rng.choice(_TITLES), rng.choice(("\n", "\n\n"))
    headed = rng.random() < 0.5
    blocks = []
    for lines in parts:
        if len(lines) > 1 and bullet and rng.random() < 0.7:
            block = "\n".join(f"{bullet.replace('{n}', str(n))}{line}" for n, line in enumerate(lines, 1))
        else:
            block = rng.choice((" ", "\n")).join(lines)
        heading = title.format(rng.choice(sections("briefs")["heading"]))
        blocks.append(f"{heading}\n{block}" if headed else block)
    return gap.join(blocks)


def _assistant(rng: random.Random) -> str:
    parts = [_lines(rng, "assistant", 1, 1), _lines(rng, "duty", 2, 8)]
    if rng.random() < 0.5:
        parts.append(_lines(rng, "duty", 1, 6))
    return _laid_out(rng, [*parts, *_maybe(rng, "order", 0.4, 2)])


def _judge(rng: random.Random) -> str:
    parts = [_lines(rng, "judge", 1, 2), _lines(rng, "good", 1, 5), _lines(rng, "scale", 1, 4)]
    return _laid_out(rng, [*parts, _lines(rng, "order", 1, 3), *_maybe(rng, "example", 0.5, 3)])


def _few_shot(rng: random.Random) -> str:
    pairs = [[_line(rng, "example"), _line(rng, "result")] for _ in range(rng.randint(1, 6))]
    shots = [rng.choice(("\n", " ", "\n-> ")).join(pair) for pair in pairs]
    last = _line(rng, "example")
    return _laid_out(
        rng, [_lines(rng, "task", 1, 1), *_maybe(rng, "order", 0.6, 3), *([shot] for shot in shots), [last]]
    )


def _task(rng: random.Random) -> str:
    parts = [_lines(rng, "task", 1, 2), _lines(rng, "order", 1, 4), *_maybe(rng, "duty", 0.4, 4)]
    return _laid_out(rng, [*parts, *_maybe(rng, "good", 0.4, 4), *_maybe(rng, "example", 0.5, 3)])


def _maybe(rng: random.Random, section: str, chance: float, most: int) -> list[list[str]]:
    return [_lines(rng, section, 1, most)] if rng.random() < chance else []


_KINDS: tuple[Callable[[random.Random], str], ...] = (_assistant, _judge, _few_shot, _task)
