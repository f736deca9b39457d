"""The fact guard: what two prompts must have in common before one's answer may be the other's.

No cosine tells "from Paris to Rome" from "from Rome to Paris" (0.998 with a good encoder), so the vector only proposes.
What decides is a *signature* of each text: equal signatures pass. There are two:

- `words`: the text in a canonical wording. Courtesies go, contractions open, a few hundred known rewordings, spellings,
  number words and units become one; everything else must be the same, word for word and in the same order.
- `facts`: of that, only numbers with their units, names, quotations, and words that turn a meaning round (negation,
  direction, comparison, order in time, quantity, mood). Lets real paraphrases through, and a swapped noun ("chocolate",
  "cheese") as well: only for an embedder that tells those apart, or in verified mode.

Not covered: languages other than English are compared nearly word for word, and code, tables and long texts not at all
(`signature` is None: exact answers only).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from sluicegate.cache.semantic import english as known
from sluicegate.cache.semantic import paraphrases, phrases
from sluicegate.cache.semantic.wording import openings

Guard = Literal["words", "facts"]
MAX_CHARS = 2000
SURROGATE = re.compile("[\ud800-\udfff]")
MAX_QUESTION_CHARS = 400
"""Of a text that is tried as a question in another construction; a longer one is compared without."""
TOKEN = re.compile(
    r"\x00\d+\x00"  # a quotation
    r"|(?<![\w.])\.\d+"  # .5
    r"|[^\W_]+(?:[-'.,:/_@][^\W_]+)*(?:\+\+|(?<=\d)!)?"  # words, numbers, identifiers, C++, 5!
    r"|[^\s\w,.!?;:'\"\x00]|_"  # any other sign, an emoji too
)
QUOTED = re.compile(r"\"[^\"\n]+\"|(?<!\w)'[^'\n]+'(?!\w)|`[^`\n]+`|“[^”\n]+”|«[^»\n]+»")
LAYOUT = re.compile(r"```|^[ \t]{2,}\S|^\t|\|.*\|.*\||[{};]\s*$", re.MULTILINE)
END = re.compile(r"(?:(?<!\d)!|[ .?])+$")
BETWEEN = re.compile(r"[.,;:!?(\n]\s")
OWNED = re.compile(
    r"((?:^|\b)(?:is|are|was|name|know) (?:the )?)((?:[\w-]+ ){1,3}[\w-]+)'s ([\w-]+(?: [\w-]+){0,2})(?=$|[?.!]$)"
)
ARTICLE = re.compile(r"\bthe (?=\w)")
NUMBER = re.compile(r"\d+(?:,\d{3})+(?!\d)")
_COURTESIES = [re.compile(pattern) for pattern in (*known.COURTESIES, *paraphrases.COURTESIES)]
_REWORDINGS = [(re.compile(pattern), becomes) for pattern, becomes in known.REWORDINGS]


def signature(text: str, guard: Guard = "words") -> tuple[str, ...] | None:
    """Return the signature of a text; None where the text cannot be compared by meaning."""
    if not is_comparable(text):
        return None
    plain, quotes = _without_quotes(_plain(text))
    tokens = [quotes.get(token, token) for token in _tokens(plain, paraphrased=guard == "words")]
    return tuple(tokens if guard == "words" else _facts(tokens, _names(plain)))


def is_comparable(text: str) -> bool:
    """Return whether a text is a question or request in words: not empty, long, code, a table, or text with half a
    surrogate pair, which neither a digest nor a tokenizer can read."""
    return bool(text.strip()) and len(text) <= MAX_CHARS and not (LAYOUT.search(text) or SURROGATE.search(text))


def canonical_words(text: str) -> list[str]:
    """Return the words of a text without courtesies, in one spelling, and quotations as they are."""
    plain, quotes = _without_quotes(_plain(text))
    return [quotes.get(token, token) for token in _tokens(plain, paraphrased=False)]


def quotations_of(text: str) -> list[str]:
    return list(_without_quotes(_plain(text))[1].values())


def names_of(text: str) -> frozenset[str]:
    """Return capitalised words, in lower case, without common words at the beginning of a sentence."""
    return _names(_without_quotes(_plain(text))[0])


def facts_digest(text: str, scope: str, guard: Guard = "words") -> int | None:
    """Return an unsigned 64-bit digest of the signature; None where the text has none."""
    found = signature(text, guard)
    if found is None:
        return None
    told = "\x1f".join((guard, scope, *found)).encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "big")


def _plain(text: str) -> str:
    """Normalise quotes, dashes and white space. Case is kept."""
    text = unicodedata.normalize("NFC", text)  # NFKC would make 102 of 10²
    text = text.translate({0x2018: "'", 0x2019: "'", 0x2013: "-", 0x2014: "-", 0x2212: "-", 0: " "})
    text = NUMBER.sub(lambda found: found[0].replace(",", ""), text)
    return " ".join(text.split())


def _without_quotes(text: str) -> tuple[str, dict[str, str]]:
    """Replace quotations by placeholders, since quoted text must match exactly. Return the text, and the quotations by
    placeholder."""
    quotes: dict[str, str] = {}

    def keep(found: re.Match[str]) -> str:
        name = f"\x00{len(quotes)}\x00"
        quotes[name] = "quote=" + found[0][1:-1]
        return name

    return QUOTED.sub(keep, text), quotes


def _tokens(text: str, *, paraphrased: bool) -> Sequence[str]:
    """Split a text into tokens. `paraphrased`: also rewrite constructions and synonyms to one form."""
    lowered = _lowered(text)
    text = _reworded(openings.without_opening(lowered) if paraphrased else lowered)
    paraphrased = paraphrased and len(text) <= MAX_QUESTION_CHARS
    if paraphrased:
        text = paraphrases.reworded(text)
    tokens = [_spelling(token) for token in TOKEN.findall(text)]
    if paraphrased and phrases.is_about_things(tokens):
        tokens = [paraphrases.SYNONYMS.get(token, token) for token in tokens]
    tokens = _with_units(tokens)
    tokens = [token for token in tokens if token != "the"]
    return phrases.canonical(tokens, one_clause=BETWEEN.search(text) is None) if paraphrased else tokens


def _lowered(text: str) -> str:
    """Lower-case the text, except words whose capital letters may carry meaning: those keep them, or get a mark."""
    words: list[str] = []
    starts, before = True, ""
    about_letters = not known.ABOUT_LETTERS.isdisjoint(re.findall(r"\w+", text.lower()))
    for word in text.split(" "):
        bare = word.strip(".,!?;:()")
        after_number = before[-1:].isdigit() and len(bare) <= 3  # 5 M is no 5 m
        name = bare.removesuffix("'s")
        if not starts and name.lower() in known.KEEPS_CASE and name[:1].isupper():
            words.append(word.replace(name, f"{name.lower()}_cap", 1))
        elif bare == "I" and len(words) > 1 and before[:1].isupper() and words[-1][-1:] not in ",;:":
            words.append(word.replace("I", "roman1"))  # "World War I", but not "Can I", nor "in Park Street, I need"
        elif after_number or _is_code(bare) or (about_letters and not starts and bare != "I"):
            words.append(word)
        else:
            words.append(word.lower())
        starts, before = word[-1:] in ".!?", bare
    return _opened(" ".join(words))


def _is_code(word: str) -> bool:
    """Return whether a word is an identifier, path, acronym or number, which must match exactly."""
    return any(char.isdigit() or char in "/_@\\" for char in word) or any(char.isupper() for char in word[1:])


def _opened(text: str) -> str:
    """Expand contractions, and rewrite possessives with "of"."""
    words = []
    for word in text.split(" "):
        bare = word.rstrip(".,!?;:")
        tail = word[len(bare) :]
        opened = known.CONTRACTIONS.get(bare)
        if opened is None:
            opened = next((bare[: -len(e)] + full for e, full in known.ENDINGS if bare.endswith(e)), bare)
        if opened.endswith("'s") and opened[:-2] in known.IS_SHORTENED:
            opened = opened[:-2] + " is"
        words.append(opened + tail)
    text = OWNED.sub(r"\1\3 of \2", " ".join(words), count=1)
    return re.sub(r"\b([\w-]+)'s ([\w-]+(?: [\w-]+)?)(?=$|[?.!])", r"\2 of \1", text)


def _reworded(text: str) -> str:
    text = _without_courtesies(END.sub("", text))
    moved = known.MOVABLE.match(text)
    if moved:
        text = _without_courtesies(f"{moved[2]} {moved[1]}")
    text = ARTICLE.sub("", text)
    for pattern, becomes in _REWORDINGS:
        text = pattern.sub(becomes, text, count=1)
    return text


def _without_courtesies(text: str) -> str:
    """Remove courtesies, unless nothing else would remain."""
    while True:
        shorter = text
        for pattern in _COURTESIES:
            shorter = END.sub("", pattern.sub("", shorter)).strip() or shorter
        if shorter == text:
            return text
        text = shorter


def _spelling(token: str) -> str:
    token = known.SPELLINGS.get(token, token)
    for ending in ("ise", "ised", "ises", "ising"):
        if token.endswith(ending) and token[: -len(ending)] in known.ISE:
            return token[: -len(ending)] + ending.replace("is", "iz", 1)
    return known.NUMBERS.get(token, token)


def _with_units(tokens: list[str]) -> list[str]:
    """Normalise units after numbers, and move a sign before the number behind it: "$5" and "5 $" become the same."""
    found: list[str] = []
    for token in tokens:
        after_number = bool(found) and found[-1][-1:].isdigit()
        if after_number:
            token = known.UNITS.get(token, token)
            if len(found) > 1 and found[-2] in "€$£":
                found[-2:] = [found[-1], known.UNITS[found[-2]]]
        found.append(token)
    if len(found) > 1 and found[-2] in "€$£" and found[-1][-1:].isdigit():
        found[-2:] = [found[-1], known.UNITS[found[-2]]]
    return found


def _names(text: str) -> frozenset[str]:
    """Return words with a capital letter or more, in lower case. The first of a sentence counts unless it is a common
    one."""
    names = set()
    for sentence in re.split(r"(?<=[.!?])\s+", text):
        for place, word in enumerate(TOKEN.findall(sentence)):
            if (
                any(char.isupper() for char in word)
                and (place or word.lower() not in known.COMMON_FIRST)
                and word != "I"
            ):
                names.add(word.lower().removesuffix("'s"))
    return frozenset(names)


def _facts(tokens: list[str], names: frozenset[str]) -> list[str]:
    """Return names, numbers, units, quotations and signs in order; then the words that turn a meaning round, sorted."""
    told, turns = [], []
    for place, token in enumerate(tokens):
        unit = place > 0 and tokens[place - 1][-1:].isdigit() and len(token) <= 8
        name = token.lower().removesuffix("_cap").removesuffix("'s")
        if unit or _is_literal(token):
            told.append(token)
        elif name in names:
            told.append(name)
        elif token.lower() in known.TURNS or (token.startswith(("un", "non", "dis", "anti-")) and len(token) > 5):
            turns.append(token)
    return [*told, "turns", *sorted(turns)]


def _is_literal(token: str) -> bool:
    return token.startswith("quote=") or any(char.isdigit() for char in token) or not token[0].isalnum()
