"""Read the targets of one argument of a call, piece by piece, however it is cut as it comes.

Not covered: of a text that is no program and whose argument has no known name, targets behind the first `LONGEST`
characters that are not blank, other than those it asks for by itself (`loads.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sluicegate.safety.provenance.argument_names import (
    AMOUNT_NAMES,
    CODE_NAMES,
    EVENT_NAMES,
    PERSON_NAMES,
    ZONE_NAMES,
    is_last_word,
    name_counts,
)
from sluicegate.safety.provenance.loads import BEGINS, still_open
from sluicegate.safety.provenance.nested import ArgumentPath, LongJson, begins_json, name_at
from sluicegate.safety.provenance.spelling import clean
from sluicegate.safety.provenance.targets import (
    CallTarget,
    is_date,
    pieces,
    targets_at,
    targets_in,
    targets_of_code,
    targets_of_text,
)

_EVENT = re.compile(r"[a-z_]+(?:\.[a-z_]+)*\.(?:[a-z_]{2,}ed|paid|sent|won|lost|new|void)(?<!limited)")
"""An event's name, as `order.created`, which looks like a host."""
_ZONE = re.compile(r"[a-z]+(?:/[a-z_+-]+){1,2}")
_PLACE_CODE = re.compile(r"[A-Z]{3}")
"""An airport or a currency."""
_LOGIN = re.compile(r"[a-z]+(?:[._-][a-z]+)+")


class ArgumentReader:
    """Reads the targets of one string. Mutable."""

    def __init__(
        self,
        path: ArgumentPath,
        names: frozenset[str],
        harmless: tuple[str, ...],
        *,
        is_code: bool = False,
        is_text: bool = False,
        is_journey: bool = False,
    ) -> None:
        """Read the string at `path`. `harmless`: names of arguments that are none; `is_code`: as the text of
        a custom tool, this one may be a program; `is_text`: it is no target whatever it is, but may ask for some;
        `is_journey`: its `to` may be where one ends."""
        self._is_journey = is_journey
        self._harmless = harmless
        self._names = names
        self._path = path
        self._argument = name_at(path)
        self._named = not is_text and name_counts(path, names)
        self._ends_range = self._named and not name_counts(path, names - {"to"})
        """Whether only `to` names the argument, which may also be the end of something."""
        self._is_code = not self._named and (is_code or (not is_text and name_counts(path, CODE_NAMES)))
        self._is_cell = self._argument.lower() == "content" or self._argument.lower() not in harmless
        """Whether a formula may be one of a table."""
        self._json: LongJson | None = None
        self._only_loads = is_text
        """Whether the rest is a text: what follows the first piece, unless the argument's name is known, the piece is
        blank, or the string is JSON."""
        self._before = ""
        """What the next piece needs of the text before it."""
        self._began = False

    def read(self, text: str, *, ends: bool) -> Iterator[tuple[int, list[list[CallTarget]]]]:
        """Yield how many characters of `text`, from where the last step ended, need nothing that follows, with their
        targets. `ends`: nothing follows."""
        while text:
            if self._only_loads and (passed := self._passed(text)):
                yield passed, []
                text = text[passed:]
                continue
            found, _ = pieces(text, ends=ends, is_text=not self._named)
            if not found:
                return
            whole = ends and not self._began and len(found) == 1
            self._began = True
            yield len(found[0]), self._targets(found[0], whole=whole)
            text = text[len(found[0]) :]

    def _passed(self, text: str) -> int:
        """Return how many characters stand before the first that may begin an address that is asked for."""
        begins = BEGINS.search(text)
        passed = begins.start() if begins else len(text)
        self._before = still_open(self._before + text[:passed])
        return passed

    def _targets(self, piece: str, *, whole: bool) -> list[list[CallTarget]]:
        if self._only_loads:
            return self._loads(piece)
        named = self._named and not (self._ends_range and self._is_end(piece))
        found = targets_in(piece, named=named, inside=self._counts)
        if self._is_code:
            found.append(targets_of_code(piece))
        if self._json is None and not whole and begins_json(piece):
            self._json = LongJson()
        for path, said in self._json.read(piece) if self._json is not None else ():
            found += targets_at(path, said, inside=self._counts)
        is_over = not (self._named or self._is_code or self._json is not None) and bool(clean(piece).strip())
        self._only_loads = is_over
        self._before = "" if self._named else still_open(piece)
        return [targets for targets in map(self._fitting, found) if targets]

    def _loads(self, piece: str) -> list[list[CallTarget]]:
        found = targets_of_text(self._before + piece, formulas=self._is_cell)
        self._before = still_open(self._before + piece)
        return [found] if found else []

    def _is_end(self, piece: str) -> bool:
        """Return whether `to` holds the end of a time or of a journey."""
        return is_date(piece) or (self._is_journey and _PLACE_CODE.fullmatch(piece) is not None)

    def _fitting(self, targets: list[CallTarget]) -> list[CallTarget]:
        """Return `targets` without what this argument cannot mean: the account in an amount, the host in an event or a
        login, the path in a time zone."""
        if is_last_word(self._argument, PERSON_NAMES):
            return [replace(one, kind="name") if _is(one, "host", _LOGIN) else one for one in targets]
        if is_last_word(self._argument, EVENT_NAMES):
            return [one for one in targets if not _is(one, "host", _EVENT)]
        if is_last_word(self._argument, ZONE_NAMES):
            return [one for one in targets if not _is(one, "path", _ZONE)]
        if is_last_word(self._argument, AMOUNT_NAMES):
            return [one for one in targets if one.kind != "number" or not one.value[:1].isdigit()]
        return targets

    def _counts(self, path: ArgumentPath) -> bool | None:
        return None if name_at(path).lower() in self._harmless else name_counts((*self._path, *path), self._names)


def _is(target: CallTarget, kind: str, pattern: re.Pattern[str]) -> bool:
    return target.kind == kind and pattern.fullmatch(target.value) is not None
