"""A Redis 8 beside the system's: newer Debian packages unpacked into a folder, run with the C library they bring along.

    python -m tests.cache.redis8 FOLDER          prints what to put into SLUICEGATE_REDIS8

Neither the system's packages nor its sources are touched.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RELEASE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGES = (
    "redis-server",
    "redis-tools",
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "libssl3t64",
    "libsystemd0",
    "libjemalloc2",
    "liblzf1",
    "libatomic1",
    "zlib1g",
    "libzstd1",
    "liblua5.1-0",
    "libcap2",
    "liblz4-1",
    "liblzma5",
    "libgcrypt20",
    "libgpg-error0",
)
LIBRARIES = "root/usr/lib/x86_64-linux-gnu"


def unpacked(folder: Path) -> Path:
    """Unpack Redis 8; return the path of a command that starts the server."""
    for part in ("lists/partial", "cache/archives/partial", "packages", "root"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    options = _own_apt(folder)
    subprocess.run(["apt-get", *options, "update", "-qq"], check=True)
    subprocess.run(["apt-get", *options, "download", "-qq", *PACKAGES], check=True, cwd=folder / "packages")
    for package in (folder / "packages").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder / "root")], check=True)
    libraries = folder / LIBRARIES
    command = folder / "redis8-server"
    run = f'exec {libraries}/ld-linux-x86-64.so.2 --library-path {libraries} {folder}/root/usr/bin/redis-server "$@"'
    command.write_text(f"#!/bin/sh\n{run}\n")
    command.chmod(0o755)
    return command


def _own_apt(folder: Path) -> list[str]:
    """Return the options of apt for the mirror that this machine uses, with lists and a cache of their own."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    uri = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[0]
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {uri} {RELEASE} main\n")
    places = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    return [part for name, value in places.items() for part in ("-o", f"{name}={value}")]


if __name__ == "__main__":
    print(f"export SLUICEGATE_REDIS8={unpacked(Path(sys.argv[1]).resolve())}")
