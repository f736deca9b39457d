"""What holds for all tests: nothing is kept in, or taken from, the caches of whoever runs them, but for compiled loops:
those are named by content, and take a minute to compile."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache

import httpx
import pytest
from hypothesis import settings

from sluicegate.plugins.cache_folder import ENV
from sluicegate.plugins.compiled.folder import compiled_folder
from tests.waiting import LIMIT_S

settings.register_profile("any-machine", deadline=None)  # 200 ms are soon over where twenty things run
settings.load_profile("any-machine")


@pytest.fixture(scope="session", autouse=True)
def caches_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(compiled_folder().parent))
        patch.setenv(ENV, str(tmp_path_factory.mktemp("caches")))
        yield


@pytest.fixture(scope="module", autouse=True)
def memory_given_back() -> Iterator[None]:
    """Give the system back what the allocator keeps behind a file's tests: half of a worker's gigabytes by the end."""
    yield
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


@pytest.fixture(scope="session", autouse=True)
def authorities_read_once() -> Iterator[None]:
    """Read the certificates of the system once: each client of httpx reads all of them, for 20 ms of processor time,
    and thousands are made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx._transports.default, "create_ssl_context", cache(httpx._config.create_ssl_context))
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_clients() -> None:
    """Let clients wait longer: those that say nothing of time wait five seconds, which a machine with twenty things to
    do may need."""
    for part in ("connect", "read", "write", "pool"):
        setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, part, LIMIT_S)
