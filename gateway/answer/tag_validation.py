"""Validate an answer under a structural tag: find where its parts lie, and hold them against its schemas.

Shares no code with the masks. Regular expressions and grammars inside tags are delimited, not judged: their matcher's
own end state is the proof.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate.gateway.answer.call_arguments import CallArguments, Judge, blanks_end, object_schema
from sluicegate.plugins.parameter_styles import PARAMETER_STYLES, ParameterStyle

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
"""A number in front of other text may end before its last digit."""
MOST_WORK = 2_000_000
"""Most characters examined and places found for one answer, about 0.2 s; beyond that the answer counts as invalid."""


def json_schemas(tag: Mapping[str, Any]) -> list[Any]:
    """Return every schema in `tag`."""
    found: list[Any] = []
    pending: list[Any] = [_whole(tag)]
    while pending:
        part = pending.pop()
        if _kind(part) == "json_schema":
            found.append(part["json_schema"])
        pending += [*part.get("elements", ()), *part.get("tags", ())]
        pending += [part["content"]] if "content" in part else []
    return found


def complaint(tag: Mapping[str, Any], text: str, judge: Judge, decoder: json.JSONDecoder) -> str | None:
    """Return what is wrong; None where `text` can be read as `tag` says."""
    reading = _Reading(text, judge, decoder)
    try:
        if len(text) in reading.ends(_whole(tag), 0, ()):
            return None
    except _WorkLimitExceeded:
        return "the structural tag can be read in so many ways that the answer could not be checked"
    at, reason = max(reading.complaints, default=(0, "the text goes on where it should end, or ends too early"))
    return f"not what the structural tag describes: {reason} (at character {at})"


def _whole(tag: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return both public shapes as one tree of formats."""
    if "format" in tag:
        return _plain(tag["format"])
    tags = [
        {
            "type": "tag",
            "begin": s["begin"],
            "content": {"type": "json_schema", "json_schema": s["schema"]},
            "end": s["end"],
        }
        for s in tag["structures"]
    ]
    return {**tag, "type": "triggered_tags", "tags": tags}


