"""Compiled loops: kept by content, believed only where that is safe, and made beside a process that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from sluicegate.plugins.compiled import builder as builders
from sluicegate.plugins.compiled import kernels
from sluicegate.plugins.compiled.builder import BackgroundBuilder, CompileState, compiling
from sluicegate.plugins.compiled.compile_mode import COMPILE_MODE
from sluicegate.plugins.compiled.folder import CompiledFolder, compiled_folder
from sluicegate.plugins.compiled.request import KernelReply
from tests.plugins import loops
from tests.waiting import LIMIT_S

INNER = (
    "from sluicegate.plugins.compiled.kernels import kernel\n\n{above}@kernel()\ndef inner(x):\n"
    "    '{doc}'\n    return x + {n}\n"
)
OUTER = (
    "from sluicegate.plugins.compiled.kernels import kernel\nfrom made.inner import inner\n\nFACTOR = {factor}\n{other}"
    "\n\n@kernel('int64(int64)', fastmath={{'nsz', 'arcp', 'contract'}})\ndef outer(x):\n    return FACTOR * inner(x)\n"
)
RUN = (
    "from made.outer import outer; print(outer(1), outer.key(outer.declared[0]), sum(outer.stats.cache_hits.values()))"
)


class Sources:
    """A package of two kernels in a folder of its own, one of which calls the other."""

    def __init__(self, place: Path, cache: Path) -> None:
        self.place, self.cache = place, cache
        (place / "made").mkdir(parents=True)
        (place / "made" / "__init__.py").write_text("")
        self.write()

    def write(self, *, n: int = 1, above: str = "", doc: str = "A doc.", factor: int = 1, other: str = "") -> None:
        (self.place / "made" / "inner.py").write_text(INNER.format(n=n, above=above, doc=doc))
        (self.place / "made" / "outer.py").write_text(OUTER.format(factor=factor, other=other))

    def run(self) -> tuple[int, str, bool]:
        """Return what the outer kernel answers, its key, and whether its code came from the disk."""
        path = f"import sys; sys.path[:0] = [{str(self.place)!r}, {str(Path.cwd())!r}]\n"
        environ = {**os.environ, "NUMBA_CACHE_DIR": str(self.cache)}
        done = subprocess.run(
            [sys.executable, "-B", "-c", path + RUN],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
            env=environ,
        )
        answer, key, hits = done.stdout.split()
        return int(answer), key, hits == "1"


def test_code_is_kept_over_all_changes_that_cannot_change_it_and_over_no_other(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    sources = Sources(tmp_path / "first", cache)
    answer, key, found = sources.run()
    assert (answer, found) == (2, False)
    assert sources.run() == (2, key, True)
    sources.write(above="# a remark\n\n\ndef other(x):\n    return x\n\n\n", doc="Another.", other="X = 3\n")
    assert sources.run() == (2, key, True)
    assert Sources(tmp_path / "elsewhere", cache).run() == (2, key, True)
    sources.write(n=10)
    answer, changed, found = sources.run()
    assert (answer, found) == (11, False)
    sources.write(factor=3)
    answer, other, found = sources.run()
    assert (answer, found) == (6, False)
    assert len({key, changed, other}) == 3


def test_every_kernel_can_be_told_by_content() -> None:
    from sluicegate.engine.cpu.head_products import HEAD_KERNELS
    from sluicegate.engine.cpu.operations import OPERATIONS
    from sluicegate.engine.sampling.cpu_draws import DRAW_KERNELS
    from sluicegate.grammar.kernel_list import GRAMMAR_KERNELS

    found = [*GRAMMAR_KERNELS, *DRAW_KERNELS, *HEAD_KERNELS, *OPERATIONS.values()]
    keys = {one.key(types) for one in found for types in one.declared}
    assert None not in keys
    assert len(keys) == sum(len(one.declared) for one in found) > 30


def test_no_loop_is_kept_in_numbas_own_way() -> None:
    """What numba keeps by path and time goes stale with what it calls: `kernel` declares everything that is kept."""
    folders = [Path(name) for name in ("cache", "engine", "gateway", "grammar", "plugins", "safety")]
    wrong = [file for folder in folders for file in folder.rglob("*.py") if "cache=True" in file.read_text("utf-8")]
    assert not wrong


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompiledFolder:
    """Make a folder of this test's own, for this process and those that it starts."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    own = CompiledFolder(compiled_folder())
    monkeypatch.setattr(kernels, "folder", lambda: own)
    return own


def damage_nothing(file: Path) -> None:
    file.write_bytes(b"")


