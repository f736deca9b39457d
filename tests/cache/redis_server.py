"""A real redis-server of its own, on a free port, to be killed, stopped, filled and restarted."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.waiting import until

BINARY = shutil.which("redis-server")
PATIENCE_S = 60.0
"""For one reply: a busy machine may leave the server without a processor for seconds."""
needs_redis = pytest.mark.skipif(
    BINARY is None, reason="redis-server is not installed; `apt-get update && apt-get install -y redis-server`"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    def __init__(
        self, folder: Path, *options: str, port: int | None = None, tls: bool = False, binary: str | None = BINARY
    ) -> None:
        self.binary = binary
        self.port = port or free_port()
        self.folder = folder
        self.options = options
        self.tls = tls
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        assert self.binary is not None
        ports = ["--port", "0", "--tls-port", str(self.port)] if self.tls else ["--port", str(self.port)]
        fixed = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(self.folder)]
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen([self.binary, *ports, *fixed, *self.options], stdout=log, stderr=log)
        self._wait()

    def _wait(self) -> None:
        until(self._listens)
        if self.process is None or self.process.poll() is not None:
            raise RuntimeError((self.folder / "redis.log").read_text("utf-8", "replace"))

    def _listens(self) -> bool:
        """Return whether the server listens, or never will: it has ended."""
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return self.process is None or self.process.poll() is not None
        return True

    def wait_for(self, said: bytes, *command: str) -> None:
        """Ask again and again: a replica that becomes the main one, and a Sentinel that learns of it, drop clients."""

        def is_said() -> bool:
            try:
                return said in self.ask(*command)
            except OSError:
                assert self.process is None or self.process.poll() is None, "the server has ended"
                return False

        until(is_said)

    def wait_until_replicated(self) -> None:
        """Wait until a replica has all that was written. A `WAIT` would do so for writes of its own connection only."""

        def is_replicated() -> bool:
            said = self.ask("INFO", "replication")
            written, taken = (re.search(name + rb"(\d+)", said) for name in (b"master_repl_offset:", b",offset="))
            return written is not None and taken is not None and int(taken[1]) >= int(written[1])

        until(is_replicated)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def ask(self, *command: str | bytes) -> bytes:
        """Send one command, as a client of its own; return the raw reply. Raises `ConnectionError` where the server
        hangs up."""
        parts = [part.encode() if isinstance(part, str) else part for part in command]
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection:
            connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            if reply := connection.recv(1 << 20):
                return reply
        raise ConnectionResetError(f"redis-server on port {self.port} hung up before it answered {command[0]!r}")

    def keys(self, pattern: str = "*") -> list[bytes]:
        return [line for line in self.ask("KEYS", pattern).split(b"\r\n") if line and line[:1] not in (b"*", b"$")]


def start_sentinel(folder: Path, watched_port: int) -> RedisServer:
    """Start a Sentinel that knows the server as `main`."""
    assert BINARY is not None
    sentinel = RedisServer(folder)
    settings = folder / "sentinel.conf"
    settings.write_text(f"port {sentinel.port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {watched_port} 1\n")
    sentinel.process = subprocess.Popen([BINARY, str(settings), "--sentinel"], stdout=subprocess.DEVNULL)
    sentinel._wait()
    return sentinel


SLOTS = 16384


class RedisCluster:
    """Three main servers that share the slots, and a replica of each where there are any, all of them real."""

    def __init__(self, folder: Path, *, replicas: bool = False) -> None:
        self.mains = [_node(folder / f"main-{at}") for at in range(3)]
        self.replicas = [_node(folder / f"replica-{at}") for at in range(3 if replicas else 0)]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.mains)

    def start(self) -> None:
        first = self.mains[0]
        for at, node in enumerate(self.mains):
            node.start()
            borders = (at * SLOTS + 2) // 3, ((at + 1) * SLOTS + 2) // 3 - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", *map(str, borders))
            node.ask("CONFIG", "SET", "cluster-node-timeout", "1000")
        for node in self.replicas:
            node.start()
        for node in [*self.mains[1:], *self.replicas]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", str(first.port), _bus_of(first))
        for node in [*self.mains, *self.replicas]:
            node.wait_for(b"cluster_state:ok", "CLUSTER", "INFO")
            node.wait_for(b"cluster_known_nodes:%d" % len([*self.mains, *self.replicas]), "CLUSTER", "INFO")
        for main, replica in zip(self.mains[: len(self.replicas)], self.replicas, strict=True):
            replica.ask("CLUSTER", "REPLICATE", main.ask("CLUSTER", "MYID").split(b"\r\n")[1])
            replica.wait_for(b"master_link_status:up", "INFO", "replication")

    def main_of(self, name: str) -> int:
        """Return which main server keeps `name`."""
        slot = int(self.mains[0].ask("CLUSTER", "KEYSLOT", name)[1:])
        return 3 * slot // SLOTS

    def kill(self) -> None:
        for node in [*self.mains, *self.replicas]:
            if node.process is not None and node.process.poll() is None:
                node.kill()


def _node(folder: Path) -> RedisServer:
    folder.mkdir()
    return RedisServer(folder, "--cluster-enabled", "yes", "--cluster-port", str(free_port()))


def _bus_of(node: RedisServer) -> str:
    return node.options[-1]


def self_signed(folder: Path) -> tuple[str, str]:
    """Make a key and its certificate for 127.0.0.1; return their paths."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed; `apt-get install -y openssl`")
    key, certificate = str(folder / "key.pem"), str(folder / "cert.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    made = ["openssl", "req", "-x509", "-days", "2", *curve, "-keyout", key, "-out", certificate, *subject]
    subprocess.run(made, check=True, capture_output=True)
    return key, certificate
