"""What of a request a judge reads, and as what: the user's own words, or untrusted text.

    user         messages of listed roles, variables of a template
    document     tool results, messages named as documents, context documents, what stands between document tags
    beside       tools, schemas, choices, patterns, names: together as a document and, where there are words enough,
                 each as the user's. Schemas speak in orders ("must be set"), so that thresholds are higher here.

Not covered: a text whose parts stand in different tools, or in a tool and a message; words of fewer than three.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from sluicegate.plugins import Message, Request, Text, place_of
from sluicegate.plugins.json_names import Path
from sluicegate.safety.matching.json_escapes import Unescaped

As = Literal["user", "document", "beside"]
DOCUMENT = "document"
"""The name that messages made of a document have (`/v1/messages`), whatever other names the operator gives."""
PIECE = 60_000
OVERLAP = 2_400
"""Characters. A longer text is judged piece by piece, so that the time can be looked at in between."""
LEAST_WORDS = 5
"""Of a text beside the messages that is judged by itself; fewer say nothing that could overrule anybody."""
MOST_ALONE = 200
BATCH = 2_000
"""So many texts of one tool are judged one by one; the others together, so many characters at a time."""
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{40,}")
_BETWEEN = re.compile(r"[_\- ]+")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a request. `texts`: one, or of what stands beside the messages all of one tool, of one schema."""

    place: str
    texts: tuple[str, ...]
    read_as: As
    source: str = ""
    """Of untrusted text: the tool whose result it is, or the document's name."""

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


class PartReader:
    """What one rail's settings make of requests."""

    def __init__(self, roles: frozenset[str], document_names: frozenset[str], tags: tuple[str, ...]) -> None:
        self._roles = roles
        self._names = document_names | {DOCUMENT}
        self._tags = document_tags(tags)

    def parts(self, request: Request, texts: Sequence[Text]) -> list[Part]:
        """Return the parts that are judged, in order; none is empty. `texts`: those of `request`."""
        inside = [text for text in texts if text.role in self._roles and text.kind != "arguments"]
        called = tools_of_results(request.messages)
        own = [part for text in inside for part in self._of_message(request, text, called) if part.text.strip()]
        return [*own, *_beside([text for text in texts if text.role is None])]

    def _of_message(self, request: Request, text: Text, called: Mapping[int | None, str]) -> Iterator[Part]:
        message = request.messages[int(text.path[1])]
        place = f"messages[{text.path[1]}]"
        if text.kind == "document" or message.role == "tool" or message.name in self._names:
            yield Part(place, (_said(text.text),), "document", _source(message, called.get(int(text.path[1]))))
            return
        own, documents = split_documents(text.text, self._tags)
        yield from (Part(f"a document in {place}", (found,), "document") for found in documents)
        yield Part(place, (own,), "user")


_NAME = re.compile(r"[\w. /:@-]{1,64}")


def tools_of_results(messages: Sequence[Message]) -> dict[int | None, str]:
    """Return by the number of a tool's message the tool: that of the last call before it with its id, since some
    servers count calls anew in each turn. Missing where calls of one message share the id."""
    names: dict[str | None, str] = {}
    found: dict[int | None, str] = {}
    for at, message in enumerate(messages):
        once = Counter(call.id for call in message.tool_calls)
        names |= {call.id: call.name if once[call.id] == 1 else "" for call in message.tool_calls}
        if message.role == "tool" and names.get(message.tool_call_id):
            found[at] = names[message.tool_call_id]
    return found


def _source(message: Message, called: str | None) -> str:
    """Describe the source of a message for operators; "" for a name with unusual characters."""
    kind, name = ("result of", called or message.name) if message.role == "tool" else ("document", message.name)
    return f"{kind} {name}" if name and _NAME.fullmatch(name) else ""


def _said(text: str) -> str:
    """Decode the `\\u` escapes in a tool result: mostly JSON, in which an attacker may have escaped letters."""
    return Unescaped(text).text if "\\u" in text else text


