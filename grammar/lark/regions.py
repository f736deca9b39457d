"""Compile JSON values inside a grammar of other text, and track the one that is open on a tape."""

from __future__ import annotations

from typing import Any

from sluicegate.grammar.json.root import satisfiable_values
from sluicegate.grammar.lark.rewriting.source import Source
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.region_tape import RegionTape
from sluicegate.plugins.errors import GrammarError, GrammarLimit


class JsonRegion:
    """The compiled values of one embedded schema."""

    def __init__(self, schema: Any, options: GrammarOptions) -> None:
        self._values, self._root, self.notes = satisfiable_values(schema, options)

    def readings(self, follow: Continuation) -> tuple[Reading, ...]:
        return self._values.within_text(self._root, follow)

    def renew(self) -> None:
        self._values.renewed()


def regions_of(source: Source, options: GrammarOptions) -> dict[str, JsonRegion]:
    """Compile embedded schemas, by the name of their terminals.

    Raises a `GrammarError` with line and column of the schema, and the pointer into it.
    """
    found: dict[str, JsonRegion] = {}
    for name, (schema, at) in source.schemas.items():
        try:
            found[name] = JsonRegion(schema, options)
        except GrammarError as error:
            raise type(error)(source.placed(f"%json: {error.reason}", at), pointer=error.pointer) from error
    return found


class OneRegionTape(RegionTape):
    """A tape for at most one JSON value at a time: guards read the tape, so only one reading may be inside JSON."""

    __slots__ = ()

    def restart(self, end_offset: int) -> None:
        begins = len(self.text) - end_offset
        if not self.off and self.since != begins and (self.open is not None or self.mode):
            raise GrammarLimit(
                "one text has two readings that are inside JSON values which began at different places; make what may "
                "stand beside a value unable to begin like it"
            )
        super().restart(end_offset)
