"""Several processes of one gateway: what they may share, and who begins and ends them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.commands.worker_processes.terms import check_workers, of_worker
from sluicegate.gateway.config import load
from sluicegate.gateway.settings import Settings
from sluicegate.plugins import ConfigurationError
from tests.waiting import until

UPSTREAM = """
[server]
workers = 2
{server}
[pipeline]
generate = ["upstream"]
{more}
"""


def configured(folder: Path, more: str = "", server: str = "") -> Settings:
    file = folder / "gateway.toml"
    file.write_text(UPSTREAM.format(more=more, server=server), "utf-8")
    return load(file)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[accounts]\npath = "a.db"', r"\[accounts\] path is for one process"),
        ('[review]\npath = "r.db"', r"\[review\] path"),
        ('[routing]\nstate = "s.json"', r"\[routing\] state"),
        ('[batches]\npath = "b"', r"\[batches\] path without a \[database\] url"),
        ('[[keys]]\nid = "k"\nkey = "k"\nlimits = { concurrency = 2 }', "grant the limits of keys and teams anew"),
        ("[accounts.teams.blue]\nbudget_day = 5", "grant the limits"),
        ("[grpc]\nenabled = true", r"\[grpc\] is served by one process"),
    ],
)
def test_what_processes_would_not_agree_on_is_refused(more: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=said):
        check_workers(configured(tmp_path, more))


def test_a_model_in_each_process_is_refused_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--workers", "2", "--port", "0"]) == 2
    assert "each process would load the models of 'engine' again" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        "",
        '[[keys]]\nid = "k"\nkey = "k"',
        '[database]\nurl = "postgresql://x/y"\n[batches]\npath = "b"\n[accounts.teams.blue]\nbudget_day = 5',
        '[accounts]\nurl = "redis://x"\n[[keys]]\nid = "k"\nkey = "k"\nlimits = { concurrency = 2 }',
    ],
)
def test_what_they_share_or_nobody_limits_is_served(more: str, tmp_path: Path) -> None:
    check_workers(configured(tmp_path, more))


@pytest.mark.parametrize("server", ["port = 9001\nworker_port = 9000", "worker_port = 65535"])
def test_own_ports_that_cannot_be_are_refused(server: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="worker_port: 2 workers would take"):
        check_workers(configured(tmp_path, server=server))


def test_each_has_a_journal_a_history_and_a_port_of_its_own(tmp_path: Path) -> None:
    settings = configured(
        tmp_path, '[accounts]\njournal = "j"\n[telemetry]\nhistory = "h"', "port = 0\nworker_port = 9000"
    )
    found = [of_worker(settings, number, 7000) for number in range(2)]
    assert [one.server.port for one in found] == [7000, 7000]
    assert [one.server.worker_port for one in found] == [9000, 9001]
    assert [one.accounts.journal for one in found] == ["j/worker-0", "j/worker-1"]
    assert [one.telemetry.history for one in found] == ["h/worker-0", "h/worker-1"]


@pytest.mark.parametrize("workers", [1, 2])
def test_usage_of_a_worker_that_begins_no_more_is_not_forgotten(workers: int, tmp_path: Path) -> None:
    """A killed worker's journal is taken back by the worker of its number; without one the start says so."""
    place = tmp_path / "journal" / "worker-2"
    place.mkdir(parents=True)
    file = tmp_path / "gateway.toml"
    more = f'[accounts]\njournal = "{place.parent}"'
    file.write_text(UPSTREAM.format(more=more, server="").replace("workers = 2", f"workers = {workers}"), "utf-8")
    (place / "000000000001.log").write_bytes(b"")
    check_workers(load(file))
    (place / "000000000001.log").write_bytes(b"a line")
    with pytest.raises(ConfigurationError, match="start once with --workers 3 or more"):
        check_workers(load(file))
    check_workers(load(file, overrides={"server": {"workers": 3}}))


# --- who begins and ends them ----------------------------------------------------------------------------------------

PROGRAM = """
import signal, sys, time
from pathlib import Path
from sluicegate.gateway.commands.worker_processes.processes import WorkerProcesses
import os

folder, failing = Path(sys.argv[1]), sys.argv[2]

def work(number, on_ready):
    if failing == str(number):
        print(f"worker {number} cannot start", file=sys.stderr)
        return 2
    heard = []
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda number, frame: heard.append(number))
    (folder / f"{number}-{os.getpid()}").write_text("")
    while failing == "late" and not (folder / "go").exists():
        time.sleep(0.01)
    on_ready()
    (folder / "said").write_text("")
    while signal.SIGTERM not in heard:
        time.sleep(0.02)
    (folder / f"ended-{number}-{'again' if signal.SIGHUP in heard else 'plain'}-{os.getpid()}").write_text("")
    return 0

sys.exit(WorkerProcesses(3, work, lambda: (folder / "all").write_text("")).run())
"""


@contextmanager
def parent(folder: Path, failing: str = "none") -> Iterator[subprocess.Popen[bytes]]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", PROGRAM, str(folder), failing]
    found = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(root)}, stderr=subprocess.PIPE)
    try:
        yield found
    finally:
        found.kill()
        found.wait()


def pids(folder: Path, number: int) -> list[int]:
    """Return all processes that ever were this worker."""
    return [int(path.name.split("-")[1]) for path in folder.glob(f"{number}-*")]


