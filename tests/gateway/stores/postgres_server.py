"""A real PostgreSQL server of its own, on a free port, to be killed, frozen and restarted."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import uuid
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cache.redis_server import free_port
from tests.waiting import until

USER = "postgres"
ADVICE = "`apt-get update && apt-get install -y postgresql`"


def _folder_of_programs() -> Path | None:
    """Debian keeps `initdb` and `pg_ctl` out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _missing() -> str:
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        return "psycopg is not installed; `pip install 'sluicegate[postgres]'`"
    if _folder_of_programs() is None:
        return f"PostgreSQL's server is not installed; {ADVICE}"
    if os.geteuid() == 0 and USER not in {entry.pw_name for entry in pwd.getpwall()}:
        return f"root cannot run PostgreSQL, and there is no user {USER!r}; {ADVICE}"
    return ""


needs_postgres = pytest.mark.skipif(bool(_missing()), reason=_missing() or "everything is there")


class PostgresServer:
    def __init__(self, *settings: str, folder: Path | None = None) -> None:
        programs = _folder_of_programs()
        assert programs is not None
        self.programs = programs
        self.port = free_port()
        self.folder = folder or Path(tempfile.mkdtemp(prefix="postgres-"))
        self._settings = settings
        self._as_user = {"user": USER, "group": pwd.getpwnam(USER).pw_gid} if os.geteuid() == 0 else {}
        if self._as_user:
            shutil.chown(self.folder, USER)
        self.process: subprocess.Popen[bytes] | None = None
        self._children: list[int] = []
        self._run("initdb", "-D", str(self.folder / "data"), "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8")

    def url(self, name: str = USER) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{name}"

    def new(self) -> str:
        """Return the address of an empty database."""
        name = f"t{uuid.uuid4().hex}"
        self.ask(f"create database {name}")
        return self.url(name)

    def emptied(self) -> str:
        """Return the address of one database, always the same, without what was in it: making one takes seconds."""
        others = "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'postgres' and pid <> "
        self.ask(f"{others} pg_backend_pid()")
        self.ask("drop schema if exists sluicegate cascade")
        return self.url()

    def start(self) -> None:
        fixed = ["-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder)]
        settings = [part for one in ("fsync=off", "max_connections=200", *self._settings) for part in ("-c", one)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", *fixed, *settings],
                stdout=log,
                stderr=log,
                cwd="/",
                **self._as_user,
            )
        until(self._answers)

    def stop(self) -> None:
        """Stop the server as an operator does: open connections are cut."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def start_again(self) -> None:
        """Start the server again where it has ended, as one does that cannot write its log."""
        if self.process is None or self.process.poll() is not None:
            until(lambda: not self._pids())
            self.start()
        until(self._answers)

    def kill(self) -> None:
        """Kill the server, as a machine that loses its power does."""
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        until(lambda: not self._pids())

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, which: signal.Signals) -> None:
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):  # a connection ended meanwhile
                os.kill(pid, which)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, statement: str, name: str = USER) -> list[tuple[object, ...]]:
        """Run one statement, as somebody else."""
        import psycopg

        with psycopg.connect(self.url(name), autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def _run(self, program: str, *arguments: str) -> None:
        run = [self.programs / program, *arguments]
        done = subprocess.run(run, capture_output=True, text=True, cwd="/", check=False, **self._as_user)
        assert done.returncode == 0, done.stdout + done.stderr

    def _pids(self) -> list[int]:
        """Return the server, first, and the processes that it started."""
        if self.process is None:
            return []
        running = [self.process.pid] if self.process.poll() is None else []
        self._children = [pid for pid in {*self._children, *_children_of(self.process.pid)} if _runs(pid, self.folder)]
        return running + self._children

    def _answers(self) -> bool:
        """Return whether the server answers. Fails where it never will: it has ended."""
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text("utf-8", "replace")
        program = [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(program, check=False).returncode == 0


def _runs(pid: int, folder: Path) -> bool:
    """Return whether `pid` is still a process of that server, and no zombie."""
    try:
        return Path(f"/proc/{pid}/cwd").resolve().is_relative_to(folder)
    except OSError:
        return False


def _children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rsplit(")", 1)[1].split()[1]) == parent:
                found.append(int(entry.name))
    return found
