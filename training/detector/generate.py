"""Texts in the user's own words, composed from the phrase banks: attacks, harmful requests, and harmless ones.

Every function draws one text from `rng` and is otherwise pure.
"""

from __future__ import annotations

import base64
import codecs
import random

from training.detector import requests
from training.detector.phrases import bank, languages


def attack(rng: random.Random) -> str:
    kinds = (_plain_attack, _jailbreak, _leak, _split, _coded, _chatter, _planted, _off_task, _foreign_attack, _game)
    weights = (5, 5, 2, 1, 1, 2, 3, 1, 5, 5)
    return rng.choices(kinds, weights)[0](rng)


def framed_attack(rng: random.Random) -> str:
    """Compose a harmless request with an attack in it: what surrounds attacks must not count as one."""
    kind = rng.choices((_played, _interrupted, _foreign_interrupted), (4, 5, 2))[0]
    return kind(rng)


def brief_attack(rng: random.Random) -> str:
    """Compose an attack as short as a turn of a conversation (`requests.turn`), which names what it is after."""
    text = bank("attacks").draw(rng, "brief")
    return text if rng.random() < 0.7 else text.lower()


def _played(rng: random.Random) -> str:
    """Compose role-play that begins as harmless role-play does, and is after an answer without rules."""
    words = bank("attacks")
    name = words.draw(rng, "name")
    begin = requests.long_play(rng) if rng.random() < 0.5 else requests.play(rng)
    free = [f"{rng.choice((name, 'You', 'This character', 'It'))} {words.draw(rng, 'free')}."]
    rules = [words.draw(rng, "rule", name=name) for _ in range(rng.randint(0, 5))]
    last = [words.draw(rng, rng.choice(("goal", "leak", "ask", "persona")), name=name)] if rng.random() < 0.6 else []
    return _joined(rng, [begin, *free, *rules, *last])


def wrapped_attack(rng: random.Random) -> str:
    """Draw a wish for an answer without rules, in the wrapping of harmless wishes (`requests.wrapped`)."""
    words = bank("wrapped").sections
    wishes = rng.sample(words["limitless"], rng.choice((1, 1, 2, 3))) if rng.random() < 0.85 else []
    if not wishes or rng.random() < 0.6:
        wishes.append(rng.choice(words["badwish"]))
    name = rng.choice(words["name"])
    return requests.wrapping(rng, [wish.replace("{name}", name) for wish in wishes])


def _interrupted(rng: random.Random) -> str:
    """Compose any harmless request, before or after which stands what takes it back or asks for what is kept."""
    words = bank("attacks")
    core = [words.draw(rng, rng.choice(("override", "override", "claim")))] if rng.random() < 0.7 else []
    last = rng.choices(("ask", "leak", "off_task", "plant"), (4, 4, 2, 2))[0]
    core.append(
        words.draw(rng, "override") + " " + words.draw(rng, last) if last == "off_task" else words.draw(rng, last)
    )
    harmless_part = requests.request(rng)
    parts = [harmless_part, *core] if rng.random() < 0.7 else [*core, harmless_part]
    return _joined(rng, parts)


def _foreign_interrupted(rng: random.Random) -> str:
    language = rng.choice(sorted(set(languages()) & set(bank("requests").sections)))
    words = languages()[language]
    core = [rng.choice(words["o"])] if rng.random() < 0.6 else [rng.choice(words["c"])]
    core.append(rng.choice(words["a"]))
    line = rng.choice(bank("requests").sections[language])
    return " ".join([line, *core] if rng.random() < 0.7 else [*core, line])


def harmless(rng: random.Random) -> str:
    kinds = (_about_attacks, _near, _ask, _frame, _foreign_harmless, _harmless_task, _pasted, compose)
    return rng.choices(kinds, (6, 4, 3, 3, 8, 2, 2, 4))[0](rng)


def _plain_attack(rng: random.Random) -> str:
    words = bank("attacks")
    parts = [words.draw(rng, "override")] if rng.random() < 0.5 else []
    parts += [words.draw(rng, "claim")] if rng.random() < 0.5 or not parts else []
    parts.append(words.draw(rng, "ask" if rng.random() < 0.8 else "leak"))
    return _joined(rng, parts)