def damage_the_end(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def damage_one_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


def write_a_pickle_of_no_code(file: Path) -> None:
    folder = CompiledFolder(file.parent)
    folder.write_bytes(file.stem, b"\x80\x04]\x94.")


@pytest.mark.parametrize("damage", [damage_nothing, damage_the_end, damage_one_bit, write_a_pickle_of_no_code])
def test_a_damaged_file_counts_as_absent_and_is_made_anew(
    folder: CompiledFolder, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    made = loops.fresh()
    made.build()
    [file] = folder.path.glob("*.compiled")
    damage(file)
    again = loops.fresh()
    assert not again.load()
    assert str(file) in caplog.text
    again.build()
    assert loops.fresh().load()


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
def test_what_others_can_write_to_is_not_believed(folder: CompiledFolder, caplog: pytest.LogCaptureFixture) -> None:
    loops.fresh().build()
    [file] = folder.path.glob("*.compiled")
    for place in (file, folder.path):
        before = place.stat().st_mode
        place.chmod(0o777)
        assert not loops.fresh().load()
        place.chmod(before)
    assert "others own it" in caplog.text
    assert loops.fresh().load()


def test_a_folder_that_cannot_be_written_is_said_once_and_does_no_harm(
    folder: CompiledFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.path.parent.mkdir(exist_ok=True)
    folder.path.write_text("no folder")
    for _ in range(2):
        made = loops.fresh()
        made.build()
        assert made(np.arange(4)) == 14
    assert caplog.text.count("cannot keep compiled loops") == 1


def test_old_files_make_room(tmp_path: Path) -> None:
    folder = CompiledFolder(tmp_path / "kept", most_bytes=3000)
    for number in range(5):
        assert folder.write_bytes(f"f{number}", bytes(1000))
        os.utime(folder.path / f"f{number}.compiled", (number, number))
    assert [folder.read_bytes(f"f{number}") is not None for number in range(5)] == [False, False, False, True, True]


# --- beside a process that goes on ---------------------------------------------------------------------------------


@pytest.fixture
def builder(folder: CompiledFolder) -> Iterator[BackgroundBuilder]:
    with compiling("background"):
        assert isinstance(COMPILE_MODE.builder, BackgroundBuilder)
        yield COMPILE_MODE.builder


class Told:
    """Waits for a wish to come true."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.failed: Mapping[str, str] = {}

    def __call__(self, failed: Mapping[str, str]) -> None:
        self.failed = failed
        self._event.set()

    def wait(self) -> Mapping[str, str]:
        assert self._event.wait(LIMIT_S)
        return self.failed


def test_python_answers_until_the_code_is_there(builder: BackgroundBuilder) -> None:
    told, numbers = Told(), np.arange(4)
    assert loops.squares(numbers) == 14
    assert not loops.squares.signatures
    builder.request_all([loops.squares], told)
    assert told.wait() == {}
    assert loops.squares.signatures
    assert loops.squares(numbers) == 14
    assert builder.state == CompileState.DONE
    assert builder.stats()["made_total"] == 1


def test_what_is_wanted_for_other_types_comes_too(builder: BackgroundBuilder) -> None:
    numbers = np.arange(4, dtype=np.float32)
    assert loops.cubes(numbers) == 36
    told = Told()
    builder.request_all([loops.cubes], told)
    told.wait()
    assert {str(types[0].dtype) for types in loops.cubes.signatures} == {"float32", "int64"}


def test_code_comes_even_where_nothing_can_be_kept(folder: CompiledFolder, builder: BackgroundBuilder) -> None:
    folder.path.write_text("no folder")
    told = Told()
    builder.request_all([loops.halves], told)
    assert told.wait() == {}
    assert loops.halves(np.arange(4)) == 3


def test_what_is_wanted_while_others_are_compiled_comes_as_well(
    builder: BackgroundBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wanted when the process has done all that it was given, and the thread waits for more."""
    told, later, take = Told(), Told(), builder._take

    def take_and_want_more(reply: KernelReply) -> None:
        builder.request_all([loops.sevenths], later)
        take(reply)

    monkeypatch.setattr(builder, "_take", take_and_want_more)
    builder.request_all([loops.fifths], told)
    assert told.wait() == {}
    assert later.wait() == {}
    assert loops.sevenths.signatures
    assert builder.stats()["starts_total"] == 1


def test_a_kernel_that_cannot_be_compiled_is_named_and_python_goes_on(builder: BackgroundBuilder) -> None:
    told = Told()
    builder.request_all([loops.broken, loops.thirds], told)
    assert list(told.wait()) == ["tests.plugins.loops.broken"]
    assert loops.broken(np.arange(4)) == 6
    assert loops.thirds.signatures
    assert builder.state == CompileState.FAILED
    assert builder.trouble is not None
    assert "tests.plugins.loops.broken" in builder.trouble


def test_a_process_that_dies_is_started_again_and_given_up_in_the_end(
    builder: BackgroundBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, killed = Told(), []
    begin = builder._begin

    def begin_and_kill() -> object:
        replies = begin()
        assert builder._process is not None
        killed.append(builder._process.pid)
        os.kill(builder._process.pid, signal.SIGKILL)
        return replies

    monkeypatch.setattr(builder, "_begin", begin_and_kill)
    builder.request_all([loops.slow], told)
    assert "signal 9" in told.wait()["tests.plugins.loops.slow"]
    assert len(killed) == builders.MOST_STARTS
    assert loops.slow(np.arange(4)) == 14


def test_a_process_that_dies_once_is_not_missed(builder: BackgroundBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    told, begin, killed = Told(), builder._begin, []

    def begin_and_kill_once() -> object:
        replies = begin()
        if not killed:
            assert builder._process is not None
            killed.append(builder._process.pid)
            os.kill(builder._process.pid, signal.SIGKILL)
        return replies

    monkeypatch.setattr(builder, "_begin", begin_and_kill_once)
    builder.request_all([loops.once], told)
    assert told.wait() == {}
    assert loops.once.signatures


def test_where_nothing_is_to_be_compiled_nothing_is(folder: CompiledFolder) -> None:
    with compiling("never"):
        made = loops.fresh()
        assert made(np.arange(4)) == 14
        assert not made.signatures
    assert COMPILE_MODE.builder is None
