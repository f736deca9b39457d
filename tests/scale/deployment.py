"""Three gateways behind nginx, with PostgreSQL, and Redis behind Sentinel: all real, all to be killed. Their clocks are
ten minutes apart, and what they write to, they write to small disks."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest

from tests.cache.redis_server import RedisServer, free_port, start_sentinel
from tests.gateway.stores.postgres_server import PostgresServer
from tests.scale.small_disk import SmallDisk
from tests.waiting import LIMIT_S, until

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "tests" / "scale" / "gateway_process.py"
NGINX = shutil.which("nginx") or ("/usr/sbin/nginx" if Path("/usr/sbin/nginx").exists() else None)
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed; `apt-get install -y nginx-light`")
AHEAD_S = (0.0, 600.0, -600.0)
"""Of the gateways' clocks."""
BUDGET = 0.9
PRICE = 1000.0
"""A million tokens of an answer."""
CONFIG = """
[server]
port = {port}
lame_duck_s = 2
drain_s = 20
min_free_bytes = 0

[pipeline]
generate = ["paced", "upstream"]
constrain = ["unconstrained"]
recall = []
moderate = ["secrets"]

[stages.generate.upstream.models.liar]
url = "{liar}"
allow_private = true

[database]
url = "{database}"
look_s = 0.2
lease_s = 3

[accounts]
url = "redis+sentinel://127.0.0.1:{sentinel}/main"
journal = "{folder}/journal"
flush_s = 0.2
prices = {{ scripted = {{ input = 0.0, output = {price} }}, liar = {{ input = 0.0, output = {price} }} }}

[batches]
path = "{files}"
concurrency = 4
min_free_bytes = 0

[[keys]]
id = "caller"
key = "caller"
limits = {{ requests_per_minute = 100000, concurrency = 1000 }}

[[keys]]
id = "seated"
key = "seated"
limits = {{ concurrency = 2 }}

[[keys]]
id = "poor"
key = "poor"
limits = {{ budget_day = {budget} }}

[[keys]]
id = "batcher"
key = "batcher"

[[keys]]
id = "deceived"
key = "deceived"

[[keys]]
id = "operator"
key = "operator"
scopes = ["admin"]
"""
PROXY = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream gateways {{ least_conn; {servers} }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://gateways;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host localhost;
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_connect_timeout 2s;
      proxy_read_timeout 60s;
      proxy_next_upstream error http_503;
      proxy_next_upstream_tries 2;
    }}
  }}
}}
"""
"""As `deploy/compose/nginx.conf`, with places of a test's own."""


class GatewayProcess:
    def __init__(self, folder: Path, ahead_s: float, **facts: object) -> None:
        """Write the gateway's configuration. `ahead_s` is how far its clock is ahead; `facts` are those of `CONFIG`."""
        folder.mkdir()
        self.port = free_port()
        self.journal_disk = SmallDisk(folder / "journal", 4)
        self._ahead_s = ahead_s
        self.root = ROOT
        """Of the code that it runs from its next start on."""
        self.config = folder / "gateway.toml"
        self._log = folder / "log"
        known = {"port": self.port, "folder": folder, "budget": BUDGET, "price": PRICE}
        self.config.write_text(CONFIG.format(**known, **facts))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self) -> None:
        """Start it, and do not wait."""
        with self._log.open("ab") as log:
            command = [sys.executable, "-P", PROGRAM, self.config, str(self._ahead_s)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.root, env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.root)}

    @property
    def said(self) -> str:
        """Return what it has logged."""
        return self._log.read_text("utf-8", "replace")

    def serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.said[-3000:]
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def limit_files(self, *, to_what_is_open: bool) -> None:
        """Leave the process no descriptor beyond those that it has, or give it back what it may have."""
        assert self.process is not None
        pid = self.process.pid
        most = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        now = len(os.listdir(f"/proc/{pid}/fd")) if to_what_is_open else most
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (now, most))

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Stop it as an orchestrator does; return its exit status."""
        assert self.process is not None
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGUSR1)
            self.process.wait(1)
            raise


class FullDeployment:
    """Used with `with`."""

    def __init__(self, folder: Path, liar: str, root: Path = ROOT) -> None:
        """Prepare the deployment. `liar` is the address of a server of models that is not to be believed, `root` the
        code that the gateways run at first."""
        for name in ("main", "replica", "sentinel"):
            (folder / name).mkdir()
        self.folder = folder
        self._liar = liar
        self._root = root
        self.files_disk = SmallDisk(folder / "files", 16)
        place = Path(tempfile.mkdtemp(prefix="postgres-"))  # which its user can reach
        self.database_disk = SmallDisk(place, 400)
        self.database = PostgresServer(folder=place)
        self.main = RedisServer(folder / "main")
        self.replica = RedisServer(folder / "replica", "--replicaof", "127.0.0.1", str(self.main.port))
        self.sentinel: RedisServer | None = None
        self.gateways: list[GatewayProcess] = []
        self._proxy: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> FullDeployment:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        self.database.start()
        self.main.start()
        self.replica.start()
        self.sentinel = start_sentinel(self.folder / "sentinel", self.main.port)
        self.sentinel.ask("SENTINEL", "SET", "main", "down-after-milliseconds", "1500")
        self.replica.wait_for(b"master_link_status:up", "INFO", "replication")
        self.sentinel.wait_for(b"slaves=1", "INFO", "sentinel")
        facts = {"database": self.database.url(), "sentinel": self.sentinel.port, "liar": self._liar}
        facts["files"] = self.folder / "files"
        self.gateways = [
            GatewayProcess(self.folder / f"gateway-{number}", ahead_s, **facts)
            for number, ahead_s in enumerate(AHEAD_S)
        ]
        for gateway in self.gateways:
            gateway.root = self._root
            gateway.begin()
        for gateway in self.gateways:
            until(gateway.serves)
        self._start_proxy()

    def _start_proxy(self) -> None:
        assert NGINX is not None
        port = free_port()
        servers = " ".join(f"server 127.0.0.1:{one.port} max_fails=1 fail_timeout=2s;" for one in self.gateways)
        config = self.folder / "nginx.conf"
        config.write_text(PROXY.format(folder=self.folder, servers=servers, port=port))
        self._proxy = subprocess.Popen([NGINX, "-c", str(config), "-p", str(self.folder)], stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        until(self._passes)

    def _passes(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def fail_over(self) -> None:
        """Kill the main Redis, and wait until Sentinel has made the replica the main one."""
        assert self.sentinel is not None
        self.main.kill()
        self.replica.wait_for(b"role:master", "INFO", "replication")
        self.sentinel.wait_for(str(self.replica.port).encode(), "SENTINEL", "get-master-addr-by-name", "main")

    def __exit__(self, *error: object) -> None:
        if self._proxy is not None:
            self._proxy.terminate()
            self._proxy.wait()
        for gateway in self.gateways:
            if gateway.process is not None and gateway.process.poll() is None:
                gateway.kill()
        for server in (self.sentinel, self.replica, self.main):
            if server is not None and server.process is not None and server.process.poll() is None:
                server.kill()
        for disk in (self.files_disk, *(gateway.journal_disk for gateway in self.gateways)):
            disk.unmount()
        self.database.kill()
        self.database_disk.unmount()
        self.database.remove()
