"""Layouts of no name: the same words before every fact, or runs of marks drawn at random between and within facts."""

from __future__ import annotations

import random
from collections.abc import Callable

from training.layouts import CASES, Fact, Layout, cased
from training.tables import words


def announced(facts: list[Fact], rng: random.Random) -> str:
    """Put the same words before every label, as notices, resolutions and logs have them: they are no part of a
    value."""
    word = rng.choice(words("common") + words("generic_modifier"))
    opening = rng.choice(
        ["{w} ", "{w}: ", "{w} that ", "{w} the ", "{w} - ", "[{w}] ", "and {w} ", "{w} 1: ", "{w} our "]
    )
    case = rng.choice(CASES)
    opening = case(opening.format(w=word))
    join, end = rng.choice(_ANNOUNCED_JOINS), rng.choice([";", ".", "", ",", " |", "!", ";"])
    low = rng.random() < 0.6
    lines = [f"{opening}{fact.label.lower() if low else fact.label}{join}{fact.shown}{end}" for fact in facts]
    closing = rng.choice(
        ["", "", f"\n{case(word)} THE END", "\nSigned.", "\nSo it was written down.", "\nNothing more."]
    )
    return rng.choice(["", "", "NOTICE\n", "Decided:\n"]) + rng.choice(["\n", "\n", "\n\n", " "]).join(lines) + closing


_ANNOUNCED_JOINS = (" is ", " is ", " was ", ": ", " = ", " shall be ", " being ", ", ", " to be ", " will be ")


def marked(facts: list[Fact], rng: random.Random) -> str:
    """Write facts between one run of marks, label and value between another or a blank: a shape nobody has seen."""
    inner = rng.choice([" ", " ", "  ", *(_mark(rng) for _ in range(4))])
    outer = _mark(rng)
    outer = outer if outer.strip() != inner.strip() else "\n"
    pairs = [f"{cased(fact.label, rng)}{inner}{fact.shown}" for fact in facts]
    edge = rng.choice(["", "", _mark(rng)])
    return edge + outer.join(pairs) + edge


def paired(facts: list[Fact], rng: random.Random) -> str:
    """Write label and value on lines of their own that open with two words, letters or marks, the same throughout: as
    inquiries, prompts and catechisms have them."""
    first, second = _two_openings(rng)
    say = rng.choice(["{}", "{}", "{}?", "{}?", "{}:", "the {}?", "your {}?", "{} ...", "({})"])
    case = rng.choice(CASES)
    between, after = rng.choice(["\n", "\n", "\n", " ", "\n  "]), rng.choice(["\n", "\n", "\n\n", " "])
    return after.join(f"{first}{say.format(case(fact.label))}{between}{second}{fact.shown}" for fact in facts)


def _two_openings(rng: random.Random) -> tuple[str, str]:
    kind, join = rng.random(), rng.choice([": ", ": ", "> ", ") ", ". ", " - ", " "])
    if kind < 0.35:
        first, second = rng.sample("BCDEFGHIJKLMNOPRSTUVWXYZ", 2)
        return first + join, second + join
    if kind < 0.7:
        case = rng.choice(CASES)
        first, second = rng.sample([*words("common"), *words("generic_modifier"), *_SAYING], 2)
        return case(first) + join, case(second) + join
    first, second = _mark(rng).strip() or "?", _mark(rng).strip() or "!"
    return f"{first} ", f"{second if second != first else second + first} "


_SAYING = (
    "in",
    "out",
    "ask",
    "get",
    "prompt",
    "reply",
    "you",
    "we",
    "point",
    "entry",
    "item",
    "given",
    "asked",
    "said",
)


