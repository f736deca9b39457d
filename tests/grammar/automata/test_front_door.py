"""The package's front door names all that is public, and nothing else."""

from __future__ import annotations

import sluicegate.grammar.automata
from sluicegate.grammar import is_compiled


def test_everything_that_is_exported_exists_and_is_documented() -> None:
    assert (
        sorted(sluicegate.grammar.automata.__all__, key=lambda name: (not name.isupper(), name))
        == sluicegate.grammar.automata.__all__
    )
    for name in sluicegate.grammar.automata.__all__:
        found = getattr(sluicegate.grammar.automata, name)
        assert found.__doc__ or is_compiled(), name  # a compiled class has no docstring
