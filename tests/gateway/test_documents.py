"""What the documents print can be used as it stands."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from gateway.config import load
from gateway.house import House
from gateway.prompts.templates import Templates

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(language, code, id=f"{path.relative_to(ROOT)}:{text[: found.start()].count(chr(10)) + 1}")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for text in [path.read_text("utf-8")]
    for found in BLOCK.finditer(text)
    for language, code in [found.groups()]
    if language in ("toml", "json", "python")
]


@pytest.mark.parametrize(("language", "code"), BLOCKS)
def test_an_example_is_read_as_it_is_printed(language: str, code: str, tmp_path: Path) -> None:
    """A configuration makes a gateway, or a prompt template; JSON parses; Python compiles."""
    if language == "python":
        compile(code, "example", "exec")
    elif language == "json":
        json.loads(code)
    elif "system" in tomllib.loads(code):
        Templates("", {"example@1": tomllib.loads(code)})
    else:
        file = tmp_path / "gateway.toml"
        file.write_text(code.replace('"…"', f'"{"0" * 64}"'), "utf-8")  # a digest of your own
        House(load(file, {}), {})
