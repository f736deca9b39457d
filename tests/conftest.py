"""What holds for all tests: nothing is kept in, or taken from, the caches of whoever runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluicegate.grammar.vocabulary.array_store import ENV


@pytest.fixture(scope="session", autouse=True)
def caches_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENV, str(tmp_path_factory.mktemp("caches")))
        yield
