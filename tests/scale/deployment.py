"""Three gateways behind nginx, with PostgreSQL, and Redis behind Sentinel: all real, all to be killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cache.redis_server import RedisServer, free_port, start_sentinel
from tests.gateway.stores.postgres_server import PostgresServer
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
NGINX = shutil.which("nginx") or ("/usr/sbin/nginx" if Path("/usr/sbin/nginx").exists() else None)
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed; `apt-get install -y nginx-light`")
CONFIG = """
[server]
port = {port}
lame_duck_s = 2
drain_s = 20

[pipeline]
generate = ["paced"]
constrain = ["unconstrained"]
recall = []
moderate = ["secrets"]

[database]
url = "{database}"
look_s = 0.2

[accounts]
url = "redis+sentinel://127.0.0.1:{sentinel}/main"
journal = "{folder}/journal"
flush_s = 0.2

[[keys]]
id = "caller"
key = "caller"
limits = {{ requests_per_minute = 100000, concurrency = 1000 }}

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
    def __init__(self, folder: Path, database: str, sentinel: int) -> None:
        folder.mkdir()
        self.port = free_port()
        self._config = folder / "gateway.toml"
        self._log = folder / "log"
        self._config.write_text(CONFIG.format(port=self.port, database=database, sentinel=sentinel, folder=folder))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self) -> None:
        """Start it, and do not wait."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "tests.scale.gateway_process", str(self._config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment)

    def serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text("utf-8", "replace")[-3000:]
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """As an orchestrator stops it; return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


class FullDeployment:
    """Used with `with`."""

    def __init__(self, folder: Path, gateways: int = 3) -> None:
        for name in ("main", "replica", "sentinel"):
            (folder / name).mkdir()
        self._folder = folder
        self.database = PostgresServer()
        self.main = RedisServer(folder / "main")
        self.replica = RedisServer(folder / "replica", "--replicaof", "127.0.0.1", str(self.main.port))
        self.sentinel: RedisServer | None = None
        self.gateways: list[GatewayProcess] = []
        self._count = gateways
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
        self.sentinel = start_sentinel(self._folder / "sentinel", self.main.port)
        self.sentinel.ask("SENTINEL", "SET", "main", "down-after-milliseconds", "1500")
        self.replica.wait_for(b"master_link_status:up", "INFO", "replication")
        self.sentinel.wait_for(b"slaves=1", "INFO", "sentinel")
        places = [self._folder / f"gateway-{number}" for number in range(self._count)]
        self.gateways = [GatewayProcess(place, self.database.url(), self.sentinel.port) for place in places]
        for gateway in self.gateways:
            gateway.begin()
        for gateway in self.gateways:
            until(gateway.serves)
        self._start_proxy()

    def _start_proxy(self) -> None:
        assert NGINX is not None
        port = free_port()
        servers = " ".join(f"server 127.0.0.1:{one.port} max_fails=1 fail_timeout=2s;" for one in self.gateways)
        config = self._folder / "nginx.conf"
        config.write_text(PROXY.format(folder=self._folder, servers=servers, port=port))
        self._proxy = subprocess.Popen([NGINX, "-c", str(config), "-p", str(self._folder)], stderr=subprocess.DEVNULL)
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
        self.database.remove()
