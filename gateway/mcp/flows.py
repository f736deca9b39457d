"""Remember the results that an agent read in one run, and find arguments that carry them to another server.

Texts are compared in two forms: in one spelling (NFKC, lower case, no invisible characters), and as letters and digits
alone, without accents and with look-alikes as Latin letters. Compared with the results are: all strings of the
arguments joined, the names of their members joined, lists of numbers as character codes, each argument joined to what
was sent to it before, and two strings of one length interleaved. Each is read as it stands and decoded from base64,
base32, base85, hexadecimal, quoted-printable, percent signs and the other encodings of `safety.detection.views`.

Not covered: a result that the model paraphrases, translates, encrypts or writes in another encoding; letters
interleaved over more than two strings, or with others inside one; a run that names itself differently for each call;
results that are no longer kept; what only `views` decodes, or double encoding, past `VIEWED` characters of an argument.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import quopri
import re
import time
import unicodedata
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, permutations, zip_longest
from typing import Any
from urllib.parse import unquote_plus

from sluicegate.safety.detection import views
from sluicegate.safety.matching.confusables import look_alike
from sluicegate.safety.provenance.spelling import spelled

MOST_RUNS = 2000
ALL_CHARS = 16_000_000
"""Characters of results and arguments of all runs. What is made of one to find it again takes 24 to 33 bytes: 2,000
runs of `MOST_CHARS` took 20 GB."""
_OF_RUN = 2_000
"""Characters that a run counts besides, so that a key with many small runs is seen as one that has much."""
MOST_RESULTS = 64
MOST_CHARS = 400_000
"""Characters kept of the results of one run."""
IDLE_S = 3600.0
TAIL = 4096
"""Characters kept of the text sent to one argument before."""
VIEWED = 8000
NAME = "/(name)"
"""Place of all names of members, which are read as one text wherever they stand."""
MIN_INTERLEAVED = 8
"""Characters from which a string is also read interleaved with another."""
MIN_CODES = 8
"""Numbers from which a list is also read as character codes."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_BASE32 = re.compile(r"[A-Za-z2-7]{24,}")
_BASE85 = re.compile(r"[!-u]{50,}|[0-9A-Za-z!#$%&()*+\-;<=>?@^_`{|}~]{50,}")
"""At least as long as 40 characters in base85, in Adobe's alphabet or in that of git."""
_PRINTABLE = re.compile(r"=[0-9A-Fa-f]{2}")
INTERLEAVED_STRINGS, MAX_INTERLEAVED = 4, 512
"""Number of the longest strings, and their characters, that are also read interleaved in pairs."""
_CODES = re.compile(r"\d{2,6}(?:\W+\d{2,6}){7,}")
_BETWEEN = re.compile(r"[\W_]+")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){12,}")


@dataclass(frozen=True, slots=True)
class RememberedResult:
    """A result in each of `FORMS`. `blocks`: its text cut into pieces of `_step` characters; any common part of twice
    that length contains one."""

    server: str
    tool: str
    texts: tuple[str, ...]
    blocks: tuple[frozenset[str], ...]

    @property
    def source(self) -> str:
        return f"{self.server}/{self.tool}"


