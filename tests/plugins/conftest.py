"""A fresh environment in which a stranger installs a plug-in: real pip, real entry points, a command `sluicegate`."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "#!{python}\nimport sys\nfrom sluicegate.gateway.commands.cli import main\nsys.exit(main())\n"


@dataclass(frozen=True)
class Workplace:
    """A virtual environment that sees Sluicegate and what it is installed with; what is added stays in it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def run(self, command: str, within: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run shell commands; nothing is fetched from anywhere."""
        environ = {
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it the wrong way round: 0 is "no isolation"
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "HF_HUB_OFFLINE": "1",
        }
        shell = ["bash", "-euo", "pipefail", "-c", command]
        return subprocess.run(
            shell, cwd=within or self.folder, env=environ, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    found = Workplace(tmp_path_factory.mktemp("workplace"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(found.folder / "venv")], check=True)
    packages = next((found.folder / "venv" / "lib").glob("python*/site-packages"))
    seen = [sysconfig.get_paths()["purelib"], str(ROOT)]
    (packages / "seen.pth").write_text("\n".join(seen), "utf-8")
    for name, text in {
        "sluicegate": COMMAND,
        "pip": COMMAND.replace("sluicegate.gateway.commands.cli", "pip._internal.cli.main"),
    }.items():
        script = found.python.parent / name
        script.write_text(text.format(python=found.python), "utf-8")
        script.chmod(0o755)
    return found
