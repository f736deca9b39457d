"""The image's steps in a bare root file system, in the order of the Dockerfile, and the gateway that comes of them.

`debootstrap --variant=minbase bookworm DIR`, then as root `SLUICEGATE_ROOTFS=DIR pytest tests/deploy/test_image.py`;
what pip is to know is passed on (`PIP_*`, `TORCH_INDEX`). It takes minutes, some gigabytes beside DIR, and the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.cache.redis_server import free_port
from tests.deploy.test_manifests import IMAGE, ROOT, instructions
from tests.waiting import until

BARE = os.environ.get("SLUICEGATE_ROOTFS", "")
pytestmark = pytest.mark.skipif(not BARE, reason="SLUICEGATE_ROOTFS names no bare root file system")
NOBODY = "65532:65532"
PATHS = "/opt/sluicegate/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class RootFs:
    """A folder that commands see as their root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *command: str, environ: Mapping[str, str] = {}) -> str:
        """Run a command as root, and return what it printed. Fails the test where the command fails."""
        with ExitStack() as stack:
            for name in ("proc", "dev"):
                subprocess.run(["mount", "--bind", f"/{name}", self.folder / name], check=True)
                stack.callback(subprocess.run, ["umount", "--lazy", self.folder / name], check=True)
            done = subprocess.run(
                ["chroot", self.folder, "/usr/bin/env", "-i", f"PATH={PATHS}", *_pairs(environ), *command],
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout

    def copied(self, folder: Path) -> RootFs:
        subprocess.run(["cp", "-a", self.folder, folder], check=True)
        return RootFs(folder)


def _pairs(environ: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environ.items()]


def environment() -> dict[str, str]:
    """Return what the Dockerfile sets, but for the path."""
    [said] = [rest for name, rest in instructions() if name == "ENV"]
    return {name: value for name, value in (pair.split("=", 1) for pair in said.split()) if name != "PATH"}


def copy_let_in(folder: Path) -> None:
    """Copy what `COPY .` brings: what `.dockerignore` lets in."""
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        if line.startswith("!"):
            source, target = ROOT / line[1:], folder / line[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            else:
                shutil.copy(source, target)


@pytest.fixture(scope="module")
def image() -> RootFs:
    """Make the image as the Dockerfile does, beside the bare one."""
    image, build = Path(f"{BARE}.image"), Path(f"{BARE}.build")
    for folder in (image, build):
        shutil.rmtree(folder, ignore_errors=True)
    made = RootFs(Path(BARE)).copied(image)
    shutil.copy("/etc/resolv.conf", image / "etc/resolv.conf")
    shutil.copy(IMAGE / "steps.sh", image / "steps.sh")
    made.run("sh", "/steps.sh", "system")
    builder = made.copied(build)
    builder.run("sh", "/steps.sh", "build-tools")
    copy_let_in(build / "src")
    given = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name == "TORCH_INDEX"}
    given["SLUICEGATE_COMPILE"] = "1"
    builder.run("sh", "/steps.sh", "install", "/src", "cpu", environ=given)
    subprocess.run(["cp", "-a", build / "opt/sluicegate", image / "opt/sluicegate"], check=True)
    shutil.rmtree(build)
    (image / "etc/sluicegate").mkdir()
    shutil.copy(IMAGE / "gateway.toml", image / "etc/sluicegate/gateway.toml")
    made.run("sh", "/steps.sh", "warm", environ=environment())
    return made


def test_it_serves_as_nobody_from_a_root_that_cannot_be_written(image: RootFs) -> None:
    """With the command of the Dockerfile; what it may write is in memory. Nothing is compiled any more."""
    root, port = image.folder, free_port()
    mounts = [f"mount --bind {root} {root}", f"mount -o remount,ro,bind {root}", f"mount --bind /proc {root}/proc"]
    mounts += [f"mount --bind /dev {root}/dev", f"mount -t tmpfs tmpfs {root}/tmp"]
    mounts += [f"mount -t tmpfs -o uid=65532,gid=65532,mode=0700 tmpfs {root}/var/lib/sluicegate"]
    pairs = _pairs({**environment(), "PATH": PATHS, "SLUICEGATE_API_KEY": "k"})
    serve = f"sluicegate serve --config /etc/sluicegate/gateway.toml --host 127.0.0.1 --port {port}"
    inside = f"exec chroot --userspec={NOBODY} {root} /usr/bin/env -i {' '.join(pairs)} {serve}"
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "; ".join([*mounts, inside])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until(lambda: process.poll() is not None or _is_ready(port))
        assert process.poll() is None, process.communicate()[0][-3000:]
        body = {"model": "bundled", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
        head = {"authorization": "Bearer k"}
        answer = httpx.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body, headers=head, timeout=60)
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        version = httpx.get(f"http://127.0.0.1:{port}/version", headers=head).json()
        assert answer.json()["usage"]["completion_tokens"] > 0
        assert version["grammar"] == "compiled"
        assert "sluicegate_compile_state 0.0" in metrics
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.HTTPError:
        return False
