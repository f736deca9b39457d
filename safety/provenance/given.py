"""Know what the user chose without spelling it: what a tool gives for a name the user said, and an entry of a list for
which no text asks.

Not covered: what the modules of `answers` say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from sluicegate.plugins import Request
from sluicegate.safety.provenance.answers.directories import Calls, is_address_of_named
from sluicegate.safety.provenance.answers.listings import (
    ListedEntries,
    domains_in,
    files_in,
    ids_in,
    is_device_id,
    is_id_argument,
    is_sent,
    may_be_chosen,
    urls_in,
    words_of_file,
)
from sluicegate.safety.provenance.answers.records import is_id_of_named, is_reached
from sluicegate.safety.provenance.answers.tool_names import (
    goes_somewhere,
    is_directory,
    is_listing,
    is_places,
    is_search_engine,
    lists_files,
    pays,
    reads_pages,
)
from sluicegate.safety.provenance.argument_names import MONEY_NAMES, words_of
from sluicegate.safety.provenance.parts import parts_of
from sluicegate.safety.provenance.spelling import spelled
from sluicegate.safety.provenance.targets import CallTarget
from sluicegate.safety.provenance.texts import ForeignText, TrustedText, UntrustedText

DISPLAYED = frozenset(["name", "displayname", "display_name", "fullname", "full_name"])


class GivenTargets:
    """What the results in the texts of one request give. Mutable: lists are kept once they are read."""

    def __init__(
        self,
        request: Request,
        untrusted: Sequence[ForeignText],
        trusted: Sequence[TrustedText],
        is_trusted: Callable[[CallTarget], bool],
    ) -> None:
        self._request = request
        self._untrusted = untrusted
        self._trusted = trusted
        self._is_trusted = is_trusted
        self._listings: dict[object, tuple[frozenset[str], UntrustedText] | None] = {}

    def has(self, target: CallTarget, argument: str, tool: str, *, is_lost: bool) -> bool:
        """Return whether a target is what a tool gives for a name the user said, an entry of a list for which no text
        asks, or the name beside an address that the user wrote (`{"address": "ida.nes@fjord.example", "name": "Ida
        Nes"}`)."""
        is_displayed = target.kind == "name" and argument.lower() in DISPLAYED
        if is_displayed and any(text.has_mailbox(target.value) for text in self._trusted):
            return True
        if target.kind == "host" and is_device_id(argument) and self._says_device(target.value):
            return True
        results = [source for source in self._untrusted if source.is_result]
        if any(self._is_of_named(target, argument, tool, source) for source in results):
            return True
        return self._is_chosen(target, argument, tool, is_lost=is_lost)

    def _says_device(self, value: str) -> bool:
        """Return whether the user says what stands behind the point of a device's id: `lock.front_door`."""
        return any(text.says_words(re.findall(r"[^\W_]+", value.partition(".")[2])) for text in self._trusted)

    def _is_of_named(self, target: CallTarget, argument: str, tool: str, source: ForeignText) -> bool:
        """Return whether a result gives a target as the id or the address of what the user named."""
        text, words = source.text, words_of(argument)
        is_id = target.kind in ("name", "number") or _looks_otherwise(target, argument)
        if pays(tool) and is_directory(source.name) and is_reached(argument):
            return False
        if is_id and is_id_of_named(source.name, text.as_json, target.value, argument, self._calls_of(source.name)):
            return True
        if target.kind == "number" and (pays(tool) or target.value[:1].isalpha() or not MONEY_NAMES.isdisjoint(words)):
            return False
        if target.kind == "name" and is_places(source.name) and goes_somewhere(tool):
            return is_address_of_named(text.as_json, target.value, self._calls_of(source.name))
        if target.kind not in ("address", "number"):
            return False
        if not is_directory(source.name) and not (target.kind == "number" and is_places(source.name)):
            return False
        return is_address_of_named(text.as_json, spelled(target.value), self._calls_of(source.name))

    def _is_chosen(self, target: CallTarget, argument: str, tool: str, *, is_lost: bool) -> bool:
        """Return whether a target is an entry of a list and nothing else in the untrusted texts. `is_lost`: the call
        sends a file or deletes it."""
        is_id = target.kind == "number" or (target.kind == "path" and not is_lost and may_be_chosen(target.value))
        if is_id and is_id_argument(argument) and not pays(tool):
            return self._is_only_listed(target, ids_in, lambda source: is_listing(source.name))
        if target.kind == "url" and reads_pages(tool, self._arguments_of(tool)):
            return self._is_only_listed(target, urls_in, lambda source: is_search_engine(source.name))
        if target.kind == "name" and argument.lower() == "domain":
            return self._is_only_listed(target, domains_in, lambda source: is_listing(source.name))
        if target.kind != "path":
            return False
        is_said = any(text.says_words(words_of_file(target.value)) for text in self._trusted)
        if not may_be_chosen(target.value) or (not is_said and (is_lost or is_sent(argument))):
            return False
        return self._is_only_listed(target, files_in, lambda source: lists_files(source.name, source.asked))

    def _is_only_listed(
        self, target: CallTarget, listed: Callable[[str], ListedEntries | None], lists: Callable[[ForeignText], bool]
    ) -> bool:
        is_entry = False
        for source in self._untrusted:
            if all(source.text.find(one) < 0 for one in (target, *parts_of(target))):
                continue
            found = self._listing(source, listed) if source.is_result and lists(source) else None
            if found is None or target.value not in found[0]:
                return False
            rest = found[1]
            if any(rest.find(one) >= 0 for one in (target, *parts_of(target)) if one.kind == target.kind):
                return False
            is_entry = True
        return is_entry

    def _listing(
        self, source: ForeignText, listed: Callable[[str], ListedEntries | None]
    ) -> tuple[frozenset[str], UntrustedText] | None:
        """Return the entries of a list and what else it says; a call may have many of its entries."""
        key = (id(source), listed)
        if key not in self._listings:
            found = listed(source.text.raw)
            self._listings[key] = (found.entries, UntrustedText(found.rest)) if found is not None else None
        return self._listings[key]

    def _arguments_of(self, tool: str) -> Iterator[str]:
        found = (one.parameters.get("properties") for one in self._request.tools if one.name == tool)
        return (name for properties in found if isinstance(properties, Mapping) for name in properties)

    def _calls_of(self, tool: str) -> Calls:
        """Return what yields how the user calls somebody in a tool's answer: by the whole name; people by a word of
        it, if no text names them in whole."""
        is_people = is_directory(tool)
        others = [source.text for source in self._untrusted if not is_directory(source.name)]

        def calls(name: str) -> Iterator[str]:
            if self._says(name) and not (is_people and name.isascii() and name.isalpha()):
                yield name
            words = [word for text in self._trusted for word in text.people.by_words_of(name)] if is_people else []
            if words and all(text.find(CallTarget("name", name)) < 0 for text in others):
                yield from words

        return calls

    def _says(self, name: str) -> bool:
        return self._is_trusted(CallTarget("name", name.removeprefix("#").removeprefix("@")))


def _looks_otherwise(target: CallTarget, argument: str) -> bool:
    """Return whether a target is the id of a device, which may look like a host, or that of a calendar, which may look
    like an address."""
    if target.kind == "host":
        return is_device_id(argument)
    return target.kind == "address" and words_of(argument) == ["calendar", "id"]
