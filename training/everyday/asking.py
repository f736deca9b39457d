"""Asks about a text: the instruction that goes with it, if any, and questions with their right answers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Literal

from training.everyday.book import Book, Family, Slot, YesNo, book
from training.everyday.leaves import leaf, rows_leaf
from training.everyday.phrases import Phrase, told
from training.everyday.shapes import Group, question_of
from training.everyday.telling import Telling, Told
from training.schemas import Field, Question
from training.values import quoted

_ABSENT_TYPES = {
    "int": "integer",
    "year": "integer",
    "count": "integer",
    "amount": "number",
    "decimal": "number",
    "num": "number",
    "cost": "number",
    "bool": "boolean",
}
_FLAGGED = 0.3  # of the texts that are asked nothing but yes or no: a list of names, each with its own
_EACH_ITS_OWN = 0.5  # of the texts that are asked nothing but yes or no
_MENTIONS = 0.35  # of the questions of yes or no that train
_NAMED = ("name", "fullname", "first", "last", "city", "country", "company", "day", "clock", "street", "email")
_FLAGGED_ITEM = ("name", "item", "value", "term", "entity")
_FLAG = ("mentioned", "is_mentioned", "in_text", "found", "present", "occurs")
_FLAG_KEYS = ("mentions", "checks", "results", "terms", "found", "items", "answers")
_FLAG_ASKS = (
    *("Does the text mention these", "Which of these are mentioned", "Say of each whether it is mentioned"),
    *("Look for these in the text", "Check whether the text names", "Do these come up in the text"),
)
Focus = Literal["any", "label", "check"]
_SPANS = 0.25  # of the passages: a question that some words of the text answer
_NUMBERED = ("q", "question_", "a", "answer_", "check_", "q_", "statement_", "item_")
_YES_NO = (("yes", "no"), ("Yes", "No"), ("YES", "NO"), ("true", "false"), ("y", "n"))


@dataclass(frozen=True, slots=True)
class Asked:
    """`ask` is the instruction all the questions need, or None where any will do."""

    ask: str | None
    questions: tuple[Question, ...]


def asked(rng: random.Random, family: Family, about: Told, many: int, focus: Focus = "any") -> Asked:
    """Ask about a text. `focus`: for the label of the text alone, or for a yes or no, where the text has one."""
    asking = _Asking(rng, family, about)
    if about.passage:
        return asking.passage(many)
    if focus == "label" and (slot := asking.labelled()):
        return asking.label(slot, min(many, 2))
    if focus == "check" and rng.random() < _FLAGGED and (flags := asking.flags()):
        return flags
    if focus == "check" and rng.random() < _EACH_ITS_OWN and (own := asking.checks(many)):
        return own
    if focus == "check" and (check := asking.check()):
        return asking.by_question(*check, many=min(many, 2))
    roll = rng.random()
    if roll < 0.14 and (check := asking.check()):
        return asking.by_question(*check, many=min(many, 2))
    if roll < 0.24 and (span := asking.span()):
        return asking.by_question(*span, many=min(many, 2))
    return asking.extraction(many)


class _Asking:
    def __init__(self, rng: random.Random, family: Family, about: Told) -> None:
        self.rng, self.family, self.about = rng, family, about
        self.book: Book = book(family)
        self.slots = about.frame.slots

    def extraction(self, many: int) -> Asked:
        ask, focus = self._instruction()
        questions = tuple(self._extracted(focus) for _ in range(many))
        return Asked(ask, questions)

    def labelled(self) -> Slot | None:
        """Return the slot that says which class the text is in, or None."""
        found = [slot for slot in self.slots.values() if slot.make[0] == "label" and slot.name in self.about.values]
        return found[0] if found else None

    def label(self, slot: Slot, many: int) -> Asked:
        """Ask for the label alone, under several schemas, with an instruction that asks for it or a general one."""
        fitting = [ask for slots, ask in self.about.frame.asks if slots == (slot.name,)]
        ask = self._put(self.rng.choice(fitting)) if fitting and self.rng.random() < 0.6 else None
        return Asked(ask, tuple(question_of([self._field(slot, bool(ask))], self.rng) for _ in range(many)))

    def passage(self, many: int) -> Asked:
        """Ask what the book asks of this very text: yes and no about the same sentences."""
        if self.rng.random() < _SPANS and (span := self.span()):
            return self.by_question(*span, many=min(many, 2))
        roll = self.rng.random()
        if roll < 0.3:
            return self._together()
        if roll < 0.6 and (own := self.checks(many)):
            return own
        question, fields = self._paired(self.rng.random() < 0.5)
        return self.by_question(question, fields, many=min(many, 2))

    def _paired(self, truth: bool) -> tuple[str, list[Field]]:
        passage = self.about.passage
        assert passage is not None
        wording = self.rng.choice(passage.yes if truth else passage.no)
        return self._put(wording.phrase), [self._truth(truth, "") for _ in range(2)]

    def _together(self) -> Asked:
        """Ask two to four questions in one schema, whose names number them and whose descriptions are the
        questions."""
        found = dict(self._paired(self.rng.random() < 0.5) for _ in range(self.rng.randint(2, 4)))
        name = self.rng.choice(_NUMBERED)
        described = [_described(fields[0], said) for said, fields in found.items()]
        fields = [Field(f"{name}{at}", f.schema, f.raw, f.kind) for at, f in enumerate(described, 1)]
        return Asked(None, (question_of(fields, self.rng),))

    def _instruction(self) -> tuple[str | None, tuple[str, ...]]:
        fitting = [(slots, ask) for slots, ask in self.about.frame.asks if set(slots) <= set(self.about.values)]
        if not fitting or self.rng.random() < 0.4:
            return None, ()
        slots, ask = self.rng.choice(fitting)
        return self._put(ask), slots

    def _extracted(self, focus: tuple[str, ...]) -> Question:
        rng, values = self.rng, self.about.values
        names = list(focus)
        if not focus or rng.random() < 0.12:
            others = [name for name in values if name not in focus]
            low = 0 if focus else 1
            names += rng.sample(others, rng.randint(low, min(len(others), 2 if focus else 7))) if others else []
        if rng.random() < 0.5:
            names.sort(key=list(self.slots).index)
        fields = {name: self._field(self.slots[name], alone=len(names) == 1 and bool(focus)) for name in names}
        extra: list[Field] = []
        if not focus:
            extra = [*self._extras()]
        return question_of([*self._grouped(fields), *extra], rng, self.about.frame.name.title().replace("_", ""))

    def _extras(self) -> list[Field]:
        """Add, now and then, a currency, a question answered by yes or no, or what the text does not say."""
        rng, extra = self.rng, []
        if self.about.currency and rng.random() < 0.15:
            extra.append(self._currency(self.about.currency))
        if rng.random() < 0.1 and (check := self.check()):
            question, fields = check
            extra.append(_described(fields[0], question))
        absent = [slot for name, slot in self.slots.items() if name not in self.about.values]
        taken = {key for name in self.about.values for key in self.slots[name].keys}
        absent = [slot for slot in absent if slot.make[0] not in ("label", "rows") and not set(slot.keys) & taken]
        if absent and rng.random() < 0.08:
            extra.append(self._absent(rng.choice(absent)))
        return extra

    def _grouped(self, fields: dict[str, Field]) -> list[Field | Group]:
        rng = self.rng
        members: list[Field | Group] = list(fields.values())
        groups = {self.slots[name].group for name in fields} - {""}
        for group in sorted(groups):
            inner = [fields[name] for name in fields if self.slots[name].group == group]
            if len(inner) > 1 and rng.random() < 0.4:
                at = members.index(inner[0])
                members = [member for member in members if member not in inner]
                members.insert(min(at, len(members)), Group(group, tuple(inner)))
        plain = [member for member in members if isinstance(member, Field)]
        if len(plain) == len(members) >= 3 and rng.random() < 0.12:
            start = rng.randrange(len(plain) - 1)
            inner = plain[start : start + rng.randint(2, 3)]
            name = rng.choice(["details", "info", "data", "record", "summary", "extra", "result"])
            return [*plain[:start], Group(name, tuple(inner)), *plain[start + len(inner) :]]
        return members

    def _field(self, slot: Slot, alone: bool = False) -> Field:
        rng = self.rng
        if slot.name in self.about.rows:
            parts = self.book.frames[slot.make[1]].slots
            schema, raws, kind = rows_leaf(slot, self.about.rows[slot.name], parts, rng, self.book)
        else:
            schema, raws, kind = leaf(slot, [self.about.values[slot.name]], rng, self.book)
        key = self._key(slot)
        if alone and kind == "enum" and rng.random() < 0.3:
            key = self._word("label_key")
        if slot.notes and "description" not in schema and rng.random() < 0.25:
            schema["description"] = rng.choice(slot.notes)
        roll = rng.random()
        if roll < 0.05 and kind != "objects":
            return Field(key, _nullable(schema), raws[0], kind, required=rng.random() < 0.5)
        return Field(key, schema, raws[0], kind, required=roll < 0.96)

    def _key(self, slot: Slot) -> str:
        """Draw a name that no other value of the text could go by."""
        taken = {key for name in self.about.values if name != slot.name for key in self.slots[name].keys}
        return self.rng.choice([key for key in slot.keys if key not in taken] or slot.keys[:1])

    def _currency(self, currency: str) -> Field:
        options = self.rng.sample(["USD", "EUR", "GBP", "CHF", "SEK", "PLN", "CAD", "JPY"], 4)
        options = options if currency in options else [*options[1:], currency]
        self.rng.shuffle(options)
        schema = {"type": "string", "enum": options} if self.rng.random() < 0.6 else {"type": "string"}
        return Field(self.rng.choice(["currency", "currency", "currency_code"]), schema, quoted(currency), "enum")

    def _absent(self, slot: Slot) -> Field:
        schema: dict[str, Any] = {"type": _ABSENT_TYPES.get(slot.make[0], "string")}
        if slot.make[0] == "list":
            schema = {"type": "array", "items": {"type": "string"}}
        elif slot.make[0] == "date":
            schema["format"] = "date"
        required = self.rng.random() < 0.6
        return Field(self.rng.choice(slot.keys), _nullable(schema), "null", "string", required)

    def check(self) -> tuple[str, list[Field]] | None:
        """Return a question answered by yes or no, and the field in several manners; None where the frame has none."""
        rng, truth = self.rng, self.rng.random() < 0.5
        if self.about.passage:
            return self._paired(truth)
        if self.book.trains and rng.random() < _MENTIONS and (mention := self._mention(truth)):
            return mention
        fitting = [check for check in self.about.frame.checks if self._can_be(truth, check)]
        if not fitting:
            return None
        check = rng.choice(fitting)
        wording = rng.choice(check.questions)
        if not set(wording.slots) <= set(self.about.values):
            return None
        if check.slot:
            question = self._put(wording.phrase)
            if not check.yes:
                question = question.replace("@label", self._label(check.slot, truth))
        else:
            question = self._put(wording.phrase, () if truth else (rng.choice(wording.changing),))
        return question, [self._truth(truth, check.key) for _ in range(2)]

    def checks(self, many: int) -> Asked | None:
        """Ask several questions of yes or no, each the description of its property, so that one text decides them
        all."""
        found = dict(check for check in (self.check() for _ in range(many)) if check)
        asked = tuple(question_of([_described(fields[0], said)], self.rng) for said, fields in found.items())
        return Asked(None, asked) if asked else None

    def _mention(self, truth: bool) -> tuple[str, list[Field]] | None:
        """Ask whether a name stands in the text: the plainest of all questions, and what others are built on."""
        named = [name for name in self.about.values if self.slots[name].make[0] in _NAMED]
        if not named:
            return None
        slot = self.rng.choice(named)
        telling = _Asker(self.rng, self.family, self.about, () if truth else (slot,))
        name = telling.value(slot, False, True)
        if not truth and name.lower() in self.about.text.lower():
            return None
        question = told(self.book.rules["mention"], telling).replace("@value", name)
        return question, [self._truth(truth, "is_mentioned") for _ in range(2)]

    def flags(self) -> Asked | None:
        """Ask of each of several names whether the text mentions it: one text decides many, each right behind its
        name."""
        rng = self.rng
        named = [name for name in self.about.values if self.slots[name].make[0] in _NAMED]
        asker = _Asker(rng, self.family, self.about, ())
        here = [self.about.values[name].text for name in named]
        drawn = [asker.other(name) for name in named for _ in range(rng.randint(1, 2))]
        absent = [text for text in drawn if text.lower() not in self.about.text.lower()]
        listed = list(dict.fromkeys([*here, *absent]))
        if len(listed) < 2 or not here:
            return None
        rng.shuffle(listed)
        item, flag = rng.choice(_FLAGGED_ITEM), rng.choice(_FLAG)
        literals = [f'{{"{item}":{quoted(text)},"{flag}":{"true" if text in here else "false"}}}' for text in listed]
        schema: dict[str, Any] = {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {item: {"type": "string"}, flag: {"type": "boolean"}},
                "required": [item, flag],
            },
        }
        said = f"{rng.choice(_FLAG_ASKS)}: {rng.choice([', ', '; ', ' / ']).join(listed)}"
        told_there = rng.random() < 0.6
        field = Field(rng.choice(_FLAG_KEYS), schema, "[" + ",".join(literals) + "]", "objects")
        field = _described(field, said) if told_there else field
        return Asked(None if told_there else said, (question_of([field], rng),))

    def _can_be(self, truth: bool, check: YesNo) -> bool:
        values = self.about.values
        if not check.slot:
            return any(set(wording.slots) <= set(values) and wording.changing for wording in check.questions)
        if not check.yes:
            return check.slot in values
        return check.slot in values and values[check.slot].text in (check.yes if truth else check.no)

    def _label(self, slot: str, right: bool) -> str:
        """Draw a name of the class that the text has, or of one that it could not be taken for."""
        told_class, name = self.about.values[slot].text, self.slots[slot].make[1]
        classes = self.book.classes[name]
        if right:
            return self.rng.choice(classes[told_class])
        near = set().union(*(group for group in self.book.near.get(name, []) if told_class in group))
        others = [labels for other, labels in classes.items() if other != told_class and other not in near]
        return self.rng.choice(self.rng.choice(others))

    def _truth(self, truth: bool, key: str) -> Field:
        rng = self.rng
        key = key if key and rng.random() < 0.5 else self._word("check_key")
        if rng.random() < 0.65:
            return Field(key, {"type": "boolean"}, "true" if truth else "false", "boolean")
        yes, no = rng.choice(_YES_NO)
        options = [yes, no] if rng.random() < 0.5 else [no, yes]
        return Field(key, {"type": "string", "enum": options}, quoted(yes if truth else no), "enum")

    def span(self) -> tuple[str, list[Field]] | None:
        """Return a question that one value answers."""
        told_slots = set(self.about.values)
        known = [*self.about.frame.spans, *(self.about.passage.spans if self.about.passage else ())]
        fitting = [(s, w) for s, w in known if s in told_slots and set(w.slots) <= told_slots]
        if not fitting:
            return None
        slot, wording = self.rng.choice(fitting)
        return self._put(wording.phrase), [self._answering(slot) for _ in range(2)]

    def _answering(self, slot: str) -> Field:
        field = self._field(self.slots[slot])
        key = field.key if self.rng.random() < 0.3 else self._word("answer_key")
        return Field(key, field.schema, field.raw, field.kind)

    def by_question(self, question: str, fields: list[Field], many: int) -> Asked:
        """Put the question into the message, or into the description of the property that answers it."""
        if self.rng.random() < 0.3:
            fields = [_described(field, question) for field in fields]
            return Asked(None, tuple(question_of([field], self.rng) for field in fields[:many]))
        return Asked(question, tuple(question_of([field], self.rng) for field in fields[:many]))

    def _word(self, rule: str) -> str:
        return told(self.book.rules[rule], Telling(self.rng, self.family, self.about.frame))

    def _put(self, phrase: Phrase, changed: tuple[str, ...] = ()) -> str:
        return told(phrase, _Asker(self.rng, self.family, self.about, changed))


class _Asker(Telling):
    """Tells a question: values are those of the text, apart from one that may have been changed."""

    def __init__(self, rng: random.Random, family: Family, about: Told, changed: tuple[str, ...]) -> None:
        super().__init__(rng, family, about.frame)
        self.values, self.changed = about.values, changed
        self.currency = about.currency or self.currency

    def value(self, slot: str, capital: bool, wrong: bool) -> str:
        return self.other(slot) if wrong and slot in self.changed else self.values[slot].text


def _described(field: Field, description: str) -> Field:
    if field.kind == "enum" and "description" in field.schema:  # it may say what the labels mean
        description = f"{description} {field.schema['description']}"
    return Field(field.key, {**field.schema, "description": description}, field.raw, field.kind, field.required)


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if set(schema) == {"type"} and len(schema["type"]) % 2:
        return {"type": [schema["type"], "null"]}
    note = schema.pop("description", None)
    return {"anyOf": [schema, {"type": "null"}], **({"description": note} if note else {})}
