"""Find the addresses in a running text that its reader's client asks for by itself: images, scripts and forms of HTML,
images of Markdown, `url()` of CSS, formulas of spreadsheets.

Links that somebody has to follow are none: mails quote them. Nor is an image whose whole address an untrusted text
spells: asking for it tells its host nothing new (`sources.py`).
Not covered: links of which a chat shows a preview; an image by reference whose definition is in another piece of a long
text; addresses that a script puts together.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from urllib.parse import unquote

from sluicegate.safety.provenance.spelling import clean
from sluicegate.safety.provenance.urls import as_browsers_read

OVERLAP = 300
"""Characters of a piece of a long text that are read again with the next one."""
BEGINS = re.compile(r"[<\[(=+@|-]")
"""The characters of which one stands before every address that is asked for. Text before the first may leave."""
ACTIVE_TAGS = frozenset(
    ["script", "iframe", "frame", "object", "embed", "form", "base", "meta", "input", "button", "portal"]
)
"""Tags whose address runs something, receives what is entered, or takes the place of the page."""
LINKING_TAGS = frozenset(["a", "area"])
"""Tags whose address somebody has to follow."""
_TAG = re.compile(r"<([a-z][a-z0-9:-]{0,30})(?![\w:-])", re.I)
_ATTRIBUTE = re.compile(
    r"(?<![\w-])(srcset|imagesrcset|src|poster|background|(?:form)?action|(?:xlink:)?href|data|ping|content)"
    r"\s*=\s*(?:\"([^\"]*)|'([^']*)|([^\s>\"']+))",
    re.I,
)
_NOT_FETCHED = re.compile(
    r"\brel\s*=\s*[\"']?(?:canonical|alternate|next|prev|license|author|me|help|search|shortlink|amphtml)\b", re.I
)
"""What a `link` says of pages that nothing asks for."""
_REFRESH = re.compile(r"\burl\s*=\s*['\"]?(.+)", re.I | re.S)
_STYLED = re.compile(r"(?:\burl\(\s*|@import\s+)(?:&quot;|&#39;|[\"'])?([^\s\"'()]+?)(?=&quot;|&#39;|[\s\"')]|$)", re.I)
_BETWEEN_IMAGES = re.compile(r",\s+|(?<=\d[wx]),")
_IMAGE = re.compile(r"!\[(?:[^\[\]]++|\[[^\[\]]*+\])*+\]\(\s*<?([^\s)>]+)")
_IMAGE_LABEL = re.compile(r"!\[([^\[\]]{0,300})\](?:\[([^\[\]]{0,300})\]|(?![(\[]))")
_DEFINED = re.compile(r"^[ >]{0,8}\[([^\[\]]{1,300})\]:\s*<?(\S+?)>?(?:\s|$)", re.M)
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{1,20}:)?//\S|(?:https?|wss?|ftp):\S", re.I)
_FORMULA = re.compile(r"(?:^|[\n\t,;\"])[ '\"]{0,3}[=+@-]")
_FETCHES = re.compile(
    r"\b(import(?:xml|data|html|feed|range)|image|webservice|hyperlink)\s*\((?=([^\n]{0,1000}))", re.I
)
_FIRST_ARGUMENT = re.compile(r"(?:\"[^\"]*\"|[^,;\"])*")
_APPENDED = re.compile(r"\"\s*&|\b(?:concat|textjoin|join|substitute)", re.I)
_JOINS = re.compile(r"\"\s*&\s*\"")
_CELL_ADDRESS = re.compile(r"\"\s*((?:[a-z][a-z0-9+.-]{1,20}:/?|/)/[\w.-]+\.[^\"]*|[a-z]+:[/\\]*[\w-]+\.[^\"]*)", re.I)
"""One with a host: `"//td"` is a path in XML."""
_COMMAND = re.compile(r"[\n\t,;\" =+@-](\w{1,20}\|['\"][^\n]{1,1000}?['\"]!\w)")
"""A command in a formula of DDE."""


@dataclass(frozen=True, slots=True)
class LoadedUrl:
    """An address that a client asks for. `is_active`: what comes from there runs, or what is entered goes there."""

    url: str
    is_active: bool


def loads_in(text: str) -> Iterator[LoadedUrl]:
    """Yield the addresses that a reader of `text` asks for, as clients read them."""
    for url, is_active in _loads(clean(text)):
        read = as_browsers_read(html.unescape(url).strip())
        if _ADDRESS.match(read):
            yield from (LoadedUrl(one, is_active) for one in dict.fromkeys((read, unquote(read))))


def still_open(text: str) -> str:
    """Return what a later piece of a text needs of `text`: its end, behind the tag or image that was opened before."""
    end = text[-OVERLAP:]
    image = text.rfind("![")
    opened = "![" if text.rfind("](") < image < len(text) - OVERLAP else ""
    tag = next((found for found in reversed(list(_TAG.finditer(text)))), None)
    return f"<{tag[1]} {opened}{end}" if tag and tag.start() < len(text) - OVERLAP else opened + end


def _loads(text: str) -> Iterator[tuple[str, bool]]:
    if "=" in text and "<" in text:
        yield from _of_tags(text)
    if "(" in text or "@" in text:
        yield from ((found[1], False) for found in _STYLED.finditer(text))
    if "![" in text:
        yield from ((url, False) for url in _IMAGE.findall(text))
        labels = {(other or label).lower() for label, other in _IMAGE_LABEL.findall(text)}
        yield from ((url, False) for label, url in _DEFINED.findall(text) if label.lower() in labels)


def _of_tags(text: str) -> Iterator[tuple[str, bool]]:
    tags = list(_TAG.finditer(text))
    for tag, following in zip_longest(tags, tags[1:]):
        end = following.start() if following else len(text)
        name = tag[1].lower()
        if name == "link" and _NOT_FETCHED.search(text, tag.end(), end):
            continue
        for found in _ATTRIBUTE.finditer(text, tag.end(), end):
            value = found[2] or found[3] or found[4] or ""
            yield from _of_attribute(name, found[1].lower(), value)


def _of_attribute(tag: str, attribute: str, value: str) -> Iterator[tuple[str, bool]]:
    if attribute.endswith("srcset"):
        yield from ((one.split()[0], False) for one in _BETWEEN_IMAGES.split(value) if one.strip())
    elif attribute == "content":
        yield from ((url, True) for url in _REFRESH.findall(value))
    elif (tag not in LINKING_TAGS or attribute == "ping") and (attribute != "data" or tag == "object"):
        yield value, tag in ACTIVE_TAGS or attribute.endswith("action")


def formulas_in(text: str) -> Iterator[str]:
    """Yield the addresses and commands that the formulas of a cell, or of cells in a table, ask for: a link only if
    something is appended to it."""
    if not _FORMULA.search(text):
        return
    for line in dict.fromkeys((text, text.replace('""', '"'))):  # CSV doubles quotation marks
        for name, arguments in _FETCHES.findall(line):
            first = _FIRST_ARGUMENT.match(arguments)
            if name.lower() == "hyperlink" and first and not _APPENDED.search(first[0]):
                continue
            yield from _CELL_ADDRESS.findall(_JOINS.sub("", arguments))
    yield from (found[1] for found in _COMMAND.finditer(f" {text}"))
