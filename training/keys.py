"""Field names beyond those listed for a kind of fact: shortened, lengthened, or named by the kind of value alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from training.layouts import Fact

_SHORT = {
    "number": ("no", "num", "nr"),
    "quantity": ("qty",),
    "amount": ("amt",),
    "address": ("addr",),
    "telephone": ("tel",),
    "description": ("desc",),
    "maximum": ("max",),
    "minimum": ("min",),
    "average": ("avg",),
    "identifier": ("id",),
    "reference": ("ref",),
    "department": ("dept",),
    "organisation": ("org",),
    "temperature": ("temp",),
    "percent": ("pct",),
    "month": ("mo",),
    "minutes": ("mins", "min"),
    "year": ("yr",),
    "date": ("on", "day"),
    "account": ("acct",),
    "category": ("cat", "type"),
    "location": ("loc", "place"),
    "previous": ("prev", "last"),
    "phone": ("tel", "mobile"),
    "email": ("mail", "e_mail"),
    "price": ("cost", "amount"),
    "total": ("sum", "total_amount"),
    "count": ("number", "total"),
}
_AFFIXES = {
    "person": ("{}_name", "{}_full_name", "name_of_{}", "{}_person"),
    "company": ("{}_name", "{}_company", "name_of_{}"),
    "date": ("{}_date", "date_{}", "{}_day", "{}_iso"),
    "amount": ("{}_amount", "{}_value", "{}_price"),
    "id": ("{}_id", "{}_number", "{}_code", "{}_ref"),
    "bool": ("is_{}", "has_{}", "{}_flag", "was_{}"),
    "int": ("{}_count", "number_of_{}", "num_{}", "{}_total"),
    "enum": ("{}_type", "{}_category", "{}_label", "kind_of_{}"),
    "people": ("{}_names", "list_of_{}", "all_{}"),
    "skills": ("{}_list", "list_of_{}", "all_{}"),
    "list": ("{}_list", "list_of_{}", "all_{}", "{}_named"),
    "city": ("{}_city", "{}_name", "{}_town"),
    "time": ("{}_time", "time_of_{}"),
}
_BY_KIND = {
    "person": ("name", "who", "person", "full_name", "person_name"),
    "company": ("company", "company_name", "organization", "firm"),
    "date": ("date", "when", "day", "on_date"),
    "amount": ("amount", "price", "cost", "total", "money", "sum"),
    "city": ("city", "where", "place", "location", "town"),
    "email": ("email", "mail", "email_address", "contact_email"),
    "phone": ("phone", "phone_number", "telephone", "tel"),
    "people": ("people", "names", "persons", "who"),
    "id": ("id", "code", "reference", "identifier", "number"),
    "time": ("time", "clock_time", "at_time", "hour"),
    "product": ("product", "item", "thing", "object"),
    "street": ("address", "street", "street_address"),
    "country": ("country", "country_name", "nation"),
    "enum": ("type", "kind", "category", "label"),
    "job": ("job", "occupation", "profession", "role"),
}
_FILLED = (
    "the_{}",
    "{}_info",
    "{}_field",
    "{}_text",
    "doc_{}",
    "{}_given",
    "found_{}",
    "my_{}",
    "{}_as_written",
    "s_{}",
)
_OPAQUE = ("value", "field", "field_1", "result", "answer", "x", "data", "output", "content")


def varied_key(fact: Fact, facts: Sequence[Fact], rng: random.Random) -> str | None:
    """Draw a name that only `fact` of these can go by, or None; an opaque one needs a description beside it."""
    make = fact.concept.make.split(":")[0]
    key, roll = rng.choice(fact.concept.keys), rng.random()
    if roll < 0.22:
        return _unless_taken(_shortened(key, rng), fact, facts)
    if roll < 0.34:
        return _unless_taken(_clipped(key, rng), fact, facts)
    if roll < 0.42:
        return _unless_taken("_".join(rng.choice(_FILLED).format(key).split("_")), fact, facts)
    if roll < 0.48 and "_" in key:
        return _unless_taken("_".join(reversed(key.split("_"))), fact, facts)
    if roll < 0.75 and make in _AFFIXES:
        affix = rng.choice(_AFFIXES[make])
        known = set(affix.replace("{}", "").split("_")) & set(key.split("_"))
        return None if known - {""} else _unless_taken(affix.format(key), fact, facts)
    kinds = Counter(other.concept.make.split(":")[0] for other in facts)
    if kinds[make] == 1 and make in _BY_KIND:
        return _unless_taken(rng.choice(_BY_KIND[make]), fact, facts)
    return _unless_taken(key.split("_")[-1], fact, facts)


def opaque_key(rng: random.Random) -> str:
    """Draw a name that says nothing."""
    return rng.choice(_OPAQUE)


def _shortened(key: str, rng: random.Random) -> str:
    return "_".join(rng.choice(_SHORT[word]) if word in _SHORT else word for word in key.split("_"))


def _clipped(key: str, rng: random.Random) -> str:
    """Cut every long word to its first letters, or leave out its vowels, as in column names: `inv_num`, `cstmr`."""
    if rng.random() < 0.3:
        return "_".join(word[0] + "".join(c for c in word[1:] if c not in "aeiou") for word in key.split("_"))
    length = rng.randint(3, 5)
    return "_".join(word[:length] for word in key.split("_"))


def _unless_taken(key: str, fact: Fact, facts: Sequence[Fact]) -> str | None:
    """Return `key`, or None where its words are in another fact's names too: it would not tell the two apart."""
    words = set(key.split("_"))
    for other in facts:
        if other is not fact and any(words <= set(name.split("_")) for name in other.concept.keys):
            return None
    return key
