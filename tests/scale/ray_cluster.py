"""`sluicegate deploy ray` for real: a cluster of this machine, in the environment where Ray is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from pathlib import Path

import httpx
import pytest

from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = Path(os.environ.get("SLUICEGATE_RAY_PYTHON", ROOT / ".venv-ray/bin/python"))
needs_ray = pytest.mark.skipif(
    not PYTHON.exists(), reason=f"Ray is not installed beside us ({PYTHON}); `make .venv-ray/.installed`"
)
START_S, END_S = 900.0, 300.0


class RayCluster:
    """One application; its replicas are found by their names among the processes."""

    def __init__(self, folder: Path, config: str) -> None:
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self._folder = folder
        (folder / "gateway.toml").write_text(config)
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [PYTHON, "-m", "sluicegate.gateway.commands.cli", "deploy", "ray", "--name", self.name]
        command += ["--config", str(self._folder / "gateway.toml"), "--cpus", "2", "--object-store-mb", "100"]
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
        environment |= {f"RAY_SERVE_{side}_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1" for side in ("REPLICA", "HANDLE")}
        environment.pop("PYTHONPATH", None)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, env=environment)
        until(self._serves, START_S)
        line = next(line for line in self.log.read_text().splitlines() if line.startswith("Sluicegate serves on "))
        self.url = line.rsplit(" ", 1)[1]

    @property
    def log(self) -> Path:
        return self._folder / "log"

    def _serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text("utf-8", "replace")[-4000:]
        return b"Sluicegate serves on " in self.log.read_bytes()

    def replicas(self, deployment: str) -> list[int]:
        """Return the processes of one of the two deployments."""
        title = f"ray::ServeReplica:{self.name}:{deployment}"
        found = []
        for entry in Path("/proc").iterdir():
            try:
                line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if line.startswith(title.encode()):
                found.append(int(entry.name))
        return sorted(found)

    def client(self, key: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=START_S, headers={"authorization": f"Bearer {key}"})

    def stop(self) -> int:
        """Stop it as an orchestrator does; return the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_S)

    def remove(self) -> None:
        if self.process is not None and self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
