"""Install each client into an environment of its own, and run its script there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.clients.catalogue import SCRIPTS, Client

INSTALL_LIMIT_S = 900
LIMIT_S = 900
VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


class NotInstalled(Exception):
    """Says with what words pip or npm failed."""


def install(client: Client, *, anew: bool) -> None:
    """Install the newest version; one that is there stays unless `anew`. Raises `NotInstalled`."""
    done = client.folder / ".installed"
    if not client.packages or (not anew and done.is_file() and done.read_text("utf-8") == " ".join(client.packages)):
        return
    shutil.rmtree(client.folder, ignore_errors=True)
    client.folder.mkdir(parents=True)
    for command in _npm(client) if client.npm else _pip(client):
        run = subprocess.run(
            command, cwd=client.folder, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False
        )
        if run.returncode != 0:
            raise NotInstalled(" ".join(run.stderr.split())[-200:] or f"{command[0]} ended with {run.returncode}")
    done.write_text(" ".join(client.packages), "utf-8")


def _pip(client: Client) -> list[list[str]]:
    """Take uv where there is one: it links files rather than copy them."""
    python = str(client.folder / "bin" / "python")
    if uv := shutil.which("uv"):
        made = [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(client.folder)]
        return [made, [uv, "pip", "install", "--quiet", "--python", python, *client.packages]]
    made = [sys.executable, "-m", "venv", str(client.folder)]
    quiet = ["--quiet", "--disable-pip-version-check"]
    return [made, [python, "-m", "pip", "install", *quiet, *client.packages]]


def _npm(client: Client) -> list[list[str]]:
    (client.folder / "package.json").write_text('{"type": "module"}', "utf-8")
    quiet = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    return [[shutil.which("npm") or "npm", "install", *quiet, *client.packages]]


def version(client: Client) -> str:
    if not client.packages:
        done = subprocess.run([client.name, "--version"], capture_output=True, text=True, check=False)
        return (done.stdout.split() or ["", ""])[1]
    if client.npm:
        package = client.folder / "node_modules" / client.packages[0] / "package.json"
        return str(json.loads(package.read_text("utf-8"))["version"])
    name = client.packages[0].split("[")[0]
    done = subprocess.run(
        [str(client.folder / "bin" / "python"), "-c", VERSION, name], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def drive(client: Client, where: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the script of a client against the gateways."""
    script = SCRIPTS / client.script
    if client.npm:  # node finds packages beside the script
        for name in (client.script, "features.mjs"):
            shutil.copy(SCRIPTS / name, client.folder)
        command = [shutil.which("node") or "node", str(client.folder / client.script)]
    else:
        command = [str(python_of(client)), str(script)]
    return run_script([*command, json.dumps(dict(where))])


def python_of(client: Client) -> Path:
    return client.folder / "bin" / "python" if client.packages else Path(sys.executable)


def run_script(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, env=environ(), capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=SCRIPTS
        )
    except subprocess.TimeoutExpired as error:
        said = [text.decode() if isinstance(text, bytes) else text or "" for text in (error.stdout, error.stderr)]
        return subprocess.CompletedProcess(command, 124, said[0], f"{said[1]}\nnot done after {LIMIT_S} s")


def environ() -> dict[str, str]:
    """Return the environment without our own path, without what would send a request elsewhere, and with nothing that
    reports home."""
    gone = ("PYTHONPATH", "OPENAI_", "ANTHROPIC_", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "DO_NOT_TRACK": "1", "OTEL_SDK_DISABLED": "true"}