def is_there(pid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_that_is_killed_begins_again_and_the_others_stay(tmp_path: Path) -> None:
    with parent(tmp_path) as running:
        until((tmp_path / "all").exists)
        [first], [second] = pids(tmp_path, 1), pids(tmp_path, 2)
        os.kill(first, signal.SIGKILL)
        until(lambda: len(pids(tmp_path, 1)) == 2)
        assert is_there(second)
        assert running.poll() is None


def test_signals_reach_all_and_the_status_is_theirs(tmp_path: Path) -> None:
    """SIGHUP to read again, SIGTERM to end; the parent ends when all have."""
    with parent(tmp_path) as running:
        until((tmp_path / "all").exists)
        running.send_signal(signal.SIGHUP)
        running.send_signal(signal.SIGTERM)
        assert running.wait(300) == 0
        assert len(list(tmp_path.glob("ended-*"))) == 3


def test_a_worker_outlives_nobody_who_could_end_it(tmp_path: Path) -> None:
    """Without the parent, who may have been killed, workers end as after SIGTERM."""
    with parent(tmp_path) as running:
        until((tmp_path / "all").exists)
        running.kill()
        until(lambda: len(list(tmp_path.glob("ended-*"))) == 3)


def test_a_worker_ends_with_a_parent_that_has_not_read_that_it_is_ready(tmp_path: Path) -> None:
    """Its link is then reset, not closed."""
    with parent(tmp_path, "late") as running:
        until(lambda: pids(tmp_path, 0))
        running.send_signal(signal.SIGSTOP)
        (tmp_path / "go").touch()
        until((tmp_path / "said").exists)
        running.kill()
        until(lambda: list(tmp_path.glob("ended-*")))


@pytest.mark.parametrize(("failing", "begun"), [("0", 0), ("2", 2)])
def test_what_keeps_a_worker_from_its_first_start_ends_all(failing: str, begun: int, tmp_path: Path) -> None:
    """Said once where the first one finds it: the others begin after it."""
    with parent(tmp_path, failing) as running:
        _, said = running.communicate(timeout=300)
        assert running.returncode == 2
        assert said.decode().count("cannot start") == 1
        assert sum(bool(pids(tmp_path, number)) for number in range(3)) <= begun
        assert not [pid for number in range(3) for pid in pids(tmp_path, number) if is_there(pid)]


KEYED = """
[server]
port = 0
workers = 2
worker_port = {port}
[pipeline]
generate = ["upstream"]
[stages.generate.upstream.models.far]
url = "http://127.0.0.1:9/v1"
allow_private = true
[[keys]]
id = "kept"
key = "kept-key"
scopes = ["admin"]
"""
TAKEN_OUT = '[[keys]]\nid = "taken-out"\nkey = "other-key"\n'


@contextmanager
def keyed(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[str]]]:
    """Run two workers; yield the process and the address of each. A key that both serve is out of the file by then."""
    config, port = folder / "gateway.toml", two_free_ports()
    config.write_text(KEYED.format(port=port) + TAKEN_OUT, "utf-8")
    command = [sys.executable, "-m", "sluicegate.gateway.commands.cli", "serve", "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    urls = [f"http://127.0.0.1:{port + number}" for number in range(2)]
    try:
        until(lambda: statuses(urls) == [200, 200])
        config.write_text(KEYED.format(port=port), "utf-8")
        yield process, urls
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
def test_a_worker_that_begins_again_has_the_keys_that_were_reloaded(tmp_path: Path) -> None:
    """A key that was taken out was served again by it."""
    with keyed(tmp_path) as (process, urls):
        process.send_signal(signal.SIGHUP)
        until(lambda: statuses(urls) == [401, 401])
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, check=True)
        os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
        until(lambda: 0 in statuses(urls))
        until(lambda: 0 not in statuses(urls))
        assert statuses(urls) == [401, 401]


@pytest.mark.slow
def test_an_operator_reloads_all_workers_at_one_and_changes_nothing_at_one_alone(tmp_path: Path) -> None:
    heads = {"authorization": "Bearer kept-key"}
    with keyed(tmp_path) as (_, urls):
        assert httpx.post(f"{urls[1]}/admin/reload", headers=heads, timeout=30).status_code == 200
        until(lambda: statuses(urls) == [401, 401])
        model = {"settings": {"name": "more", "url": "http://127.0.0.1:9/v1", "allow_private": True}}
        changes: list[tuple[str, str, object]] = [
            ("POST", "/admin/models", model),
            ("DELETE", "/admin/models/far", None),
            ("PUT", "/admin/routes/far/weights", {"weights": {"far": 1}}),
            ("POST", "/admin/rollouts/far/stop", {}),
        ]
        for method, path, body in changes:
            answer = httpx.request(method, urls[0] + path, json=body, headers=heads, timeout=30)
            assert answer.status_code == 409, path
            assert "one of 2 workers without a [database]" in answer.json()["error"]["message"]


def statuses(urls: list[str]) -> list[int]:
    """Return what each worker says to the key that is taken out; 0 = it does not answer."""
    return [status_of(f"{url}/v1/models", "other-key") for url in urls]


def two_free_ports() -> int:
    """Return the first of two in a row."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port: int = first.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except (OSError, OverflowError):
                continue
            return port


def status_of(url: str, key: str) -> int:
    try:
        return httpx.get(url, headers={"authorization": f"Bearer {key}"}, timeout=30).status_code
    except httpx.TransportError:
        return 0