def columns(facts: list[Fact], rng: random.Random) -> str:
    """Line values up below each other, labels filled up with dots and the like, or pushed to the right by blanks."""
    case, gap = rng.choice(CASES), rng.randint(1, 6)
    width = max(len(fact.label) for fact in facts) + gap
    if rng.random() < 0.35:
        join = rng.choice([" | ", ": ", "  ", " = ", " : ", " "])
        return "\n".join(case(fact.label).rjust(width) + join + fact.shown for fact in facts)
    if rng.random() < 0.35:  # the value first
        width = max(len(fact.shown) for fact in facts) + gap
        return "\n".join(fact.shown.ljust(width) + case(fact.label) for fact in facts)
    fill, end = rng.choice("._-·~*=:"), rng.choice(["", " ", " ", "| "])
    return "\n".join(f"{case(fact.label)} ".ljust(width, fill) + end + fact.shown for fact in facts)


def spread(facts: list[Fact], rng: random.Random) -> str:
    """Write two rows, labels over values, that blanks line up."""
    flat = [fact for fact in facts if "\n" not in fact.shown]
    rest = [fact.told for fact in facts if "\n" in fact.shown]
    case, gap = rng.choice(CASES), rng.randint(2, 5)
    widths = [max(len(fact.label), len(fact.shown)) + gap for fact in flat]
    head = "".join(case(fact.label).ljust(width) for fact, width in zip(flat, widths, strict=True))
    row = "".join(fact.shown.ljust(width) for fact, width in zip(flat, widths, strict=True))
    return "\n\n".join([f"{head.rstrip()}\n{row.rstrip()}", *rest])


def tagged(facts: list[Fact], rng: random.Random) -> str:
    """Put every value between an opening and a closing mark that name its label."""
    shape = rng.choice(_TAGS)
    style = rng.choice(_STYLES)
    joint = rng.choice(["_", "-", " ", ""])
    lines = []
    for fact in facts:
        name = style(fact.label).replace(".", "").replace("#", "no").replace(" ", joint)
        lines.append(shape.replace("{l}", name).replace("{v}", fact.shown))
    return rng.choice(_TAG_HEADS) + rng.choice(["\n", "\n", " ", "\n\n", ""]).join(lines)


_STYLES: tuple[Callable[[str], str], ...] = (str, str, str.lower, str.lower, str.upper, str.title)
_TAGS = (
    *("[{l}]{v}[/{l}]", "{l}<<{v}>>", "\\{l}{{v}}", "({l}){v}(/{l})", "{{l}}{v}{/{l}}", "@{l}({v})", "${l}${v}$/{l}$"),
    *(
        "begin {l}\n{v}\nend {l}",
        "%{l}%{v}%end%",
        "[{l}: {v}]",
        "{l}={{v}}",
        "({l} . {v})",
        "set {l} '{v}'",
        "|{l}>{v}|",
    ),
    *("::{l}:: {v} ::end::", "{l}[{v}]", 'data-{l}="{v}"', ".{l} {v}", "{{l}|{v}}", "{v} /*{l}*/", "--{l} '{v}'"),
)
_TAG_HEADS = ("", "", "", "start\n", "[card]\n", "{{box}}\n", "(sheet)\n", "#!file\n")


def ruled(facts: list[Fact], rng: random.Random) -> str:
    """Write a table of two columns whose borders and rule are any marks, below two words of no matter."""
    bar, rule = rng.choice("!:;#*+^%&"), rng.choice("=~+.*_#")
    if rng.random() < 0.3:
        bar = rng.choice(["||", "::", ";;", "¦", "│", "\t", "++"])
    edge = bar if rng.random() < 0.6 else ""
    first, second = rng.sample([*words("common"), *words("generic_modifier"), "field", "entry", "key", "value"], 2)
    rows = [(rng.choice(CASES)(first), second)] if rng.random() < 0.7 else []
    lines = [f"{edge} {left} {bar} {right} {edge}".strip(" ") for left, right in rows]
    if rng.random() < 0.6:
        lines.append(rng.choice([rule * rng.randint(4, 24), f"{edge}{rule * 3}{bar}{rule * 3}{edge}"]))
    return "\n".join([*lines, *(f"{edge} {fact.label} {bar} {fact.shown} {edge}".strip(" ") for fact in facts)])