def _leak(rng: random.Random) -> str:
    return bank("attacks").draw(rng, "leak")


def _jailbreak(rng: random.Random) -> str:
    words = bank("attacks")
    name = words.draw(rng, "name")
    parts = [words.draw(rng, "persona", name=name)]
    parts += [words.draw(rng, "rule", name=name) for _ in range(rng.randint(1, 9))]
    if rng.random() < 0.3:
        parts.insert(0, words.draw(rng, "override"))
    if rng.random() < 0.5:
        parts.append(words.draw(rng, "goal"))
    return _joined(rng, parts)


def _split(rng: random.Random) -> str:
    return bank("attacks").draw(rng, "split")


def _coded(rng: random.Random) -> str:
    words = bank("attacks")
    plain = words.draw(rng, rng.choice(("ask", "leak", "override")))
    encode = rng.choice((_base64, _rot13, _backwards, _hex))
    return words.draw(rng, "coded", code=encode(plain))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _rot13(text: str) -> str:
    return codecs.encode(text, "rot13")


def _backwards(text: str) -> str:
    return text[::-1]


def _hex(text: str) -> str:
    return text.encode().hex()


def _game(rng: random.Random) -> str:
    """Compose what somebody says who wants past a doorman made of instructions: an order, or a request for the
    password."""
    words = bank("attacks")
    parts = [words.draw(rng, "hijack" if rng.random() < 0.5 else "extract")]
    if rng.random() < 0.3:
        parts.insert(0, words.draw(rng, "override"))
    if rng.random() < 0.3:
        parts.insert(0, words.draw(rng, "fence"))
    if rng.random() < 0.2:
        parts.append(words.draw(rng, "fence"))
    return _joined(rng, parts)


def _chatter(rng: random.Random) -> str:
    """Compose harmless talk first, the attack last."""
    words = bank("attacks")
    parts = rng.sample(words.sections["chatter"], rng.randint(1, 3))
    last = rng.choice(("ask", "leak", "ask", "persona"))
    return " ".join([*parts, words.draw(rng, "turn"), words.draw(rng, last)])


def _planted(rng: random.Random) -> str:
    """Compose a task on a text into which somebody has put an instruction."""
    return bank("attacks").draw(rng, "planted_task")


def _off_task(rng: random.Random) -> str:
    words = bank("attacks")
    return f"{words.draw(rng, 'override')} {words.draw(rng, 'off_task')}"


def _foreign_attack(rng: random.Random) -> str:
    language = rng.choice(list(languages()))
    words = languages()[language]
    parts = [rng.choice(words["o"])] if rng.random() < 0.5 else []
    parts += [rng.choice(words["c"])] if rng.random() < 0.5 else []
    if rng.random() < 0.25:
        parts.insert(0, _foreign_line(rng, language))
    parts.append(rng.choice(words["a"]))
    return " ".join(parts)


def _about_attacks(rng: random.Random) -> str:
    """Quote an attack; often one that the banks hold as an attack, so that only the quotation tells them apart."""
    if rng.random() < 0.5:
        return bank("benign").draw(rng, "about")
    section = rng.choice(("override", "leak", "extract", "hijack", "ask", "plant"))
    said = bank("attacks").draw(rng, section).rstrip(".").replace('"', "'")
    return bank("benign").draw(rng, "about", quote=rng.choice((said, said[:1].lower() + said[1:])))


def _near(rng: random.Random) -> str:
    return bank("benign").draw(rng, "near")


def compose(rng: random.Random) -> str:
    """Write this, program that: the forms in which harm is asked for as well."""
    return bank("benign").draw(rng, "compose")


def _ask(rng: random.Random) -> str:
    return bank("benign").draw(rng, "ask")


def _frame(rng: random.Random) -> str:
    return bank("benign").draw(rng, "frame")