@dataclass(slots=True)
class RunMemory:
    """The results and sent arguments of one run of one key. Mutable."""

    results: deque[RememberedResult] = field(default_factory=deque)
    raw: deque[tuple[str, str]] = field(default_factory=deque)
    """(server/tool, text) of each result as the agent got it."""
    sent: dict[tuple[str, str], str] = field(default_factory=dict)
    chars: int = 0
    sent_chars: int = 0
    used_s: float = 0.0

    @property
    def weight(self) -> int:
        return self.chars + self.sent_chars + _OF_RUN

    def remember(self, server: str, tool: str, text: str, least: int) -> None:
        text = text[:MOST_CHARS]
        texts = tuple(form(text) for form in FORMS)
        self.results.append(RememberedResult(server, tool, texts, tuple(_blocks(one, _step(least)) for one in texts)))
        self.raw.append((f"{server}/{tool}", text))
        self.chars += len(texts[0])
        while len(self.results) > MOST_RESULTS or (self.chars > MOST_CHARS and len(self.results) > 1):
            self.chars -= len(self.results.popleft().texts[0])
            self.raw.popleft()

    def find_carried(self, server: str, tool: str, arguments: Mapping[str, Any], own: Iterable[str], least: int) -> str:
        """Return the source (server/tool) of a result of which `arguments` contain `least` characters; "" = none.
        Results of `server` and of `own` are allowed."""
        allowed = {server, *own}
        foreign = [] if "*" in allowed else [one for one in list(self.results) if one.server not in allowed]
        if not foreign:
            return ""
        leaves = list(strings_of(arguments))
        before = [self.sent.get((f"{server}/{tool}", place), "") + text for place, text in leaves]
        together = ["".join(text for place, text in leaves if (place == NAME) is named) for named in (False, True)]
        readings = [*_readings([*together, *before]), *_interleaved([text for _, text in leaves])]
        for form, write in enumerate(FORMS):
            blocks = {block: one for one in foreign for block in one.blocks[form]}
            for reading in dict.fromkeys(map(write, readings)):
                if source := _source(reading, blocks, form, least):
                    return source
        return ""

    def note_sent(self, server: str, tool: str, arguments: Mapping[str, Any]) -> None:
        for place, text in strings_of(arguments):
            if len(self.sent) > 256:
                self.sent_chars -= len(self.sent.pop(next(iter(self.sent))))
            key = f"{server}/{tool}", place
            before = self.sent.get(key, "")
            kept = self.sent[key] = (before + text)[-TAIL:]
            self.sent_chars += len(kept) - len(before)