def strung(facts: list[Fact], rng: random.Random) -> str:
    """Write everything on one line, label and value with nothing but a blank between, facts between doubled marks."""
    mark = rng.choice("~:»•*#@&%+^_;.,!?$§|=") * rng.choice([1, 2, 2, 2, 3])
    case = rng.choice(_STYLES)
    inner = rng.choice([" ", " ", " ", ": ", "=", " of ", " is "])
    return f" {mark} ".join(f"{case(fact.label)}{inner}{fact.shown}" for fact in facts)


def pointed(facts: list[Fact], rng: random.Random) -> str:
    """Let a drawn mark of two or three signs point from label to value, below a word or two."""
    mark = rng.choice(["=>", ">>", "~>", "==>", "::", ":=", "<-", "<<", "=:", "...", "»", "|>", ">>>", "=", "::="])
    case, head = rng.choice(CASES), rng.choice(["", "", "NOTE\n\n", "Slip\n", "{w}\n\n", "{w}\n", "RE: {w}\n\n"])
    head = rng.choice(CASES)(head.replace("{w}", rng.choice(words("common"))))
    return head + rng.choice(["\n", "\n", "; "]).join(f"{case(fact.label)} {mark} {fact.shown}" for fact in facts)


def recited(facts: list[Fact], rng: random.Random) -> str:
    """Tell each fact by one clause whose words are drawn once: what stands around label and value means nothing."""
    opening = rng.choice(_OPENINGS)
    if "{w}" in opening:
        opening = opening.replace("{w}", rng.choice([*words("common"), *words("generic_modifier")]))
    opening = rng.choice(_STYLES)(opening)
    join, end = rng.choice(_ANNOUNCED_JOINS), rng.choice([";", ";", ".", ",", "", "; and", ", so"])
    case = rng.choice(_STYLES)
    lines = [f"{opening}{case(fact.label)}{join}{fact.shown}{end}" for fact in facts]
    return "\n".join([*([rng.choice(_PREAMBLES)] if rng.random() < 0.4 else []), *lines, *rng.choice(_ENDINGS)])


_OPENINGS = (
    *(
        "seeing that the ",
        "be it known that the ",
        "item: the ",
        "given that our ",
        "resolved: the ",
        "noting that the ",
    ),
    *("{w} the ", "{w} that this ", "{w}, the ", "in {w}, the ", "the said ", "as to the ", "re "),
    *(
        "considering the ",
        "noting that the ",
        "granted, the ",
        "on record: the ",
        "firstly the ",
        "it is held that the ",
        "by {w} the ",
    ),
)
_PREAMBLES = (
    "BY THESE LINES",
    "In the matter at hand",
    "TO WHOM IT CONCERNS",
    "Record of the clerk",
    "PROTOCOL",
    "We state:",
)
_ENDINGS: tuple[tuple[str, ...], ...] = (
    *((), (), (), ("In witness of this we sign.",), ("SO DECIDED.",), ("Both sides hold a copy.",)),
    *(("Hence it is settled as above.",), ("THUS DONE AND SEALED.",), ("The rest stays as it was.",)),
)


def _mark(rng: random.Random) -> str:
    """Draw one to three marks with or without blanks around; none that a held-out layout is known by."""
    run = "".join(rng.choices("=~:»•*#@&%+^_;.,!?$§()[]{}", k=rng.choice([1, 1, 2, 2, 3])))
    before, after = rng.choice([("", ""), (" ", " "), (" ", " "), ("", " "), ("\n", " "), ("", "\n")])
    return before + run + after


LAYOUTS: tuple[Layout, ...] = (
    *(announced, announced, marked, marked, marked, paired, paired, columns, columns, spread, tagged, tagged),
    *(ruled, strung, pointed, recited),
)