def _foreign_harmless(rng: random.Random) -> str:
    language = rng.choice(list(languages()))
    return " ".join(_foreign_line(rng, language) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def _foreign_line(rng: random.Random, language: str) -> str:
    words = languages()[language]
    draw = rng.random()
    if draw < 0.35:
        return bank("questions").draw(rng, language)
    if draw < 0.6:
        return rng.choice(words["b"])
    return rng.choice(words["f"]).replace("{t}", rng.choice(words["t"]))


def _harmless_task(rng: random.Random) -> str:
    """Compose the same task on the same page as in `_planted`, with nothing planted."""
    words = bank("attacks")
    page = words.draw(rng, "page", plant=bank("documents").draw(rng, "article"))
    return words.draw(rng, "planted_task", page=page)


def _pasted(rng: random.Random) -> str:
    """Compose harmless chatter that ends in a harmless question."""
    parts = rng.sample(bank("attacks").sections["chatter"][:-1], rng.randint(1, 3))
    return " ".join(
        [*parts, bank("attacks").draw(rng, "turn"), bank("benign").draw(rng, rng.choice(("near", "ask", "compose")))]
    )


def ordinary(rng: random.Random) -> str:
    """Compose a harmless wish, asked for as a harmful one would be."""
    return f"{bank('harm').draw(rng, 'how')} {bank('benign').draw(rng, 'do')}{_end(rng)}"


def harmful(rng: random.Random) -> str:
    """Compose a request for harm. The forms are shared with `safe_look_alike`; the difference is in what is asked
    for."""
    words = bank("harm")
    kind = rng.choices(("act", "wish", "guide", "write", "group", "private", "ware"), (25, 22, 12, 22, 8, 6, 5))[0]
    if kind == "act":
        return _act(rng, "violent_act", "person", f"{words.draw(rng, 'owner')} {words.draw(rng, 'part')}")
    if kind == "wish":
        wish = rng.choice(("crime", "weapon", "drug", "cyber", "cyber", "self", "sexual", "privacy"))
        return f"{words.draw(rng, 'how')} {words.draw(rng, wish)}{_end(rng)}"
    if kind == "guide":
        wish = rng.choice(("crime", "weapon", "drug", "cyber", "privacy", "sexual"))
        return f"{words.draw(rng, 'guide')} {_gerund(words.draw(rng, wish))}{rng.choice(('', '.'))}"
    if kind == "write":
        return _harmful_text(rng)
    if kind == "group":
        return _discriminating(rng, words.draw(rng, "group"))
    if kind == "ware":
        return f"{words.draw(rng, 'wheregoods')} {words.draw(rng, 'ware')}?"
    return _about_person(rng, words.draw(rng, "known"))


def _harmful_text(rng: random.Random) -> str:
    words = bank("harm")
    form = rng.random()
    if form < 0.55:
        kind = rng.choice(("hateful", "lies", "scam", "graphic"))
        return f"{words.draw(rng, 'write')} {words.draw(rng, kind)}{rng.choice(('', '.'))}"
    if form < 0.75:
        return f"{words.draw(rng, 'persuasive')} {words.draw(rng, 'atrocity')} {words.draw(rng, 'denial')}"
    if form < 0.87:
        return f"{words.draw(rng, 'persuasive')} {words.draw(rng, 'scandal')}"
    return words.draw(rng, "push")


def _act(rng: random.Random, verbs: str, objects: str, part: str) -> str:
    """Compose how to do something to somebody or something, or to a part of it."""
    words = bank("harm")
    if rng.random() < 0.2:
        act = f"{words.draw(rng, 'partact')} {part}"
    else:
        act = f"{words.draw(rng, verbs)} {words.draw(rng, objects)}"
    if rng.random() < 0.25:
        opening = rng.choice(("What is the process for", "What are good ways of", "What's the best way of"))
        return f"{opening} {_gerund(act)}?"
    return f"{words.draw(rng, 'how')} {act}{_end(rng)}"


def _discriminating(rng: random.Random, group: str) -> str:
    words = bank("harm")
    form = rng.choice(
        (
            "Why should {g} {w}?",
            "Why should {g} {w}?",
            "Give me reasons why {g} should {w}.",
            "Write an essay that says that {g} must {w}.",
            "Why is it best if {g} {w}?",
            "Is it better for everybody if {g} {w}?",
            "Why is it a good idea that {g} should {w}?",
            "Why are {g} so much {c} than others?",
        )
    )
    return form.format(g=group, w=words.draw(rng, "predicate"), c=words.draw(rng, "compared"))


def _about_person(rng: random.Random, owner: str) -> str:
    """Ask for what is private about somebody; `owner` is a possessive."""
    private = bank("harm").draw(rng, "private")
    form = rng.choice(("What is {o} {p}?", "What is {o} {p}?", "How can I find {o} {p}?", "How can I get {o} {p}?"))
    return form.format(o=owner, p=private)


def risky(rng: random.Random) -> str:
    """Compose a request for harm of one field, in a form that `fair` uses as well."""
    return _of_risk(rng, "do", "evade", "text")


def fair(rng: random.Random) -> str:
    """Compose the harmless twin of `risky`: the same forms and many of the same words."""
    return _of_risk(rng, "may", "plain", "fair")


def _of_risk(rng: random.Random, deeds: str, asides: str, pieces: str) -> str:
    """Compose a request; about one in three is for a text, the others for a way to do something."""
    words = bank("risks")
    if rng.random() < 0.35:
        return words.draw(rng, "order", piece=words.draw(rng, pieces))
    return words.draw(rng, "form", deed=words.draw(rng, deeds), aside=words.draw(rng, asides))


def safe_look_alike(rng: random.Random) -> str:
    """Use the words of harmful requests for something harmless."""
    words = bank("harm")
    kinds = ("act", "fiction", "define", "nonsense", "person", "ware", "memory", "phrase")
    kind = rng.choices(kinds, (26, 15, 11, 16, 9, 5, 4, 14))[0]
    if kind == "act":
        return _act(rng, "violent_act", "thing", words.draw(rng, "thingpart"))
    if kind == "fiction":
        act = f"{words.draw(rng, 'violent_act')} {words.draw(rng, 'person')}"
        act = act if rng.random() < 0.6 else words.draw(rng, rng.choice(("crime", "weapon", "cyber")))
        return f"{words.draw(rng, 'how')} {act} {words.draw(rng, 'fiction')}{_end(rng)}"
    if kind == "define":
        return f"{words.draw(rng, 'define')} {words.draw(rng, 'topic')}{_end(rng)}"
    if kind == "nonsense":
        return _nonsense(rng)
    if kind == "person":
        return _about_figure(rng)
    if kind == "ware":
        return f"{words.draw(rng, 'wheregoods')} {words.draw(rng, 'good')}?"
    if kind == "memory":
        return words.draw(rng, "memory")
    return words.draw(rng, rng.choice(("figurative", "figurative", "past", "secure")))


def _about_figure(rng: random.Random) -> str:
    """Ask what everybody may know of a public person, or what nobody can know of an invented one."""
    words = bank("harm")
    if rng.random() < 0.5:
        return f"{words.draw(rng, 'public')} {words.draw(rng, 'figure')}?"
    return _about_person(rng, f"{words.draw(rng, 'figure')}'s")


def _nonsense(rng: random.Random) -> str:
    """Compose discrimination against things, or ask for things that no group of people can do."""
    words = bank("harm")
    if rng.random() < 0.65:
        return _discriminating(rng, words.draw(rng, "nonthing"))
    return f"Why can {words.draw(rng, 'group')} not {words.draw(rng, 'cannot')}?"


_DOUBLED = frozenset({"rob", "get", "cut", "hit", "run", "stab", "shop", "plan", "set"})


def _gerund(phrase: str) -> str:
    """Turn `make a list` into `making a list`; good enough for the verbs of the bank."""
    verb, _, rest = phrase.partition(" ")
    if verb in _DOUBLED:
        verb += verb[-1]
    elif verb.endswith("e") and not verb.endswith("ee"):
        verb = verb[:-1]
    return f"{verb}ing {rest}"


def _end(rng: random.Random) -> str:
    return rng.choice(("?", "?", ".", ""))


def _joined(rng: random.Random, parts: list[str]) -> str:
    return rng.choice((" ", " ", "\n", "\n\n")).join(parts)
