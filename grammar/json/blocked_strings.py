"""Remove blocked strings from sets of strings."""

from __future__ import annotations

from dataclasses import replace

from sluicegate.grammar.blocked.language.blocklist import Blocklist
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.strings import Strings, StringSet


def unblocked(blocklist: Blocklist, parts: StringSet) -> StringSet:
    """Remove strings that `blocklist` forbids from finite sets; from all other sets masks remove them.

    Returns `parts` itself if nothing is removed, so that caches by identity stay valid. Raises `GrammarLimit`.
    """
    if parts == strings.EVERY:
        return parts
    found = tuple([_unblocked(blocklist, part) for part in parts])
    return parts if all(a is b for a, b in zip(found, parts, strict=True)) else found


@remembered(2_000)
def _unblocked(blocklist: Blocklist, part: Strings) -> Strings:
    """Remove blocked strings from one part. Cached, so that lists are searched once and not for each request."""
    reduced = part.reduced
    if reduced.words is not None:
        kept = frozenset([word for word in reduced.words if not blocklist.holds(word)])
        return part if len(kept) == len(reduced.words) else Strings(words=kept)
    if reduced.dfa is None:  # such a string can always continue otherwise
        return part
    dfa = blocklist.without(reduced.dfa, reduced.low > 0, reduced.high is not None)
    return part if dfa is reduced.dfa else replace(reduced, dfa=dfa).reduced
