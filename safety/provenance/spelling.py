"""Spell a text for comparison: one spelling for all texts, and for untrusted ones also what their disguises decode to.

Trusted texts are compared strictly (a look-alike letter makes another address), untrusted ones loosely: whatever a
model may have read out of them counts as theirs.

Not covered: ciphers, reversed text, base85, encodings inside encodings beyond `ROUNDS` (of base64, beyond two); letters
and digits written as words, or as others that look like them (`O` for 0).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import html
import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from sluicegate.safety.matching.confusables import look_alike
from sluicegate.safety.matching.json_escapes import Unescaped

_MARKS = frozenset({"Mn", "Me"})
ROUNDS = 3
"""Layers of escapes, entities and percent signs that are undone."""
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_TAGS = re.compile("[\U000e0020-\U000e007e]{3,}")
_AT = re.compile(
    r"\s*[\[({]\s*(?:at|@|ät|arroba|arobase|chiocciola|małpa|собака)\s*[\])}]\s*|\s+@\s+(?=[\w-]+\.)|\s+(?:at|\(a\))\s+(?=[\w-]+\s*(?:\.|[\[({]?\s*dot))"
)
_DOT = re.compile(r"\s*[\[({]\s*(?:dot|\.|punkt|punto|point|ponto|kropka|точка)\s*[\])}]\s*|(?<=\w)\s+dot\s+(?=\w)")
_ESCAPE = re.compile(r"\\(?:u\{?([0-9a-fA-F]{4,6})\}?|x([0-9a-fA-F]{2}))")
_PUNYCODE = re.compile(r"\bxn--([a-z0-9-]{1,59})")
_NUMERIC_HOST = re.compile(r"(?<=//)(?:0x[0-9a-f]{1,8}|\d{1,10})(?:\.(?:0x[0-9a-f]{1,8}|\d{1,10})){0,3}(?![\w.-])")
_MARKUP = re.compile(r"</?[a-z][a-z0-9]{0,10}(?:\s[^<>]{0,200})?/?>|<!--[^<>]{0,200}-->|(?<=\S)[*~`]{1,3}(?=\S)", re.I)
_CODES = re.compile(
    r"(?:(?:0[xXbB]|U\+|\\)?[0-9A-Fa-f]{2,8}[\s,;:_-]{1,3}){5,400}(?:0[xXbB]|U\+|\\)?[0-9A-Fa-f]{2,8}(?![0-9A-Fa-f])"
)
"""Characters by their codes: `104, 105`, `0x68 0x69`, `68-69`, `U+0068`, `\\68 \\69`, eight bits each."""
_CODE = re.compile(r"(?<![0-9A-Fa-f])(?:0[xXbB])?([0-9A-Fa-f]{2,8})(?![0-9A-Fa-f])")
_OCTAL = re.compile(r"(?:\\[01][0-7]{2}){4,}")
_BRACED = re.compile(r"\\x\{([0-9a-fA-F]{1,6})\}")
_PRINTABLE = re.compile(r"=([0-9A-Fa-f]{2})")
"""A byte of quoted-printable."""
MIN_PRINTABLE = 4
"""Bytes from which a text is read as quoted-printable: `a=3D` alone stands in many URLs."""
_BASE32 = re.compile(r"[A-Z2-7]{10,4096}={0,6}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,4096}={0,2}")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}[ :]?){5,2048}")
_SPACED = re.compile(r"(?<![^\s,;|])(?:[^\s,;|][\s,;|]{1,5}){5,400}[^\s,;|](?![^\s,;|])")
_SPACES = re.compile(r"[\s,;|]+")
_MAIL_COMMENT = re.compile(r"(?<=[\w\"])\([^()@]{0,64}\)(?=@)|(?<=@)\([^()@]{0,64}\)")
_QUOTED_MAILBOX = re.compile(r'"([\w.+%\'-]{1,64})"(?=@)')
_DOT_FOLDERS = re.compile(r"/(?:\./)+")
_SLASHES = re.compile(r"(?<=[\w~.-])/{2,}")
_IDEOGRAPHIC_STOP = re.compile(r"(?<=[A-Za-z0-9])。(?=[A-Za-z0-9])")
"""What hosts may have for a point."""
_IDEOGRAPHIC_DIGITS = re.compile("[〇零一二三四五六七八九]{6,}")
_DIGITS = str.maketrans("〇零一二三四五六七八九", "00123456789")
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:.])")
_BETWEEN = re.compile(r"[\W_]+")
_DASHES = dict.fromkeys(map(ord, "‒–—―"), "-")


def clean(text: str) -> str:
    """Return `text` in NFKC without invisible characters, with digits of other scripts as ASCII, and mail addresses
    without quotation marks and comments (`"jo"(x)@mail.example`), which name the same mailbox."""
    if not text.isascii():
        text = _in_one_form(text)
    if "@" not in text:
        return text
    return _QUOTED_MAILBOX.sub(r"\1", _MAIL_COMMENT.sub("", text))


def _in_one_form(text: str) -> str:
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text.replace("…", " … "))).replace("\u2010", "-")
    text = _IDEOGRAPHIC_STOP.sub(".", text)
    text = _IDEOGRAPHIC_DIGITS.sub(lambda run: run[0].translate(_DIGITS), text)
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() and not char.isascii() else char for char in text)


def spelled(text: str) -> str:
    """Return `text` in the spelling used for comparison: `clean`, in lower case, with `[at]`, `hxxp`, backslashes,
    folders `.`, Punycode and numeric hosts undone. Linear in the text: runs of white space are reduced before patterns
    are applied.
    """
    text = _DOT_FOLDERS.sub("/", clean(text).lower().replace("hxxp", "http").replace("\\", "/"))
    text = _SLASHES.sub("/", text.replace("i\u0307", "i"))
    text = " ".join(_DOT.sub(".", _AT.sub("@", " ".join(text.split()))).split())
    text = _NUMERIC_HOST.sub(_dotted, _PUNYCODE.sub(_unicode_label, text))
    return _IPV6.sub(_shortest, text) if "::" in text or text.count(":") > 6 else text


def loose(text: str) -> str:
    """Return a spelled text without accents and strokes, with look-alikes as Latin letters and all dashes as one."""
    if text.isascii():
        return text
    text = "".join(char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) not in _MARKS)
    text = unicodedata.normalize("NFC", text)
    text = text.translate(_DASHES).replace("ß", "ss")
    return "".join(char if char.isascii() else look_alike(char) for char in text).lower()


def squeezed(text: str) -> str:
    """Return a spelled text without white space and marks of emphasis."""
    return re.sub(r"[\s*~`]+", "", text)


def letters_of(text: str) -> str:
    """Return the letters and digits of a spelled text, whatever stands between them."""
    return _BETWEEN.sub("", text)


def undone(text: str) -> list[str]:
    """Return `text`, and what it says with its JSON escapes, percent signs and entities undone: at first the escapes
    of JSON alone, as a path of Windows has some that are none."""
    found = [text]
    if "\\" in text:
        found += [Unescaped(text).text, _ESCAPE.sub(_escaped, text)]
    plain = text
    for _ in range(ROUNDS):
        before = plain
        if "\\" in plain:
            plain = _ESCAPE.sub(_escaped, Unescaped(plain).text)
        if "%" in plain:
            plain = unquote(plain)
        if "&" in plain:
            plain = html.unescape(plain)
        if plain == before:
            break
        found.append(plain)
    return list(dict.fromkeys(found))


def decoded(text: str) -> list[str]:
    """Return what a model may read in `text`: `undone`, the same without markup and with spaced letters together, and
    its runs of base64 and hexadecimal digits and of tag characters decoded."""
    found = undone(text)
    last = found[-1]
    if "<" in last or "*" in last or "`" in last or "~" in last:
        found.append(_MARKUP.sub("", last))
    if _SPACED.search(last):
        found.append(_SPACED.sub(lambda letters: _SPACES.sub("", letters[0]), last))
    found += [plain for blob in blobs(last) for plain in undone(blob)]
    return list(dict.fromkeys(found))


def blobs(text: str) -> Iterator[str]:
    """Yield what the codes in `text` say: base64 and base32, hexadecimal and octal digits, codes of characters."""
    for run in _TAGS.findall(text):
        yield "".join(chr(ord(char) - 0xE0000) for char in run)
    for run in _HEX.findall(text):
        yield from _readable(bytes.fromhex(re.sub(r"[ :]", "", run)))
    for run in _CODES.findall(text):
        yield from _of_codes(_CODE.findall(run))
    for run in _OCTAL.findall(text):
        yield from _readable(bytes(int(code, 8) for code in run[1:].split("\\")))
    if "\\x{" in text:
        yield _BRACED.sub(lambda found: _character(int(found[1], 16)), text)
    if len(_PRINTABLE.findall(text)) >= MIN_PRINTABLE:
        yield _PRINTABLE.sub(lambda found: chr(int(found[1], 16)), text.replace("=\r\n", "").replace("=\n", ""))
    for run in _BASE32.findall(text):
        bare = run.rstrip("=")
        with contextlib.suppress(binascii.Error):
            yield from _readable(base64.b32decode(bare + "=" * (-len(bare) % 8)))
    for plain in _of_base64(text):
        yield plain
        yield from _of_base64(plain)


def _of_base64(text: str) -> Iterator[str]:
    for run in _BASE64.findall(text):
        body = run.rstrip("=").replace("-", "+").replace("_", "/")
        with contextlib.suppress(binascii.Error):
            yield from _readable(base64.b64decode(body[: len(body) - (len(body) % 4 == 1)] + "=" * (-len(body) % 4)))


def _of_codes(codes: list[str]) -> Iterator[str]:
    """Yield what the codes of characters say, in each base that they may be written in."""
    for base, digits in ((2, "01"), (10, "0123456789"), (16, "0123456789abcdefABCDEF")):
        if all(set(code) <= set(digits) for code in codes) and (base > 2 or all(len(code) == 8 for code in codes)):
            said = "".join(_character(int(code, base)) for code in codes)
            if all(char.isprintable() or char.isspace() for char in said):
                yield said


def _readable(data: bytes) -> Iterator[str]:
    """Yield `data` as text if it is printable UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if len(text) >= 4 and all(char.isprintable() or char.isspace() for char in text):
        yield text


def _escaped(found: re.Match[str]) -> str:
    return _character(int(found[1] or found[2], 16))


def _character(code: int) -> str:
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def _unicode_label(found: re.Match[str]) -> str:
    try:
        return found[1].encode().decode("punycode")
    except UnicodeError:
        return found[0]


def _dotted(found: re.Match[str]) -> str:
    """Return an IPv4 address written as one number, in hexadecimal or octal digits, as four decimal ones."""
    try:
        parts = [_number(part) for part in found[0].split(".")]
    except ValueError:
        return found[0]
    *lead, last = parts
    if any(part > 255 for part in lead) or last >= 256 ** (5 - len(parts)):
        return found[0]
    return ".".join(map(str, [*lead, *last.to_bytes(5 - len(parts), "big")]))


def _shortest(found: re.Match[str]) -> str:
    """Return an address of IPv6 in its shortest form."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.IPv6Address(found[0]))
    return found[0]


def _number(part: str) -> int:
    base = 16 if part.startswith("0x") else 8 if part.startswith("0") and len(part) > 1 else 10
    return int(part, base)
