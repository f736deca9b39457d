"""Check what a release would hold: build it, install it where nothing else is, and run it there.

    python -m tools.release_check            # with every dependency from the package index: what a user gets
    python -m tools.release_check --borrow   # with the dependencies of this environment: seconds in place of minutes
    python -m tools.release_check --compiled # the wheel of this platform, with the grammar compiled

It runs in a folder that holds `cache/`, `gateway/` and `plugins/` of somebody else, which must not be imported.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERIC = ("cache", "engine", "gateway", "grammar", "plugins", "safety")
NEEDED = (
    "sluicegate/py.typed",
    "sluicegate/engine/bundled/model.safetensors",
    "sluicegate/gateway/api/docs/index.html",
    "sluicegate/gateway/console/static/index.html",
    "sluicegate/safety/detection/weights.npz",
)
COMPILED = "grammar/compiled_modules.txt"
ASK = """
import sluicegate, sluicegate.grammar
print(sluicegate.__version__, sluicegate.__file__, sluicegate.grammar.is_compiled())
"""
START_S = 600.0


def main() -> int:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        os.environ["SLUICEGATE_COMPILE"] = str(int(options.compiled))
        sdist, wheel = built(folder)
        version = check_contents(sdist, wheel, compiled=options.compiled)
        say(f"{sdist.name} and {wheel.name} hold what they must")
        python = installed(folder / "installed", wheel, borrow=options.borrow)
        check_installed(python, version, compiled=options.compiled)
        run_among_strangers(python, folder / "strangers")
        if options.keep is not None:
            options.keep.mkdir(exist_ok=True)
            for file in (sdist, wheel):
                (options.keep / file.name).write_bytes(file.read_bytes())
    say(f"{version} can be released")
    return 0


def built(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from the sdist, so that neither lacks a file. Return the paths of both."""
    python = environment(folder / "build")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "build")
    run(python, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT))
    [sdist], [wheel] = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path, *, compiled: bool) -> str:
    """Check what both hold, and return the version that both are of."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        version = re.search(r"^Version: (\S+)$", archive.read(metadata).decode(), re.MULTILINE)
    assert version, "the wheel names no version"
    tops = {name.split("/")[0] for name in names if not name.startswith("sluicegate_grammar__mypyc.")}
    assert tops == {"sluicegate", f"sluicegate-{version[1]}.dist-info"}, (
        f"the wheel puts {sorted(tops)} into site-packages"
    )
    assert not (missing := set(NEEDED) - set(names)), f"the wheel lacks {sorted(missing)}"
    modules = {str(path.relative_to(ROOT)) for package in GENERIC for path in (ROOT / package).rglob("*.py")}
    assert not (missing := {f"sluicegate/{name}" for name in modules} - set(names)), (
        f"the wheel lacks {sorted(missing)}"
    )
    listed = set((ROOT / COMPILED).read_text("utf-8").split()) if compiled else set()
    machine_code = {name.removeprefix("sluicegate/").split(".")[0] + ".py" for name in names if name.endswith(".so")}
    assert (found := {name for name in machine_code if "/" in name}) == listed, f"compiled are {sorted(found)}"
    with tarfile.open(sdist) as sources:
        assert f"sluicegate-{version[1]}/LICENSE" in sources.getnames(), "the sdist lacks its licence"
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert first, "CHANGELOG.md has no section"
    assert first[1] == version[1], f"CHANGELOG.md begins with {first[1]}, the wheel is {version[1]}"
    return version[1]


def installed(folder: Path, wheel: Path, *, borrow: bool) -> Path:
    python = environment(folder)
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if borrow:
        [site] = folder.glob("lib/python*/site-packages")
        (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
        run(python, *pip, "--no-deps", "--force-reinstall", str(wheel))
    else:
        run(python, *pip, str(wheel))
    return python


def check_installed(python: Path, version: str, *, compiled: bool) -> None:
    [site] = python.parent.parent.glob("lib/python*/site-packages")
    assert not (found := [name for name in GENERIC if (site / name).exists()]), f"site-packages holds {found}"
    told = run(python, "-I", "-c", ASK).split()
    assert told == [version, str(site / "sluicegate" / "__init__.py"), str(compiled)], told


def run_among_strangers(python: Path, folder: Path) -> None:
    """Run `sluicegate demo` and `sluicegate serve` in a folder of packages with our old names."""
    for name in GENERIC:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise ImportError('this is somebody else')\n", "utf-8")
    command = python.parent / "sluicegate"
    told = run(command, "demo", cwd=folder)
    assert "Traceback" not in told, told
    say(f"demo: {len(told.splitlines())} lines")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([command, "serve", "--port", str(port)], cwd=folder) as serving:
        try:
            answered(f"http://127.0.0.1:{port}/readyz", serving)
        finally:
            serving.terminate()
            serving.wait(60)
    say("serve: ready, and stopped")


def answered(url: str, serving: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while True:
        assert serving.poll() is None, f"the gateway ended with {serving.returncode}"
        assert time.monotonic() < deadline, f"{url} did not answer within {START_S:g} s"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)


def environment(folder: Path) -> Path:
    """Make a new environment that holds pip alone, and return its Python."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def say(what: str) -> None:
    print(what, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.release_check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--borrow", action="store_true", help="use the dependencies that are installed here")
    parser.add_argument("--compiled", action="store_true", help="compile the grammar; needs a C compiler")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="put the sdist and the wheel there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
