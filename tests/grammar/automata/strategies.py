"""Patterns over a small alphabet, and texts likely to tell two of them apart."""

from __future__ import annotations

from hypothesis import strategies as st

ALPHABET = "ab1_ -\né"

_ATOMS = st.sampled_from([*"ab1_ -é.", "[ab]", "[^a]", "[a-c1]", "\\d", "\\w", "\\s", "\\W", "[\\d_-]", "(?:)", "\\n"])
_COUNTS = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "{2,}", "*?", "+?", "??"])


def _compose(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda items: f"(?:{'|'.join(items)})"),
        st.tuples(inner, _COUNTS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda item: f"({item})"),
    )


def patterns(*extra: str) -> st.SearchStrategy[str]:
    """Well-formed patterns in both dialects' common notation; `extra` adds zero-width pieces such as `^`."""
    leaves = st.one_of(_ATOMS, st.sampled_from(extra)) if extra else _ATOMS
    return st.recursive(leaves, _compose, max_leaves=7)


def lookaround_patterns() -> st.SearchStrategy[str]:
    """Patterns with lookaheads anywhere, nested too, and lookbehinds of fixed width."""
    anchored = patterns("^", "\\Z", "\\b", "\\B")
    ahead = st.tuples(st.sampled_from(["(?=", "(?!"]), anchored).map(lambda pair: f"{pair[0]}{pair[1]})")
    behind = st.sampled_from(["(?<=a)", "(?<!a)", "(?<=^)", "(?<!ab)", "(?<=\\w1)", "(?<![ab] )"])
    return st.lists(st.one_of(anchored, ahead, behind), min_size=2, max_size=4).map("".join)


texts = st.text(alphabet=ALPHABET, max_size=7)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