class RunMemories:
    """The memories of all runs by key and run. Where they are too many or too large, the key that has most loses the
    one it used least recently: callers name their runs themselves, and must not make the gateway forget those of
    others."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], RunMemory] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: str, run: str) -> RunMemory:
        now = time.monotonic()
        found = self._kept.get((key, run))
        if found is None or now - found.used_s > IDLE_S:
            found = self._kept[key, run] = RunMemory()
        found.used_s = now
        self._kept.move_to_end((key, run))
        self._make_room()
        return found

    def _make_room(self) -> None:
        weights: Counter[str] = Counter()
        for (key, _), memory in self._kept.items():
            weights[key] += memory.weight
        total = weights.total()
        while len(self._kept) > 1 and (len(self._kept) > MOST_RUNS or total > ALL_CHARS):
            heaviest = max(weights, key=weights.__getitem__)
            name = next(name for name in self._kept if name[0] == heaviest)
            if name == next(reversed(self._kept)):  # the only run of that key is the one that was just asked for
                del weights[heaviest]
                continue
            dropped = self._kept.pop(name).weight
            weights[heaviest] -= dropped
            total -= dropped


def strings_of(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every string, every member's name, long numbers, and lists of numbers as character codes.
    The reader of the body has bounded its nesting."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, inside in value.items():
            yield NAME, str(name)
            yield from strings_of(inside, f"{place}/{name if len(str(name)) <= 64 else '*'}")
    elif isinstance(value, list | tuple):
        if len(value) >= MIN_CODES and all(type(one) is int and 9 <= one <= 0x10FFFF for one in value):
            yield place, "".join(map(chr, value))
        for inside in value:
            yield from strings_of(inside, place)
    elif isinstance(value, int) and abs(value) > 10**15:
        yield place, str(value)


def _interleaved(texts: Iterable[str]) -> Iterator[str]:
    """Yield every two long strings of about one length interleaved letter by letter."""
    longest = sorted((text for text in texts if len(text) >= MIN_INTERLEAVED), key=len)[-INTERLEAVED_STRINGS:]
    for one, other in permutations(longest, 2):
        if 0 <= len(one) - len(other) <= 1:
            yield "".join(
                chain.from_iterable(zip_longest(one[:MAX_INTERLEAVED], other[:MAX_INTERLEAVED], fillvalue=""))
            )


def _readings(texts: Iterable[str]) -> Iterator[str]:
    """Yield `texts` as they stand and decoded."""
    for text in dict.fromkeys(texts):
        yield text
        yield from _decoded(text)


def _decoded(text: str) -> Iterator[str]:
    if "%" in text:
        yield unquote_plus(text)
    for match in _BASE64.finditer(text):
        yield _of_base64(match[0])
    for match in _HEX.finditer(text):
        yield bytes.fromhex(match[0]).decode("utf-8", "ignore")
    for match in _BASE32.finditer(text):
        yield _of_base32(match[0])
    if len(_PRINTABLE.findall(text[:VIEWED])) >= MIN_CODES:
        yield quopri.decodestring(text.encode("utf-8", "ignore")).decode("utf-8", "ignore")
    for match in _BASE85.finditer(text[:VIEWED]):
        yield from _of_base85(match[0])
    for match in _CODES.finditer(text):
        yield "".join([chr(code) for code in map(int, re.findall(r"\d+", match[0])) if code <= 0x10FFFF])
    for view in views(text[:VIEWED])[1:]:
        yield view.text
    close = "".join(text[:VIEWED].split())
    if len(close) < len(text):  # lines of base64
        for match in _BASE64.finditer(close):
            yield _of_base64(match[0])


def _of_base64(text: str) -> str:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4)).decode("utf-8", "ignore")
    except (binascii.Error, ValueError):
        return ""


def _of_base32(text: str) -> str:
    bare = text[: len(text) - len(text) % 8]
    try:
        return base64.b32decode(bare, casefold=True).decode("utf-8", "ignore")
    except (binascii.Error, ValueError):
        return ""


def _of_base85(text: str) -> Iterator[str]:
    """Yield `text` decoded in both alphabets from each of the five offsets at which its groups can begin: a word may
    precede it without a blank."""
    bare = text.strip("<~>") if text.startswith("<~") else text
    if bare.isalnum():
        return
    for begin in range(5):
        group = bare[begin : begin + (len(bare) - begin) // 5 * 5]
        for decode in (base64.a85decode, base64.b85decode):
            with contextlib.suppress(ValueError):
                yield decode(group.encode()).decode("utf-8", "ignore")


def _letters(text: str) -> str:
    """Return the letters and digits of `text`, in lower case and with look-alikes as Latin letters."""
    found = spelled(text)
    if not found.isascii():
        found = unicodedata.normalize("NFKD", found).translate(_LATIN)
    return _BETWEEN.sub("", found)


class _Latin(dict[int, str]):
    """A table for `str.translate`: the Latin letter that a character looks like, filled on demand."""

    def __missing__(self, code: int) -> str:
        self[code] = look_alike(chr(code)).lower()
        return self[code]


_LATIN = _Latin()


FORMS = (spelled, _letters)
"""The forms in which results and arguments are compared."""


def _step(least: int) -> int:
    return max(4, least // 2)


def _blocks(text: str, step: int) -> frozenset[str]:
    return frozenset(text[at : at + step] for at in range(0, len(text) - step + 1, step))


def _source(reading: str, blocks: Mapping[str, RememberedResult], form: int, least: int) -> str:
    """Return the source of a result that shares `least` characters with `reading`; "" = none. `blocks`: of all results,
    in this form."""
    step = _step(least)
    for at in range(len(reading) - step + 1):
        one = blocks.get(reading[at : at + step])
        if one is not None and _common_length(one.texts[form], reading, at, step) >= least:
            return one.source
    return ""


def _common_length(source: str, text: str, at: int, step: int) -> int:
    """Return the length of the longest common part around text[at:at+step], over its first 64 occurrences in
    `source`."""
    best, piece, found = 0, text[at : at + step], source.find(text[at : at + step])
    for _ in range(64):
        if found < 0:
            break
        left = right = 0
        while at - left > 0 and found - left > 0 and text[at - left - 1] == source[found - left - 1]:
            left += 1
        end, stop = at + step, found + step
        while end + right < len(text) and stop + right < len(source) and text[end + right] == source[stop + right]:
            right += 1
        best = max(best, left + step + right)
        found = source.find(piece, found + 1)
    return best
