"""Search a text for targets: loosely where it is untrusted, exactly where it is trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from sluicegate.plugins.concurrency.unlocked import cached_property
from sluicegate.safety.provenance.answers.called_people import CalledPeople
from sluicegate.safety.provenance.borders import bounded, exactly
from sluicegate.safety.provenance.inflection import inflected
from sluicegate.safety.provenance.loads import loads_in
from sluicegate.safety.provenance.numbers import SearchedText, bare_number
from sluicegate.safety.provenance.spelling import blobs, decoded, letters_of, loose, spelled, squeezed, undone
from sluicegate.safety.provenance.targets import CallTarget
from sluicegate.safety.provenance.urls import bare_url, host_of

_URL = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,20}://)?(?:www\.)?"
    r"((?:(?:[\w-]{1,63}\.){1,8}(?:[a-z]{2,24}(?![a-z0-9_-])|[^\W\d_a-z]{2,24})|(?:\d{1,3}\.){3}\d{1,3}(?![\w-]))"
    r"(?::\d+)?(?:/[^\s\"'<>)\]]*)?)"
)
_LONG = re.compile(r"[\w.+%'-]{1,64}@[\w.-]{3,255}|\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>)\]]+|[a-z]{0,2}\d{8,34}")
_EMPHASIS = re.compile(r"(?<!\w)_{1,3}(?=[^\s_])|(?<=[^\W_])_{1,3}(?!\w)")
_WORD = re.compile(r"[^\W\d_]{2,}")
_IDEOGRAPHIC = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]")
_BUCKET = re.compile(r"[a-z][a-z0-9+.-]{1,20}://([\w-]+(?:/[^\s\"'<>)\]]*)?)(?![\w.:@])")
"""What a scheme leads to that has no host with a point: `s3://data/raw`."""
_FORGE = r"https?://(?:www\.)?(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)/"
_DOCUMENT = re.compile(r"(readme|changelog|contributing|licen[cs]e|security|authors|notice)\.(?:md|txt|rst)")
"""A file of a repository that is called by its name without the ending."""
_PLAIN_ENDING = re.compile(r"(?<=\w)\.(?:md|txt|rst)$")
"""What is left out where a text is named: `README`."""
_MAILBOX = re.compile(r"([\w.-]+)@\w")
_LOGIN = re.compile(r"[._-]")
_BETWEEN_NAMES = r"\W{1,12}(?:\w{1,20}\W{1,12})?"
FILE_ENDINGS = frozenset(["md", "py", "sh", "zip", "mov", "pl", "rs", "cc", "so", "ps", "tf", "mm", "bz", "app"])
"""Ends of names of files that are domains, too: who names `README.md` names no site."""
MIN_NAME_CHARS = 3
"""Characters from which a name is searched for; shorter ones occur in any text. Two in Chinese, Japanese, Korean."""
MIN_PART_CHARS = 4
"""Characters from which the beginning or end of a target counts as a part of it."""
MIN_SQUEEZED_CHARS = 9
"""Characters from which a target is also searched for whatever stands between the letters of a text."""
MOST_NAMES = 4
"""Words of a name that are also searched for apart."""


class UntrustedText(SearchedText):
    """A text in which a target counts as named where a model may have read it."""

    def __init__(self, text: str) -> None:
        self.raw = text
        self._spelled = " ".join(map(spelled, decoded(text)))
        self.text = loose(self._spelled)

    @cached_property
    def as_json(self) -> Any:
        """Return the value of a text of JSON, None of another; read once for all targets of a call."""
        try:
            return json.loads(self.raw)
        except (ValueError, RecursionError):
            return None

    @cached_property
    def _squeezed(self) -> str:
        return squeezed(self.text)

    @cached_property
    def _letters(self) -> str:
        return letters_of(self.text)

    @cached_property
    def _borders(self) -> frozenset[int]:
        """Return the offsets among the letters and digits of the text at which something else stands between them."""
        return frozenset(accumulate(map(len, re.findall(r"[^\W_]+", self.text)), initial=0))

    def _among_letters(self, value: str) -> int:
        """Return the offset of `value` among the letters and digits of the text, where it is made of whole words."""
        at = self._letters.find(value)
        while at >= 0 and not (at in self._borders and at + len(value) in self._borders):
            at = self._letters.find(value, at + 1)
        return at

    @cached_property
    def _long_targets(self) -> tuple[str, ...]:
        """Return addresses, URLs and long numbers, of which a call may name a part."""
        digits = re.sub(r"(?<=\w)[ -](?=\d)", "", self.text)
        return tuple(dict.fromkeys([*_LONG.findall(self.text), *_LONG.findall(digits)]))

    @cached_property
    def _embedded(self) -> frozenset[str]:
        return frozenset(spelled(load.url) for said in undone(self.raw) for load in loads_in(said) if load.is_active)

    def copies(self, target: CallTarget) -> bool:
        """Return whether the whole address of a load stands here, with its query: of one that is active, with its
        scheme in a tag of its kind."""
        value = spelled(target.value.partition("#")[0])
        if target.kind == "embedded":
            return value in self._embedded
        return exactly(self._spelled, value.partition("//")[2] or value)

    def find(self, target: CallTarget) -> int:
        """Return the offset of `target`, in the compared spelling, or -1."""
        value = loose(spelled(target.value))
        if target.kind == "number":
            return self._number(value)
        if target.kind == "url":
            value = bare_url(value)
            if not value:
                return -1
            at = self.text.find(value)
        elif target.kind == "name" and len(value) < MIN_NAME_CHARS - bool(_IDEOGRAPHIC.search(value)):
            return -1
        else:
            at = bounded(self.text, value)
        if at < 0 and target.kind in ("address", "url", "name") and len(value) >= MIN_SQUEEZED_CHARS:
            at = self._squeezed.find(squeezed(value))
        if at < 0 and len(letters := letters_of(value)) >= MIN_SQUEEZED_CHARS:
            at = self._among_letters(letters)
        if at < 0 and target.kind == "name":
            at = max(self._words_apart(value), self._inflected(target.value))
        return at if at >= 0 else self._part(value, target)

    def _words_apart(self, name: str) -> int:
        """Return where the words of a name stand in either order with at most one word between two of them, as in
        `Oduya, Wilma` and in fields of JSON."""
        words = _WORD.findall(name)
        if not 2 <= len(words) <= MOST_NAMES or not all(word in self.text for word in words):
            return -1
        for order in (words, words[::-1], [words[-1], *words[:-1]]):
            found = re.search(rf"(?<!\w){_BETWEEN_NAMES.join(map(re.escape, order))}(?!\w)", self.text)
            if found:
                return found.start()
        return -1

    def _inflected(self, name: str) -> int:
        """Return where a name of two words or more stands in another case."""
        forms = inflected(name, self._spelled) if " " in name else None
        found = forms.search(self._spelled) if forms else None
        return found.start() if found else -1

    @property
    def with_accents(self) -> str:
        return self._spelled

    def _number(self, value: str) -> int:
        bare = bare_number(value)
        at = self.near(value)
        if at < 0 and self.in_words is not None:
            at = min(0, self.in_words.near(value))
        return at if at >= 0 or not bare.isdigit() else self._part(bare, CallTarget("number", bare))

    def _part(self, value: str, target: CallTarget) -> int:
        """Return where a longer target begins or ends with `value`."""
        if target.kind not in ("name", "number", "host") or len(value) < MIN_PART_CHARS or value.startswith("http"):
            return -1
        longer = (one for one in self._long_targets if one.startswith(value) or one.endswith(value))
        found = next(longer, None)
        return max(0, self.text.find(found)) if found is not None else -1


@dataclass(frozen=True, slots=True)
class ForeignText:
    """An untrusted text. `name`: of its tool or document, if it has one."""

    place: str
    name: str
    text: UntrustedText
    is_result: bool = False
    """Whether it is what a tool answered."""
    asked: tuple[str, ...] = ()
    """The strings of the arguments with which the tool was called."""


class TrustedText(SearchedText):
    """A text that names targets exactly."""

    def __init__(self, text: str) -> None:
        self._raw = text
        self.text = " ".join(map(spelled, undone(text)))
        if "_" in text:
            self.text += " " + _EMPHASIS.sub("", self.text)

    @cached_property
    def people(self) -> CalledPeople:
        return CalledPeople(self._raw)

    @cached_property
    def _codes(self) -> str:
        """Return what the text says in codes, and what ids in it happen to mean as such."""
        return " ; ".join(map(spelled, blobs(undone(self._raw)[-1])))

    @cached_property
    def _urls(self) -> tuple[str, ...]:
        """Return web addresses without scheme and `www.`, and bare hosts."""
        found = [*_URL.findall(self.text), *_BUCKET.findall(self.text)]
        return tuple(dict.fromkeys(bare_url(url.rstrip(".,;:!?")) for url in found))

    def names(self, target: CallTarget) -> bool:
        """Return whether `target` is named, or something that contains it: its site, a folder above it."""
        value = spelled(target.value)
        if target.kind == "number":
            return self.names_number(value)
        if (document := _DOCUMENT.fullmatch(value)) and exactly(self.text, document[1]):
            return True
        if target.kind == "url":
            bare = bare_url(value)
            host = host_of(value)
            if host.rpartition(".")[2] in FILE_ENDINGS and not self._is_site(host):
                return False
            if host == "localhost" and exactly(self.text, host):  # `localhost port 8080`
                return True
            return exactly(self.text, bare) or any(_covers(url, bare) for url in self._urls)
        if target.kind == "path":
            written = (value.removeprefix("./"), *_folders(value), *_ends_of(value))
            return any(exactly(self.text, path) for path in written) or self._tells(value) or self._ends_with(value)
        if len(value) > 0 and exactly(self.text, value):
            return True
        return target.kind == "name" and self._calls(value)

    def _calls(self, name: str) -> bool:
        """Return whether a name is written in another order or case, or as words that a login joins."""
        if exactly(self.text, _last_name_first(name)) or self._owns(name):
            return True
        if (words := _LOGIN.split(name)) and len(words) > 1 and all(map(str.isalpha, words)):
            return exactly(self.text, " ".join(words))
        forms = inflected(name, self.text)
        if forms is not None and forms.search(self.text) is not None:
            return True
        return exactly(self._codes, name)

    def _ends_with(self, path: str) -> bool:
        """Return whether an absolute path ends with a relative one of two steps or more."""
        path = path.removeprefix("./")
        if "/" not in path or path[0] in "/~." or ".." in path or path not in self.text:
            return False
        return re.search(rf"(?<![\w/.~@:-])/(?:[\w.@+-]+/)*{re.escape(path)}(?![\w/@-]|\.\w)", self.text) is not None

    def says_words(self, words: Sequence[str]) -> bool:
        """Return whether all of `words` stand here, of which there is one."""
        return bool(words) and all(exactly(self.text, spelled(word)) for word in words)

    def has_mailbox(self, name: str) -> bool:
        """Return whether an address is written whose mailbox has the words of `name`, and no others."""
        return name in self._mailboxes

    @cached_property
    def _mailboxes(self) -> frozenset[str]:
        return frozenset(_LOGIN.sub(" ", mailbox) for mailbox in _MAILBOX.findall(self.text))

    def _tells(self, path: str) -> bool:
        """Return whether each step of a path from here is named by itself: `report.xlsx from Downloads`, `the README of
        pine`."""
        steps = _PLAIN_ENDING.sub("", path.removeprefix("./")).split("/")
        return len(steps) > 1 and all(len(step) > 1 and step != ".." and exactly(self.text, step) for step in steps)

    def _owns(self, name: str) -> bool:
        """Return whether a name is that of an owner or a repository in `owner/repository`, or in a forge's address."""
        one = re.escape(name)
        pair = rf"(?:{one}/[\w.-]+|[\w.-]+/{one})"
        said = rf"(?<![\w./:@~-]){pair}(?![\w/@-]|:\S|\.\w)|{_FORGE}{pair}(?=[/?#\s]|$)"
        return re.search(said, self.text) is not None

    def _is_site(self, host: str) -> bool:
        """Return whether a name that may be that of a file is written as that of a site."""
        name = re.escape(host)
        return re.search(rf"(?:://|www\.){name}(?![\w.-])|(?<![\w./-]){name}(?:/|:\d)", self.text) is not None


def _last_name_first(name: str) -> str:
    *first, last = name.split() or [""]
    return f"{last}, {' '.join(first)}" if first else ""


def _covers(url: str, bare: str) -> bool:
    """Return whether `bare` is `url`, lies below it or is its host."""
    return bare == url or (bare.startswith(url) and bare[len(url)] in "/:") or bare == host_of(url)


def _ends_of(path: str) -> Iterator[str]:
    """Yield the ends of an absolute path of two steps or more: `src/app.py` is named from where the work is done."""
    steps = path.split("/")
    if path.startswith("/") and ".." not in steps:
        yield from ("/".join(steps[n:]) for n in range(2, len(steps) - 1))


def _folders(path: str) -> Iterator[str]:
    """Yield the folders above a path except the root; none if the path contains `..`. One that is a single word ends
    in a slash or stands between quotation marks: `docs` in a sentence is no folder."""
    parts = path.removeprefix("./").split("/")
    if ".." in parts:
        return
    for one in ("/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)):
        if len(one) >= MIN_NAME_CHARS:
            yield from (one,) if "/" in one else (f"{one}/", f"`{one}`", f'"{one}"', f"'{one}'")