def _plain(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write `dispatch`, `plus`, `star` and `qwen_xml_parameter` with the other formats, and leave out what is null."""
    kind, found = _kind(part), {name: value for name, value in part.items() if value is not None}
    if kind == "qwen_xml_parameter":
        found |= {"type": "json_schema", "style": "qwen_xml"}
    if kind in ("plus", "star"):
        found = {"type": "repeat", "min": int(kind == "plus"), "max": -1, "content": part["content"]}
    elif kind == "dispatch":
        tags = [{"begin": begin, "content": content, "end": ""} for begin, content in part["rules"]]
        loops = found.get("loop", True)
        found = {
            "type": "triggered_tags",
            "triggers": [begin for begin, _ in part["rules"]],
            "tags": tags,
            "excludes": found.get("excludes", ()),
            "max_count": None if loops else 1,
            "text_after": loops,
        }
    for name in ("elements", "tags"):
        if name in found:
            found[name] = [_plain(inner) for inner in found[name]]
    if "content" in found:
        found["content"] = _plain(found["content"])
    return found


def _kind(part: Mapping[str, Any]) -> str:
    """Return the type of a format; only tags among several may leave it out."""
    found: str = part.get("type", "tag")
    return found


class _WorkLimitExceeded(Exception):
    pass


class _Reading:
    """`ends(part, at, stops)`: every offset at which `part`, begun at `at`, may end; `stops` = literals that follow."""

    def __init__(self, text: str, judge: Judge, decoder: json.JSONDecoder) -> None:
        self.text = text
        self.judge = judge
        self.decoder = decoder
        self.complaints: list[tuple[int, str]] = []
        self._known: dict[tuple[int, int, tuple[str, ...]], set[int]] = {}
        self._work = 0

    def ends(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        key = (id(part), at, stops)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = getattr(self, "_" + _kind(part))(part, at, stops)
        self._spend(len(found) + 1)
        return found

    def _ends_from(self, part: Mapping[str, Any], starts: set[int], stops: tuple[str, ...]) -> set[int]:
        """Return the ends of `part` from any of `starts`, as `ends` does from one. A grammar may end everywhere, so
        only the first start matters."""
        if starts and _kind(part) == "grammar":
            starts = {min(starts)}
        return {end for start in starts for end in self.ends(part, start, stops)}

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > MOST_WORK:
            raise _WorkLimitExceeded

    def _const_string(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        return self._literals((part["value"],), at)

    def _json_schema(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        if part.get("style", "json") != "json":
            return self._styled(part, PARAMETER_STYLES[part["style"]], at)
        number = _NUMBER.match(self.text, at)
        if number is None:
            return self._value(part, at, self.text, at)
        ends = range(at + 1, number.end() + 1)
        self._spend((number.end() - at) ** 2)
        whole = [end for end in ends if _NUMBER.fullmatch(self.text, at, end)]
        return {end for each in whole for end in self._value(part, at, self.text[at:each], 0)}

    def _value(self, part: Mapping[str, Any], at: int, text: str, begin: int) -> set[int]:
        """Return where the value that begins at `begin` of `text` ends in the answer, where that place is `at`. A value
        that is no JSON or does not match its schema has no end; the complaint is noted."""
        try:
            value, size = self.decoder.raw_decode(text, begin)
        except ValueError as error:
            self.complaints.append((at, f"not JSON: {error}"))
            return set()
        end = at + size - begin
        self._spend(end - at)
        wrong = self.judge(part["json_schema"], value) or _holds(value, part.get("excludes", ()))
        if wrong is not None:
            self.complaints.append((at, wrong))
        return {end} if wrong is None else set()

    def _json_string(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        try:
            value, end = self.decoder.raw_decode(self.text, at)
        except ValueError as error:
            self.complaints.append((at, f"not JSON: {error}"))
            return set()
        self._spend(end - at)
        return {end} if isinstance(value, str) else set()

    def _styled(self, part: Mapping[str, Any], style: ParameterStyle, at: int) -> set[int]:
        schema = object_schema(part["json_schema"])
        values, end, wrong = CallArguments(self.text, schema, style, self.judge, self.decoder).read(at)
        self._spend(end - at)
        wrong = wrong or self.judge(schema, values) or _holds(values, part.get("excludes", ()))
        if wrong is not None:
            self.complaints.append((at, wrong))
        return set(range(end, blanks_end(self.text, end) + 1)) if wrong is None else set()

    def _repeat(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        low, high = part["min"], part["max"]
        if low and high and at in self._ends_from(part["content"], {at}, stops):
            low = 0  # each of them may be empty
        found: set[int] = {at} if low == 0 else set()
        reached, count = {at}, 0
        while reached and (high == -1 or count < high):
            count += 1
            least = min(reached)
            reached = {end for end in self._ends_from(part["content"], reached, stops) if end > least}
            found |= reached if count >= low else set()
        return found

    def _any_text(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        end = min(self._found(stops, at), default=len(self.text))
        most = part.get("max_chars", end - at)
        if end - at > most:
            self.complaints.append((at, f"more than {most} characters of text"))
            return set()
        return {end} if self._free(at, end, part.get("excludes", ())) else set()

    def _regex(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        return {min(self._found(stops, at), default=at)} if stops else set(range(at, len(self.text) + 1))

    def _grammar(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        return set(range(at, len(self.text) + 1))

    def _sequence(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        elements, reached = part["elements"], {at}
        for number, element in enumerate(elements):
            after = stops if number + 1 == len(elements) else _heads(elements[number + 1])
            reached = self._ends_from(element, reached, after)
        return reached

    def _or(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        return {end for way in part["elements"] for end in self.ends(way, at, stops)}

    def _optional(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        return {at} | self.ends(part["content"], at, stops)

    def _tag(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        last = _listed(part["end"])
        inner = last if all(last) else stops
        contents = self._ends_from(part["content"], self._literals((part["begin"],), at), inner)
        return {end for start in contents for end in self._literals(last, start)}

    def _triggered_tags(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        low, high = _counts(part)
        before = part.get("text_before", not part.get("at_least_one"))
        after = part.get("text_after", not part.get("stop_after_first"))
        found: set[int] = set()
        reached = {at}
        count = 0
        while reached:
            starts: set[int] = set()
            for start in reached:
                free = before if count == 0 else after
                begins, ends = self._in_text(part, start, stops) if free else ({start}, {start})
                found |= ends if count >= low else set()
                starts |= begins
            reached = set()
            if high is None or count < high:
                reached = {end for start in starts for tag in part["tags"] for end in self.ends(tag, start, stops)}
            count += 1
        return found

    def _in_text(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> tuple[set[int], set[int]]:
        """Return where free text from `at` meets a trigger, and where it may end."""
        trigger = min(self._found(part["triggers"], at), default=None)
        stop = min(self._found(stops, at), default=None) if stops else len(self.text)
        excludes = part.get("excludes", ())
        if trigger is not None and (stop is None or trigger < stop):
            return ({trigger}, set()) if self._free(at, trigger, excludes) else (set(), set())
        return (set(), {stop}) if stop is not None and self._free(at, stop, excludes) else (set(), set())

    def _tags_with_separator(self, part: Mapping[str, Any], at: int, stops: tuple[str, ...]) -> set[int]:
        low, high = _counts(part)
        found = {at} if low == 0 else set()
        reached, count = {at}, 0
        while reached and (high is None or count < high):
            if count:
                reached = {end for start in reached for end in self._literals((part["separator"],), start)}
            reached = {end for start in reached for tag in part["tags"] for end in self.ends(tag, start, stops)}
            count += 1
            found |= reached if count >= low else set()
        return found

    def _literals(self, texts: Iterable[str], at: int) -> set[int]:
        found = {at + len(text) for text in texts if self.text.startswith(text, at)}
        if not found:
            self.complaints.append((at, f"{' or '.join(map(repr, texts))} is missing"))
        return found

    def _found(self, texts: Iterable[str], at: int) -> list[int]:
        found = [where for text in texts if (where := self.text.find(text, at)) >= 0]
        self._spend(max(found, default=len(self.text)) - at)
        return found

    def _free(self, at: int, end: int, excludes: Iterable[str]) -> bool:
        for text in excludes:
            if self.text.find(text, at, end) >= 0:
                self.complaints.append((at, f"the text holds {text!r}"))
                return False
        return True


def _holds(value: Any, texts: Iterable[str]) -> str | None:
    """Return what is wrong where a string or a name of `value` holds one of `texts`."""
    pending = [value] if texts else []
    while pending:
        each = pending.pop()
        found = next((text for text in texts if isinstance(each, str) and text in each), None)
        if found is not None:
            return f"a string holds {found!r}"
        pending += [*each, *each.values()] if isinstance(each, dict) else each if isinstance(each, list) else ()
    return None


def _heads(part: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the literals that `part` begins with; () if it can begin otherwise."""
    if _kind(part) == "const_string":
        return (part["value"],)
    if _kind(part) == "tag":
        return (part["begin"],)
    if _kind(part) == "repeat" and part["min"]:
        return _heads(part["content"])
    if _kind(part) == "sequence" and part["elements"]:
        return _heads(part["elements"][0])
    if _kind(part) == "or":
        ways = [_heads(way) for way in part["elements"]]
        return tuple(head for way in ways for head in way) if all(ways) else ()
    return ()


def _listed(ends: str | list[str]) -> tuple[str, ...]:
    return (ends,) if isinstance(ends, str) else tuple(ends)


def _counts(part: Mapping[str, Any]) -> tuple[int, int | None]:
    low = max(part.get("min_count") or 0, int(part.get("at_least_one", False)))
    high = part.get("max_count")
    return low, (1 if high is None else min(high, 1)) if part.get("stop_after_first") else high
