"""Compile the modules named in `grammar/compiled_modules.txt` where SLUICEGATE_COMPILE=1 asks for it.

    SLUICEGATE_COMPILE=1 pip install .

All else about the package stands in pyproject.toml. A wheel holds the compiled modules beside their sources, and Python
takes the compiled ones. CONTRIBUTING.md has what that asks of the sources.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from setuptools import setup

SWITCH = "SLUICEGATE_COMPILE"
LIST = Path("grammar", "compiled_modules.txt")
COMPILER = "mypy>=2.4,<2.5"
"""Brings mypyc along. Held to the minor release that the modules were tried with: another may compile otherwise."""
TYPES = "numpy>=2.0"
"""What the modules name types of, wherever the wheel is made: mypyc refuses names that it cannot look up."""
LENIENT = ("--config-file=", "--python-version=3.11", "--ignore-missing-imports", "--follow-imports=silent")
"""`make check` is strict with the sources, beside all that they import; here they have their own types and `TYPES`."""
FLAGS = () if os.name == "nt" else ("-fvisibility=hidden", "-Wno-error")
"""Functions that only compiled modules call are called directly, and not by way of a table in which others could
replace them; and what a newer compiler warns of is no reason to make no wheel."""
TREE = Path("build", "compiled")
"""Holds the packages under the names that they are imported by: in a checkout their folders lie at the top."""


def main() -> None:
    compiles = is_wanted()
    if compiles and "editable_wheel" in sys.argv:
        sys.exit(
            f"{SWITCH}=1 is for wheels: beside sources that are edited, compiled modules would be stale unnoticed; "
            "there `make compiled` makes them"
        )
    builds = compiles and bool({"bdist_wheel", "build_ext"} & set(sys.argv))
    setup(ext_modules=extensions() if builds else [], setup_requires=[COMPILER, TYPES] if compiles else [])


def is_wanted() -> bool:
    value = os.environ.get(SWITCH, "0")
    if value not in ("0", "1"):
        sys.exit(f"{SWITCH} is 1 (compile the modules of {LIST}) or 0, found {value!r}")
    return value == "1"


def extensions() -> list[Any]:
    from mypyc.build import mypycify  # `setup_requires` has brought it by now, and only where the build compiles

    for stale in Path("build").glob("lib.*"):  # what was once compiled there would go into the wheel again
        shutil.rmtree(stale)
    modules = [str(package_tree() / line) for line in LIST.read_text("utf-8").split()]
    found = mypycify([*LENIENT, *modules], opt_level="3", debug_level="0", group_name="sluicegate_grammar")
    for extension in found:
        extension.extra_compile_args = [*extension.extra_compile_args, *FLAGS]  # mypyc gives one list to all of them
    return found


def package_tree() -> Path:
    """Make links to the packages below a folder `sluicegate`, and return that folder."""
    tree = TREE / "sluicegate"
    shutil.rmtree(TREE, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in ("grammar", "plugins"):
        (tree / name).symlink_to(Path(name).resolve(), target_is_directory=True)
    (tree / "__init__.py").symlink_to(Path("sluicegate", "__init__.py").resolve())
    return tree


main()
