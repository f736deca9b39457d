"""What an agent has read in one run, and whether arguments carry it from one server to another.

Compared is text in one spelling (NFKC, lower case, no invisible characters), as it stands and as base64, hexadecimal or
percent signs spell it, over all strings of the arguments together and over what was sent to the same argument before.

Not covered: what a model says in its own words, translates, encrypts or spells backwards; a run that names itself
differently for each call; results that are older than what is kept.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from sluicegate.safety.provenance.sources import spelled

MOST_RUNS = 2000
MOST_RESULTS = 64
MOST_CHARS = 400_000
"""Of the results of one run."""
IDLE_S = 3600.0
TAIL = 4096
"""Characters of what was sent to one argument before."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){12,}")


@dataclass(frozen=True, slots=True)
class Read:
    """A result. `blocks`: every `step`-th piece of `step` characters of its text: any longer common part holds one."""

    server: str
    tool: str
    text: str
    blocks: frozenset[str]

    @property
    def source(self) -> str:
        return f"{self.server}/{self.tool}"


@dataclass(slots=True)
class RunMemory:
    """Of one run of one key."""

    results: deque[Read] = field(default_factory=deque)
    raw: deque[tuple[str, str]] = field(default_factory=deque)
    """(server/tool, text) as the agent got it."""
    sent: dict[tuple[str, str], str] = field(default_factory=dict)
    chars: int = 0
    used_s: float = 0.0

    def remember(self, server: str, tool: str, text: str, least: int) -> None:
        text = text[:MOST_CHARS]
        found, step = spelled(text), max(4, least // 2)
        blocks = frozenset(found[at : at + step] for at in range(0, len(found) - step + 1, step))
        self.results.append(Read(server, tool, found, blocks))
        self.raw.append((f"{server}/{tool}", text))
        self.chars += len(found)
        while len(self.results) > MOST_RESULTS or (self.chars > MOST_CHARS and len(self.results) > 1):
            self.chars -= len(self.results.popleft().text)
            self.raw.popleft()

    def carried(self, server: str, tool: str, arguments: Mapping[str, Any], own: Iterable[str], least: int) -> str:
        """Return the source of a text of `least` characters in `arguments` that no server of `own` returned; "" =
        none."""
        allowed = {server, *own}
        foreign = [] if "*" in allowed else [one for one in self.results if one.server not in allowed]
        if not foreign:
            return ""
        leaves = list(strings_of(arguments))
        before = [self.sent.get((f"{server}/{tool}", place), "") + text for place, text in leaves]
        step = max(4, least // 2)
        blocks: dict[str, Read] = {block: one for one in foreign for block in one.blocks}
        for reading in _readings(["".join(text for _, text in leaves), *before]):
            for at in range(len(reading) - step + 1):
                one = blocks.get(reading[at : at + step])
                if one is not None and _grown(one.text, reading, at, step) >= least:
                    return one.source
        return ""

    def note_sent(self, server: str, tool: str, arguments: Mapping[str, Any]) -> None:
        for place, text in strings_of(arguments):
            if len(self.sent) > 256:
                self.sent.pop(next(iter(self.sent)))
            key = f"{server}/{tool}", place
            self.sent[key] = (self.sent.get(key, "") + text)[-TAIL:]


class RunMemories:
    """By key and run; the longest unused is forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], RunMemory] = OrderedDict()

    def of(self, key: str, run: str) -> RunMemory:
        now = time.monotonic()
        found = self._kept.get((key, run))
        if found is None or now - found.used_s > IDLE_S:
            found = self._kept[key, run] = RunMemory()
            while len(self._kept) > MOST_RUNS:
                self._kept.popitem(last=False)
        found.used_s = now
        self._kept.move_to_end((key, run))
        return found


def strings_of(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every string, and of long numbers and names of members. Nesting is bounded by whoever read
    the body."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, inside in value.items():
            if isinstance(name, str) and len(name) > 16:
                yield f"{place}/(name)", name
            yield from strings_of(inside, f"{place}/{name if len(str(name)) <= 64 else '*'}")
    elif isinstance(value, list | tuple):
        for inside in value:
            yield from strings_of(inside, place)
    elif isinstance(value, int) and abs(value) > 10**15:
        yield place, str(value)


def _readings(texts: Iterable[str]) -> Iterator[str]:
    for text in dict.fromkeys(texts):
        yield spelled(text)
        if "%" in text:
            yield spelled(unquote(text))
        for match in _BASE64.finditer(text):
            if said := _decoded(match[0]):
                yield spelled(said)
        for match in _HEX.finditer(text):
            if said := bytes.fromhex(match[0]).decode("utf-8", "ignore"):
                yield spelled(said)


def _decoded(text: str) -> str:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4)).decode("utf-8", "ignore")
    except (binascii.Error, ValueError):
        return ""


def _grown(source: str, text: str, at: int, step: int) -> int:
    """Return the length of the longest common part around text[at:at+step], over its first 64 places in `source`."""
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
