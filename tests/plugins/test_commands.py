"""`sluicegate plugins`: what an operator and an author read in the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.gateway.commands.cli import main
from tests.plugins.test_broken import installed

__all__ = ["installed"]


def test_without_a_verb_it_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """As it did before there were verbs."""
    assert main(["plugins"]) == 0
    short = capsys.readouterr().out
    assert main(["plugins", "list"]) == 0
    assert capsys.readouterr().out == short
    assert ["generate", "engine", "enabled", "sluicegate.engine.stage"] in [line.split() for line in short.splitlines()]


def test_the_configuration_says_what_is_enabled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--config` may stand before the verb or behind it."""
    (tmp_path / "gateway.toml").write_text('[pipeline]\nmoderate = ["pii"]\n')
    for arguments in (
        ["--config", str(tmp_path / "gateway.toml"), "list"],
        ["list", "--config", str(tmp_path / "gateway.toml")],
    ):
        assert main(["plugins", *arguments]) == 0
        rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
        assert ["moderate", "pii", "enabled"] in rows
        assert ["moderate", "secrets", "-"] in rows


@pytest.mark.usefixtures("installed")
def test_check_says_of_each_plugin_whether_it_is_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """Broken ones are named with what is wrong; the exit status is 1."""
    assert main(["plugins", "check"]) == 1
    told = capsys.readouterr().out
    assert "moderate   good                 ok       (declares nothing" in told
    assert "moderate   no-factory           1 fault\n    crashing: no-factory: the factory of stage" in told
    assert "broken   cannot-import: cannot be imported" in told
    assert "secrets" not in told


@pytest.mark.usefixtures("installed")
def test_check_takes_a_plugin_a_stage_or_both_names(capsys: pytest.CaptureFixture[str]) -> None:
    """One that is fit gives 0, one that is broken 1, one that nobody knows 2."""
    assert main(["plugins", "check", "good", "moderate/good", "recall/memory"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["plugins", "check", "old"]) == 1
    assert main(["plugins", "check", "nobody"]) == 2
    assert "there is no plug-in or stage 'nobody'; installed: " in capsys.readouterr().err


def test_check_asks_for_the_settings_that_a_stage_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was tried, so nothing is said to be fit."""
    assert main(["plugins", "check", "moderate/blocklist"]) == 1
    assert "not-built: " in (told := capsys.readouterr().out)
    assert "give [stages.moderate.blocklist] with --config FILE" in told
    (tmp_path / "gateway.toml").write_text('[stages.moderate.blocklist]\nphrases = ["nightingale"]\n')
    assert main(["plugins", "check", "moderate/blocklist", "--config", str(tmp_path / "gateway.toml")]) == 0


def test_new_says_what_to_type_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And refuses a second time."""
    monkeypatch.chdir(tmp_path)
    assert main(["plugins", "new", "tickets", "--slot", "screen"]) == 0
    assert "sluicegate plugins check tickets" in capsys.readouterr().out
    assert main(["plugins", "new", "tickets"]) == 2
    assert "File exists" in capsys.readouterr().err
