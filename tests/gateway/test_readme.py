"""What the README shows is what a newcomer gets: its commands and its code, run against a real gateway."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.server import welcome
from tests.gateway.conftest import RunningGateway

README = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
SHOWN = "http://127.0.0.1:8000"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[-1][:40])
def test_code_prints_what_stands_beside_it(code: str, gateway: RunningGateway) -> None:
    said = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert said
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace(SHOWN, gateway.url), "README.md", "exec"), {"__name__": "readme"})
    assert printed.getvalue().splitlines() == said


def test_the_printed_request_works_as_it_stands(gateway: RunningGateway) -> None:
    """As the banner prints it, typed into a shell."""
    [line] = [line for line in README.splitlines() if line.strip().startswith("curl ")]
    command = shlex.split(line.replace(SHOWN, gateway.url))
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    content = json.loads(json.loads(done.stdout)["choices"][0]["message"]["content"])
    assert content == {"invoice_number": "INV-2041", "total": 318.40}


def test_the_banner_is_the_one_that_is_shown() -> None:
    shown = next(block for block in blocks("console") if "make serve" in block)
    assert welcome("bundled", ("127.0.0.1", 8000), keyed=False, console=True) == shown.partition("\n")[2].rstrip()


def test_the_other_shapes_are_enforced(gateway: RunningGateway) -> None:
    found = re.search(r"extra_body=(\{.*\})`", README)
    assert found
    client = gateway.client()
    message = [{"role": "user", "content": "Is the sky green?"}]
    answer = client.chat.completions.create(model="bundled", messages=message, extra_body=json.loads(found[1]))
    assert answer.choices[0].message.content in ("yes", "no")


def test_the_configuration_is_one_that_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [toml] = blocks("toml")
    file = tmp_path / "gateway.toml"
    file.write_text(toml.replace('"…"', f'"{"0" * 64}"'), "utf-8")
    assert main(["config", "check", str(file)]) == 0, capsys.readouterr()


def test_commands_of_make_are_targets() -> None:
    targets = re.findall(r"^([a-z-]+):", (Path(__file__).resolve().parents[2] / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"^(?:\$ |    )make ([a-z-]+)", README, re.MULTILINE)) <= set(targets)