def _beside(texts: list[Text]) -> Iterator[Part]:
    """Yield variables one by one; of a tool, or of the constraint, all that can be read as words."""
    for path, found in groupby(texts, key=_together):
        if path == ("parts", "variables"):
            yield from (Part(text.place, (text.text,), "user") for text in found if text.is_free)
        elif said := tuple(words for text in found if (words := _words(text.text))):
            yield Part(place_of(path), said, "beside")


def _together(text: Text) -> Path:
    return text.path[:2] if text.path[0] in ("tools", "messages", "parts") else text.path[:1]


def _words(text: str) -> str:
    """Return `text` if it reads as words, the words of a long identifier, or "" for anything else."""
    if text.count(" ") >= 2 or _BLOB.fullmatch(text):
        return text
    found = _BETWEEN.split(text)
    return " ".join(found) if len(found) >= LEAST_WORDS and all(map(str.isalpha, found)) else ""


def alone(texts: Sequence[str]) -> Iterator[str]:
    """Yield the texts beside the messages: the first ones singly, the others in overlapping batches."""
    said = list(dict.fromkeys(text for text in texts if text.count(" ") >= LEAST_WORDS - 1 or _BLOB.fullmatch(text)))
    yield from said[:MOST_ALONE]
    rest = "\n".join(said[MOST_ALONE:])
    yield from (rest[start : start + BATCH] for start in range(0, len(rest), BATCH - BATCH // 8))


def pieces(text: str) -> Iterator[str]:
    """Yield the whole of a text that is not too long; else pieces that overlap and reach its end."""
    if len(text) <= PIECE:
        yield text
        return
    for start in range(0, len(text) - OVERLAP, PIECE - OVERLAP):
        yield text[start : start + PIECE]


@dataclass(frozen=True, slots=True)
class DocumentTags:
    """Patterns of the tags around documents."""

    opened: re.Pattern[str]
    closed: Mapping[str, re.Pattern[str]]
    """By name, in lower case."""


_ANY_CASE = re.IGNORECASE | re.ASCII
"""Without `ASCII` a long s would count as that of a tag's name."""


def document_tags(names: tuple[str, ...]) -> DocumentTags | None:
    """Return the patterns of tags with these names; None for no names."""
    if not names:
        return None
    either = "|".join(map(re.escape, names))
    closed = {name.lower(): re.compile(rf"</{re.escape(name)}\s*>", _ANY_CASE) for name in names}
    return DocumentTags(re.compile(rf"<({either})(?=[\s>])", _ANY_CASE), closed)


def split_documents(text: str, tags: DocumentTags | None) -> tuple[str, list[str]]:
    """Return (the user's own words, the text between document tags, and that of attributes, which names what somebody
    else wrote). A tag that is never closed is ignored; one that is closed more than once was closed by its document
    first, and ends at the last. Linear."""
    if tags is None or "<" not in text:
        return text, []
    opened = [(found, found[1].lower()) for found in tags.opened.finditer(text)]
    ends = {name: list(tags.closed[name].finditer(text)) for name in {name for _, name in opened}}
    starts = {name: [found.start() for found, other in opened if other == name] for name in ends}
    own, documents, at = [], [], 0
    for found, name in opened:
        closing = _closing(ends[name], starts[name], found.end()) if found.start() >= at else None
        if closing is None:
            continue
        attributes, _, inside = text[found.end() : closing.start()].partition(">")
        documents += [attributes.strip(), inside] if attributes.strip() else [inside]
        own.append(text[at : found.start()])
        at = closing.end()
    return "\n".join([*own, text[at:]]), documents


def _closing(ends: list[re.Match[str]], starts: list[int], behind: int) -> re.Match[str] | None:
    """Return the last closing tag before the next opening one that follows the first closing tag behind an offset."""
    first = bisect_left(ends, behind, key=re.Match.start)
    if first == len(ends):
        return None
    again = bisect_left(starts, ends[first].end())
    return ends[bisect_left(ends, starts[again], key=re.Match.start) - 1] if again < len(starts) else ends[-1]
