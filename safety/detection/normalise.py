"""What else a text says: the text as a reader sees it, and what its encoded, hidden or disguised parts decode to.

Every view carries a label, so that a decision can say where it was found. The work is linear in the length of the
text, and bounded: at most `MAX_VIEWS` views, each at most `MAX_VIEW_CHARS` long.

Not covered: keyed ciphers, compression, images, code that must be run to yield the text, letters split over several
messages, and decodings nested more than two deep.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from sluicegate.safety.detection import ciphers
from sluicegate.safety.matching.confusables import look_alike

MAX_VIEWS = 12
MAX_VIEW_CHARS = 8_000
MAX_DEPTH = 2

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,4096}={0,2}")
_HEX = re.compile(r"(?:\\x|0x)?[0-9A-Fa-f]{2}(?:[ ,:]?(?:\\x|0x)?[0-9A-Fa-f]{2}){7,2048}")
_BITS = re.compile(r"[01]{8}(?: ?[01]{8}){3,1024}")
_ESCAPES = re.compile(r"\\u[0-9A-Fa-f]{4}")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z]{2,12});")
_TAG = re.compile(r"<[!/]?[A-Za-z][A-Za-z0-9-]{0,20}(?:\s[^<>]{0,500})?/?>|<!--|-->")
_INLINE_TAG = re.compile(
    r"</?(?:b|i|u|s|a|em|strong|span|font|small|sub|sup|mark|wbr)(?:\s[^<>]{0,500})?>", re.IGNORECASE
)
_EMPHASIS = re.compile(r"(?<=\w)[*_~`|]{1,3}(?=\w)")
_SPACES = re.compile(r"(\s+)")
_TAG_CHARACTERS = re.compile("[\U000e0020-\U000e007e]")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_SPACED = re.compile(r"(?<!\S)(?:\w[ .\-_*|]){4,400}\w(?!\S)")
_SPACED_WORD_GAP = re.compile(r" {2,}|[ ]?[|][ ]?")


@dataclass(frozen=True, slots=True)
class TextView:
    """`text` is folded. `label` is `plain`, or the decodings in the order they were undone (`base64+rot13`)."""

    label: str
    text: str


def views(text: str) -> list[TextView]:
    """Return the plain view first, then the views decoded from it. Deterministic."""
    found = [TextView("plain", fold(text))]
    seen = {found[0].text}
    layer = [("", text)]
    for _ in range(MAX_DEPTH):
        deeper: list[tuple[str, str]] = []
        for label, source in layer:
            for name, decoded in _decodings(source):
                view = TextView(f"{label}+{name}".lstrip("+"), fold(decoded[:MAX_VIEW_CHARS]))
                if len(found) < MAX_VIEWS and len(view.text) >= 4 and view.text not in seen:
                    seen.add(view.text)
                    found.append(view)
                    deeper.append((view.label, decoded[:MAX_VIEW_CHARS]))
        layer = deeper
    return found


def fold(text: str) -> str:
    """Fold to NFKC, without invisible characters and stray marks, look-alikes of mixed words as Latin letters, lower
    case."""
    if text.isascii():
        return text.lower()
    composed = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).translate(_VISIBLE))
    if any(_LOOK_ALIKES[ord(char)] < 128 <= ord(char) for char in set(composed)):
        composed = "".join(_latinised(word) for word in _SPACES.split(composed))
    return composed.lower()


class _Visible(dict[int, int | None]):
    """Drops format characters, controls but white space, variation selectors, and marks stacked on Latin letters.
    Filled as characters are met; for `str.translate`."""

    def __missing__(self, code: int) -> int | None:
        category = unicodedata.category(chr(code))
        dropped = category in ("Cf", "Co", "Cn", "Me") or (category == "Cc" and chr(code) not in "\t\n\r")
        dropped |= category == "Mn" and (code < 0x400 or 0xFE00 <= code <= 0xFE0F or code >= 0xE0000)
        self[code] = None if dropped else code
        return self[code]


class _LookAlikes(dict[int, int]):
    """The Latin letter that a character resembles; filled as characters are met, for `str.translate`."""

    def __missing__(self, code: int) -> int:
        self[code] = ord(look_alike(chr(code)))
        return self[code]


_VISIBLE = _Visible()
_LOOK_ALIKES = _LookAlikes()


def _latinised(word: str) -> str:
    """Read a word that mixes Latin letters with look-alikes of them as Latin; a Russian one stays."""
    if word.isascii() or not any("a" <= char <= "z" or "A" <= char <= "Z" for char in word):
        return word
    return word.translate(_LOOK_ALIKES)


def _decodings(text: str) -> Iterator[tuple[str, str]]:
    """Yield (label, decoded) of every disguise that is recognised in `text`, cheapest first."""
    if not text.isascii():
        yield from _hidden_tags(text)
        yield from _whole_look_alikes(text)
    if "<" in text and _TAG.search(text):
        yield "markup", html.unescape(_TAG.sub(" \n", _INLINE_TAG.sub("", text)))
    elif "&" in text and _ENTITY.search(text):
        yield "entities", html.unescape(text)
    if text.count("%") >= 3 and len(_PERCENT.findall(text)) >= 3:
        yield "url", " ".join(unquote(word, errors="replace") for word in text.split() if "%" in word)
    if "\\u" in text:
        yield "escapes", _ESCAPES.sub(lambda m: chr(int(m[0][2:], 16)), text)
    yield from _encoded(text)
    yield from _disguised(text)


def _hidden_tags(text: str) -> Iterator[tuple[str, str]]:
    """Yield ASCII spelt with the invisible tag characters of Unicode, or bytes as variation selectors."""
    tags = "".join(_TAG_CHARACTERS.findall(text))
    if len(tags) >= 4:
        yield "tags", "".join(chr(ord(char) - 0xE0000) for char in tags)
    carried = "".join(_SELECTORS.findall(text))
    if len(carried) >= 4 and (decoded := _readable(bytes(map(_selector_byte, carried)))):
        yield "selectors", decoded


def _selector_byte(char: str) -> int:
    code = ord(char)
    return code - 0xFE00 if code <= 0xFE0F else code - 0xE0100 + 16


def _whole_look_alikes(text: str) -> Iterator[tuple[str, str]]:
    """Yield `text` with look-alikes read as Latin, where that makes words of them."""
    read = text.translate(_LOOK_ALIKES)
    if read != text and ciphers.word_gain(text, read) >= 2:
        yield "look-alikes", read


def _encoded(text: str) -> Iterator[tuple[str, str]]:
    for found in _BASE64.finditer(text):
        if decoded := _from_base64(found[0]):
            yield "base64", decoded
    for found in _HEX.finditer(text):
        digits = re.sub(r"\\x|0x|[ ,:]", "", found[0])
        if decoded := _readable(bytes.fromhex(digits[: len(digits) // 2 * 2])):
            yield "hex", decoded
    for found in _BITS.finditer(text):
        bits = found[0].replace(" ", "")
        if decoded := _readable(bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits) - 7, 8))):
            yield "binary", decoded


def _disguised(text: str) -> Iterator[tuple[str, str]]:
    plain = _EMPHASIS.sub("", text) if any(mark in text for mark in "*_~`|") else text
    if plain != text and ciphers.word_gain(text, plain) >= 1:
        yield "emphasis", plain
    if _SPACED.search(text):
        yield "spaced", _SPACED.sub(lambda m: _joined(m[0]), text)
    yield from ciphers.decodings(text)


def _joined(spaced: str) -> str:
    return " ".join(re.sub(r"[ .\-_*|]", "", part) for part in _SPACED_WORD_GAP.split(spaced))


def _from_base64(text: str) -> str:
    if text.isalpha() and (text.islower() or text.isupper()):
        return ""
    body = text.rstrip("=").replace("-", "+").replace("_", "/")
    body = body[: len(body) - (len(body) % 4 == 1)]
    try:
        return _readable(base64.b64decode(body + "=" * (-len(body) % 4), validate=True))
    except (binascii.Error, ValueError):
        return ""


def _readable(data: bytes) -> str:
    """Decode `data` as text; "" if it is not UTF-8, or more than a tenth of it is no letter, digit, space or usual
    mark."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    plain = sum(char.isalnum() or char.isspace() or char in ".,;:!?'\"()-/_" for char in text)
    return text if len(text) >= 4 and plain >= 0.9 * len(text) else ""
