"""Gives labels names that nobody has seen: words put around the usual ones, or signs that a description explains."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

Labels = dict[str, str]  # by class

_AROUND = (
    *("{} section", "{} desk", "{} department", "{} team", "{} topic", "about {}", "it is {}", "topic {}", "{} (main)"),
    *(
        "{} request",
        "{} queue",
        "{} related",
        "mainly {}",
        "{} stuff",
        "class: {}",
        "{} group",
        "{} class",
        "the {} one",
    ),
    *("type_{}", "{}_label", "cat-{}", "is {}", "{} / general", "{} & co", "my {}", "{} text", "{}!", "*{}*", "#{}"),
    *("label {}", "{} content", "{} item", "probably {}", "{} kind", "other {}", "{}-like", "{} folder", "→ {}"),
)
_SIGNS = (
    *("red", "blue", "green", "yellow", "white", "black", "violet", "orange", "north", "south", "east", "west"),
    *("alpha", "beta", "gamma", "delta", "lion", "eagle", "shark", "wolf", "tiger", "sun", "moon", "star", "left"),
    *("right", "top", "down", "gold", "silver", "iron", "spring", "autumn", "Anna", "Otto", "Zoe", "Max", "Ida"),
)
_SAYS = (
    "{s} = {l}",
    "{s}: {l}",
    "{s} for {l}",
    "{s} means {l}",
    "{l}: {s}",
    "{l} = {s}",
    "{s} if {l}",
    "use {s} for {l}",
)
_SHOWN = 80  # characters of a description that the sketch of a schema has room for
_JOINS = ("; ", ", ", ". ", " / ", " | ")


def renamed(labels: Mapping[str, str], rng: random.Random) -> tuple[Labels, str]:
    """Return the labels under other names, now and then, and the description that explains them, if they need one."""
    named, note = _renamed(labels, rng)
    return (named, note) if len(set(named.values())) == len(named) else (dict(labels), "")


def _renamed(labels: Mapping[str, str], rng: random.Random) -> tuple[Labels, str]:
    roll = rng.random()
    if roll < 0.06:
        around = rng.choice(_AROUND)
        return {name: around.format(label) for name, label in labels.items()}, ""
    if roll < 0.09:
        style = rng.choice(_STYLES)
        return {name: style(label) for name, label in labels.items()}, ""
    if roll < 0.1:
        numbered = rng.choice(["{}. {}", "{}) {}", "{} - {}", "[{}] {}", "{}: {}"])
        return {name: numbered.format(i, label) for i, (name, label) in enumerate(_shuffled(labels, rng), 1)}, ""
    if roll < 0.13 and len(labels) <= 5:
        return _signs(labels, rng)
    return dict(labels), ""


_STYLES: tuple[Callable[[str], str], ...] = (
    lambda label: label.replace(" ", "_"),
    lambda label: label.replace(" ", "-").lower(),
    lambda label: label.replace(" ", "_").upper(),
    str.title,
    lambda label: label.title().replace(" ", ""),
    lambda label: label[:4].rstrip(),
    lambda label: label[:6].rstrip().lower(),
)


def _shuffled(labels: Mapping[str, str], rng: random.Random) -> list[tuple[str, str]]:
    pairs = list(labels.items())
    rng.shuffle(pairs)
    return pairs


def _signs(labels: Mapping[str, str], rng: random.Random) -> tuple[Labels, str]:
    """Return names that say nothing, each with its meaning in the description."""
    pairs = _shuffled(labels, rng)
    signs = _drawn_signs(len(pairs), rng)
    says = rng.choice(_SAYS)
    told = [says.format(s=sign, l=label) for sign, (_, label) in zip(signs, pairs, strict=True)]
    note = rng.choice(_JOINS).join(told)
    if len(note) > _SHOWN:
        return dict(labels), ""
    return {name: sign for sign, (name, _) in zip(signs, pairs, strict=True)}, note


def _drawn_signs(many: int, rng: random.Random) -> list[str]:
    roll = rng.random()
    if roll < 0.3:
        first = rng.choice(["A", "a", "K", "p"])
        return [chr(ord(first) + place) for place in range(many)]
    if roll < 0.5:
        stem = rng.choice(["C", "type ", "L", "cat_", "label", "T-", "class ", "option ", "P", "group "])
        return [f"{stem}{place}" for place in range(1, many + 1)]
    if roll < 0.6:
        return ["".join(rng.choices("ABCDEFGHKLMNPRSTUVWXYZ", k=2)) + str(place) for place in range(many)]
    return rng.sample(_SIGNS, many)
