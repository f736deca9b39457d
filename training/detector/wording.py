"""The words of a template, told from what was filled into it: what stands in most of the texts made from it.

Public sets of tasks put passages of other sets, under licences of their own, into templates. Only the template is
trained on; its blanks are filled with passages written for this project.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from training.detector.data import Example

RUN = 4
"""Words. Shorter runs that texts share are chance."""
_TOKEN = re.compile(r"\S+|\n")


def templates(examples: Iterable[Example]) -> dict[str, tuple[Example, list[str]]]:
    """Return template -> one of its examples (for its group), and the runs of words that at least half of them
    share."""
    made_from: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        if example.template:
            made_from[example.template].append(example)
    found = {name: (own[0], shared([e.text for e in own])) for name, own in sorted(made_from.items())}
    return {name: pair for name, pair in found.items() if pair[1]}


def shared(texts: Sequence[str]) -> list[str]:
    """Return the runs of at least `RUN` tokens that stand in at least half of `texts`, and in two; sorted, each
    once."""
    tokens = [_TOKEN.findall(text) for text in texts]
    counts = Counter(run for one in tokens for run in {tuple(one[i : i + RUN]) for i in range(len(one) - RUN + 1)})
    enough = max(2, len(texts) / 2)
    return sorted({run for one in tokens for run in _kept(one, {r for r, n in counts.items() if n >= enough})})


def _kept(tokens: list[str], common: set[tuple[str, ...]]) -> Iterator[str]:
    keep = [False] * (len(tokens) + 1)
    for i in range(len(tokens) - RUN + 1):
        if tuple(tokens[i : i + RUN]) in common:
            keep[i : i + RUN] = [True] * RUN
    run: list[str] = []
    for token, kept in zip([*tokens, "\n"], keep, strict=True):
        if kept:
            run.append(token)
        elif run:
            text = " ".join(run).replace(" \n ", "\n").strip()
            run = []
            if text:
                yield text
