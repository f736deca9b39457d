"""The command line: what an operator types, run as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys

import httpx
import pytest

SLUICEGATE = [sys.executable, "-m", "sluicegate"]


def test_the_demo_runs_the_main_job_and_stops() -> None:
    """It prints the streamed and the parsed answer and every stage's decision, and ends by itself."""
    done = subprocess.run([*SLUICEGATE, "demo"], capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stderr
    for expected in ('"invoice_number": "TM-40917"', "constrain  grammar", "moderate", "gateway stopped"):
        assert expected in done.stdout


def test_serve_prints_a_curl_line_that_works_and_stops_on_sigterm() -> None:
    process = subprocess.Popen(
        [*SLUICEGATE, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(5)]
        url = next(word for word in said[0].split() if word.startswith("http"))
        for place in ("/docs", "/metrics", "/console"):  # the banner names them, and they are there
            assert f"{url}{place}" in "".join(said)
            assert httpx.get(f"{url}{place}", follow_redirects=True).status_code == 200
        curl = said[4]
        assert httpx.get(f"{url}/readyz").status_code == 200
        answer = subprocess.run(["sh", "-c", curl], capture_output=True, text=True, timeout=60, check=True)
        assert '"finish_reason":"stop"' in answer.stdout
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["serve", "--host", "0.0.0.0"], "refusing to listen on 0.0.0.0"),
        (["serve", "--config", "nowhere.toml"], "cannot read the configuration file nowhere.toml"),
        (["serve", "--model", "no/such-folder-here", "--port", "0"], "no/such-folder-here"),
    ],
)
def test_an_operators_mistake_ends_with_one_clear_message(arguments: list[str], expected: str) -> None:
    environ = {"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([*SLUICEGATE, *arguments], capture_output=True, text=True, timeout=120, env=environ)
    assert done.returncode != 0
    assert expected in done.stderr


def test_plugins_lists_what_is_installed_and_what_is_enabled() -> None:
    done = subprocess.run([*SLUICEGATE, "plugins"], capture_output=True, text=True, timeout=120, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["generate", "engine", "enabled", "sluicegate.engine.stage"] in rows
    assert {row[0] for row in rows} >= {"admit", "route", "assemble", "recall", "constrain", "generate", "moderate"}


def test_a_reader_that_has_enough_is_no_error() -> None:
    """As in `sluicegate plugins list | head -n 1`."""
    process = subprocess.Popen([*SLUICEGATE, "plugins", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(60) == 1
    assert process.stderr.read() == b""
